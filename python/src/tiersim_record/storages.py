"""Follows PyTorch storages from first lookahead to the moment when they are freed.

One storage is one object of the trace: views share it, and it is what an allocator hands out. A
storage is known by its address while it lives; a weak reference tells when it ends, so that the
next storage at the same address is another object. Nothing here keeps a storage alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

NEVER = -1


def is_sharded(kind: type) -> bool:
    """Whether tensors of this type are a rank's part of a larger one, as FSDP2 keeps parameters."""
    return kind.__name__ == "DTensor" and kind.__module__.startswith("torch.distributed")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank has; most tensors are whole."""
    return tensor._local_tensor if is_sharded(type(tensor)) else tensor


@dataclass(slots=True)
class Storage:
    """What is known of one storage."""

    id: int
    bytes: int
    dtype: str
    kind: str = "temporary"  # or weight, gradient, optimizer, master, buffer
    name: str = ""
    owner: str | None = None  # module that owns it, for labelled storages
    counter: bool = False  # a step counter of the optimizer
    before: bool = False  # was there before any recorded op wrote it
    death: int = NEVER  # how many ops had been recorded when it was freed


class Storages:
    """All storages seen so far, in the order of first lookahead."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.all: list[Storage] = []
        self.elsewhere = 0  # tensors on other devices that ops touched
        self.without = 0  # tensors without a storage, such as sparse ones
        self.ops = 0  # how many ops have been recorded
        self.watching = True
        self._live: dict[int, Storage] = {}
        self._refs: dict[int, weakref.ref] = {}

    def of(self, tensor: torch.Tensor, before: bool = False) -> Storage | None:
        """The storage of a tensor; none if it has no memory on the recorded device.

        ``before`` says of one that is new that it is older than the op that shows it.
        """
        try:
            storage = local(tensor).untyped_storage()
        except (NotImplementedError, RuntimeError):
            self.without += 1
            return None
        if storage.device.type != self.device.type or storage.device != self.device:
            self.elsewhere += 1
            return None
        key = storage._cdata
        known = self._live.get(key)
        if known is not None:
            known.bytes = max(known.bytes, storage.nbytes())
            return known
        if storage.nbytes() == 0:
            return None
        new = Storage(len(self.all), storage.nbytes(), str(tensor.dtype).removeprefix("torch."))
        new.before = before
        self.all.append(new)
        self._live[key] = new
        self._refs[new.id] = weakref.ref(storage, lambda _, key=key, new=new: self._freed(key, new))
        return new

    def label(
        self, tensor: torch.Tensor, kind: str, name: str, owner: str | None, before: bool = False
    ) -> Storage | None:
        """Says what a tensor is. The first label of a storage stays: tied tensors count once."""
        storage = self.of(tensor, before)
        if storage is not None and storage.kind == "temporary":
            storage.kind, storage.name, storage.owner = kind, name, owner
        return storage

    def _freed(self, key: int, storage: Storage) -> None:
        """Called by Python when a storage has ended, maybe from a thread of autograd."""
        if self._live.get(key) is storage:
            del self._live[key]
        self._refs.pop(storage.id, None)
        if self.watching:
            storage.death = self.ops

    @contextmanager
    def emptied(self) -> Iterator[None]:
        """Within it storages that are resized to nothing end, as FSDP lets gathered parameters go."""
        resize = torch.UntypedStorage.resize_

        def resize_(storage: torch.UntypedStorage, size: int) -> object:
            known = self._live.get(storage._cdata)
            if size == 0 and known is not None and storage.nbytes() > 0:
                self._freed(storage._cdata, known)
            return resize(storage, size)

        torch.UntypedStorage.resize_ = resize_
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = resize

    def close(self) -> None:
        """What lives now is never freed as far as the trace goes."""
        self.watching = False
        self._refs.clear()
        self._live.clear()


def check_weak_references() -> None:
    """Refuses a PyTorch whose storages cannot be watched, instead of recording wrong lifetimes."""
    tensor = torch.empty(8)
    watch = weakref.ref(tensor.untyped_storage())
    alive = watch() is not None
    del tensor
    if not alive or watch() is not None:
        raise RuntimeError(
            f"PyTorch {torch.__version__} does not keep one Python object per storage, "
            "so the recorder cannot see when memory is freed; use PyTorch 2.4 or newer"
        )
