"""Reads a written trace, checks every rule of the format, and lets tiersim replay it.

The rules are those of ``docs/reference/traces.md``, written a second time: nothing of the recorder is used.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
TIERSIM = os.environ.get("TIERSIM")
STEPS = 2
SCENARIO = """Scenario(
    schema: 2,
    about: "does a fresh recording replay?",
    hardware: "seed-tiers",
    workload: Trace(path: "traces/recorded", time: TIME, repeat: 2, warmup: 1),
    policies: [
        (name: "all", policy: AllHbm, hbm: share_of_peak(1.0)),
        (name: "half", policy: Lru(), hbm: share_of_peak(0.8)),
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.3, cpu: 0.5))),
    ],
    expect: [fits("all"), faster(case: "all", than: "half"), faster(case: "all", than: "adam")],
)
"""


def every_policy() -> str:
    """The scenario with the policies of the one that has them all, on its machine."""
    text = (ROOT / "scenarios/validation/host-zoo.ron").read_text()
    policies = text[text.index("    policies: [") : text.index("\n    ],\n") + len("\n    ],\n")]
    workload = SCENARIO[: SCENARIO.index("    policies: [")].replace("TIME", "recorded()")
    workload = workload.replace("seed-tiers", "host-smoke")
    return f"{workload}{policies})\n"


class Trace:
    """A trace folder as text tables; reading it checks the rules of the format."""

    def __init__(self, folder: Path) -> None:
        self.header = (folder / "trace.ron").read_text()
        self.objects = self.table(folder, "objects")
        self.ops = self.table(folder, "ops")
        followed = "statistics: " in self.header
        self.statistics = self.table(folder, "statistics") if followed else []
        self.uses = [(int(u["op"]), int(u["object"]), u["mode"]) for u in self.table(folder, "uses")]

    def table(self, folder: Path, name: str) -> list[dict[str, str]]:
        packed = folder / f"{name}.csv.gz"
        data = packed.read_bytes() if packed.exists() else (folder / f"{name}.csv").read_bytes()
        if packed.exists():
            assert data[4:8] == b"\0\0\0\0", "no time in the packed file"
            data = gzip.decompress(data)
        assert data.endswith(b"\n") and b"\r" not in data and b"\n\n" not in data
        rows = list(csv.DictReader(data.decode().splitlines()))
        assert re.search(rf"\b{name}: {len(rows)}\b", self.header), "rows of the header"
        return rows

    def of(self, kind: str) -> list[dict[str, str]]:
        return [row for row in self.objects if row["kind"] == kind]

    def bytes(self, kind: str) -> int:
        return sum(int(row["bytes"]) for row in self.of(kind))

    def flops(self, *names: str, phase: str = "") -> int:
        """Per step, of ops whose short name is among ``names``."""
        chosen = [op for op in self.ops if op["name"].split(".")[1] in names]
        return sum(int(op["flops"]) for op in chosen if op["phase"].startswith(phase)) // STEPS

    def peak(self) -> int:
        """Most bytes that live at once."""
        change = [0] * (len(self.ops) + 1)
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for op, one, _ in self.uses:
            first.setdefault(one, op)
            last[one] = op
        always = 0
        for index, row in enumerate(self.objects):
            if row["persistent"] == "true":
                always += int(row["bytes"])
            else:
                change[first[index]] += int(row["bytes"])
                change[int(row["freed_after"] or last[index]) + 1] -= int(row["bytes"])
        most = now = always
        for difference in change:
            now += difference
            most = max(most, now)
        return most


def profiler_peak(step: Callable[[], object], folder: Path) -> int:
    """Most bytes that live at once in a step beyond those before it, as PyTorch's profiler sees."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    file = folder / "profile.json"
    profiler.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    live = most = 0
    for event in sorted(changes, key=lambda event: event["ts"]):
        live += event["args"]["Bytes"]
        most = max(most, live)
    return most


class Repeatable(unittest.TestCase):
    """One thread, one seed, and a folder of the test's own."""

    def setUp(self) -> None:
        torch.manual_seed(1)
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name) / "recorded"


class Rules(Repeatable):
    """What holds for every trace."""

    timed = True  # whether the recorded device computes, so that its ops take time

    def follow_the_format(self, trace: Trace) -> None:
        kinds = {"weight", "gradient", "optimizer", "master", "activation", "buffer", "kv"}
        names = [row["name"] for row in trace.objects]
        self.assertEqual(len(set(names)), len(names))
        for rows in (trace.objects, trace.ops):
            self.assertEqual([int(row["id"]) for row in rows], list(range(len(rows))))
            for row in rows:
                self.assertTrue(0 < len(row["name"].encode()) <= 256 and row["name"].isprintable())
        steps = [int(op["step"]) for op in trace.ops]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(len(set(steps)), STEPS)
        self.assertIn(f"steps: {STEPS},", trace.header)
        for op in trace.ops:
            self.assertIn(op["phase"], {"forward", "backward", "optimizer", "prefill", "decode", "other"})
            timed = ("duration_ns", "at_ns")
            for column in ("flops", "bytes", "stream", *(timed if self.timed else ())):
                self.assertTrue(op[column].isdigit(), f"{column} {op[column]!r}")
            self.assertEqual({bool(op[column]) for column in timed}, {self.timed})
        if self.timed:
            at = [int(op["at_ns"]) for op in trace.ops]
            self.assertEqual((at[0], at), (0, sorted(at)))
        self.assertEqual([use[0] for use in trace.uses], sorted(use[0] for use in trace.uses))
        self.assertEqual(len({use[:2] for use in trace.uses}), len(trace.uses))
        self.assertEqual({use[0] for use in trace.uses}, set(range(len(trace.ops))))
        seen: dict[int, int] = {}
        for op, one, mode in trace.uses:
            row = trace.objects[one]
            self.assertIn(mode, {"r", "w", "rw"})
            if one not in seen and row["persistent"] == "false":
                self.assertEqual(mode, "w", f"first use of {row['name']}")
            seen[one] = op
        for index, row in enumerate(trace.objects):
            self.assertIn(row["kind"], kinds)
            self.assertGreater(int(row["bytes"]), 0)
            if row["persistent"] == "true":
                self.assertEqual(row["freed_after"], "")
            else:
                self.assertTrue(seen[index] <= int(row["freed_after"]) < len(trace.ops), row)
            for column in ("adam_m", "adam_v", "grad_norm"):
                if row[column]:
                    self.assertGreaterEqual(float(row[column]), 0.0)
                    self.assertEqual(row["kind"], "weight")
        self.follow_the_steps(trace)

    def follow_the_steps(self, trace: Trace) -> None:
        """Every step tells of the same weights, and the last of what the objects say."""
        columns = ("adam_m", "adam_v", "grad_norm")
        known = [row["id"] for row in trace.objects if any(row[column] for column in columns)]
        steps: dict[str, list[dict[str, str]]] = {}
        for row in trace.statistics:
            steps.setdefault(row["step"], []).append(row)
        self.assertEqual(list(steps), [str(step) for step in range(len(steps))])
        for rows in steps.values():
            self.assertEqual([row["object"] for row in rows], known)
        for row in list(steps.values())[-1] if steps else []:
            last = trace.objects[int(row["object"])]
            self.assertEqual([row[column] for column in columns], [last[column] for column in columns])

    def hold_the_model(self, trace: Trace, model: nn.Module, optimizer: torch.optim.Adam) -> None:
        """Parameters, moments and gradients are all there, once, with sizes and owners."""
        parameters = dict(model.named_parameters())  # a tied parameter comes once
        total = sum(p.numel() * p.element_size() for p in parameters.values())
        weights = {row["name"]: row for row in trace.of("weight")}
        self.assertEqual(set(weights), set(parameters))
        self.assertEqual(trace.bytes("weight"), total)
        self.assertEqual(len(trace.of("optimizer")), 2 * len(parameters))
        self.assertEqual(trace.bytes("optimizer"), 2 * total)
        self.assertEqual(len(trace.of("gradient")), STEPS * len(parameters))
        self.assertEqual(trace.bytes("gradient"), STEPS * total)
        for name, row in weights.items():
            self.assertEqual(row["module"], name.rpartition(".")[0])
            self.assertEqual(row["persistent"], "true")
        owners = {name.rpartition(".")[0] for name in parameters}
        for op in trace.ops:
            if op["phase"] == "optimizer":
                self.assertIn(op["module"], owners)
        for row in (*trace.of("gradient"), *trace.of("optimizer")):
            self.assertIn(row["module"], owners)
        self.assertTrue(all(row["persistent"] == "true" for row in trace.of("optimizer")))
        self.assertTrue(all(row["persistent"] == "false" for row in trace.of("gradient")))
        self.assertFalse([name for name in weights if name.endswith(".step")])
        # With everything alive at once a step needs the weights, the moments and the gradients.
        everything = sum(int(row["bytes"]) for row in trace.objects)
        self.assertTrue(4 * total <= trace.peak() <= everything, trace.peak())

    def replay(self, folder: Path, zoo: bool = False, own: str = "") -> None:
        """Lets tiersim check the trace, describe it and run it; with ``zoo`` under every policy, and
        in a scenario of its ``own``. Without recorded times those of a machine's roofline are left."""
        if not TIERSIM:
            return
        with tempfile.TemporaryDirectory() as temporary:
            project = Path(temporary)
            (project / "hardware-specs").mkdir()
            (project / "traces").mkdir()
            (project / "scenarios").mkdir()
            spec = "hardware-specs/seed-tiers.ron"
            (project / spec).write_bytes((ROOT / spec).read_bytes())
            machine = "hardware-specs/a100-80g-pcie4.ron"
            (project / machine).write_bytes((ROOT / machine).read_bytes())
            trace = project / "traces" / "recorded"
            trace.mkdir()
            for file in folder.iterdir():
                (trace / file.name).write_bytes(file.read_bytes())
            roofline = 'roofline(device: "a100-80g-pcie4", precision: "tf32")'
            for name, time in (("recorded", "recorded()"), ("roofline", roofline)):
                text = SCENARIO.replace("TIME", time)
                if not self.timed:  # nor has it numbers for Adam's means
                    lines = text.splitlines(keepends=True)
                    text = "".join(line for line in lines if 'name: "adam"' not in line)
                    text = text.replace(', faster(case: "all", than: "adam")', "")
                (project / "scenarios" / f"{name}.ron").write_text(text)
            runs = ["recorded", "roofline"] if self.timed else ["roofline"]
            if zoo:
                (project / "scenarios" / "zoo.ron").write_text(every_policy())
                (project / "scenarios" / "hints").mkdir()
                hints = {row["module"]: "CPU" for row in Trace(folder).of("weight")[:4]}
                (project / "scenarios" / "hints" / "tiny.json").write_text(json.dumps(hints))
                runs.append("zoo")
            if own:
                (project / "scenarios" / "own.ron").write_text(own)
                runs.append("own")
            for words in (
                ["check", str(trace)],
                ["trace", "info", str(trace)],
                *(["run", f"scenarios/{name}.ron", "--audit"] for name in runs),
            ):
                binary = str(Path(TIERSIM).resolve())
                ran = subprocess.run([binary, *words], cwd=project, capture_output=True, text=True)
                self.assertEqual(ran.returncode, 0, f"{words}: {ran.stdout}{ran.stderr}")
