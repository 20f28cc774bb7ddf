"""Records small models on the CPU and checks the tables against counts made by hand.

    python -m unittest discover record/tests

Needs PyTorch. With ``TIERSIM=path/to/tiersim`` the traces are also checked and replayed by it.
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

try:
    import transformers
except ImportError:
    transformers = None

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/examples", "record/tests")]

import gpt2  # noqa: E402
import tiny_llama  # noqa: E402
from checks import STEPS, Rules, Trace, profiler_peak  # noqa: E402
from tiersim_record import Recorder  # noqa: E402
from tiersim_record.modules import Parameters  # noqa: E402
from tiersim_record.statistics import gradient_norms  # noqa: E402
from tiersim_record.write import ron_text  # noqa: E402


class Recordings(Rules):
    """Small models of which everything can be counted by hand."""

    def record(self, model: nn.Module, optimizer: torch.optim.Optimizer, step, **more) -> Trace:
        settings = {"batch": 2, "sequence": 1, "warmup": 2, "steps": STEPS} | more
        with Recorder(model, optimizer, self.folder, **settings) as self.recorder:
            for _ in range(settings["warmup"] + STEPS + 1):
                step()
                self.recorder.step()
        trace = Trace(self.folder)
        self.follow_the_format(trace)
        return trace

    def test_a_snapshot_needs_a_cuda_device(self) -> None:
        model = nn.Linear(2, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(ValueError, "only a CUDA device"):
            Recorder(model, optimizer, self.folder, batch=1, sequence=1, snapshot="s.pickle")

    def test_inference_needs_no_optimizer(self) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)).eval()
        kept = []
        settings = {"batch": 2, "sequence": 3, "warmup": 1, "steps": STEPS}
        with torch.no_grad(), Recorder(model, out=self.folder, **settings) as recorder:
            for step in range(1 + STEPS):
                recorder.begin("prefill" if step < 2 else "decode")
                out = model(torch.ones(2, 4))
                recorder.key_values(out)
                kept.append(out)
                recorder.step()
        trace = Trace(self.folder)
        self.follow_the_format(trace)
        phases = [op["phase"] for op in trace.ops if op["name"] == "aten.addmm.default"]
        self.assertEqual(phases, ["prefill"] * 2 + ["decode"] * 2)
        weights = [row for row in trace.objects if row["kind"] == "weight"]
        self.assertEqual(sum(int(row["bytes"]) for row in weights), 4 * (4 * 8 + 8 + 8 * 4 + 4))
        self.assertEqual({row["module"] for row in weights}, {"0", "1"})
        kv = [row for row in trace.objects if row["kind"] == "kv"]
        self.assertEqual([int(row["bytes"]) for row in kv], [2 * 4 * 4] * STEPS)
        self.assertFalse({"gradient", "optimizer"} & {row["kind"] for row in trace.objects})
        with self.assertRaisesRegex(ValueError, "prefill, decode and forward"):
            recorder.begin("backward")

    def test_mlp(self) -> None:
        rows, sizes = 8, (16, 32, 4)
        model = nn.Sequential(
            nn.Linear(sizes[0], sizes[1]), nn.Tanh(), nn.Linear(sizes[1], sizes[2])
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = torch.randn(rows, sizes[0]), torch.randn(rows, sizes[2])
        moments: list[tuple[float, float, float]] = []

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            weight = model[0].weight
            norm = weight.grad.norm().item() if len(moments) < 2 else 0.0
            optimizer.step()
            if len(moments) < 2:
                state = optimizer.state[weight]
                m, v = state["exp_avg"], state["exp_avg_sq"]
                moments.append((m.abs().mean().item(), v.sqrt().mean().item(), norm))

        trace = self.record(model, optimizer, step, compress=False)
        self.hold_the_model(trace, model, optimizer)
        products = [2 * rows * a * b for a, b in zip(sizes, sizes[1:])]
        self.assertEqual(trace.flops("mm", "addmm", phase="forward"), sum(products))
        # Of each layer the weight's gradient, and the input's of all but the first.
        backward = sum(products) + products[1]
        self.assertEqual(trace.flops("mm", "addmm", phase="backward"), backward)
        first = next(row for row in trace.objects if row["name"] == "0.weight")
        for column, value in zip(("adam_m", "adam_v", "grad_norm"), moments[1]):
            self.assertAlmostEqual(float(first[column]) / value, 1.0, places=5)
            # And after each of the two plain steps.
            course = [row for row in trace.statistics if row["object"] == first["id"]]
            self.assertEqual([row["step"] for row in course], ["0", "1"])
            at = ("adam_m", "adam_v", "grad_norm").index(column)
            for row, known in zip(course, moments):
                self.assertAlmostEqual(float(row[column]) / known[at], 1.0, places=5)
        by_name = {op["name"]: op for op in trace.ops}
        self.assertEqual(by_name["aten.tanh.default"]["module"], "1")
        self.assertEqual(by_name["aten.tanh_backward.default"]["module"], "1")
        # Linear reads input, weight and bias and writes its result, 4 bytes each.
        linear = next(op for op in trace.ops if op["name"] == "aten.addmm.default")
        elements = rows * sizes[0] + sizes[0] * sizes[1] + sizes[1] + rows * sizes[1]
        self.assertEqual((linear["module"], int(linear["bytes"])), ("0", 4 * elements))
        self.assertEqual({op["module"] for op in trace.ops if "mse" in op["name"]}, {""})
        overhead = self.recorder.overhead()
        self.assertGreater(overhead["recorded_wall_ms"], 0)
        self.assertIn("wall time of a plain step", trace.header)
        self.replay(self.folder)

    def test_one_plain_step_tells_of_no_course(self) -> None:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.AdamW(model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()

        trace = self.record(model, optimizer, step, warmup=1, compress=False)
        self.assertEqual(trace.statistics, [])
        self.assertFalse((self.folder / "statistics.csv").exists())

    def test_gradients_that_grow_are_recorded_and_followed(self) -> None:
        """Two layers; gradients of the second, larger one double with every step and overtake."""
        size, times, plain, overtakes = 256, 16, 6, 3
        model = nn.ModuleDict({
            "calm": nn.Linear(size, size, bias=False),
            "grows": nn.Linear(size, times * size, bias=False),
        })
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
        x = torch.randn(8, size)
        done = 0

        def step() -> None:
            nonlocal done
            optimizer.zero_grad()
            # Each output has the same gradient, so the norm is by the root of their number larger.
            planted = 2.0 ** (done - overtakes + 0.5) / times**0.5
            (model["calm"](x).sum() + planted * model["grows"](x).sum()).backward()
            optimizer.step()
            done += 1

        trace = self.record(model, optimizer, step, warmup=plain, batch=8)
        ids = {row["name"].partition(".")[0]: row["id"] for row in trace.of("weight")}
        norms = {
            name: [float(row["grad_norm"]) for row in trace.statistics if row["object"] == one]
            for name, one in ids.items()
        }
        # With weights that stay, the one norm stays and the other doubles.
        for before, after in zip(norms["calm"], norms["calm"][1:]):
            self.assertAlmostEqual(after / before, 1.0, places=5)
        for before, after in zip(norms["grows"], norms["grows"][1:]):
            self.assertAlmostEqual(after / before, 2.0, places=5)
        first = [norms["grows"][at] > norms["calm"][at] for at in range(plain)]
        self.assertEqual(first, [at >= overtakes for at in range(plain)])
        # One of the two stays near. Whoever follows has the larger there once it has overtaken, and
        # whoever keeps to the first step uses it where it is far, with every replay.
        policy = "GradientAware(adam: 0, cut: shares(hbm: 0.5, cpu: 0.5), access: in_place(charge: every_use)"
        self.replay(self.folder, own=f"""Scenario(
            schema: 2, about: "who learns most stays near", hardware: "seed-tiers",
            workload: Trace(path: "traces/recorded", time: recorded(), repeat: 4, warmup: 0),
            policies: [
                (name: "stays", policy: {policy}, rescore: steps(1000))),
                (name: "follows", policy: {policy}, rescore: steps(1))),
            ],
            expect: [faster(case: "follows", than: "stays")],
        )""")

    def test_tiny_llama(self) -> None:
        shape = tiny_llama.Shape(vocabulary=256, layers=2, width=64, heads=4, kv_heads=2, hidden=96)
        batch, tokens = 2, 16
        model = tiny_llama.TinyLlama(shape, tokens)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.randint(shape.vocabulary, (batch, tokens + 1))
        step = lambda: tiny_llama.train_step(model, optimizer, ids)  # noqa: E731
        trace = self.record(model, optimizer, step, batch=batch, sequence=tokens)
        self.hold_the_model(trace, model, optimizer)
        linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
        self.assertEqual(trace.flops("mm", phase="forward"), 2 * batch * tokens * linear)
        self.assertEqual(trace.flops("mm", phase="backward"), 4 * batch * tokens * linear)
        attention = [op for op in trace.ops if "scaled_dot_product" in op["name"]]
        one = batch * shape.layers * tokens * (tokens + 1) // 2 * shape.width
        if attention:  # a PyTorch without this kernel computes it from products
            names = {op["name"].split(".")[1] for op in attention}
            self.assertEqual(trace.flops(*names, phase="forward"), 4 * one)
            self.assertEqual(trace.flops(*names, phase="backward"), 10 * one)
        self.assertEqual({op["module"] for op in attention},
                         {f"layers.{i}.self_attn" for i in range(shape.layers)})
        per_module = {op["module"] for op in trace.ops if op["phase"] == "backward"}
        self.assertLessEqual({"lm_head", "embed_tokens", "layers.1.mlp.down_proj"}, per_module)
        always = sum(int(row["bytes"]) for row in trace.objects if row["persistent"] == "true")
        seen = profiler_peak(step, self.folder.parent)
        self.assertAlmostEqual((trace.peak() - always) / seen, 1.0, delta=0.02)
        self.replay(self.folder)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_llama_for_causal_lm(self) -> None:
        shape = {"vocab_size": 256, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
        batch, tokens = 2, 16
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.randint(shape["vocab_size"], (batch, tokens))

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()

        trace = self.record(model, optimizer, step, batch=batch, sequence=tokens)
        self.hold_the_model(trace, model, optimizer)
        linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
        products = 2 * batch * tokens * linear
        self.assertEqual(trace.flops("mm", "addmm", phase="forward"), products)
        self.assertEqual(trace.flops("mm", "addmm", phase="backward"), 2 * products)
        layers = {op["module"] for op in trace.ops if op["phase"] == "backward"}
        self.assertLessEqual({"lm_head", "model.embed_tokens", "model.layers.1.mlp.down_proj"}, layers)
        self.replay(self.folder, zoo=True)

    def test_norms_of_gradients_do_not_wait_for_the_device(self) -> None:
        class Refuses(TorchDispatchMode):
            def __torch_dispatch__(self, op, types, args=(), kwargs=None):
                if op is torch.ops.aten._local_scalar_dense.default:
                    raise AssertionError("a value was asked for")
                return op(*args, **(kwargs or {}))

        model = nn.Linear(3, 2)
        model(torch.ones(1, 3)).sum().backward()
        with Refuses():
            norms = gradient_norms(Parameters(model))
            with self.assertRaises(AssertionError):
                norms["weight"].item()
        found = {name: norm.item() for name, norm in norms.items()}
        self.assertEqual(found, {"weight": 6**0.5, "bias": 2**0.5})

    def test_tied_weights_count_once(self) -> None:
        gpt2.VOCABULARY = 128
        model = gpt2.Gpt2(1, 32, 2, tokens=8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.randint(128, (2, 9))

        def step() -> None:
            logits = model(ids[:, :-1])
            nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

        trace = self.record(model, optimizer, step, batch=2, sequence=8)
        self.hold_the_model(trace, model, optimizer)
        self.assertEqual(model.lm_head.weight.data_ptr(), model.wte.weight.data_ptr())
        forward = [op for op in trace.ops if op["module"] == "lm_head"]
        self.assertEqual({op["phase"] for op in forward}, {"forward", "backward"})
        self.replay(self.folder)

    def test_kept_gradients_many_tensors_per_op_and_fresh_inputs(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

        def step() -> None:
            x = torch.randn(3, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0])
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        trace = self.record(model, optimizer, step)
        gradients = trace.of("gradient")
        self.assertEqual({row["name"] for row in gradients}, {
            f"{name}.grad" for name, _ in model.named_parameters()
        })
        self.assertEqual({row["persistent"] for row in gradients}, {"true"})
        lifted = [row for row in trace.objects if row["name"].startswith("lift_fresh.")]
        lifted = [row for row in lifted if row["bytes"] == "16"]  # the optimizer makes one as well
        self.assertEqual(len(lifted), STEPS)
        self.assertEqual({row["persistent"] for row in lifted}, {"false"})
        wide = [op for op in trace.ops if "_foreach_" in op["name"]]
        self.assertTrue(wide)
        self.assertEqual({op["module"] for op in wide}, {""})
        total = sum(p.numel() for p in model.parameters())
        lerp = next(op for op in wide if "lerp_" in op["name"])
        self.assertEqual(int(lerp["flops"]), 3 * total)
        # Zeroing does not look at what was there.
        zero = next(int(op["id"]) for op in trace.ops if "zero_" in op["name"])
        self.assertEqual({mode for op, _, mode in trace.uses if op == zero}, {"w"})
        self.replay(self.folder)

    def test_a_checkpoint_computes_its_forward_ops_in_the_backward_pass(self) -> None:
        from torch.utils.checkpoint import checkpoint

        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        x = torch.randn(3, 4)

        def step() -> None:
            checkpoint(model, x, use_reentrant=False).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        trace = self.record(model, optimizer, step)
        tanh = [op for op in trace.ops if op["name"] == "aten.tanh.default"]
        self.assertEqual({op["phase"] for op in tanh}, {"forward", "backward"})
        self.assertEqual({op["module"] for op in tanh}, {"1"})


class Refusals(unittest.TestCase):
    """Nothing half is written, and a mistake is said before time is spent."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def recorder(self, **more) -> Recorder:
        settings = {"out": self.folder / "trace", "batch": 1, "sequence": 1} | more
        return Recorder(self.model, self.optimizer, **settings)

    def step(self) -> None:
        self.model(torch.ones(1, 2)).sum().backward()
        self.optimizer.step()

    def test_settings(self) -> None:
        for wrong in ({"warmup": 0}, {"steps": 0}, {"batch": 0}):
            with self.assertRaises(ValueError):
                self.recorder(**wrong)
        (self.folder / "file").write_text("")
        with self.assertRaises(FileExistsError):
            self.recorder(out=self.folder)

    def test_an_unfinished_loop_writes_nothing(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "step.. was called 2 times, 3 are needed"):
            with self.recorder() as recorder:
                for _ in range(2):
                    self.step()
                    recorder.step()
        with self.assertRaises(KeyError):
            with self.recorder() as recorder:
                self.step()
                recorder.step()
                raise KeyError
        self.assertEqual(list(self.folder.iterdir()), [])
        # And nothing is left switched on.
        self.assertEqual(torch.utils._python_dispatch._get_current_dispatch_mode(), None)
        self.assertFalse(self.optimizer._optimizer_step_pre_hooks)

    def test_texts_are_escaped(self) -> None:
        self.assertEqual(ron_text('a"b\\c\nd'), '"a\\"b\\\\c\\nd"')


if __name__ == "__main__":
    unittest.main()
