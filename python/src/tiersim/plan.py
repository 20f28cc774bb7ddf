"""A plan that ``tiersim to plan`` wrote, followed op by op."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import Diagnostic, Error
from .policy import HBM, Policy, Setting, Step

#: The form of the file that is read.
SCHEMA = 1
#: How many numbers each action has.
_NUMBERS = {
    **{"fetch": 2, "prefetch": 2, "evict": 3, "drop": 2},
    **{"in_place": 1, "charge": 2, "delay": 1},
}


class Plan(Policy):
    """Decides what the plan says: of the replay that the op is in, or the last before it that is
    written. A run of the same trace on the same machine with the same memory is then the run that
    the plan was written of.

    >>> label = "clairvoyant 70 %"  # tiersim to plan policy-contest --case 'clairvoyant 70 %' > plan.json
    >>> tiersim.run("policy-contest", policy=tiersim.Plan("plan.json"), instead_of=label)
    """

    def __init__(self, file: str | PathLike[str]) -> None:
        self._file = str(file)
        self._plan = self._read(Path(file).read_bytes())
        # What it decides, its policy has decided with so much in sight.
        self.lookahead = self._plan["lookahead"]

    def _held(self) -> Any:
        # Wherever it lies.
        return self._plan

    def _read(self, data: bytes) -> dict[str, Any]:
        try:
            plan = json.loads(data)
        except ValueError as error:
            raise self._wrong("a plan is one JSON object", str(error)) from None
        if not isinstance(plan, dict) or plan.get("schema") != SCHEMA:
            found = plan.get("schema") if isinstance(plan, dict) else type(plan).__name__
            raise self._wrong(f"a plan has schema {SCHEMA}", f"{found!r}")
        shapes = {"lookahead": (str, int), "ops": int, "tiers": list, "objects": dict}
        for key, shape in {**shapes, "start": list, "replays": list}.items():
            if not isinstance(plan.get(key), shape):
                raise self._wrong(f"`{key}` of a plan is {_called(shape)}", _shown(plan.get(key)))
        for number, named in plan["objects"].items():
            if not (number.isdecimal() and _has(named, name=str, bytes=int)):
                raise self._wrong("an object has a number, `name` and `bytes`", _shown(named))
        if not all(_are_numbers(pair, 2) for pair in plan["start"]):
            raise self._wrong("`start` has pairs of object and tier", _shown(plan["start"]))
        replays = plan["replays"]
        if not all(_has(replay, **{"from": int}, ops=list) for replay in replays):
            raise self._wrong("a replay has `from` and `ops`", _shown(replays))
        if not replays or replays[0]["from"] != 0:
            raise self._wrong("the first replay of a plan is from 0", _shown(replays))
        for op in (op for replay in replays for op in replay["ops"]):
            if not (_has(op, op=int, do=list, born=list) and _is_done(op)):
                raise self._wrong("an op has `op`, actions in `do` and pairs in `born`", _shown(op))
        return plan

    def _wrong(self, rule: str, found: str) -> Error:
        remedy = "write it again with `tiersim to plan`"
        message = f"{self._file}: {rule} (found {found}); {remedy}"
        problem = Diagnostic(message, self._file, rule=rule, found=found, remedy=remedy)
        return Error([problem])

    def begin(self, setting: Setting) -> None:
        plan = self._plan
        tiers = [tier.name for tier in setting.tiers]
        if (plan["ops"], plan["tiers"]) != (setting.ops, tiers):
            known = ", ".join(map(str, plan["tiers"]))
            raise ValueError(
                f"{self._file}: a plan of {plan['ops']} ops over {known},"
                f" and not of {setting.ops} over {', '.join(tiers)}"
            )
        for number, named in plan["objects"].items():
            found = setting.objects[int(number)] if int(number) < len(setting.objects) else None
            if found is None or (found.name, found.bytes) != (named["name"], named["bytes"]):
                raise ValueError(f"{self._file}: object {number} is not {named['name']} in this trace")
        self._ops = setting.ops
        self._start = dict(plan["start"])
        self._replays = [
            (replay["from"], {op["op"]: op for op in replay["ops"]}) for replay in plan["replays"]
        ]

    def _noted(self, step: Step) -> dict[str, Any]:
        """What is written of the op."""
        replay, op = divmod(step.op.number, self._ops)
        ops = next(ops for first, ops in reversed(self._replays) if first <= replay)
        return ops.get(op, {"do": [], "born": []})

    def initial_tier(self, object: int, step: Step) -> int:
        return self._start.get(object, HBM)

    def allocate_in(self, object: int, step: Step) -> int:
        return dict(self._noted(step)["born"]).get(object, HBM)

    def plan_op(self, step: Step) -> None:
        take = {
            "fetch": step.fetch,
            "prefetch": step.prefetch,
            "evict": step.evict,
            "drop": step.drop_copy,
            # What it costs is written behind it.
            "in_place": lambda object: step.use_in_place(object, charge=False),
            "charge": step.charge,
            "delay": step.delay,
        }
        for what, *which in self._noted(step)["do"]:
            take[what](*which)


def _has(value: Any, **shapes: type) -> bool:
    """Whether a dict has all of these, each of its type."""
    return isinstance(value, dict) and all(
        isinstance(value.get(key), shape) for key, shape in shapes.items()
    )


def _are_numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(number, int) and number >= 0 for number in value)
    )


def _is_done(op: dict[str, Any]) -> bool:
    def known(action: Any) -> bool:
        numbers = _NUMBERS.get(str(action[0])) if isinstance(action, list) and action else None
        return numbers is not None and _are_numbers(action[1:], numbers)

    return all(map(known, op["do"])) and all(_are_numbers(pair, 2) for pair in op["born"])


def _called(shape: type | tuple[type, ...]) -> str:
    shapes = shape if isinstance(shape, tuple) else (shape,)
    names = {int: "a whole number", str: "a text", list: "a list", dict: "an object"}
    return " or ".join(names[one] for one in shapes)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
