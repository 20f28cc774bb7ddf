"""Sees every aten op below autograd and writes down what it does to memory.

A dispatch mode gets each op after autograd and decomposition, which is the level at which kernels
run. Views touch no memory and are left out here, like ops on the optimizer's step counters and
ops without memory on the recorded device; all are counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import collectives, cost
from .clock import Clock, Mark
from .modules import ModuleTracker
from .storages import Storage, Storages, is_sharded


@dataclass(slots=True)
class RecordedOp:
    """One op as it was seen."""

    step: int
    phase: str
    name: str
    module: str | None
    stream: int
    begin: Mark
    end: Mark
    flops: int
    bytes: int
    modes: dict[int, str]  # storage id -> r, w or rw
    unit: str = ""  # the collective that it is
    collective_bytes: int = 0
    group: str = ""


class Argument(NamedTuple):
    """A tensor among the arguments of an op."""

    tensor: torch.Tensor
    storage: Storage | None
    changed: bool
    position: int  # of the argument in the op's schema


class OpRecorder(TorchDispatchMode):
    """The log of ops, filled while the mode is active."""

    def __init__(
        self, storages: Storages, tracker: ModuleTracker, clock: Clock, phase: str = "forward"
    ) -> None:
        super().__init__()
        self.storages = storages
        self.tracker = tracker
        self.clock = clock
        self.step = 0
        self.in_optimizer = False
        self.phase = phase  # of what runs in the model's calls
        self.ops: list[RecordedOp] = []
        self.left_out: Counter[str] = Counter()
        self.no_formula: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(is_sharded(kind) for kind in types):
            return NotImplemented  # what it does to its local tensors is seen next
        kwargs = kwargs or {}
        phase, module = self._place()
        if func.is_view:
            if cost.plain_name(func) == "lift_fresh":
                self._lifted(func, args[0], phase, module)
            self.left_out["views"] += 1
            return func(*args, **kwargs)
        # Known before the op runs, so that a storage freed by the op is still found.
        arguments = self._arguments(func, args, kwargs)
        stream = self.clock.stream()
        begin = self.clock.begin()
        out = func(*args, **kwargs)
        end = self.clock.end(begin)
        op = RecordedOp(self.step, phase, str(func), module, stream, begin, end, 0, 0, {})
        reason = self._describe(op, func, args, kwargs, out, arguments)
        if reason is None:
            self._add(op)
        else:
            self.left_out[reason] += 1
        return out

    def _place(self) -> tuple[str, str | None]:
        """Phase and module of the op that runs now."""
        tracker = self.tracker
        if torch._C._current_graph_task_id() != -1:
            tracker.in_forward = False
            return "backward", tracker.backward()
        module = tracker.forward()
        if self.in_optimizer:
            return "optimizer", None
        return (self.phase if tracker.in_forward else "other"), module

    def _lifted(self, func: Any, tensor: torch.Tensor, phase: str, module: str | None) -> None:
        """A tensor made from Python numbers is born here: nothing else writes its contents."""
        seen = len(self.storages.all)
        storage = self.storages.of(tensor)
        if storage is None or storage.id < seen:
            return
        now = self.clock.mark()
        stream = self.clock.stream()
        size, modes = storage.bytes, {storage.id: "w"}
        op = RecordedOp(self.step, phase, str(func), module, stream, now, now, 0, size, modes)
        self._add(op)

    def _add(self, op: RecordedOp) -> None:
        self.ops.append(op)
        self.storages.ops = len(self.ops)

    def _arguments(
        self, func: Any, args: Any, kwargs: Any
    ) -> list[Argument]:
        """Tensors among the arguments, in order; lists are taken apart."""
        found = []
        schema = func._schema.arguments
        for position, argument in enumerate(schema):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            if value is None:
                continue
            changed = argument.alias_info is not None and argument.alias_info.is_write
            leaves = (value,) if isinstance(value, torch.Tensor) else tree_leaves(value)
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor):
                    storage = self.storages.of(leaf, before=True)
                    found.append(Argument(leaf, storage, changed, position))
        return found

    def _describe(
        self, op: RecordedOp, func: Any, args: Any, kwargs: Any, out: Any, arguments: list[Argument]
    ) -> str | None:
        """Fills in uses, FLOPs and bytes; the reason if the op does not belong in the trace."""
        name = cost.plain_name(func)
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        new = self._born(arguments, outs)
        touched = [one.storage for one in arguments if one.storage is not None]
        touched += [storage for _, storage in new]
        if not touched:
            return "ops without memory on the device"
        if collectives.is_distributed(func):
            return self._meet(op, func, args, out)
        wrote = [one.storage for one in arguments if one.changed and one.storage is not None]
        wrote += [storage for _, storage in new]
        if all(storage.counter for storage in wrote or touched):
            return "ops on step counters"
        if name == "_local_scalar_dense":
            return "reads of single numbers by the host"
        if outs and not new and not any(one.changed for one in arguments):
            return "views"
        tensors = [one.tensor for one in arguments]
        out_argument = func._schema.overload_name.endswith("out")
        # Such as those of FSDP2 have without such a name.
        schema = enumerate(func._schema.arguments)
        results = {position for position, one in schema if one.name == "out"}
        read: Counter[int] = Counter()
        written: Counter[int] = Counter()
        for one in arguments:
            storage = one.storage
            if storage is None or storage.counter:
                continue
            size = one.tensor.numel() * one.tensor.element_size()
            looks = cost.looks_at(name, one.position)
            if one.changed:
                written[storage.id] += size
                looks = looks and not out_argument and one.position not in results
                if not looks and size < storage.bytes:
                    read[storage.id] += 0  # the rest of the storage keeps its contents
            if looks:
                read[storage.id] += cost.bytes_read(name, one.position, one.tensor, tensors, out)
        for tensor, storage in new:
            written[storage.id] += tensor.numel() * tensor.element_size()
        for key in read.keys() | written.keys():
            op.modes[key] = ("r" if key in read else "") + ("w" if key in written else "")
        if not op.modes:
            return "ops that look at shapes only"
        if name not in cost.NO_MEMORY:
            whole = self.storages.all
            op.bytes = sum(min(size, whole[key].bytes) for key, size in read.items())
            op.bytes += sum(min(size, whole[key].bytes) for key, size in written.items())
        writes = [one.tensor for one in arguments if one.changed] or outs
        count = cost.flops(func, args, kwargs, out, tensors, writes)
        if count is None:
            self.no_formula[str(func)] += 1
        op.flops = count or 0
        return None

    def _meet(self, op: RecordedOp, func: Any, args: Any, out: Any) -> str | None:
        """Fills in what an op of a process group does."""
        one = collectives.collective(func, args, out)
        if one is None:
            return "ops of process groups that are no collectives"
        op.unit, op.collective_bytes, op.group = one.unit, one.bytes, one.group
        read, written = self._sizes(one.reads), self._sizes(one.writes)
        whole = self.storages.all
        for key in read.keys() | written.keys():
            # What is written in part keeps the rest of its contents.
            reads = key in read or written[key] < whole[key].bytes
            op.modes[key] = ("r" if reads else "") + ("w" if key in written else "")
            op.bytes += sum(min(sizes[key], whole[key].bytes) for sizes in (read, written))
        return None if op.modes else "ops without memory on the device"

    def _sizes(self, tensors: list[torch.Tensor]) -> Counter[int]:
        """Bytes of tensors by storage."""
        sizes: Counter[int] = Counter()
        for tensor in tensors:
            storage = self.storages.of(tensor)
            if storage is not None:
                sizes[storage.id] += tensor.numel() * tensor.element_size()
        return sizes

    def _born(
        self, arguments: list[Argument], outs: list[torch.Tensor]
    ) -> list[tuple[torch.Tensor, Storage]]:
        """Tensors whose storages came with this op: results, and arguments that had no memory."""
        known = {one.storage.id for one in arguments if one.storage is not None}
        late = [one.tensor for one in arguments if one.changed and one.storage is None]
        found = []
        for tensor in [*late, *outs]:
            storage = self.storages.of(tensor)
            if storage is not None and storage.id not in known:
                known.add(storage.id)
                found.append((tensor, storage))
        return found
