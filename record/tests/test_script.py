"""Programs that know nothing of the recorder are recorded as those that call it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

import torch
from torch import nn

try:
    import transformers
except ImportError:
    transformers = None

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/tests")]

from checks import STEPS, Rules, Trace  # noqa: E402
from tiersim_record import Recorder  # noqa: E402

TRAINS = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loss = nn.CrossEntropyLoss()
ids, goal = torch.zeros((2, 3), dtype=torch.int64), torch.zeros((2, 3), dtype=torch.int64)
for step in range(int(sys.argv[1])):
    for half in range(2):
        (loss(model(ids).flatten(0, 1), goal.flatten()) / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.eval()
        model(ids)
        model.train()
print("done", step)
"""


class Programs(Rules):
    """Programs run by the one command."""

    def run_script(self, text: str, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        self.folder.mkdir(exist_ok=True)
        script = self.folder / "program.py"
        script.write_text(textwrap.dedent(text))
        self.out = self.folder / "trace"
        command = [sys.executable, "-m", "tiersim_record", "--out", str(self.out), "--threads", "1"]
        path = os.pathsep.join([str(ROOT / "python/src"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*command, *options, str(script), *words], env=environment, capture_output=True, text=True
        )

    def test_a_training_loop_is_what_a_recorder_in_it_sees(self) -> None:
        ran = self.run_script(TRAINS, "9")
        self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)
        told = Trace(self.out)
        self.follow_the_format(told)
        self.assertIn("batch: 2,\n    sequence: 3,", told.header)
        # The same by hand: a step ends where the model is called for the next one.
        model = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss = nn.CrossEntropyLoss()
        ids, goal = (torch.zeros((2, 3), dtype=torch.int64) for _ in range(2))

        def step() -> None:
            for _ in range(2):
                (loss(model(ids).flatten(0, 1), goal.flatten()) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                model(ids)

        step()
        settings = {"batch": 2, "sequence": 3, "warmup": 2, "steps": STEPS}
        with Recorder(model, optimizer, self.folder / "by-hand", **settings) as recorder:
            for _ in range(2 + STEPS):
                step()
                recorder.step()
        by_hand = Trace(self.folder / "by-hand")
        columns = ("step", "phase", "name", "module", "flops", "bytes")
        seen, known = ([[op[c] for c in columns] for op in t.ops] for t in (told, by_hand))
        first = int(known[0][0]) - int(seen[0][0])
        self.assertEqual([[str(int(op[0]) + first), *op[1:]] for op in seen], known)
        self.assertEqual(told.peak(), by_hand.peak())
        self.assertEqual(len(told.statistics), len(by_hand.statistics))
        self.replay(self.out)

    def test_a_program_may_go_on_and_its_words_are_its_own(self) -> None:
        ran = self.run_script(TRAINS, "9", options=("--go-on", "--batch", "5", "--name", "mine"))
        self.assertEqual((ran.returncode, ran.stdout), (0, "done 8\n"), ran.stderr)
        header = Trace(self.out).header
        self.assertIn('name: "mine"', header)
        self.assertIn("batch: 5,", header)

    def test_the_last_step_ends_with_the_program(self) -> None:
        self.assertEqual(self.run_script(TRAINS, "5").returncode, 0)
        self.assertEqual(len({op["step"] for op in Trace(self.out).ops}), STEPS)

    def test_a_program_that_ends_too_early_leaves_nothing(self) -> None:
        for text, words, why in (
            (TRAINS, ("4",), "it ended after 3 steps, 4 are needed"),
            ("print('hello')", (), "no model was seen"),
        ):
            ran = self.run_script(text, *words)
            self.assertEqual(ran.returncode, 1)
            self.assertIn(why, ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)
            self.assertFalse(self.out.exists())

    def test_a_program_that_fails_says_so_itself(self) -> None:
        ran = self.run_script("raise KeyError('own')")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("KeyError: 'own'", ran.stderr)
        ran = self.run_script("import sys; sys.exit(3)")
        self.assertEqual(ran.returncode, 3)

    def test_wrong_options(self) -> None:
        self.assertEqual(self.run_script("", options=("--steps", "0")).returncode, 2)
        self.folder.joinpath("trace").mkdir()
        self.folder.joinpath("trace", "full").touch()
        ran = self.run_script("")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("is not an empty folder", ran.stderr)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_generation_has_prefill_decode_and_a_cache(self) -> None:
        ran = self.run_script("""
            import torch, transformers
            shape = dict(vocab_size=64, num_hidden_layers=2, hidden_size=32, intermediate_size=48,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()
            ids = torch.ones((2, 5), dtype=torch.int64)
            for _ in range(2):
                model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False)
        """, options=("--warmup", "3", "--steps", "3"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        trace = Trace(self.out)
        phases: dict[str, set[str]] = {}
        for op in trace.ops:
            if "mm" in op["name"]:
                phases.setdefault(op["step"], set()).add(op["phase"])
        self.assertEqual(list(phases.values()), [{"prefill"}, {"decode"}, {"decode"}])
        # Keys and values of five, six and seven tokens: 2 x 2 heads of 8 numbers, in each layer.
        sizes = sorted({int(row["bytes"]) for row in trace.of("kv")})
        self.assertEqual(sizes, [2 * 2 * tokens * 8 * 4 for tokens in (5, 6, 7)])


if __name__ == "__main__":
    unittest.main()
