"""Which module an op works for.

Forward: the innermost module that is running. Backward: the autograd node that is running was made
by a forward op and has that op's sequence number, so the op belongs to the forward op's module; a
node that adds up a gradient belongs to the owner of the parameter. Optimizer: the owner of the
parameters, gradients or optimizer state that the op writes, else of those that it reads. The rest
is worked out in ``tables``, when all labels are known.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

UNKNOWN = "\0unknown"  # not a module, and not the model itself either


class Parameters:
    """Names and owners of a model's parameters; a tied parameter has its first name and owner."""

    def __init__(self, model: nn.Module) -> None:
        self.names: dict[int, str] = {}
        self.owners: dict[int, str | None] = {}
        self.list: list[tuple[str, nn.Parameter]] = list(model.named_parameters())
        for name, parameter in self.list:
            self.names[id(parameter)] = name
            self.owners[id(parameter)] = name.rpartition(".")[0] or None

    def owner(self, parameter: torch.Tensor) -> str | None:
        return self.owners.get(id(parameter))


class ModuleTracker:
    """Keeps the stack of running modules and the module of each autograd node."""

    def __init__(self, model: nn.Module, parameters: Parameters) -> None:
        self._names = {module: name or None for name, module in model.named_modules()}
        self._model = model
        self._parameters = parameters
        self._stack: list[str | None] = []
        self._nodes: dict[int, str | None] = {}
        self._hooks: list[Any] = []
        self._thread = threading.get_ident()
        self.in_forward = False  # the model has run and its backward pass has not begun

    def __enter__(self) -> ModuleTracker:
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._stack.clear()

    def _enter(self, module: nn.Module, _inputs: Any) -> None:
        if module in self._names:
            self._stack.append(self._names[module])
            self.in_forward = True

    def _leave(self, module: nn.Module, _inputs: Any, _outputs: Any) -> None:
        if module in self._names and self._stack:
            self._stack.pop()

    def new_step(self) -> None:
        self.in_forward = False
        self._stack.clear()
        self._nodes.clear()

    @property
    def running(self) -> bool:
        return bool(self._stack)

    def forward(self) -> str | None:
        """The module of an op outside the backward pass; remembers the autograd node made for it.

        Autograd makes the node before the op, so the node's number is the last one given away.
        """
        module = self._stack[-1] if self._stack else None
        # Numbers are counted per thread, and the nodes of other threads cannot be told apart.
        if threading.get_ident() == self._thread:
            self._nodes.setdefault(torch.autograd._get_sequence_nr() - 1, module)
        return module

    def backward(self) -> str | None:
        """The module of an op of the backward pass, or UNKNOWN."""
        if self._stack:  # a checkpoint computes its forward ops again
            return self.forward()
        node = torch._C._current_autograd_node()
        if node is None:
            return UNKNOWN
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self._parameters.owners.get(id(variable), UNKNOWN)
        return self._nodes.get(node._sequence_nr(), UNKNOWN)
