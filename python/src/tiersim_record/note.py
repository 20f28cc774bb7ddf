"""The words around a trace: what was left out, and what recording cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .tables import Tables
from .write import Header


@dataclass(slots=True)
class Facts:
    """What the recorder knows beside the tables."""

    left_out: Counter[str]
    forced: int  # objects that are persistent only because their first use reads them
    no_formula: Counter[str]
    elsewhere: int
    overhead: dict[str, float | int]
    clock: str
    allocator_peak: int | None


def cost(overhead: dict[str, float | int]) -> str:
    """One sentence on what recording cost."""
    plain, recorded = overhead["plain_wall_ms"], overhead["recorded_wall_ms"]
    which = "the first step, which also made the optimizer's state" if overhead["only_first"] else (
        f"median of {overhead['plain_steps']}"
    )
    return (
        f"wall time of a plain step {plain:.2f} ms ({which}), of a recorded step {recorded:.2f} ms "
        f"({recorded / plain:.1f} times)"
    )


def summary(facts: Facts) -> str:
    """The end of ``about`` in trace.ron."""
    parts = [f"{count} {what}" for what, count in sorted(facts.left_out.items())]
    text = f"one row per aten op, durations are {facts.clock}. Left out: "
    text += (", ".join(parts) or "nothing") + "; "
    text += f"{facts.forced} objects made persistent because their first use reads. "
    text += f"Recorder: {cost(facts.overhead)}."
    if facts.no_formula:
        text += " No FLOP formula, counted as 0: " + ", ".join(sorted(facts.no_formula)) + "."
    return text


def text(header: Header, tables: Tables, facts: Facts) -> str:
    """NOTE.md of the trace."""
    over = facts.overhead
    lines = [
        f"# {header.name}",
        "",
        f"{header.about.partition(';')[0]}.",
        "",
        f"Recorded {header.when} by {header.how}, on: {header.on}. {header.steps} steps of "
        f"{header.batch} x {header.sequence} tokens, weights in {header.precision}.",
        "",
        f"* Durations are {facts.clock}.",
        "* Adam statistics and gradient norms, where there are any, are those of the last step before "
        "the recorded ones.",
        "",
        "| | |",
        "|---|---|",
        f"| ops | {len(tables.ops)} |",
        f"| objects | {len(tables.objects)} |",
        f"| uses | {len(tables.uses)} |",
    ]
    lines += [f"| left out: {what} | {count} |" for what, count in sorted(facts.left_out.items())]
    lines.append(f"| objects made persistent because their first use reads | {facts.forced} |")
    if facts.elsewhere:
        lines.append(f"| left out: arguments on other devices | {facts.elsewhere} |")
    for name, count in sorted(facts.no_formula.items()):
        lines.append(f"| `{name}` has no FLOP formula, counted as 0 | {count} |")
    lines += [
        f"| plain step, wall | {over['plain_wall_ms']:.2f} ms |",
        f"| plain step, CPU time of its thread | {over['plain_cpu_ms']:.2f} ms |",
        f"| recorded step, wall | {over['recorded_wall_ms']:.2f} ms |",
        f"| recorded step, CPU time of its thread | {over['recorded_cpu_ms']:.2f} ms |",
        f"| durations of a recorded step's ops, summed | {over['ops_ms']:.2f} ms |",
    ]
    if facts.allocator_peak is not None:
        lines.append(f"| most that PyTorch's allocator had handed out | {facts.allocator_peak} B |")
    lines += ["", f"Overhead: {cost(over)}.", ""]
    return "\n".join(lines)
