"""Tensors whose contents lie elsewhere while nobody uses them.

While away a tensor's ``data`` is the copy in the other tier, so whoever reads it finds its values:
a norm over all gradients, a checkpoint, a print. While here it is memory of the device.
Invariant: ``data`` is at all times the only copy that counts; a weight's other one is made again
from it, or written back to it, before it is looked at.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch


class Tier:
    """Where far tensors lie: the host's memory, pinned beside a CUDA device, or files.

    ``moved`` counts bytes by direction, "in" towards the device and "out" of it.
    """

    def __init__(self, name: str, folder: Path | None) -> None:
        if name == "SSD" and folder is None:
            raise ValueError("tier SSD needs a folder for its files: folder='/mnt/nvme'")
        self.name = name
        self.folder = folder if name == "SSD" else None
        self.moved: Counter[str] = Counter()
        self._files = 0

    def room(self, like: torch.Tensor) -> torch.Tensor:
        """Memory for a tensor of this shape and type, in the same order of elements."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{id(self):x}-{self._files}.tensor"
            self._files += 1
            flat = torch.from_file(str(path), shared=True, size=like.numel(), dtype=like.dtype)
            path.unlink()  # the mapping keeps it, and nothing is left behind
            return flat.as_strided(like.shape, like.stride())
        pinned = like.device.type == "cuda"
        return torch.empty_strided(
            like.shape, like.stride(), dtype=like.dtype, device="cpu", pin_memory=pinned
        )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its storage, so that its memory is free when it goes."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return whole and tensor.storage_offset() == 0 and tensor.numel() > 0


class Far:
    """State of an optimizer, or a gradient: used by nobody who keeps its memory."""

    def __init__(self, tensor: torch.Tensor, tier: Tier, before: Far | None = None) -> None:
        """``before`` was there until now, for another tensor of this shape: its room is taken."""
        self.tensor, self.tier = tensor, tier
        self.bytes = tensor.numel() * tensor.element_size()
        self.device = tensor.device
        self.here = True
        self._copy: torch.Tensor | None = before._copy if before is not None else None
        self._as_written = -1  # version of the tensor that the copy holds

    def leave(self) -> None:
        """Gives the device's memory up; the contents are written only if they have changed."""
        if not self.here:
            return
        if self._copy is None:
            self._copy = self.tier.room(self.tensor.detach())
        if self.tensor._version != self._as_written:
            self._copy.copy_(self.tensor.detach())
            self.tier.moved["out"] += self.bytes
        self.tensor.data = self._copy
        self._given_up()
        self.here = False

    def come(self) -> None:
        """Brings the contents into memory of the device."""
        if self.here:
            return
        self.tensor.data = self._taken().copy_(self.tensor.detach())
        self._as_written = self.tensor._version
        self.tier.moved["in"] += self.bytes
        self.here = True

    def _given_up(self) -> None:
        """Nothing else means the memory."""

    def _taken(self) -> torch.Tensor:
        """Memory on the device."""
        return torch.empty_like(self.tensor.detach(), device=self.device)


class FarWeight(Far):
    """A parameter. Autograd keeps views of its memory from the forward to the backward pass, so
    that memory is emptied and filled again, and never replaced."""

    def __init__(self, parameter: torch.nn.Parameter, tier: Tier) -> None:
        super().__init__(parameter, tier)
        self._near = parameter.data  # with a count of changes of its own

    def _given_up(self) -> None:
        self._near.untyped_storage().resize_(0)

    def _taken(self) -> torch.Tensor:
        self._near.untyped_storage().resize_(self.bytes)
        return self._near
