"""A model whose modules lie elsewhere learns what it would have learnt, and moves what it must."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/examples", "record/tests")]

import gpt2  # noqa: E402
import tiny_llama  # noqa: E402
from checks import TIERSIM  # noqa: E402
from tiersim_record import Recorder, apply  # noqa: E402
from tiersim_record.hints import Matching, canonical  # noqa: E402

TOKENS, VOCABULARY, STEPS = 16, 64, 5


def small_gpt2() -> nn.Module:
    gpt2.VOCABULARY = VOCABULARY
    return gpt2.Gpt2(2, 32, 2, tokens=TOKENS)


def small_llama() -> nn.Module:
    shape = tiny_llama.Shape(vocabulary=VOCABULARY, layers=2, width=32, heads=4, kv_heads=2, hidden=48)
    return tiny_llama.TinyLlama(shape, TOKENS)


def adamw(parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2)


class Applied(unittest.TestCase):
    """Losses and weights are equal to the last bit with and without hints."""

    def train(
        self,
        build: Callable[[], nn.Module],
        hints: dict[str, str] | None,
        optimizer: Callable = adamw,
        clip: bool = False,
        micro: int = 1,
        schedule: str = "",
        to_none: bool = True,
        **more,
    ):
        torch.manual_seed(3)
        model = build()
        learns = optimizer(model.parameters())
        scheduler = None
        if schedule == "before":
            scheduler = torch.optim.lr_scheduler.ExponentialLR(learns, 0.9)
        placed = None if hints is None else apply(model, hints, learns, **more)
        if schedule == "after":
            scheduler = torch.optim.lr_scheduler.ExponentialLR(learns, 0.9)
        losses = []
        for step in range(STEPS):
            for part in range(micro):
                torch.manual_seed(10 * step + part)
                ids = torch.randint(VOCABULARY, (2, TOKENS + 1))
                logits = model(ids[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                loss.backward()
                losses.append(loss.item())
            if placed:
                self.assertEqual(placed.here, 0)
            if clip:
                losses.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            learns.step()
            learns.zero_grad(set_to_none=to_none)
            if scheduler:
                scheduler.step()
            if placed:
                self.assertEqual(placed.here, 0)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        state = [v.clone() for p in model.parameters() for v in learns.state.get(p, {}).values()]
        return losses, weights, state, placed, model

    def same(self, build: Callable[[], nn.Module], hints: dict[str, str], **more):
        optional = ("kinds", "folder")
        plain = self.train(build, None, **{k: v for k, v in more.items() if k not in optional})
        tried = self.train(build, hints, **more)
        self.assertEqual(tried[0], plain[0])
        for name, value in plain[1].items():
            self.assertTrue(torch.equal(value, tried[1][name]), name)
        self.assertEqual(len(plain[2]), len(tried[2]))
        for one, other in zip(plain[2], tried[2]):
            self.assertTrue(torch.equal(one, other))
        self.assertGreater(len(set(plain[0])), 1)
        return tried[3], tried[4]

    def test_one_layer_moves_what_it_must(self) -> None:
        placed, model = self.same(small_gpt2, {"h.1": "CPU"})
        bytes = sum(p.numel() * p.element_size() for p in model.h[1].parameters())
        # A step brings the weights three times, the gradients and, but in the first, two moments; it
        # takes out weights, gradients and moments, and in the beginning the weights as they were.
        brought = STEPS * (3 + 1) + 2 * (STEPS - 1)
        taken = 1 + STEPS * (1 + 1 + 2)
        self.assertEqual(placed.moved, {"CPU": {"in": brought * bytes, "out": taken * bytes}})
        self.assertEqual((placed.left, placed.unused), ([], []))

    def test_memory_is_given_up(self) -> None:
        model = small_llama()
        placed = apply(model, {"layers": "CPU"})
        weights = [p for layer in model.layers for p in layer.parameters()]
        near = [one._near.untyped_storage().nbytes() for one in placed._tensors()]
        self.assertEqual((len(near), set(near)), (len(weights), {0}))
        most = 0

        def look(*_) -> None:
            nonlocal most
            most = max(most, placed.here)

        for module in model.modules():
            module.register_forward_pre_hook(look)
        model(torch.zeros((1, TOKENS), dtype=torch.int64)).sum().backward()
        # One module at a time, the largest once: the other layer's are away meanwhile.
        largest = max(p.numel() * p.element_size() for p in weights)
        self.assertEqual(most, largest)

    def test_everything_far_a_tied_weight_and_every_loop(self) -> None:
        everything = {"wte": "CPU", "wpe": "CPU", "h": "CXL", "ln_f": "CPU", "lm_head": "HBM"}
        for more in (
            {},
            {"clip": True},
            {"micro": 3},
            {"micro": 2, "to_none": False, "clip": True},
            {"schedule": "before"},
            {"schedule": "after"},
            {"optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False)},
            {"optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True)},
            {"optimizer": lambda p: torch.optim.SGD(p, lr=1e-1, momentum=0.9, weight_decay=0.1)},
            {"kinds": ["weight"]},
            {"kinds": ["optimizer"]},
            {"kinds": ["gradient"], "micro": 2},
            {"kinds": ["activation"]},
            {"kinds": ["weight", "gradient", "optimizer", "activation"], "clip": True},
        ):
            with self.subTest(**more), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # a scheduler that misses its step
                self.same(small_gpt2, everything, **more)
                self.same(small_llama, {"layers.0": "CPU", "lm_head": "CPU"}, **more)

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            placed, _ = self.same(small_llama, {"layers.1": "SSD", "norm": "CPU"}, folder=folder)
            self.assertEqual(set(placed.moved), {"CPU", "SSD"})
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_checkpointed_layers(self) -> None:
        class Checkpointed(nn.Module):
            def __init__(self, reentrant: bool) -> None:
                super().__init__()
                self.model = small_gpt2()
                self.reentrant = reentrant

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                model = self.model
                x = model.wte(ids) + model.wpe(torch.arange(ids.shape[1]))
                for block in model.h:
                    x = checkpoint(block, x, use_reentrant=self.reentrant)
                return model.lm_head(model.ln_f(x))

        for reentrant in (False, True):
            for kinds in (["weight", "gradient", "optimizer"], ["weight", "activation"]):
                with self.subTest(reentrant=reentrant, kinds=kinds):
                    self.same(lambda: Checkpointed(reentrant), {"model.h": "CPU"}, kinds=kinds)

    def test_frozen_weights_and_parameters_without_a_gradient(self) -> None:
        def half_frozen() -> nn.Module:
            model = small_gpt2()
            model.h[0].requires_grad_(False)
            model.unused = nn.Linear(3, 3)
            return model

        self.same(half_frozen, {"h": "CPU", "unused": "CPU"})

    def test_inference_reads_and_writes_nothing(self) -> None:
        model = small_gpt2().eval()
        ids = torch.zeros((1, TOKENS), dtype=torch.int64)
        with torch.no_grad():
            before = model(ids)
            placed = apply(model, {"h": "CPU"})
            bytes = placed.moved["CPU"]["out"]
            self.assertEqual(bytes, sum(p.numel() * 4 for p in model.h.parameters()))
            for calls in (1, 2):
                self.assertTrue(torch.equal(model(ids), before))
                self.assertEqual(placed.moved["CPU"], {"in": calls * bytes, "out": bytes})

    def test_all_is_as_before_when_it_is_removed(self) -> None:
        torch.manual_seed(3)
        model = small_gpt2()
        optimizer = adamw(model.parameters())
        storages = [p.untyped_storage()._cdata for p in model.parameters()]
        placed = apply(model, {"h": "CPU"}, optimizer)
        with placed.near():
            self.assertGreater(placed.here, 0)
        self.assertEqual(placed.here, 0)
        self.assertEqual(len(model.state_dict()), len(list(model.state_dict().values())))
        placed.remove()
        self.assertNotIn("step", optimizer.__dict__)
        self.assertEqual([p.untyped_storage()._cdata for p in model.parameters()], storages)
        self.assertFalse(any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()))

    @unittest.skipUnless(TIERSIM, "TIERSIM does not name the command")
    def test_the_simulator_says_beforehand_what_moves(self) -> None:
        """Bytes of a step under hints, simulated on a recording and counted in the run itself."""
        hints = {"h.1": "CPU", "h.2.mlp": "CPU"}

        def small() -> nn.Module:
            gpt2.VOCABULARY = VOCABULARY
            return gpt2.Gpt2(3, 128, 4, tokens=TOKENS)

        def step() -> None:
            logits = model(ids[:, :-1])
            nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

        ids = torch.randint(VOCABULARY, (2, TOKENS + 1))
        with tempfile.TemporaryDirectory() as temporary:
            project = Path(temporary)
            for folder in ("hardware-specs", "scenarios"):
                (project / folder).mkdir()
            spec = "hardware-specs/seed-tiers.ron"
            (project / spec).write_bytes((ROOT / spec).read_bytes())
            (project / "scenarios/hints.json").write_text(json.dumps(hints))
            (project / "scenarios/tried.ron").write_text("""Scenario(
                schema: 2, about: "what moves?", hardware: "seed-tiers",
                workload: Trace(path: "traces/own", time: recorded(), repeat: 3, warmup: 1),
                policies: [(
                    name: "hints",
                    policy: Hints(file: "hints.json", access: migrate(prefetch_ops: 8)),
                )],
                expect: [fits("hints")],
            )""")
            model = small()
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
            with Recorder(
                model, optimizer, project / "traces/own", batch=2, sequence=TOKENS, warmup=2
            ) as recorder:
                for _ in range(4):
                    step()
                    recorder.step()
            command = [str(Path(TIERSIM).resolve()), "run", "scenarios/tried.ron", "--no-png"]
            ran = subprocess.run(
                [*command, "--format", "json"], cwd=project, capture_output=True, text=True
            )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = json.loads(ran.stdout)["results"][0]["moved_bytes"]
        model = small()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        placed = apply(model, hints, optimizer)
        step()
        before = dict(placed.moved["CPU"])
        step()
        moved = {way: placed.moved["CPU"][way] - before[way] for way in ("in", "out")}
        self.assertEqual(moved["out"], said["hbm->cpu"])
        # A bias is not read in the backward pass, and comes with its module all the same.
        biases = sum(
            p.numel() * p.element_size()
            for module in (model.h[1], model.h[2].mlp)
            for name, p in module.named_parameters()
            if name.endswith("bias")
        )
        self.assertLessEqual(said["cpu->hbm"], moved["in"])
        self.assertLessEqual(moved["in"] - said["cpu->hbm"], biases)

    def test_hints_that_cannot_be_followed(self) -> None:
        for hints, more, why in (
            ({"h.0": "REMOTE"}, {}, "h.0: 'REMOTE' cannot be had"),
            ({"elsewhere": "CPU"}, {}, "no hint fits"),
            ({"h.0": "SSD"}, {}, "needs a folder"),
            ({"h.0": "CPU"}, {"kinds": ["kv"]}, "and not kv"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                apply(small_gpt2(), hints, **more)

    def test_a_weight_that_shares_its_memory_stays(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
        both = torch.randn(8, 4)
        for module, rows in zip(model, (slice(0, 4), slice(4, 8))):
            module.weight = nn.Parameter(both[rows])
        placed = apply(model, {"0": "CPU", "1": "CPU"})
        self.assertEqual(placed.left, ["0.weight", "1.weight"])

    def test_hints_are_matched_as_the_simulator_matches_them(self) -> None:
        for name in ("transformer.h.0.mlp", "h.0.mlp", "layers.0.mlp", "module.model.layers.0.mlp"):
            self.assertEqual(canonical(name), "layers.0.mlp")
        self.assertEqual(canonical("transformer.wte"), "wte")
        self.assertEqual(canonical("h.attention"), "h.attention")
        self.assertEqual(canonical("model"), "model")
        hints = Matching({"transformer.h.0.mlp": "CPU", "layers.1": "SSD", "h.1.mlp.up": "HBM", "x": "CPU"})
        self.assertEqual(hints.tier("transformer.h.0.mlp"), "CPU")
        self.assertEqual(hints.tier("h.0.mlp"), "CPU")
        self.assertEqual(hints.tier("model.layers.0.mlp.up"), "CPU")
        self.assertEqual(hints.tier("model.layers.1.mlp.down"), "SSD")
        self.assertEqual(hints.tier("model.layers.1.mlp.up"), "HBM")
        self.assertIsNone(hints.tier("model.layers.2"))
        self.assertEqual(hints.unused, {"x"})


if __name__ == "__main__":
    unittest.main()
