"""Which hint a module of a model follows: the rules of ``tiersim run``, written a second time.

A hint is for the module of its name, else for the one whose name is the same without the wrappers
of frameworks, else for all modules inside (``docs/reference/policies.md``, Hints).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIXES = frozenset(
    ("_orig_mod", "module", "base_model", "model", "transformer", "gpt_neox", "decoder")
)
LISTS = frozenset(("h", "layers", "layer", "blocks", "block"))
TIERS = ("HBM", "CXL", "CPU", "SSD")
OWN = "tiersim:"  # keys that are not modules begin so


def read(hints: str | Path | Mapping[str, str]) -> dict[str, str]:
    """Hints by module, of a ``tier_hints.json`` or as they are given."""
    if not isinstance(hints, Mapping):
        hints = json.loads(Path(hints).read_text(encoding="utf-8"))
        if not isinstance(hints, dict):
            raise ValueError("hints are one JSON object: a tier for each module")
    found = {module: tier for module, tier in hints.items() if not module.startswith(OWN)}
    for module, tier in found.items():
        if tier not in TIERS:
            known = ", ".join(TIERS)
            raise ValueError(f"{module}: {tier!r} cannot be had in this process; one of {known}")
    return found


class Matching:
    """Finds the hint of a module; ``unused`` are hints that no module has followed."""

    def __init__(self, hints: Mapping[str, str]) -> None:
        self._hints = dict(hints)
        self._plain: dict[str, str] = {}
        for hint in hints:
            self._plain.setdefault(canonical(hint), hint)
        self.unused = set(hints)

    def tier(self, module: str) -> str | None:
        """The tier that is said for a module, or none."""
        hint = self._find(module)
        if hint is None:
            return None
        self.unused.discard(hint)
        return self._hints[hint]

    def _find(self, module: str) -> str | None:
        if module in self._hints:
            return module
        name = canonical(module)
        if name in self._plain:
            return self._plain[name]
        inside = next((parent for parent in parents(module) if parent in self._hints), None)
        if inside is not None:
            return inside
        return next((self._plain[parent] for parent in parents(name) if parent in self._plain), None)


def parents(name: str) -> Iterator[str]:
    """Names of the modules around a module, the nearest first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def canonical(name: str) -> str:
    """A name without known prefixes, and with one name for the list of layers."""
    first, dot, inside = name.partition(".")
    while dot and first in PREFIXES:
        name = inside
        first, dot, inside = name.partition(".")
    return f"layers.{inside}" if dot and first in LISTS and inside[:1].isdigit() else name
