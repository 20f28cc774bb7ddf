"""Takes the time of single ops: CPU time of the thread, CUDA events, or none on the meta device.

Clocks hand out an opaque mark before and after an op; marks become nanoseconds only when
recording has ended, because asking a CUDA event for its time while the program runs would wait
for the device after every op.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

Mark = Any


class Clock(Protocol):
    """What the recorder asks of a clock."""

    @property
    def what(self) -> str: ...

    def mark(self) -> Mark: ...

    def begin(self) -> Mark: ...

    def end(self, begin: Mark) -> Mark: ...

    def stream(self) -> int: ...

    def finish(self) -> None: ...

    def span_ns(self, begin: Mark, end: Mark) -> int | None: ...

    def at_ns(self, first: Mark, mark: Mark) -> int | None: ...


class CpuClock:
    """Thread CPU time for durations, wall time for starts; there is one stream.

    CPU time leaves out what other processes take from the core. It holds the calling thread's
    share only, so it is the whole op only if PyTorch computes with one thread.
    """

    what = "CPU time of the recording thread"

    def mark(self) -> tuple[int, int]:
        return time.perf_counter_ns(), time.thread_time_ns()

    def begin(self) -> tuple[int, int]:
        return self.mark()

    def end(self, begin: Mark) -> tuple[int, int]:
        return self.mark()

    def stream(self) -> int:
        return 0

    def finish(self) -> None:
        """Nothing is outstanding on a CPU."""

    def span_ns(self, begin: Mark, end: Mark) -> int:
        return max(0, end[1] - begin[1])

    def at_ns(self, first: Mark, mark: Mark) -> int:
        return max(0, mark[0] - first[0])


class CudaClock:
    """A pair of CUDA events around every op, on the stream that is current when it is issued.

    A recorded program issues its ops more slowly than the device does them, and a device that waits
    for the host between the two events would be timed waiting. So it is kept busy before the first
    event for longer than the host takes to issue the op and the second one. Where that was not long
    enough the op is counted as late: its time holds its launch.
    """

    # About 0.25 ms at 2 GHz; issuing an op from Python takes 10 to 100 us.
    SPIN_CYCLES = 500_000

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: dict[int, int] = {torch.cuda.default_stream(device).cuda_stream: 0}
        self.timed = 0
        self.late = 0

    @property
    def what(self) -> str:
        return (
            "time between two CUDA events around the op, issued while the device was kept busy "
            f"({self.late} of {self.timed} ops were issued too late and may hold their launch)"
        )

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def begin(self) -> torch.cuda.Event:
        with torch.cuda.device(self.device):
            torch.cuda._sleep(self.SPIN_CYCLES)
        return self.mark()

    def end(self, begin: Mark) -> torch.cuda.Event:
        event = self.mark()
        self.timed += 1
        self.late += begin.query()  # the device was past the spin before all was issued
        return event

    def stream(self) -> int:
        """Streams in the order of their first op; the default stream is 0."""
        handle = torch.cuda.current_stream(self.device).cuda_stream
        return self.streams.setdefault(handle, len(self.streams))

    def finish(self) -> None:
        torch.cuda.synchronize(self.device)

    def span_ns(self, begin: Mark, end: Mark) -> int:
        return max(0, round(begin.elapsed_time(end) * 1e6))

    def at_ns(self, first: Mark, mark: Mark) -> int:
        return max(0, round(first.elapsed_time(mark) * 1e6))


class NoClock:
    """The meta device computes nothing, so no op has a time; the trace leaves them empty."""

    what = "not known: the meta device computes nothing"

    def mark(self) -> None:
        return None

    def begin(self) -> None:
        return None

    def end(self, begin: Mark) -> None:
        return None

    def stream(self) -> int:
        return 0

    def finish(self) -> None:
        """Nothing is outstanding."""

    def span_ns(self, begin: Mark, end: Mark) -> None:
        return None

    def at_ns(self, first: Mark, mark: Mark) -> None:
        return None


def clock_for(device: torch.device) -> Clock:
    """The clock of a device; refuses devices that nobody has thought about."""
    if device.type == "cpu":
        return CpuClock()
    if device.type == "cuda":
        return CudaClock(device)
    if device.type == "meta":
        return NoClock()
    raise ValueError(f"a model on {device.type!r} cannot be recorded, only on cpu, cuda or meta")
