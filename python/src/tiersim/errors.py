"""What goes wrong: the command's messages as exceptions and warnings."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from .results import Answer


@dataclass(frozen=True)
class Diagnostic:
    """One problem of an input.

    ``line`` and ``column`` count from 1 and are ``None`` where the problem has no place; ``rule``
    says what is wanted, ``found`` what is there, ``remedy`` what to write instead. ``message`` is
    all of it as the command prints it.
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    rule: str = ""
    found: str = ""
    remedy: str = ""

    @classmethod
    def _of(cls, told: Mapping[str, Any]) -> Diagnostic:
        message = str(told["message"])
        return cls(
            message=message,
            file=told.get("file"),
            line=told.get("line"),
            column=told.get("column"),
            rule=told.get("rule", message),
            found=told.get("found", ""),
            remedy=told.get("remedy", ""),
        )

    def __str__(self) -> str:
        return self.message


class Error(Exception):
    """An input is refused; nothing was written. The command ended with ``exit_code``.

    ``diagnostics`` has every problem that was found; ``file``, ``line``, ``column``, ``rule``,
    ``found`` and ``remedy`` are those of the first.
    """

    def __init__(self, diagnostics: list[Diagnostic], exit_code: int = 2) -> None:
        self.diagnostics = diagnostics
        self.exit_code = exit_code
        first = diagnostics[0]
        self.file, self.line, self.column = first.file, first.line, first.column
        self.rule, self.found, self.remedy = first.rule, first.found, first.remedy
        super().__init__("\n".join(problem.message for problem in diagnostics))


class Fault(Error):
    """A mistake of tiersim itself, or a command that something else ended."""


class PolicyError(Error):
    """A policy raised something; the run has ended and nothing was written. The exception is the
    ``__cause__``, and its traceback is in the message."""

    def __init__(
        self, policy: str, op: int | None, cause: Exception, name: str | None = None
    ) -> None:
        where = "before the first op" if op is None else f"at op {op} of the run ({name})"
        trace = "".join(traceback.format_exception(cause)).rstrip("\n")
        text = f"policy {policy} failed {where}:\n{trace}"
        super().__init__([Diagnostic(text, rule=text)])
        self.policy, self.op = policy, op


class ExpectationError(Error):
    """What a scenario expects does not hold, and ``check=True`` asked for this; ``result`` has all
    that the run measured."""

    def __init__(self, failed: list[str], result: Answer) -> None:
        super().__init__([Diagnostic(line, rule=line) for line in failed], exit_code=1)
        self.result = result


class ExpectationWarning(UserWarning):
    """What a scenario expects does not hold; the result is there all the same."""


class FingerprintWarning(UserWarning):
    """A policy has something that the fingerprint of its results cannot hold, such as a lock."""
