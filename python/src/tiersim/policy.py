"""Policies as Python classes: what lives where and when it moves, asked op by op.

A policy has no clock. Before each op, in the order of the trace, :meth:`Policy.plan_op` is asked
and takes actions in a :class:`Step`, which shows what is where and what is free with the actions
taken so far. Every object that the op uses must be in HBM after that, or be used in place. The same
ledger as for the policies of tiersim checks each action, and the same planner carries it out.

Objects and tiers are numbers from 0; tier 0 is HBM. Sizes are bytes.
"""

from __future__ import annotations

import json
import operator
import traceback
from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import IO, Any, Callable, Sequence

from ._asked_for import hash_of
from .errors import PolicyError

#: The tier of the device's own memory.
HBM = 0


@dataclass(frozen=True)
class Tier:
    """A tier of the machine. ``capacity`` is what objects can have of it in bytes, ``None`` without
    a limit."""

    name: str
    kind: str
    capacity: int | None


@dataclass(frozen=True)
class Object:
    """Something that takes memory. ``kind`` is weight, gradient, optimizer, master, activation, kv,
    buffer or state; ``persistent`` objects are there before the first op and after the last."""

    name: str
    kind: str
    bytes: int
    persistent: bool
    module: str | None


@dataclass(frozen=True)
class Use:
    """That an op uses an object: ``mode`` is ``r``, ``w`` or ``rw``; ``part`` is how many bytes of
    it are touched, ``None`` for all."""

    object: int
    mode: str
    part: int | None = None

    @property
    def writes(self) -> bool:
        """Whether the contents change."""
        return self.mode != "r"


@dataclass(frozen=True)
class Op:
    """The op that a policy is asked about: its number in the run, the kernel's name, the phase and
    the step of the trace."""

    number: int
    name: str
    phase: str
    step: int


@dataclass(frozen=True)
class Setting:
    """What is known before the first op. ``ops`` is how many the trace has, ``repeat`` how often it
    is replayed."""

    tiers: list[Tier]
    objects: list[Object]
    ops: int
    repeat: int


class Policy:
    """Decides where each object lives and when it moves. Each case of a run has a copy of its own.

    The least that a policy has is :meth:`plan_op` and :meth:`initial_tier`.
    """

    #: How far it looks ahead: ``"past"`` not at all, a number so many ops, ``"oracle"`` all of the
    #: future, which reports mark.
    lookahead: str | int = "past"

    def begin(self, setting: Setting) -> None:
        """What the policy is for, before anything is asked."""

    def initial_tier(self, object: int, step: Step) -> int:
        """Where an object that exists before the first op starts out."""
        raise NotImplementedError

    def plan_op(self, step: Step) -> None:
        """Takes the actions for an op, in the order in which they take effect."""
        raise NotImplementedError

    def allocate_in(self, object: int, step: Step) -> int:
        """Where an object that the next op creates gets its room: in HBM, unless it says
        otherwise."""
        return HBM

    def spill_tier(self, object: int, step: Step) -> int | None:
        """Where an object belongs that has to leave a tier because that is full; ``None`` leaves it
        to whoever asks."""
        return None

    def make_room(self, tier: int, step: Step) -> None:
        """Takes one ``evict`` or ``drop_copy`` of what leaves a tier in which no piece is large
        enough, or nothing: the run is out of memory. Never asked of tiers that are exact."""

    def _held(self) -> Any:
        """What the fingerprint holds of it beside its class."""
        return self


class Step:
    """The state before an op, with the actions that are taken for it."""

    def __init__(self, mirror: _Mirror, op: Op, free: list[int], fits: Callable[..., bool]) -> None:
        self._mirror, self._before, self._fits = mirror, free, fits
        self._changed: dict[int, int] = {}
        self._taken = [0] * len(free)
        self.op = op
        #: The objects of the op.
        self.uses: list[Use] = mirror.ahead[0] if mirror.ahead else []
        #: The actions so far, as they are carried out.
        self.actions: list[list[Any]] = []

    # What it shows.

    @property
    def setting(self) -> Setting:
        """What is known before the first op."""
        return self._mirror.setting

    def ahead(self, ops: int) -> list[Use] | None:
        """The objects of the op so many ops later (0 is this one); ``None`` past the end of the run
        or beyond what ``lookahead`` declares."""
        ahead = self._mirror.ahead
        return ahead[ops] if 0 <= ops < len(ahead) else None

    def bytes(self, object: int) -> int:
        """The size of an object."""
        return self._mirror.setting.objects[object].bytes

    def room_of(self, object: int, tier: int) -> int:
        """What an object takes in a tier: its bytes, or fewer where the tier stores it packed."""
        return self._mirror.packed.get((object, tier), self.bytes(object))

    def is_used(self, object: int) -> bool:
        """Whether the op uses an object."""
        return any(use.object == object for use in self.uses)

    def existed(self, object: int) -> bool:
        """Whether an object existed when the op came: it has been created, and is not freed."""
        return self._mirror.has[object] != 0

    def was_in_hbm(self, object: int) -> bool:
        """Whether HBM held the object's present contents when the op came."""
        return bool(self._mirror.has[object] & 2)

    def holds(self, object: int, tier: int) -> bool:
        """Whether the tier holds the object's present contents."""
        return bool(self._has(object) >> (2 * tier) & 2)

    def in_hbm(self, object: int) -> bool:
        """Whether HBM holds the object's present contents."""
        return self.holds(object, HBM)

    def is_allocated(self, object: int, tier: int) -> bool:
        """Whether the object has room in the tier, be its contents present or stale."""
        return bool(self._has(object) >> (2 * tier) & 1)

    def holders(self, object: int) -> list[int]:
        """The tiers with the object's present contents, nearest first."""
        return [tier for tier in range(len(self._before)) if self.holds(object, tier)]

    def nearest(self, object: int) -> int | None:
        """The nearest tier that holds the object's present contents; ``None`` before its birth."""
        return next(iter(self.holders(object)), None)

    def free(self, tier: int) -> int:
        """Bytes that are free; none where more is taken than there is."""
        return max(0, self._before[tier] - self._taken[tier])

    def has_free(self, tier: int, bytes: int) -> bool:
        """Whether so many more bytes are free, in whatever pieces."""
        return self._taken[tier] + bytes <= self._before[tier]

    def fits(self, tier: int, bytes: int) -> bool:
        """Whether so many more bytes can be allocated in one piece."""
        need = max(0, self._taken[tier] + bytes)
        return need <= self._before[tier] if self._mirror.exact[tier] else self._fits(tier, need)

    def missing(self) -> int:
        """Bytes of HBM that the op needs and has not: of what it fetches and of what it creates."""
        return sum(self.bytes(u.object) for u in self.uses if not self.is_allocated(u.object, HBM))

    # What it takes.

    def fetch(self, object: int, to: int) -> None:
        """Copies an object to a tier for this op."""
        self._take(["fetch", object, to])
        self._set(object, to, 3)

    def fetch_missing(self) -> None:
        """Fetches what the op uses and HBM did not hold when it came, in order."""
        for use in self.uses:
            if self.existed(use.object) and not self.was_in_hbm(use.object):
                self.fetch(use.object, HBM)

    def prefetch(self, object: int, to: int) -> None:
        """Copies an object to a tier for a later op."""
        self._take(["prefetch", object, to])
        self._set(object, to, 3)

    def evict(self, object: int, from_: int, to: int) -> None:
        """Takes an object out of a tier: written back to ``to``, or just given up where that still
        holds its contents."""
        self._take(["evict", object, from_, to])
        if self._is_known(object, from_) and self.holds(object, from_):
            self._set(object, to, 3)
        self._set(object, from_, 0)

    def drop_copy(self, object: int, tier: int) -> None:
        """Gives up one of several copies of an object."""
        self._take(["drop", object, tier])
        self._set(object, tier, 0)

    def use_in_place(self, object: int, *, charge: bool = True) -> None:
        """Lets the op use an object where it is, outside HBM, and delays it by that: the tier's
        set-up, and what it touches at the tier's rate. Where the op creates the object outside
        HBM, ``expect`` says first in which tier.

        With ``charge=False`` it costs what a :meth:`charge` behind it says, or nothing. A case
        that does not pay for every use is marked ``emulated``, and not ranked.
        """
        self._take(["in_place", object])
        used = next((use for use in self.uses if use.object == object), None)
        if used is None or not charge:
            return
        tier = self.nearest(object)
        if tier is None and not _overrides(self._mirror.policy, "allocate_in"):
            return  # It will be in HBM.
        if tier is None:
            raise ValueError(
                f"use_in_place({object}): it is not there before the op creates it; say where with "
                f"expect({object}, tier)"
            )
        if tier != HBM:
            self.charge(tier, self.bytes(object) if used.part is None else used.part)

    def charge(self, tier: int, bytes: int) -> None:
        """Delays the op by an access of so many bytes to a tier."""
        self._take(["charge", tier, bytes])

    def delay(self, ps: int) -> None:
        """Delays the op by so many picoseconds, 10 s at most, a constant of the policy."""
        self._take(["delay", ps])

    def expect(self, object: int, tier: int) -> None:
        """Counts room for what the op creates or fetches in a tier; no action."""
        self._set(object, tier, 3)

    def reserve(self, tier: int, bytes: int) -> None:
        """Counts bytes of a tier as not free; no action."""
        self._taken[tier] += bytes

    def _take(self, action: list[Any]) -> None:
        self.actions.append(action)

    def _is_known(self, object: int, tier: int) -> bool:
        """Whether there are such; if not, the command refuses the action."""
        numbers = [(object, len(self._mirror.has)), (tier, len(self._before))]
        return all(hasattr(one, "__index__") and 0 <= one < most for one, most in numbers)

    def _has(self, object: int) -> int:
        return self._changed.get(object, self._mirror.has[object])

    def _set(self, object: int, tier: int, bits: int) -> None:
        if not self._is_known(object, tier):
            return
        object, tier = operator.index(object), operator.index(tier)
        has = self._has(object)
        before = has >> (2 * tier) & 3
        if bool(before) != bool(bits):
            room = self.room_of(object, tier)
            self._taken[tier] += room if bits else -room
        self._changed[object] = has & ~(3 << (2 * tier)) | bits << (2 * tier)


class _Mirror:
    """A policy with what the command has told it."""

    def __init__(self, policy: Policy, told: dict[str, Any]) -> None:
        self.policy = policy
        self.setting = Setting(
            [Tier(**tier) for tier in told["tiers"]],
            [Object(*fields) for fields in told["objects"]],
            told["ops"],
            told["repeat"],
        )
        #: By object: by tier two bits, room and present contents.
        self.has = [0] * len(self.setting.objects)
        self.ahead: deque[list[Use]] = deque()
        self.op = 0
        self.packed: dict[tuple[int, int], int] = {}
        self.exact: list[bool] = []

    def step(self, told: dict[str, Any], fits: Callable[..., bool]) -> Step:
        for object, has in told["changed"]:
            self.has[object] = has
        if "packed" in told:
            self.packed = {(object, tier): room for object, tier, room in told["packed"]}
            self.exact = told["exact"]
        for _ in range(min(told["op"] - self.op, len(self.ahead))):
            self.ahead.popleft()
        self.op = told["op"]
        self.ahead.extend([Use(*use) for use in uses] for uses in told["ahead"])
        op = Op(told["op"], told["name"], told["phase"], told["step"])
        return Step(self, op, told["free"], fits)


class Asked:
    """Answers what the command asks of policies."""

    def __init__(self, policies: Sequence[Policy], text: str | None) -> None:
        self.policies, self.text = policies, text
        self.names = list(map(_name, policies))
        self.mirrors: dict[int, _Mirror] = {}
        #: What the command printed behind the last question.
        self.printed = b""

    def options(self) -> list[str]:
        """Names of the policies, with what tells one from another of its name."""
        return [f"--stdio-policy={name}" for name in self.names]

    def talk(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Answers until there is no question left. What a policy raises is told to the command,
        which ends, and raised as a :class:`~tiersim.PolicyError`."""

        def tell(answer: Any) -> None:
            stdin.write(json.dumps(answer, default=_plain).encode() + b"\n")
            stdin.flush()

        def fits(tier: int, bytes: int) -> bool:
            tell({"fits": [tier, bytes]})
            return bool(json.loads(stdout.readline())["fits"])

        try:
            if self.text is not None:
                tell(self.text)
            for line in stdout:
                if not line.startswith(b'{"ask":'):
                    self.printed = line + stdout.read()
                    return
                told = json.loads(line)
                try:
                    answer = self._answer(told, fits)
                except Exception as error:
                    tell({"error": traceback.format_exc().rstrip("\n")})
                    stdout.read()
                    name = type(self._of(told)).__name__
                    op = told.get("op") if told["ask"] != "initial" else None
                    raise PolicyError(name, op, error, told.get("name")) from error
                tell(answer)
        except BrokenPipeError:
            pass  # The command has ended, and says why.

    def _of(self, told: dict[str, Any]) -> Policy:
        mirror = self.mirrors.get(told["id"])
        return self.policies[told["number"]] if mirror is None else mirror.policy

    def _answer(self, told: dict[str, Any], fits: Callable[..., bool]) -> Any:
        kind = told["ask"]
        if kind == "begin":
            policy = deepcopy(self.policies[told["number"]])
            mirror = self.mirrors[told["id"]] = _Mirror(policy, told)
            policy.begin(mirror.setting)
            return {
                "lookahead": policy.lookahead,
                "allocates": _overrides(policy, "allocate_in"),
                "spills": _overrides(policy, "spill_tier"),
                "makes_room": _overrides(policy, "make_room"),
            }
        mirror = self.mirrors[told["id"]]
        step = mirror.step(told, fits)
        if kind == "plan":
            mirror.policy.plan_op(step)
            return {"do": step.actions}
        if kind == "room":
            mirror.policy.make_room(told["about"], step)
            return {"do": step.actions[:1]}
        ask = {
            "initial": mirror.policy.initial_tier,
            "allocate": mirror.policy.allocate_in,
            "spill": mirror.policy.spill_tier,
        }[kind]
        # Whether it is one says the command.
        return {"tier": ask(told["about"], step)}


def _overrides(policy: Policy, name: str) -> bool:
    return getattr(type(policy), name) is not getattr(Policy, name)


def _plain(value: Any) -> Any:
    """A number of numpy as one; of what is none its text, which the command refuses."""
    return operator.index(value) if hasattr(value, "__index__") else repr(value)


def _name(policy: Policy) -> str:
    """The class, and a hash of it and of what the policy holds, for the fingerprint."""
    return f"{type(policy).__name__}@{hash_of(policy, policy._held())[:16]}"
