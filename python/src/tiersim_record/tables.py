"""From the log of ops and storages to the rows of a trace.

Follows the rules of ``docs/reference/traces.md``: the first use of an object that is not persistent
overwrites it, an object is freed no earlier than its last use, and ids are positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .clock import Clock
from .dispatch import RecordedOp
from .modules import UNKNOWN
from .statistics import Statistics
from .storages import NEVER, Storage

FORWARD = frozenset(("forward", "prefill", "decode"))
OWNED = frozenset(("weight", "gradient", "optimizer", "master"))
MAX_NAME_BYTES = 256


@dataclass(slots=True)
class ObjectRow:
    """One row of objects.csv, without its id."""

    name: str
    kind: str
    bytes: int
    dtype: str
    persistent: bool
    module: str | None
    statistics: Statistics | None
    freed_after: int | None


@dataclass(slots=True)
class OpRow:
    """One row of ops.csv, without its id."""

    step: int
    phase: str
    name: str
    module: str | None
    stream: int
    duration_ns: int | None
    flops: int
    bytes: int
    at_ns: int | None
    unit: str = ""  # empty for the device
    collective_bytes: int = 0
    group: str = ""


@dataclass(slots=True)
class Tables:
    """A trace without its header; uses are op, object, mode.

    Statistics are of each plain step before the recorded ones: a run is taken to begin where the
    first of them had ended. With one such step they are those of the objects, and left out.
    """

    objects: list[ObjectRow]
    ops: list[OpRow]
    uses: list[tuple[int, int, str]]
    statistics: list[tuple[int, int, Statistics]]  # step of a run, object, what is known then
    left_out: Counter[str]  # storages that did not become objects, by reason
    forced: int  # objects persistent only because their first use reads them, though freed


@dataclass(slots=True)
class _Life:
    first: int
    last: int
    born: bool  # the first use overwrites it


def build(
    storages: list[Storage],
    recorded: list[RecordedOp],
    clock: Clock,
    statistics: list[dict[int, Statistics]],
) -> Tables:
    """Makes the tables; ``statistics`` are those of weights, by step and storage."""
    lives = _lives(recorded)
    modules = _modules(storages, recorded)
    counts: Counter[str] = Counter()
    forced = 0
    ids: dict[int, int] = {}
    objects: list[ObjectRow] = []
    taken: set[str] = set()
    for storage in storages:
        life = lives.get(storage.id)
        if storage.counter:
            counts["step counters"] += 1
            continue
        if life is None and not (storage.before and storage.death == NEVER and storage.name):
            counts["objects that no op used"] += 1
            continue
        ids[storage.id] = len(objects)
        row = _object(storage, life, recorded, modules, taken)
        row.statistics = statistics[-1].get(storage.id) if statistics else None
        objects.append(row)
        if life is not None and not life.born and storage.death != NEVER:
            forced += 1
    ops, uses = [], []
    start = recorded[0].begin if recorded else None
    for index, (op, module) in enumerate(zip(recorded, modules)):
        span, at = clock.span_ns(op.begin, op.end), clock.at_ns(start, op.begin)
        name = _cut(op.name)
        row = OpRow(op.step, op.phase, name, module, op.stream, span, op.flops, op.bytes, at)
        ops.append(replace(row, unit=op.unit, collective_bytes=op.collective_bytes, group=op.group))
        uses += [(index, ids[key], mode) for key, mode in sorted(op.modes.items())]
    course = []
    if len(statistics) > 1:
        weights = sorted((ids[key], key) for key in statistics[0] if key in ids)
        course = [
            (step, index, known[key])
            for step, known in enumerate(statistics)
            for index, key in weights
            if statistics[-1][key].is_known
        ]
    return Tables(objects, ops, uses, course, counts, forced)


def _lives(recorded: list[RecordedOp]) -> dict[int, _Life]:
    lives: dict[int, _Life] = {}
    for index, op in enumerate(recorded):
        for key, mode in op.modes.items():
            life = lives.setdefault(key, _Life(index, index, mode == "w"))
            life.last = index
    return lives


def _object(
    storage: Storage,
    life: _Life | None,
    recorded: list[RecordedOp],
    modules: list[str | None],
    taken: set[str],
) -> ObjectRow:
    born = life is not None and life.born
    persistent = not born or (storage.before and storage.death == NEVER)
    first = recorded[life.first] if life is not None else None
    kind, name, module = storage.kind, storage.name, storage.owner
    if kind == "temporary":
        kind = "activation" if born and first.phase in FORWARD else "buffer"
        name = f"{_short(first.name)}.{storage.id}" if born else f"input.{storage.id}"
        module = modules[life.first] if born else None
    elif kind == "kv":
        name = f"kv.{storage.id}"
        module = modules[life.first] if born else None
    elif kind == "gradient":
        name += f".grad.step{first.step}" if born and not persistent else ".grad"
    name = _cut(name)
    if name in taken:
        name = f"{name[:200]}.{storage.id}"
    taken.add(name)
    freed = None
    if not persistent:
        last = len(recorded) - 1
        freed = last if storage.death == NEVER else max(storage.death - 1, life.last)
    module = _cut(module) if module else None
    return ObjectRow(name, kind, storage.bytes, storage.dtype, persistent, module, None, freed)


def _modules(storages: list[Storage], recorded: list[RecordedOp]) -> list[str | None]:
    """The module of each op, where the tracker did not know it: from what the op touches."""
    modules: list[str | None] = []
    writer: dict[int, str | None] = {}
    before: tuple[str, str | None] = ("", None)
    for op in recorded:
        writes = [key for key, mode in op.modes.items() if "w" in mode]
        module = op.module
        if op.phase == "optimizer" or module == UNKNOWN:
            owners = _owners(storages, writes) or _owners(storages, op.modes)
            if owners:
                # An op over tensors of many modules belongs to none of them.
                module = owners.pop() if len(owners) == 1 else None
            elif op.phase == "optimizer" and any(key in writer for key in op.modes):
                module = next(writer[key] for key in op.modes if key in writer)
            else:
                module = before[1] if before[0] == op.phase else None
        for key in writes:
            writer[key] = module
        before = (op.phase, module)
        modules.append(_cut(module) if module else None)
    return modules


def _owners(storages: list[Storage], keys: Iterable[int]) -> set[str | None]:
    return {storages[key].owner for key in keys if storages[key].kind in OWNED}


def _short(name: str) -> str:
    """``addmm`` for ``aten.addmm.default``."""
    return name.partition(".")[2].partition(".")[0] or name


def _cut(text: str) -> str:
    """Names have at most 256 bytes and no control characters."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
