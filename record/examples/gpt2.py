"""Records a GPT-2-shaped model of a chosen size: learned positions, GELU, tied output layer.

Written in plain PyTorch so that nothing else is needed; random weights, random tokens.

    python examples/gpt2.py --size small --out gpt2-small
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn

from tiersim_record import Recorder

# layers, width, heads
SIZES = {
    "tiny": (2, 128, 4),
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
}
VOCABULARY = 50257


class Attention(nn.Module):
    """Causal attention with one product for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        q, k, v = (p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    """Two layers with GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """Attention and MLP, each behind its norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Token ids to logits; the output layer shares the embedding's weight."""

    def __init__(self, layers: int, width: int, heads: int, tokens: int = 1024) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(tokens, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.wte(ids) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def main() -> None:
    """Records, and prints the loss and the cost of recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder of the trace")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=2, help="sequences per step")
    parser.add_argument("--sequence", type=int, default=256, help="tokens per sequence, up to 1024")
    parser.add_argument("--warmup", type=int, default=3, help="plain steps before")
    parser.add_argument("--steps", type=int, default=2, help="recorded steps")
    parser.add_argument("--after", type=int, default=2, help="plain steps after")
    parser.add_argument("--machine", help="what to call this machine in the trace")
    options = parser.parse_args()
    torch.manual_seed(1)
    if options.device == "cpu":
        torch.set_num_threads(1)  # so that the thread's CPU time is the op's
    model = Gpt2(*SIZES[options.size]).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False, fused=False)
    size = (options.batch, options.sequence + 1)
    ids = torch.randint(VOCABULARY, size, device=options.device)
    count = sum(parameter.numel() for parameter in model.parameters())
    with Recorder(
        model,
        optimizer,
        options.out,
        batch=options.batch,
        sequence=options.sequence,
        about=f"a GPT-2-shaped model of {count / 1e6:.1f} M parameters, random weights and tokens, AdamW",
        machine=options.machine,
        warmup=options.warmup,
        steps=options.steps,
    ) as recorder:
        for _ in range(options.warmup + options.steps + options.after):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            recorder.step()
    print(f"last loss {loss.item():.3f}", recorder.overhead())


if __name__ == "__main__":
    main()
