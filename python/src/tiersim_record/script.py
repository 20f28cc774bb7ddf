"""Records a program that knows nothing of the recorder: it is watched for models, steps, batches.

The model is the outermost module that is called and whose parameters an optimizer has stepped. Its
first call after a step begins the next step, so gradients that are gathered over several calls, and
validation between steps, belong to the step before. Where gradients are off and no optimizer steps,
the model is the first module with parameters that is called, and each of its calls is a step.
Invariant: nothing of the program is changed, and what it prints is its own.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves

from .recorder import Recorder


class NotRecorded(Exception):
    """The program ended, and there is no trace of it."""


class Recorded(BaseException):
    """Everything is recorded, so the program may end. No ``except Exception`` holds it."""


class Watch:
    """Finds model, optimizers and steps in a program that runs, and records it.

    ``settings`` are those of ``Recorder`` that the caller knows better than what is seen.
    """

    def __init__(self, warmup: int, steps: int, go_on: bool, **settings: Any) -> None:
        self.warmup, self.steps, self.go_on = warmup, steps, go_on
        self.settings = settings
        self.recorder: Recorder | None = None
        self._model: nn.Module | None = None
        self._optimizers: list[Optimizer] = []
        self._depth = 0
        self._stepped = False  # an optimizer has, since the model was called
        self._cache: Any = None  # keys and values that the model was given
        self._done = False
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Watch:
        call = nn.Module.__call__

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and not self._done:
                self._called(module, args, kwargs)
            self._depth += 1
            try:
                return call(module, *args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0 and self.recorder is not None and not self._done:
                    self.recorder.key_values(*cached(self._cache))

        # Hooks that all modules share are not told arguments by name.
        nn.Module.__call__ = watched
        self._undo.append(lambda: setattr(nn.Module, "__call__", call))
        self._undo.append(register_optimizer_step_post_hook(self._step).remove)
        return self

    def __exit__(self, kind: Any, value: BaseException | None, _: object) -> None:
        for undo in self._undo:
            undo()
        if self._done:
            return
        ended = kind is None or (isinstance(value, SystemExit) and not value.code)
        if self.recorder is None:
            if ended:
                raise NotRecorded(
                    "no model was seen: a module with parameters that is called twice with its "
                    "optimizer's step between, or under torch.no_grad() where no optimizer steps"
                )
            return
        if not ended:
            self._close(kind)
            return
        if self._stepped or self.recorder.inference:
            self.recorder.step()  # the last step has ended with the program
        done, wanted = self.recorder.done, self.warmup + self.steps
        if done < wanted:
            self._close(NotRecorded)
            raise NotRecorded(
                f"it ended after {done} steps, {wanted} are needed (--warmup and --steps), and in "
                "training one before them that shows the model"
            )
        self._close(None)

    def _called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """The program calls a module that no other one called."""
        if self._model is None:
            if self._is_the_model(module):
                self._model = module
                self._begin(*shape_of(args, kwargs))
        elif module is self._model:
            assert self.recorder is not None
            if self.recorder.inference or (self._stepped and torch.is_grad_enabled()):
                self._next()
        if module is self._model and self.recorder is not None and self.recorder.inference:
            # What transformers has called it, and calls it now.
            self._cache = kwargs.get("past_key_values", kwargs.get("cache"))
            if self._cache is not None:
                self.recorder.begin("prefill" if shape_of(args, kwargs)[1] > 1 else "decode")
                self.recorder.key_values(*cached(self._cache))

    def _is_the_model(self, module: nn.Module) -> bool:
        own = set(module.parameters())
        if not torch.is_grad_enabled():
            return bool(own) and not self._optimizers
        groups = [group for one in self._optimizers for group in one.param_groups]
        return any(parameter in own for group in groups for parameter in group["params"])

    def _begin(self, batch: int, sequence: int) -> None:
        assert self._model is not None
        self._stepped = False
        settings = {"batch": batch, "sequence": sequence} | self.settings
        self.recorder = Recorder(
            self._model, self._optimizers or None, warmup=self.warmup, steps=self.steps, **settings
        )
        self.recorder.__enter__()

    def _step(self, optimizer: Optimizer, *_: Any) -> None:
        self._stepped = True
        if self.recorder is None and not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)

    def _next(self) -> None:
        assert self.recorder is not None
        self._stepped = False
        if not self.recorder.step():
            self._close(None)
            if not self.go_on:
                raise Recorded

    def _close(self, kind: type[BaseException] | None) -> None:
        assert self.recorder is not None
        self._done = True
        self.recorder.__exit__(kind, None, None)


def shape_of(args: Any, kwargs: Any) -> tuple[int, int]:
    """Sequences and tokens of the first tensor that a model is given: its first two dimensions.

    Only whole numbers are tokens; of other tensors the first dimension counts.
    """
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            tokens = leaf.dim() > 1 and not leaf.is_floating_point()
            return leaf.shape[0], leaf.shape[1] if tokens else 1
    return 1, 1


def cached(cache: Any) -> list[torch.Tensor]:
    """Keys and values in a cache of ``transformers``, or in tuples of tensors."""
    layers = getattr(cache, "layers", None)
    if layers is not None:
        cache = [(getattr(one, "keys", None), getattr(one, "values", None)) for one in layers]
    return [leaf for leaf in tree_leaves(cache) if isinstance(leaf, torch.Tensor)]


def run(script: str, arguments: Sequence[str], watch: Watch) -> None:
    """Runs a program as ``python script arguments`` would, watched."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with watch:
            runpy.run_path(script, run_name="__main__")
    except Recorded:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
