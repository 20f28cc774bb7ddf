"""Puts a trace on disk: trace.ron, its tables and a note; all of it or nothing."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .statistics import Statistics
from .tables import Tables


@dataclass(slots=True)
class Header:
    """What trace.ron says beside the numbers of rows."""

    name: str
    about: str
    how: str
    when: str
    on: str
    precision: str
    batch: int
    sequence: int
    steps: int


def ron_text(text: str) -> str:
    """A RON string, quotes included."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    clean = (escapes.get(c, c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return '"' + "".join(clean) + '"'


def header_text(header: Header, tables: Tables) -> str:
    """The text of trace.ron."""
    rows = (len(tables.objects), len(tables.ops), len(tables.uses))
    return (
        "(\n    schema: 1,\n"
        f"    name: {ron_text(header.name)},\n"
        f"    about: {ron_text(header.about)},\n"
        "    recorded: (\n"
        f"        how: {ron_text(header.how)},\n"
        f"        when: {ron_text(header.when)},\n"
        f"        on: {ron_text(header.on)},\n"
        "    ),\n"
        f"    precision: {ron_text(header.precision)},\n"
        f"    batch: {header.batch},\n"
        f"    sequence: {header.sequence},\n"
        f"    steps: {header.steps},\n"
        "    rows: (objects: {}, ops: {}, uses: {}".format(*rows)
        + (f", statistics: {len(tables.statistics)}" if tables.statistics else "")
        + "),\n)\n"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def _statistics(known: Statistics | None) -> tuple[str, ...]:
    numbers = (known.adam_m, known.adam_v, known.grad_norm) if known is not None else (None,) * 3
    return tuple(map(_number, numbers))


def _csv(columns: str, rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns.split())
    writer.writerows(rows)
    return text.getvalue()


def table_texts(tables: Tables) -> dict[str, str]:
    """The tables as CSV, by file name; statistics.csv only where something is known of steps."""
    objects = []
    for index, row in enumerate(tables.objects):
        numbers = _statistics(row.statistics)
        persistent = "true" if row.persistent else "false"
        freed = "" if row.freed_after is None else row.freed_after
        start = (index, row.name, row.kind, row.bytes, row.dtype, persistent, row.module or "")
        objects.append((*start, *numbers, freed))
    ops = []
    # Columns of collectives only where there are any.
    meets = any(op.unit for op in tables.ops)
    for index, op in enumerate(tables.ops):
        start = (index, op.step, op.phase, op.name, op.module or "", op.stream)
        meeting = (op.unit, op.collective_bytes or "", op.group) if meets else ()
        ops.append((*start, op.duration_ns, op.flops, op.bytes, op.at_ns, *meeting))
    object_columns = "id name kind bytes dtype persistent module adam_m adam_v grad_norm freed_after"
    op_columns = "id step phase name module stream duration_ns flops bytes at_ns"
    op_columns += " unit collective_bytes group" if meets else ""
    texts = {
        "objects.csv": _csv(object_columns, objects),
        "ops.csv": _csv(op_columns, ops),
        "uses.csv": _csv("op object mode", tables.uses),
    }
    if tables.statistics:
        rows = ((step, index, *_statistics(known)) for step, index, known in tables.statistics)
        texts["statistics.csv"] = _csv("step object adam_m adam_v grad_norm", rows)
    return texts


def check_free(out: Path) -> None:
    """Refuses a folder that holds something, before any time is spent on recording."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists and is not an empty folder; name another one")


def write(out: Path, header: Header, tables: Tables, note: str, compress: bool) -> None:
    """Writes the folder beside its place and moves it there when it is whole."""
    check_free(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        (part / "trace.ron").write_text(header_text(header, tables), encoding="utf-8")
        (part / "NOTE.md").write_text(note, encoding="utf-8")
        for name, text in table_texts(tables).items():
            data = text.encode()
            if compress:  # no time and no name in it: the same tables give the same bytes
                name, data = name + ".gz", gzip.compress(data, 9, mtime=0)
            (part / name).write_bytes(data)
        if out.exists():
            out.rmdir()
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
