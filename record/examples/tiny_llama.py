"""Records a small Llama-shaped model: RMSNorm, rotary positions, grouped queries, SwiGLU.

Written in plain PyTorch so that nothing else is needed; random weights, random tokens.

    python examples/tiny_llama.py --out traces/tiny-llama-cpu
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from tiersim_record import Recorder


@dataclass
class Shape:
    """Sizes of the model."""

    vocabulary: int = 2048
    layers: int = 4
    width: int = 192
    heads: int = 6
    kv_heads: int = 2
    hidden: int = 512


class RmsNorm(nn.Module):
    """x / rms(x) * weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions on a tensor of batch x heads x tokens x width."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention whose queries share fewer keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.head = shape.width // shape.heads
        self.q_proj = nn.Linear(shape.width, shape.heads * self.head, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * self.head, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * self.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * self.head, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(batch, tokens, heads, self.head).transpose(1, 2)

        q = rotate(split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        v = split(self.v_proj(x), self.kv_heads)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and MLP, each behind its norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.width)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RmsNorm(shape.width)
        self.mlp = Mlp(shape)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class TinyLlama(nn.Module):
    """Token ids to logits."""

    def __init__(self, shape: Shape, tokens: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.width)
        self.lm_head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        head = shape.width // shape.heads
        rates = 10000.0 ** (-torch.arange(0, head, 2).float() / head)
        angles = torch.outer(torch.arange(tokens).float(), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.lm_head(self.norm(x))


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, ids: torch.Tensor
) -> torch.Tensor:
    """One step of next-token prediction."""
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def main() -> None:
    """Records, and prints the loss and the cost of recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder of the trace")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=2, help="sequences per step")
    parser.add_argument("--sequence", type=int, default=64, help="tokens per sequence")
    parser.add_argument("--warmup", type=int, default=10, help="plain steps before")
    parser.add_argument("--steps", type=int, default=2, help="recorded steps")
    parser.add_argument("--after", type=int, default=10, help="plain steps after")
    parser.add_argument("--snapshot", help="file for the CUDA memory snapshot of all steps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", help="what to call this machine in the trace")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = TinyLlama(Shape(), options.sequence).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False, fused=False)
    size = (options.batch, options.sequence + 1)
    ids = torch.randint(Shape.vocabulary, size, device=options.device)
    count = sum(parameter.numel() for parameter in model.parameters())
    about = f"a Llama-shaped model of {count / 1e6:.2f} M parameters, random weights and tokens, AdamW"
    with Recorder(
        model,
        optimizer,
        options.out,
        batch=options.batch,
        sequence=options.sequence,
        about=about,
        machine=options.machine,
        warmup=options.warmup,
        steps=options.steps,
        snapshot=options.snapshot,
    ) as recorder:
        for _ in range(options.warmup + options.steps + options.after):
            loss = train_step(model, optimizer, ids)
            recorder.step()
    print(f"last loss {loss.item():.3f}", recorder.overhead())


if __name__ == "__main__":
    main()
