"""The verbs of the command as functions: same names, same options, same numbers.

A scenario is a :class:`tiersim.Scenario`, a path of a ``.ron`` file, or the name of one that ships
(:func:`scenarios`). ``set`` overrides any of its values by path, as ``--set`` does: values are
numbers, words of :mod:`tiersim.ron`, lists, dicts, or texts of ``.ron`` such as ``"gib(40)"``.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Mapping, Sequence, TypeVar, Union

from . import _child
from .errors import ExpectationError, ExpectationWarning
from .policy import Asked, Policy
from .results import (
    Answer,
    Comparison,
    Explained,
    Folder,
    Machine,
    Memory,
    Result,
    Solved,
    Table,
    Trace,
)
from .ron import Raw, Scenario, text

#: What names a scenario.
Named = Union[str, "os.PathLike[str]", Scenario]
#: Overrides by path.
Settings = Mapping[str, Any]

_Of = TypeVar("_Of", bound=Answer)


def run(
    scenario: Named,
    *,
    policy: Policy | Sequence[Policy] = (),
    instead_of: str | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    trace: str | os.PathLike[str] | Trace | None = None,
    audit: bool = False,
    uncertainty: int | None = None,
    bound_curve: bool = True,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    check: bool = False,
    progress: bool = True,
) -> Result:
    """Simulates every policy of a scenario, as ``tiersim run`` does.

    ``policy`` (or several) answers for the cases whose policy the scenario calls ``Python()`` (or
    ``Python(number: 1)``, ...), and for the case called ``instead_of``, whose policy the first one
    replaces; one that no case asks is an error.
    ``seed`` replaces the scenario's; ``trace`` runs another trace instead of its own; ``audit``
    checks capacity, hazards and conservation after every event; ``uncertainty`` draws the machine's
    uncertain numbers so many times; ``bound_curve`` may be left out to be quicker; ``jobs`` is the
    number of threads; ``out`` keeps the files in that folder. What the scenario expects and does
    not hold is a warning and in ``failed``, or with ``check`` an
    :class:`~tiersim.ExpectationError`.
    """
    policies = _policies(policy)
    if instead_of is not None:
        set = {**(set or {}), f"policies.{instead_of}.policy": "Python()"}
    options = _common(set, seed, jobs) + _flags(audit=audit, no_bound_curve=not bound_curve)
    options += _options(uncertainty=uncertainty)
    options += _options(trace=trace.path if isinstance(trace, Trace) else trace)
    options += ["--no-png"]
    return _answer(Result, "run", scenario, options, out, check, progress, policies)


def sweep(
    scenario: Named,
    *,
    policy: Policy | Sequence[Policy] = (),
    instead_of: str | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    audit: bool = False,
    bound_curve: bool = True,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    check: bool = False,
    progress: bool = True,
) -> Result:
    """Simulates every point of a scenario's axes, as ``tiersim sweep`` does; options as of
    :func:`run`."""
    policies = _policies(policy)
    if instead_of is not None:
        set = {**(set or {}), f"policies.{instead_of}.policy": "Python()"}
    options = _common(set, seed, jobs) + _flags(audit=audit, no_bound_curve=not bound_curve)
    options += ["--no-png"]
    return _answer(Result, "sweep", scenario, options, out, check, progress, policies)


def solve(
    scenario: Named,
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    such_that: str | Sequence[str] = (),
    vary: Mapping[str, tuple[float, float] | str | None] | str | Sequence[str] = (),
    fit: bool = False,
    case: str | None = None,
    range: tuple[float, float] | None = None,
    unit: str | None = None,
    whole: bool = False,
    resolution: float | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Solved:
    """Finds the least or largest value of a path for which conditions hold, the best of several
    (``vary``), or the least change with which a scenario fits (``fit``), as ``tiersim solve`` does.

    ``minimize="links.pcie.read"``, ``such_that="slowdown <= 1.05"``; ``range`` is in the unit that
    the value is written in, or in ``unit``; ``vary={"links.pcie.read": (16, 128)}``, or paths
    alone; ``resolution`` is a share of the answer. An answer that is not there is ``None``.
    """
    vary = [vary] if isinstance(vary, str) else vary
    conditions = [such_that] if isinstance(such_that, str) else such_that
    options = _common(set, seed, jobs)
    options += _options(
        minimize=minimize, maximize=maximize, case=case, unit=unit, resolution=resolution
    )
    options += _flags(fit=fit, whole=whole)
    if range is not None:
        options += ["--range", f"{range[0]}..{range[1]}"]
    options += [f"--such-that={condition}" for condition in conditions]
    options += [f"--vary={_varied(path, vary)}" for path in vary]
    return _answer(Solved, "solve", scenario, options, out, False, progress)


def explain(
    scenario: Named,
    *,
    case: str | None = None,
    change: float | None = None,
    switches: bool = False,
    set: Settings | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Explained:
    """Says where the time of a case's step goes, why, and what would change it, as ``tiersim
    explain`` does.

    ``change`` is by how many per cent each number of the machine is changed (1 if it is not said, 0
    for no re-runs); ``switches`` asks what every optimisation of training saves and costs instead.
    """
    options = _common(set, seed, jobs) + _options(case=case, change=change)
    options += _flags(switches=switches)
    return _answer(Explained, "explain", scenario, options, out, False, progress)


def compare(first: Named | Result, second: Named | Result, **options: Any) -> Comparison:
    """Two results side by side; what is a scenario is run first, with the ``options`` of
    :func:`run`."""

    def result(of: Named | Result) -> Result:
        return of if isinstance(of, Result) else run(of, **options)

    return Comparison(result(first), result(second))


def memory(**options: Any) -> Memory:
    """What training or serving a model needs of each GPU and each node, by formula, in bytes.

    Options are those of ``tiersim memory``, with ``_`` for ``-``: ``memory(model="llama-2-7b",
    sequence=2048, batch=1, stage=3, gpus=8)``, ``memory(params="7.5B", gpus=64, stage=3)``. A flag
    is ``True``; a list says an option several times.
    """
    arguments: list[str] = []
    for name, value in options.items():
        arguments += _option(name, value)
    return Memory(_child.run(["memory", *arguments, "--format", "json"]))


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a trace: a folder, a file of the PyTorch profiler, or one that ships, such as
    ``traces/gpt2-train-cpu``."""
    folder = Folder(None)
    arguments = ["trace", "info", os.fspath(path), "--format", "json"]
    said = _child.run([*arguments, "--tables", str(folder.path / "trace")])
    folder.path = folder.path / "trace"
    return Trace(os.fspath(path), said.json(), folder)


def hardware(name: str | None = None) -> Any:
    """Without a name the machines that can be named, a row each; with one that machine in full, a
    :class:`~tiersim.Machine`. Capacities are bytes."""
    if name is None:
        return Table(_child.run(["hardware", "list", "--format", "json"]).json())
    folder = Folder(None)
    arguments = ["hardware", "show", name, "--format", "json", "--out", str(folder.path)]
    said = _child.run(arguments)
    return Machine(said, (folder.path / "machine.svg").read_text(encoding="utf-8"))


def scenarios() -> Table:
    """The scenarios that ship, by name."""
    return Table(_child.run(["scenario", "list", "--format", "json"]).json())


def scenario(name: str | os.PathLike[str]) -> Scenario:
    """The text of a scenario that ships or of a file, to look at and to change."""
    said = _child.run(["scenario", "show", os.fspath(name)])
    return Scenario.from_ron(said.stdout.decode(), Path(name).stem)


def _answer(
    kind: type[_Of],
    verb: str,
    scenario: Named,
    options: list[str],
    out: str | os.PathLike[str] | None,
    check: bool,
    progress: bool,
    policies: Sequence[Policy] = (),
) -> _Of:
    folder = Folder(None if out is None else Path(out))
    # In a folder of its own, which the command makes whole or not at all.
    if out is None:
        folder.path = folder.path / "out"
    arguments = [verb, *_named(scenario), *options, "--format", "json", f"--out={folder.path}"]
    given = scenario.ron if isinstance(scenario, Scenario) else None
    if policies:
        asked = Asked(policies, given)
        arguments += asked.options()
        said = _child.run(arguments, talk=asked.talk, progress=progress)
        said.stdout = asked.printed
    else:
        said = _child.run(arguments, text=given, progress=progress)
    answer = kind(said, folder)
    if answer.failed and check:
        raise ExpectationError(answer.failed, answer)
    # That there is no answer is one.
    for line in answer.failed if kind is Result else ():
        warnings.warn(line, ExpectationWarning, stacklevel=3)
    return answer


def _policies(given: Policy | Sequence[Policy]) -> list[Policy]:
    policies = [given] if isinstance(given, (Policy, type)) else list(given)
    for policy in policies:
        if isinstance(policy, type):
            name = policy.__name__
            raise TypeError(f"policy={name} is a class, and an object decides; write {name}()")
        if not isinstance(policy, Policy):
            raise TypeError(f"{policy!r} is no tiersim.Policy; let its class inherit from that")
    return policies


def _named(scenario: Named) -> list[str]:
    if isinstance(scenario, Scenario):
        file = f"{scenario.name}.ron"
        return [file, "--stdin-filename", file]
    path = os.fspath(scenario)
    # A name that begins with a dash is no option.
    return [path if not path.startswith("-") else os.path.join(".", path)]


def _common(set: Settings | None, seed: int | None, jobs: int | None) -> list[str]:
    options = [f"--set={path}={_value(value)}" for path, value in (set or {}).items()]
    return options + _options(seed=seed, jobs=jobs)


def _value(value: Any) -> str:
    return text(Raw(value) if isinstance(value, str) else value)


def _varied(path: str, vary: Any) -> str:
    ends = vary[path] if isinstance(vary, Mapping) else None
    if ends is None:
        return path
    return f"{path}={ends}" if isinstance(ends, str) else f"{path}={ends[0]}..{ends[1]}"


def _options(**options: Any) -> list[str]:
    return [word for name, value in options.items() for word in _option(name, value)]


def _flags(**flags: bool) -> list[str]:
    return [word for name, value in flags.items() for word in _option(name, value)]


def _option(name: str, value: Any) -> list[str]:
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (list, tuple)):
        return [word for one in value for word in _option(name, one)]
    return [f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]
