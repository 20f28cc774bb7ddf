"""Records steps of models whose state is sharded over two processes on the CPU.

Counts are made by hand: what each rank keeps, what is gathered and scattered, and when what was
gathered is let go.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("python/src", "record/tests")]

from checks import STEPS, TIERSIM, Rules, Trace  # noqa: E402
from tiersim_record import Recorder  # noqa: E402

RANKS = 2
ROWS, SIZES = 8, (16, 32, 4)
# Of each layer its matrix and bias, in bytes.
LAYERS = [4 * (a * b + b) for a, b in zip(SIZES, SIZES[1:])]
SCENARIO = """Scenario(
    schema: 2,
    about: "two ranks that share the links of a server",
    hardware: "dgx-h100",
    workload: Trace(path: "recorded", time: recorded(), ranks: 2, repeat: 2, warmup: 1),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "lru", policy: Lru(spill: ["dram"]), hbm: share_of_peak(0.9)),
    ],
)
"""


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(*SIZES[:2]), nn.ReLU(), nn.Linear(*SIZES[1:]))


def fsdp(net: nn.Sequential) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    device = torch.device("cpu")
    for at in (0, 2):
        net[at] = FullyShardedDataParallel(net[at], device_id=device)
    return FullyShardedDataParallel(net, device_id=device)


def fsdp2(net: nn.Sequential) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (RANKS,))
    for at in (0, 2):
        fully_shard(net[at], mesh=mesh)
    return fully_shard(net, mesh=mesh)


def run_steps(
    rank: int,
    folder: str,
    recorded: tuple[nn.Module, torch.optim.Optimizer],
    step: Callable[[], None],
) -> None:
    """Runs the steps; rank 1 records nothing, as if rank 0 were recorded alone."""
    settings = {"batch": ROWS, "sequence": 1, "warmup": 2, "steps": STEPS}
    place = Path(folder) / "recorded"
    with Recorder(*recorded, place, **settings) if rank == 0 else nullcontext() as recorder:
        for _ in range(2 + STEPS):
            step()
            if recorder is not None:
                recorder.step()
    torch.distributed.destroy_process_group()


def worker(rank: int, kind: str, folder: str) -> None:
    """One of the processes."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    place = f"file://{folder}/meet"
    torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=RANKS)
    net = {"fsdp": fsdp, "fsdp2": fsdp2}[kind](model())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    batch = torch.randn(ROWS, SIZES[0])

    def step() -> None:
        net(batch).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    run_steps(rank, folder, (net, optimizer), step)


def deepspeed_worker(rank: int, stage: int, folder: str) -> None:
    """One of the processes of DeepSpeed, whose own optimizer steps the one that is recorded."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    # Without an address it would ask MPI; ranks meet in a file all the same.
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1", DS_ACCELERATOR="cpu")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    # What DeepSpeed compiles as it starts is made by a program beside Python.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    import deepspeed

    deepspeed.init_distributed("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    config = {
        "train_micro_batch_size_per_gpu": ROWS,
        # Its buckets are of gigabytes unless it is said.
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 1000, "allgather_bucket_size": 1000},
        "zero_allow_untested_optimizer": True,
    }
    net = model()
    adam = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    engine, zero, _, _ = deepspeed.initialize(model=net, optimizer=adam, config=config)
    batch = torch.randn(ROWS, SIZES[0])

    def step() -> None:
        engine.backward(engine(batch).square().sum())
        engine.step()

    run_steps(rank, folder, (engine.module, zero.optimizer), step)


class Sharded(Rules):
    """What a rank of a sharded model does."""

    def record(self, kind: str | int, run=worker) -> Trace:
        folder = self.folder.parent
        torch.multiprocessing.spawn(run, (kind, str(folder)), nprocs=RANKS)
        trace = Trace(self.folder)
        self.follow_the_format(trace)
        return trace

    def hold_the_shards(self, trace: Trace) -> None:
        """A rank keeps half of all, and gathers and scatters each layer whole."""
        self.assertEqual(trace.bytes("weight"), sum(LAYERS) // RANKS)
        self.assertEqual(trace.bytes("optimizer"), 2 * sum(LAYERS) // RANKS)
        meets = [op for op in trace.ops if op["unit"]]
        found = [(op["unit"], op["phase"], int(op["collective_bytes"])) for op in meets]
        first, last = LAYERS
        step = [
            ("all-gather", "forward", first),
            ("all-gather", "forward", last),
            ("all-gather", "backward", last),
            ("all-gather", "backward", first),
            ("reduce-scatter", "backward", last),
            ("reduce-scatter", "backward", first),
        ]
        self.assertEqual(found, step * STEPS)
        self.assertEqual({op["group"] for op in meets}, {f"{RANKS}x1"})
        # What an all-gather makes begins there, or in memory that was allocated for it, and is let go
        # before the step ends; what it takes is the rank's part.
        ends = {step: max(int(op["id"]) for op in trace.ops if op["step"] == step)
                for step in {op["step"] for op in trace.ops}}
        for op in (op for op in meets if op["unit"] == "all-gather"):
            size = int(op["collective_bytes"])
            uses = {one: mode for at, one, mode in trace.uses if at == int(op["id"])}
            made = [one for one in uses if int(trace.objects[one]["bytes"]) == size]
            self.assertEqual(len(made), 1, uses)
            self.assertEqual(trace.objects[made[0]]["persistent"], "false")
            self.assertLess(int(trace.objects[made[0]]["freed_after"]), ends[op["step"]])
            self.assertIn("w", uses[made[0]])
        products = [2 * ROWS * a * b for a, b in zip(SIZES, SIZES[1:])]
        self.assertEqual(trace.flops("mm", "addmm", phase="forward"), sum(products))
        self.assertEqual(trace.flops("mm", "addmm", phase="backward"), sum(products) + products[1])

    def run_it(self) -> None:
        """Lets tiersim run two such ranks under audit."""
        if not TIERSIM:
            return
        with tempfile.TemporaryDirectory() as temporary:
            project = Path(temporary)
            self.folder.rename(project / "recorded")
            (project / "case.ron").write_text(SCENARIO)
            for words in (["check", "recorded"], ["run", "case.ron", "--audit", "--out", "out"]):
                binary = str(Path(TIERSIM).resolve())
                ran = subprocess.run([binary, *words], cwd=project, capture_output=True, text=True)
                self.assertEqual(ran.returncode, 0, f"{words}: {ran.stdout}{ran.stderr}")

    def test_a_step_of_fsdp(self) -> None:
        trace = self.record("fsdp")
        self.hold_the_shards(trace)
        self.run_it()

    def test_a_step_of_fsdp2(self) -> None:
        trace = self.record("fsdp2")
        self.hold_the_shards(trace)
        names = {row["name"] for row in trace.of("weight")}
        self.assertEqual(names, {"0.weight", "0.bias", "2.weight", "2.bias"})
        self.run_it()

    def test_a_step_of_deepspeed(self) -> None:
        if importlib.util.find_spec("deepspeed") is None:
            print("NOT TESTED: deepspeed is not installed", file=sys.stderr)
            self.skipTest("deepspeed is not installed")
        whole = sum(LAYERS)
        matrices = [4 * a * b for a, b in zip(SIZES, SIZES[1:])]
        biases = [4 * b for b in SIZES[1:]]
        parameters = [size for pair in zip(matrices, biases) for size in pair]
        # Parameters as small as these stay whole under ZeRO-3 and are gathered when they have changed.
        for stage, wanted in (
            (2, [("all-reduce", whole), ("all-gather", whole)]),
            (3, [("reduce-scatter", whole), *(("all-gather", size) for size in parameters)]),
        ):
            with self.subTest(stage=stage):
                trace = self.record(stage, deepspeed_worker)
                self.assertEqual(trace.bytes("weight"), whole)
                self.assertEqual(trace.bytes("optimizer"), 2 * whole // RANKS)
                meets = [op for op in trace.ops if op["unit"]]
                found = [(op["unit"], int(op["collective_bytes"])) for op in meets]
                # Norms of gradients, and whether they are finite, are a number or two.
                self.assertEqual([one for one in found if one[1] > 8], wanted * STEPS)
                self.assertEqual({op["group"] for op in meets}, {f"{RANKS}x1"})
                self.run_it()
                # The next stage meets and records anew.
                (self.folder.parent / "meet").unlink(missing_ok=True)
                shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
