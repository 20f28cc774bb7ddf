"""The context manager that programs use: counts steps, starts and stops recording, writes.

The first ``warmup`` steps run as if there were no recorder, so that the optimizer has its state
and its statistics mean something; the next ``steps`` steps are recorded; later ones are plain
again, and serve to measure what recording costs.
"""

from __future__ import annotations

import datetime
import platform
import statistics as numbers
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from . import note
from .clock import clock_for
from .dispatch import OpRecorder
from .meta import OneKernelAttention
from .modules import ModuleTracker, Parameters
from .snapshot import MemorySnapshot
from .statistics import Statistics, gradient_norms, of_parameters, state_tensors
from .storages import Storages, check_weak_references
from .tables import Tables, build
from .write import Header, check_free, write

PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


class Recorder:
    """Records steps of a training loop into a trace folder; without an optimizer, of inference.

    Call ``step()`` at the end of every step. Nothing is written if the loop fails or ends before
    all steps are recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        out: str | Path | None = None,
        *,
        batch: int,
        sequence: int,
        name: str | None = None,
        about: str = "",
        machine: str | None = None,
        precision: str | None = None,
        warmup: int = 1,
        steps: int = 2,
        compress: bool = True,
        snapshot: str | Path | None = None,
    ) -> None:
        if out is None:
            raise ValueError("say where the trace goes: out='my-trace'")
        # Without an optimizer nothing is trained: a step is a call of the model.
        self.inference = optimizer is None
        if warmup < 1:
            why = "is plain, so that what recording costs can be said" if self.inference else (
                "makes the optimizer's state"
            )
            raise ValueError(f"warmup is at least 1: the first step {why}")
        if min(steps, batch, sequence) < 1:
            raise ValueError("steps, batch and sequence are at least 1")
        self.out = Path(out)
        check_free(self.out)
        check_weak_references()
        self.model = model
        self.optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer or ())
        self.parameters = Parameters(model)
        if not self.parameters.list:
            raise ValueError("a model with parameters is needed")
        if not self.inference and not self.optimizers:
            raise ValueError("a list of optimizers has one; leave it out to record inference")
        self.device = self._device()
        self.snapshot = None if snapshot is None else MemorySnapshot(snapshot, self.device)
        self.clock = clock_for(self.device)
        self.name = name or self.out.name
        self.about = about or type(model).__name__
        self.machine = machine
        self.precision = precision
        self.batch, self.sequence = batch, sequence
        self.phase = "forward"  # of what runs in the model's calls
        self.warmup, self.steps, self.compress = warmup, steps, compress
        self.done = 0
        self.walls: list[int] = []  # wall time per step, ns
        self.cpus: list[int] = []  # CPU time of this thread per step, ns
        self.allocator_peak: int | None = None
        self.tables: Tables | None = None
        self._norms: dict[str, torch.Tensor] = {}  # of this step's gradients
        self._course: list[dict[str, Statistics]] = []  # after each plain step before recording
        self._own = (0, 0)  # time that the recorder itself took within this step
        self._recording: ExitStack | None = None
        self._hooks: list[Any] = []

    @property
    def _has_numbers(self) -> bool:
        """Whether tensors have contents, and not shapes alone."""
        return self.device.type != "meta"

    def _device(self) -> torch.device:
        devices = {parameter.device for _, parameter in self.parameters.list}
        if len(devices) != 1:
            found = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"parameters on {found}: a trace is of one device")
        return devices.pop()

    def __enter__(self) -> Recorder:
        for optimizer in self.optimizers:
            self._hooks.append(optimizer.register_step_pre_hook(self._before_optimizer))
            self._hooks.append(optimizer.register_step_post_hook(self._after_optimizer))
        if self.snapshot is not None:
            self.snapshot.start()
        self._synchronize()
        self._mark = self._now()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        complete = self.done >= self.warmup + self.steps
        if self._recording is not None:
            self._stop()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self.snapshot is not None:
            if kind is None and complete:
                self.snapshot.stop()
            self.snapshot.cancel()
        if kind is not None:
            return
        if not complete:
            wanted = self.warmup + self.steps
            raise RuntimeError(f"step() was called {self.done} times, {wanted} are needed")
        self._finish()

    def step(self) -> bool:
        """Ends a step; false when everything is recorded and the loop may end."""
        self._synchronize()
        now = self._now()
        self.walls.append(now[0] - self._mark[0] - self._own[0])
        self.cpus.append(now[1] - self._mark[1] - self._own[1])
        self.done += 1
        if self.done <= self.warmup and self.optimizers and self._has_numbers:
            with torch.no_grad():
                known = of_parameters(self.optimizers, self.parameters, self._norms)
            self._course.append(known)
            self._norms = {}
        if self.done == self.warmup:
            self._start()
        elif self._recording is not None:
            if self.done == self.warmup + self.steps:
                self._stop()
            else:
                self._ops.step = self.done
                self._tracker.new_step()
        self._own = (0, 0)
        self._synchronize()
        self._mark = self._now()
        return self.done < self.warmup + self.steps

    def begin(self, phase: str) -> None:
        """Says what the model's calls are from now on: "prefill", "decode" or "forward"."""
        if not self.inference or phase not in ("prefill", "decode", "forward"):
            raise ValueError(f"{phase!r}: inference has prefill, decode and forward")
        self.phase = phase
        if self._recording is not None:
            self._ops.phase = phase

    def key_values(self, *tensors: torch.Tensor) -> None:
        """Says that these tensors are keys and values that later steps read."""
        if self._recording is not None:
            for tensor in tensors:
                storage = self._storages.of(tensor)
                if storage is not None and storage.kind == "temporary":
                    storage.kind = "kv"

    def _now(self) -> tuple[int, int]:
        return time.perf_counter_ns(), time.thread_time_ns()

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _before_optimizer(self, *_: object) -> None:
        if self._recording is not None:
            self._ops.in_optimizer = True
        elif self.done < self.warmup and self._has_numbers:
            begin = self._now()
            with torch.no_grad():
                self._norms = gradient_norms(self.parameters)
            end = self._now()
            self._own = (self._own[0] + end[0] - begin[0], self._own[1] + end[1] - begin[1])

    def _after_optimizer(self, *_: object) -> None:
        if self._recording is not None:
            self._ops.in_optimizer = False

    def _start(self) -> None:
        """Labels what is there and switches the recording on."""
        self._storages = Storages(self.device)
        # Of each step, by storage.
        self._statistics: list[dict[int, Statistics]] = [{} for _ in self._course]
        with torch.no_grad():
            self._label()
        self._tracker = ModuleTracker(self.model, self.parameters)
        self._ops = OpRecorder(self._storages, self._tracker, self.clock, self.phase)
        self._ops.step = self.done
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self._recording = ExitStack()
        for name, parameter in self.parameters.list:
            if parameter.requires_grad and not self.inference:
                hook = parameter.register_post_accumulate_grad_hook(self._gradient_hook(name))
                self._recording.callback(hook.remove)
        if self.device.type == "meta":
            self._recording.enter_context(OneKernelAttention())
        self._recording.enter_context(self._storages.emptied())
        self._recording.enter_context(self._tracker)
        self._recording.enter_context(self._ops)

    def _label(self) -> None:
        storages, parameters = self._storages, self.parameters
        for name, parameter in parameters.list:
            owner = parameters.owner(parameter)
            storage = storages.label(parameter.detach(), "weight", name, owner, before=True)
            if storage is None:
                continue
            for step, known in zip(self._statistics, self._course):
                step.setdefault(storage.id, Statistics()).add(known[name])
        for name, buffer in self.model.named_buffers():
            storages.label(buffer, "buffer", name, None, before=True)
        for tensor, kind, name, owner, counter in state_tensors(self.optimizers, parameters):
            storage = storages.label(tensor, kind, name, owner, before=True)
            if storage is not None:
                storage.counter = counter
        for name, parameter in parameters.list:
            if parameter.grad is not None:
                owner = parameters.owner(parameter)
                storages.label(parameter.grad, "gradient", name, owner, before=True)

    def _gradient_hook(self, name: str) -> Any:
        def labels(parameter: torch.Tensor) -> None:
            if parameter.grad is not None:
                owner = self.parameters.owner(parameter)
                self._storages.label(parameter.grad, "gradient", name, owner)

        return labels

    def _stop(self) -> None:
        assert self._recording is not None
        self._recording.close()
        self._recording = None
        self._storages.close()
        self.clock.finish()
        if self.device.type == "cuda":
            self.allocator_peak = torch.cuda.max_memory_allocated(self.device)

    def overhead(self) -> dict[str, float | int]:
        """What a step took with and without recording, medians in milliseconds.

        The first step is left out where there is another plain one: it makes the optimizer's state.
        """
        first, last = self.warmup, self.warmup + self.steps
        plain = [*range(1, first), *range(last, len(self.walls))] or [0]
        recorded = range(first, last)
        median = lambda values, which: numbers.median(values[i] for i in which) / 1e6  # noqa: E731
        spans = sum(op.duration_ns or 0 for op in self.tables.ops) if self.tables else 0
        return {
            "plain_steps": len(plain),
            "only_first": int(plain == [0]),
            "plain_wall_ms": median(self.walls, plain),
            "plain_cpu_ms": median(self.cpus, plain),
            "recorded_wall_ms": median(self.walls, recorded),
            "recorded_cpu_ms": median(self.cpus, recorded),
            "ops_ms": spans / self.steps / 1e6,
        }

    def _finish(self) -> None:
        ops = self._ops
        if not ops.ops:
            raise RuntimeError("the recorded steps ran no op on the model's device")
        self.tables = build(self._storages.all, ops.ops, self.clock, self._statistics)
        facts = note.Facts(
            left_out=ops.left_out + self.tables.left_out,
            forced=self.tables.forced,
            no_formula=ops.no_formula,
            elsewhere=self._storages.elsewhere,
            overhead=self.overhead(),
            clock=self.clock.what,
            allocator_peak=self.allocator_peak,
        )
        header = Header(
            name=self.name,
            about=f"{self.about}; {note.summary(facts)}",
            how=f"tiersim-record on PyTorch {torch.__version__}",
            when=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            on=self._machine(),
            precision=self.precision or self._precision(),
            batch=self.batch,
            sequence=self.sequence,
            steps=len({op.step for op in self.tables.ops}),
        )
        text = note.text(header, self.tables, facts)
        write(self.out, header, self.tables, text, self.compress)

    def _precision(self) -> str:
        """The element type of most of the weights' bytes."""
        sizes: dict[str, int] = {}
        for _, parameter in self.parameters.list:
            dtype = str(parameter.dtype).removeprefix("torch.")
            sizes[dtype] = sizes.get(dtype, 0) + parameter.numel() * parameter.element_size()
        dtype = max(sizes, key=lambda key: sizes[key])
        return PRECISIONS.get(dtype, dtype)

    def _machine(self) -> str:
        if self.machine is not None:
            return self.machine
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        if self.device.type == "meta":
            return "nothing: PyTorch's meta device"
        return f"{platform.machine()} CPU, threads: {torch.get_num_threads()}"
