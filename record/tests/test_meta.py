"""A model without memory is recorded as the one with memory is, but for times and statistics."""

from __future__ import annotations

import re
import sys
import unittest
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

try:
    import transformers
except ImportError:
    transformers = None

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/examples", "record/tests")]

import gpt2  # noqa: E402
import tiny_llama  # noqa: E402
from checks import STEPS, Rules, Trace  # noqa: E402
from tiersim_record import Recorder  # noqa: E402

BATCH, TOKENS, VOCABULARY = 2, 16, 128


def small_gpt2() -> nn.Module:
    gpt2.VOCABULARY = VOCABULARY
    return gpt2.Gpt2(2, 32, 2, tokens=TOKENS)


def small_llama() -> nn.Module:
    shape = tiny_llama.Shape(
        vocabulary=VOCABULARY, layers=2, width=64, heads=4, kv_heads=2, hidden=96
    )
    return tiny_llama.TinyLlama(shape, TOKENS)


class WithoutMemory(Rules):
    """The same model on the CPU and on the meta device."""

    def record(self, build: Callable[[], nn.Module], device: str) -> Trace:
        with torch.device(device):
            model = build()
            ids = torch.zeros((BATCH, TOKENS + 1), dtype=torch.int64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=False)
        out = self.folder / device
        with Recorder(
            model, optimizer, out, name="one", batch=BATCH, sequence=TOKENS, warmup=2, steps=STEPS
        ) as recorder:
            for _ in range(2 + STEPS):
                logits = model(ids[:, :-1])
                logits = getattr(logits, "logits", logits)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                recorder.step()
        trace = Trace(out)
        self.timed = device != "meta"
        self.follow_the_format(trace)
        return trace

    def agree(self, build: Callable[[], nn.Module]) -> None:
        real, none = (self.record(build, device) for device in ("cpu", "meta"))
        times = ("duration_ns", "at_ns")
        plain = [[{k: v for k, v in op.items() if k not in times} for op in t.ops] for t in (real, none)]
        self.assertEqual(*plain)
        self.assertEqual(real.uses, none.uses)
        known = ("adam_m", "adam_v", "grad_norm")
        objects = []
        for trace in (real, none):
            rows = [{k: v for k, v in row.items() if k not in known} for row in trace.objects]
            # Storages that no op used have taken numbers too.
            objects.append([row | {"name": re.sub(r"\.\d+$", "", row["name"])} for row in rows])
        self.assertEqual(*objects)
        self.assertEqual({row[column] for row in none.objects for column in known}, {""})
        self.assertEqual(none.statistics, [])
        self.assertIn("the meta device computes nothing", none.header)
        self.replay(self.folder / "meta")

    def test_gpt2(self) -> None:
        self.agree(small_gpt2)

    def test_llama(self) -> None:
        self.agree(small_llama)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_llama_for_causal_lm(self) -> None:
        shape = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "hidden_size": 64,
                 "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "max_position_embeddings": 32}
        self.agree(lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)))

    def test_a_mask_of_yes_and_no_and_dropout(self) -> None:
        """A mask becomes numbers as on the CPU; dropout has no such kernel, there or here."""

        class Masked(nn.Module):
            def __init__(self, dropout: float) -> None:
                super().__init__()
                self.inner = nn.Linear(8, 24)
                self.dropout = dropout

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                q, k, v = self.inner(x).view(2, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
                seen = torch.ones(4, 4, dtype=torch.bool, device=x.device)
                return nn.functional.scaled_dot_product_attention(
                    q, k, v, seen, dropout_p=self.dropout
                )

        for dropout in (0.0, 0.5):
            names = []
            for device in ("cpu", "meta"):
                model = Masked(dropout).to(device)
                out = self.folder / f"{device}{dropout}"
                with torch.no_grad(), Recorder(model, out=out, batch=2, sequence=4) as recorder:
                    x = torch.zeros(2, 4, 8, device=device)
                    for _ in range(1 + STEPS):
                        model(x)
                        recorder.step()
                names.append([(op["name"], op["flops"], op["bytes"]) for op in Trace(out).ops])
            self.assertEqual(*names)
            whole = any("flash" in name for name, _, _ in names[0])
            self.assertEqual(whole, dropout == 0.0)


if __name__ == "__main__":
    unittest.main()
