"""A CUDA memory snapshot of the recorded program: every request to PyTorch's caching allocator.

Entries begin when the recorder is entered, after the model is made: what is there by then is in
the snapshot without its requests, and ``tiersim allocator`` starts from it.
"""

from __future__ import annotations

from pathlib import Path

import torch

ENTRIES = 1_000_000


class MemorySnapshot:
    """Records from ``start`` to ``stop``, which writes the file; ``cancel`` writes nothing."""

    def __init__(self, out: str | Path, device: torch.device) -> None:
        if device.type != "cuda":
            raise ValueError(f"snapshot: only a CUDA device's allocator has one, not {device}")
        self.out = Path(out)
        if self.out.exists():
            raise ValueError(f"snapshot: {self.out} exists; give another path or remove it")
        self.on = False

    def start(self) -> None:
        # Stacks make a file some ten times as large, and nothing here reads them.
        torch.cuda.memory._record_memory_history(context=None, max_entries=ENTRIES)
        self.on = True

    def stop(self) -> None:
        if not self.on:
            return
        partial = self.out.with_name(self.out.name + ".partial")
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(str(partial))
            partial.replace(self.out)
        finally:
            self.cancel()

    def cancel(self) -> None:
        if self.on:
            torch.cuda.memory._record_memory_history(enabled=None)
            self.on = False
