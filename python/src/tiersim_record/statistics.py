"""What the optimizer knows of each parameter: names of its state, Adam's means, gradient norms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.optim import Optimizer
from torch.utils._pytree import tree_flatten_with_path

from .modules import Parameters
from .storages import local

COUNTER_BYTES = 8


@dataclass(slots=True)
class Statistics:
    """Sums over the parameters of one storage, so that several of them make one figure."""

    elements: int = 0
    sum_m: float = 0.0
    sum_v: float = 0.0
    squares: float = 0.0
    has_gradient: bool = field(default=False)

    @property
    def adam_m(self) -> float | None:
        return self.sum_m / self.elements if self.elements else None

    @property
    def adam_v(self) -> float | None:
        return self.sum_v / self.elements if self.elements else None

    @property
    def grad_norm(self) -> float | None:
        return math.sqrt(self.squares) if self.has_gradient else None

    @property
    def is_known(self) -> bool:
        return self.elements > 0 or self.has_gradient

    def add_state(self, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> None:
        self.elements += exp_avg.numel()
        self.sum_m += exp_avg.detach().abs().sum(dtype=torch.float64).item()
        self.sum_v += exp_avg_sq.detach().sqrt().sum(dtype=torch.float64).item()

    def add_norm(self, norm: float) -> None:
        self.squares += norm * norm
        self.has_gradient = True

    def add(self, other: Statistics) -> None:
        """Another parameter of the same storage."""
        self.elements += other.elements
        self.sum_m += other.sum_m
        self.sum_v += other.sum_v
        self.squares += other.squares
        self.has_gradient |= other.has_gradient


def state_tensors(
    optimizers: Sequence[Optimizer], parameters: Parameters
) -> Iterator[tuple[torch.Tensor, str, str, str | None, bool]]:
    """Tensors of the optimizers' state: tensor, kind, name, owner, whether it is a step counter."""
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            name = parameters.names.get(id(parameter), "parameter")
            for path, leaf in tree_flatten_with_path(state)[0]:
                if not isinstance(leaf, torch.Tensor):
                    continue
                key = ".".join(str(getattr(part, "key", getattr(part, "idx", part))) for part in path)
                counter = key == "step" and leaf.numel() * leaf.element_size() <= COUNTER_BYTES
                kind = "master" if "master" in key else "optimizer"
                owner = parameters.owners.get(id(parameter))
                yield leaf, kind, f"{name}.{key}", owner, counter


def gradient_norms(parameters: Parameters) -> dict[str, torch.Tensor]:
    """The 2-norm of every gradient that there is now, by name of the parameter: tensors, since
    asking for a value would wait for the device in the midst of a step."""
    norms = {}
    for name, parameter in parameters.list:
        gradient = parameter.grad
        if gradient is not None and not gradient.is_sparse:
            norms[name] = local(gradient.detach()).double().norm()
    return norms


def of_parameters(
    optimizers: Sequence[Optimizer], parameters: Parameters, norms: dict[str, torch.Tensor]
) -> dict[str, Statistics]:
    """What is known of every parameter after an optimizer's step, by its name."""
    found = {}
    for name, parameter in parameters.list:
        sums = found[name] = Statistics()
        moments = adam_state(optimizers, parameter)
        if moments is not None:
            sums.add_state(*moments)
        if name in norms:
            sums.add_norm(norms[name].item())
    return found


def adam_state(
    optimizers: Sequence[Optimizer], parameter: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Adam's two moments of a parameter, if an optimizer keeps them."""
    for optimizer in optimizers:
        state = optimizer.state.get(parameter, {})
        first, second = state.get("exp_avg"), state.get("exp_avg_sq")
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
            # A rank knows its own part, and asking for the whole would make all ranks meet.
            return local(first), local(second)
    return None
