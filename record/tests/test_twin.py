"""A recorded step and the one that tiersim generates from the same model's config.json agree.

    TIERSIM=path/to/tiersim python -m unittest discover record/tests

Needs PyTorch, transformers and a tiersim, and no network: models are small, with random weights.
The generated step has ``--kernels eager``; its update is that of PyTorch's loop over parameters,
which is what AdamW runs by default on the CPU, where the step is recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

import torch

try:
    import transformers
except ImportError:
    transformers = None

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/tests")]

from checks import TIERSIM, Repeatable, Trace  # noqa: E402
from tiersim_record import Recorder  # noqa: E402

BATCH, TOKENS = 2, 128
SHAPE = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 344,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
}
GPT2 = {"vocab_size": 1000, "n_embd": 128, "n_layer": 4, "n_head": 8, "n_positions": 256}
PLAIN = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
BERT = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "max_position_embeddings": 256,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
MODELS = {
    "Llama": SHAPE,
    "GPT2": GPT2 | PLAIN,
    "Mixtral": SHAPE | {"intermediate_size": 172, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Qwen2": SHAPE,
    "Qwen3": SHAPE | {"head_dim": 16},
    "OPT": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "ffn_dim": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "max_position_embeddings": 256,
        "word_embed_proj_dim": 128,
        "dropout": 0.0,
    },
    "Bert": BERT,
    "Roberta": BERT | {"type_vocab_size": 1},
}
CLASSES = {
    "GPT2": "GPT2LMHeadModel",
    "Bert": "BertForMaskedLM",
    "Roberta": "RobertaForMaskedLM",
}
# Parts per thousand by which the two may differ.
SLACK = {"weights": 0, "optimizer": 0, "peak": 20, "flops": 20, "bytes": 50}


def amounts(trace: Trace) -> dict[str, int]:
    """What a step amounts to: state, peak, and FLOPs and bytes of every phase."""
    found = {"weights": trace.bytes("weight"), "optimizer": trace.bytes("optimizer")}
    found["peak"] = trace.peak()
    for phase in ("forward", "backward", "optimizer"):
        ops = [op for op in trace.ops if op["phase"] == phase]
        for what in ("flops", "bytes"):
            found[f"{what} {phase}"] = sum(int(op[what]) for op in ops)
    return found


def kinds(trace: Trace) -> Counter[str]:
    """Bytes by what the ops are called, without their overload."""
    found: Counter[str] = Counter()
    for op in trace.ops:
        found[op["name"].removeprefix("aten.").partition(".")[0]] += int(op["bytes"])
    return found


@unittest.skipUnless(transformers and TIERSIM, "needs transformers and TIERSIM")
class Twins(Repeatable):
    """Every model with attention in one kernel and in products."""

    def recorded(self, family: str, attention: str) -> Trace:
        config = getattr(transformers, f"{family}Config")(**MODELS[family])
        config.use_cache = False
        config._attn_implementation = attention
        model = getattr(transformers, CLASSES.get(family, f"{family}ForCausalLM"))(config)
        model.config.save_pretrained(self.folder)
        optimizer = torch.optim.AdamW(model.train().parameters())
        ids = torch.randint(SHAPE["vocab_size"], (BATCH, TOKENS))
        settings = {"batch": BATCH, "sequence": TOKENS, "warmup": 1, "steps": 1}
        with Recorder(model, optimizer, self.folder / "recorded", **settings) as recorder:
            for _ in range(2):
                optimizer.zero_grad(set_to_none=True)
                model(input_ids=ids, labels=ids).loss.backward()
                optimizer.step()
                recorder.step()
        return Trace(self.folder / "recorded")

    def generated(self, attention: str) -> Trace:
        out = self.folder / "generated"
        kernel = {"sdpa": "flash", "eager": "eager"}[attention]
        words = ["trace", "generate", "--model", str(self.folder / "config.json"), "--train"]
        words += ["--batch", str(BATCH), "--sequence", str(TOKENS), "--precision", "fp32"]
        words += ["--kernels", "eager", "--attention", kernel, "--out", str(out)]
        binary = str(Path(TIERSIM).resolve())
        ran = subprocess.run([binary, *words], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, f"{words}: {ran.stdout}{ran.stderr}")
        return Trace(out)

    def agree(self, family: str) -> None:
        for attention in ("sdpa", "eager"):
            with self.subTest(attention=attention):
                for old in self.folder.glob("*/*"):
                    old.unlink()
                traces = self.recorded(family, attention), self.generated(attention)
                one, other = map(amounts, traces)
                rows = [f"{what:18} {one[what]:>13,} {other[what]:>13,}" for what in one]
                table = "\n".join([f"{family}, {attention}", *rows])
                if os.environ.get("TWIN_TABLE"):
                    print(table)
                by_kind = [kinds(trace).most_common(12) for trace in traces]
                for what, value in one.items():
                    slack = SLACK[what.partition(" ")[0]] * value
                    difference = 1000 * abs(other[what] - value)
                    self.assertLessEqual(difference, slack, f"{what}\n{table}\n{by_kind}")

    def test_llama(self) -> None:
        self.agree("Llama")

    def test_gpt2(self) -> None:
        self.agree("GPT2")

    def test_mixtral(self) -> None:
        self.agree("Mixtral")

    def test_qwen2(self) -> None:
        self.agree("Qwen2")

    def test_qwen3(self) -> None:
        self.agree("Qwen3")

    def test_opt(self) -> None:
        self.agree("OPT")

    def test_bert(self) -> None:
        self.agree("Bert")

    def test_roberta(self) -> None:
        self.agree("Roberta")


if __name__ == "__main__":
    unittest.main()
