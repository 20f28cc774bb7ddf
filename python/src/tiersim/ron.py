"""Scenarios as Python objects, which print as the ``.ron`` text that the command reads.

Numbers with units, policies and workloads are *words* with values: ``gib(40)`` is ``gib(40)``, and
``ron.Lru(spill=["dram"])`` is ``Lru(spill: ["dram"])``. Every word of the reference
(``docs/reference/scenario.md``) is an attribute of this module; what it may hold is checked by the
command, whose errors name a line and a column of the printed text.

A ``dict`` is a map (``{"hbm": gib(40)}``), :func:`struct` is what has fields and no word
(``(name: "LRU", policy: ...)``), a ``str`` is quoted, a ``list`` and a ``tuple`` are a list.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Sequence

#: Version of the language that :class:`Scenario` prints.
SCHEMA = 2
#: Longest line of printed text.
_WIDTH = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Word:
    """A word of the language: alone (``AllHbm``), or called with what it holds."""

    def __init__(
        self,
        name: str,
        values: Sequence[Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        if name and not _NAME.match(name):
            raise ValueError(f"{name!r} is no word; write letters, digits and _")
        if values and fields:
            raise ValueError(f"{name}: values with names or without, not both")
        self.name = name
        self.alone = values is None and fields is None
        self.values, self.fields = tuple(values or ()), dict(fields or {})

    def __call__(self, *values: Any, **fields: Any) -> Word:
        return Word(self.name, values, fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Word) and text(self) == text(other)

    def __hash__(self) -> int:
        return hash(text(self))

    def __repr__(self) -> str:
        return text(self)


def struct(**fields: Any) -> Word:
    """Fields without a word before them, such as a case of ``policies``: ``(name: "LRU", ...)``."""
    return Word("", (), fields)


def pair(*values: Any) -> Word:
    """Values in parentheses, such as a choice of an axis: ``("2 GiB", "gib(2)")``."""
    return Word("", values)


def __getattr__(name: str) -> Word:
    if name.startswith("__"):
        raise AttributeError(name)
    return Word(name)


def b(value: float) -> Word:
    """Bytes."""
    return Word("b", [value])


def kib(value: float) -> Word:
    """KiB, 2^10 bytes."""
    return Word("kib", [value])


def mib(value: float) -> Word:
    """MiB, 2^20 bytes."""
    return Word("mib", [value])


def gib(value: float) -> Word:
    """GiB, 2^30 bytes."""
    return Word("gib", [value])


def gb(value: float) -> Word:
    """GB, 10^9 bytes."""
    return Word("gb", [value])


def tb(value: float) -> Word:
    """TB, 10^12 bytes."""
    return Word("tb", [value])


def gb_per_s(value: float) -> Word:
    """GB/s, 10^9 bytes per second."""
    return Word("gb_per_s", [value])


def gib_per_s(value: float) -> Word:
    """GiB/s, 2^30 bytes per second."""
    return Word("gib_per_s", [value])


def ns(value: float) -> Word:
    """Nanoseconds."""
    return Word("ns", [value])


def us(value: float) -> Word:
    """Microseconds."""
    return Word("us", [value])


def ms(value: float) -> Word:
    """Milliseconds."""
    return Word("ms", [value])


class Raw:
    """A piece of ``.ron`` text, printed as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Scenario:
    """A scenario: what :func:`tiersim.run` and the others take, and ``print`` shows as ``.ron``.

    ``name`` is what results and charts are called after. The fields are those of
    ``docs/reference/scenario.md``, such as ``hardware``, ``workload``, ``policies``, ``sweep``,
    ``seed``, ``expect``. Files that it names are looked for in the current folder, the project
    around it, and among what ships.
    """

    def __init__(self, name: str = "scenario", **fields: Any) -> None:
        self.name = _file_name(name)
        self._text: str | None = None
        self._fields = fields

    @classmethod
    def from_ron(cls, text: str, name: str = "scenario") -> Scenario:
        """A scenario of text that is there already."""
        scenario = cls(name)
        scenario._text = text
        return scenario

    def with_(self, **fields: Any) -> Scenario:
        """The same with other fields."""
        if self._text is not None:
            raise TypeError("a scenario of text has no fields; use set={...} of tiersim.run")
        return Scenario(self.name, **{**self._fields, **fields})

    @property
    def ron(self) -> str:
        """The text that the command reads."""
        if self._text is not None:
            return self._text
        return text(Word("Scenario", (), {"schema": SCHEMA, **self._fields})) + "\n"

    def save(self, path: Any) -> None:
        """Writes the text to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.ron)

    def __str__(self) -> str:
        return self.ron

    def __repr__(self) -> str:
        return f"Scenario({self.name!r})\n{self.ron}"


def _file_name(name: str) -> str:
    if not re.match(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}\Z", name):
        raise ValueError(
            f"{name!r}: a scenario is called by 1 to 60 letters, digits, -, _ and ., the first a "
            "letter, a digit or _"
        )
    return name.removesuffix(".ron")


def text(value: Any) -> str:
    """A value as ``.ron``, on lines of at most 100 characters where it can be broken."""
    return _text(value, 0)


def _text(value: Any, indent: int) -> str:
    opening, closing, parts = _parts(value)
    if parts is None:
        return opening
    short = opening + ", ".join(lead + _text(part, 0) for lead, part in parts) + closing
    if len(short) + indent <= _WIDTH and "\n" not in short:
        return short
    pad = " " * (indent + 4)
    lines = [f"{pad}{lead}{_text(part, indent + 4)},\n" for lead, part in parts]
    return opening + "\n" + "".join(lines) + " " * indent + closing


def _parts(value: Any) -> tuple[str, str, list[tuple[str, Any]] | None]:
    """What opens a value, what closes it, and what is between, each with what stands before it."""
    if isinstance(value, Word):
        inner = [("", one) for one in value.values]
        inner += [(f"{name}: ", one) for name, one in value.fields.items()]
        return (value.name, "", None) if value.alone else (f"{value.name}(", ")", inner)
    if isinstance(value, Mapping):
        return "{", "}", [(f"{_leaf(str(key))}: ", one) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return "[", "]", [("", one) for one in value]
    return _leaf(value), "", None


def _leaf(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_characters(value)) + '"'
    if isinstance(value, int):
        return str(value)
    # Of numpy too: its scalars are numbers by their methods.
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__"):
        return repr(float(value))
    raise TypeError(
        f"{value!r} of type {type(value).__name__} has no text; use numbers, str, bool, list, "
        "dict, struct(...) or words of tiersim.ron"
    )


def _characters(value: str) -> Iterator[str]:
    for one in value:
        if one in '"\\':
            yield "\\" + one
        elif one < " " or one == "\x7f":
            yield f"\\u{{{ord(one):x}}}"
        else:
            yield one
