"""Tries a simulated placement in the user's own run: modules lie where hints say.

A module outside HBM is brought for its forward pass, for its backward pass and for its update, and
gives its memory up after each; its gradients and its optimizer state come for the update alone, one
module after the other. Numbers do not change: the loss is the same to the last bit.

Copies are made when they are needed, in the order of the program, and nothing is fetched ahead: it
is ``Hints(access: migrate(prefetch_ops: 0))`` of a scenario.
Invariant: a module that runs has its weights on the device, and after a step none of what hints
place elsewhere is there.
"""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from .far import Far, FarWeight, Tier, is_dense
from .hints import Matching, read
from .modules import Parameters

KINDS = ("weight", "gradient", "optimizer", "activation")


def apply(
    model: nn.Module,
    hints: str | Path | Mapping[str, str],
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    *,
    kinds: Iterable[str] = ("weight", "gradient", "optimizer"),
    folder: str | Path | None = None,
) -> Placed:
    """Places a model's modules as ``hints`` say, from now until ``remove()`` of what is returned.

    ``hints`` is a ``tier_hints.json`` or a dict of module and tier: ``HBM`` stays on the device,
    ``CPU`` and ``CXL`` are memory of the host, ``SSD`` is files in ``folder``. ``kinds`` of a
    module's tensors follow; ``activation`` are those that its forward pass keeps for the backward
    pass. Raises ``ValueError`` where no hint fits a module, or a tier or kind is not known.
    """
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer or ())
    place = None if folder is None else Path(folder)
    return Placed(model, read(hints), optimizers, set(kinds), place)


class Module:
    """What one module has elsewhere."""

    def __init__(self, name: str, tier: Tier) -> None:
        self.name, self.tier = name, tier
        self.parameters: list[nn.Parameter] = []
        self.weights: dict[nn.Parameter, FarWeight] = {}
        self.gradients: dict[nn.Parameter, Far] = {}
        self.states: dict[int, Far] = {}  # by identity of the tensor, which the optimizer keeps
        self.awaited: set[nn.Parameter] = set()  # whose gradients this backward pass still owes

    def come(self) -> None:
        for weight in self.weights.values():
            weight.come()

    def gradients_come(self) -> None:
        """Those that there are; one that was dropped is nobody's any more."""
        for parameter, gradient in self.gradients.items():
            if gradient.tensor is parameter.grad:
                gradient.come()

    def leave(self) -> None:
        for weight in self.weights.values():
            weight.leave()


class Placed:
    """A model under hints; ``moved`` says what has been copied so far."""

    def __init__(
        self,
        model: nn.Module,
        hints: Mapping[str, str],
        optimizers: list[Optimizer],
        kinds: set[str],
        folder: Path | None,
    ) -> None:
        if not kinds <= set(KINDS):
            unknown = ", ".join(sorted(kinds - set(KINDS)))
            raise ValueError(f"kinds of tensors are {', '.join(KINDS)}, and not {unknown}")
        self._model, self._kinds, self._optimizers = model, kinds, optimizers
        self._undo: list[Callable[[], None]] = []
        self._by_parameter: dict[nn.Parameter, Module] = {}
        self._ends = False  # the end of this backward pass is waited for
        self.left: list[str] = []  # parameters that cannot move: views of memory that others share
        tiers = {name: Tier(name, folder) for name in sorted(set(hints.values()) - {"HBM"})}
        self.tiers = tiers
        # Their memory on the device: a far weight comes back to the same.
        self._weights = frozenset(p.untyped_storage()._cdata for p in model.parameters())
        self._place(Matching(hints), tiers)
        for module in model.modules():
            self._watch(module)
        for parameter in self._by_parameter:
            if parameter.requires_grad:
                hook = parameter.register_post_accumulate_grad_hook(self._accumulated)
                self._undo.append(hook.remove)
        for one in optimizers:
            self._replace_step(one)
        self._all_leave()

    @property
    def moved(self) -> dict[str, Counter[str]]:
        """Bytes copied so far, by tier: "in" towards the device, "out" of it."""
        return {name: tier.moved for name, tier in self.tiers.items()}

    @property
    def here(self) -> int:
        """Bytes of weights, gradients and state that belong elsewhere and are on the device now."""
        return sum(one.bytes for one in self._tensors() if one.here)

    @contextmanager
    def near(self) -> Iterator[None]:
        """Everything is on the device within: for what looks at many modules at once."""
        for one in list(self._tensors()):
            one.come()
        try:
            yield
        finally:
            self._all_leave()

    def remove(self) -> None:
        """Brings everything back and leaves the model as it was."""
        for one in list(self._tensors()):
            one.come()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self._by_parameter.clear()

    def _modules(self) -> list[Module]:
        return list(dict.fromkeys(self._by_parameter.values()))

    def _tensors(self) -> Iterator[Far | FarWeight]:
        for module in self._modules():
            yield from module.weights.values()
            yield from module.gradients.values()
            yield from module.states.values()

    def _place(self, matching: Matching, tiers: Mapping[str, Tier]) -> None:
        """Each parameter goes with the module that owns it; a tied one with the first."""
        parameters = Parameters(self._model)
        modules: dict[str, Module] = {}
        fits = False
        for name, parameter in parameters.list:
            owner = parameters.owner(parameter) or ""
            tier = matching.tier(owner)
            fits |= tier is not None
            if tier is None or tier == "HBM":
                continue
            if not is_dense(parameter.detach()):
                self.left.append(name)
                continue
            module = modules.setdefault(owner, Module(owner, tiers[tier]))
            module.parameters.append(parameter)
            self._by_parameter[parameter] = module
            if "weight" in self._kinds:
                module.weights[parameter] = FarWeight(parameter, module.tier)
        if not fits:
            raise ValueError("no hint fits a module of this model; are they of another one?")
        self.unused = sorted(matching.unused)

    def _watch(self, module: nn.Module) -> None:
        """Hooks of a module that uses parameters which lie elsewhere."""
        own = [p for p in module._parameters.values() if p is not None and p in self._by_parameter]
        if not own:
            return
        placed = list(dict.fromkeys(self._by_parameter[parameter] for parameter in own))
        keeping: list[Any] = []

        def before(*_: Any) -> None:
            for one in placed:
                one.come()
            if "activation" in self._kinds:
                keeping.append(_keep_in(placed[0].tier, self._weights))
                keeping[-1].__enter__()

        def after(_module: nn.Module, _inputs: Any, outputs: Any) -> None:
            if keeping:
                keeping.pop().__exit__(None, None, None)
            for one in placed:
                # A checkpoint computes it again in the midst of its backward pass.
                if not one.awaited:
                    one.leave()
            leaves = (leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor))
            seen = [leaf for leaf in leaves if leaf.requires_grad]
            if seen:
                register_multi_grad_hook(seen, lambda _: self._backward(placed), mode="any")

        self._undo.append(module.register_forward_pre_hook(before).remove)
        self._undo.append(module.register_forward_hook(after, always_call=True).remove)

    def _backward(self, placed: list[Module]) -> None:
        """The backward pass reaches a module."""
        for one in placed:
            one.come()
            one.awaited = {parameter for parameter in one.parameters if parameter.requires_grad}
            one.gradients_come()
        if not self._ends:
            self._ends = True
            torch.autograd.Variable._execution_engine.queue_callback(self._backward_ended)

    def _backward_ended(self) -> None:
        self._ends = False
        for module in self._modules():
            module.awaited.clear()
        self._all_leave()

    def _accumulated(self, parameter: torch.Tensor) -> None:
        """A gradient is whole; when all of a module's are, nobody needs its weights."""
        module = self._by_parameter[parameter]
        self._gradient(module, parameter)
        module.awaited.discard(parameter)
        if not module.awaited:
            module.leave()

    def _gradient(self, module: Module, parameter: torch.Tensor) -> None:
        """The gradient that a parameter has now goes, if there is one."""
        if "gradient" not in self._kinds:
            return
        known, gradient = module.gradients.get(parameter), parameter.grad
        if gradient is not None and is_dense(gradient):
            if known is None or known.tensor is not gradient:  # dropped and made anew
                known = module.gradients[parameter] = Far(gradient, module.tier, known)
            known.leave()

    def _all_leave(self) -> None:
        for module in self._modules():
            module.leave()
            for parameter in module.parameters:
                self._gradient(module, parameter)
            for state in module.states.values():
                state.leave()

    def _replace_step(self, optimizer: Optimizer) -> None:
        """An update goes module by module: one module's state at a time is on the device."""
        step, before = optimizer.step, optimizer.__dict__.get("step")
        placed = self

        # What schedulers of the learning rate have noted at it stays there.
        @functools.wraps(step)
        def by_module(_self: Optimizer, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            placed._step(optimizer, lambda: step(*args, **kwargs))
            return loss

        optimizer.step = types.MethodType(by_module, optimizer)


        def undo() -> None:
            del optimizer.step
            if before is not None:
                optimizer.step = before

        self._undo.append(undo)

    def _step(self, optimizer: Optimizer, step: Callable[[], Any]) -> None:
        """Steps the optimizer with the parameters of one module after the other."""
        groups = [(group, group["params"]) for group in optimizer.param_groups]
        # What each module has in each group; one pass, as a model has thousands of both.
        shares: dict[Module | None, list[list[nn.Parameter]]] = {}
        for index, (_, every) in enumerate(groups):
            for parameter in every:
                module = self._by_parameter.get(parameter)
                shares.setdefault(module, [[] for _ in groups])[index].append(parameter)

        def only(module: Module | None) -> None:
            share = shares.get(module, [])
            for (group, _), parameters in zip(groups, share):
                group["params"] = parameters
            if any(parameter.grad is not None for part in share for parameter in part):
                step()

        try:
            only(None)
            for module in self._modules():
                if any(parameter.grad is not None for parameter in module.parameters):
                    module.come()
                    module.gradients_come()
                    for state in module.states.values():
                        state.come()
                    only(module)
                    self._updated(module, optimizer)
        finally:
            for group, every in groups:
                group["params"] = every

    def _updated(self, module: Module, optimizer: Optimizer) -> None:
        module.leave()
        for gradient in module.gradients.values():
            gradient.leave()
        for parameter in module.parameters if "optimizer" in self._kinds else ():
            for leaf in tree_leaves(optimizer.state.get(parameter, {})):
                # A step counter is one number, and may lie on the host anyhow.
                moves = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and is_dense(leaf)
                if moves and id(leaf) not in module.states:
                    module.states[id(leaf)] = Far(leaf, module.tier)
        for state in module.states.values():
            state.leave()


def _keep_in(tier: Tier, weights: frozenset[int]) -> saved_tensors_hooks:
    """What a forward pass keeps for the backward pass lies in the tier between them; ``weights``
    are storages that their own modules keep."""

    def pack(tensor: torch.Tensor) -> Any:
        if tensor.untyped_storage()._cdata in weights or not is_dense(tensor):
            return tensor
        there = tier.room(tensor).copy_(tensor.detach())
        tier.moved["out"] += tensor.numel() * tensor.element_size()
        return there, tensor.device

    def unpack(kept: Any) -> torch.Tensor:
        if isinstance(kept, torch.Tensor):
            return kept
        there, device = kept
        tier.moved["in"] += there.numel() * there.element_size()
        return torch.empty_like(there, device=device).copy_(there)

    return saved_tensors_hooks(pack, unpack)
