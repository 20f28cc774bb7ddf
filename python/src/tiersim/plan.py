"""A plan that ``tiersim to plan`` wrote, followed op by op."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from .policy import HBM, Policy, Setting, Step

#: The form of the file that is read.
SCHEMA = 1


class Plan(Policy):
    """Decides what the plan says: of the replay that the op is in, or the last before it that is
    written. A run of the same trace on the same machine with the same memory is then the run that
    the plan was written of.

    >>> label = "clairvoyant 70 %"  # tiersim to plan policy-contest --case 'clairvoyant 70 %' > plan.json
    >>> tiersim.run("policy-contest", policy=tiersim.Plan("plan.json"), instead_of=label)
    """

    def __init__(self, file: str | PathLike[str]) -> None:
        self._file = str(file)
        self._plan: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
        if self._plan.get("schema") != SCHEMA:
            raise ValueError(f"{file}: no plan of schema {SCHEMA}, as `tiersim to plan` writes it")
        # What it decides, its policy has decided with so much in sight.
        self.lookahead = self._plan["lookahead"]

    def begin(self, setting: Setting) -> None:
        plan = self._plan
        tiers = [tier.name for tier in setting.tiers]
        if (plan["ops"], plan["tiers"]) != (setting.ops, tiers):
            raise ValueError(
                f"{self._file}: a plan of {plan['ops']} ops over {', '.join(plan['tiers'])},"
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
