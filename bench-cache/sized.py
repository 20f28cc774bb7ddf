"""Misses that libCacheSim counts on traces of sized objects that anybody can draw again.

Prints a table: objects, most bytes of an object, seed, policy, capacity, misses. The traces are drawn
by SplitMix64, which `policies/tests/replacement/sized.rs` draws too, so that no trace is stored. See
README.md; the table is `policies/tests/replacement/sized.csv`.
"""

import os
import struct
import sys
import tempfile

import libcachesim

MASK = (1 << 64) - 1
REQUESTS = 20_000
TRACES = [(1000, 100, 7), (1000, 4096, 11)]
SHARES = [100, 20, 10, 7, 5, 4, 3, 2]
# The names are the package's.
POLICIES = "LRU FIFO LFU Clock ARC SLRU TwoQ LIRS S3FIFO Sieve Belady".split()


class Draw:
    def __init__(self, state):
        self.state = state

    def below(self, most):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % most


def requests(objects, most, seed):
    """Object and bytes of each request; the least of three draws, so that some are wanted more."""
    draw = Draw(seed)
    for _ in range(REQUESTS):
        object = min(draw.below(objects) for _ in range(3))
        yield object, 1 + Draw(object * 977 + seed).below(most)


def write(path, trace):
    following, last = [-1] * len(trace), {}
    for index in reversed(range(len(trace))):
        following[index] = last.get(trace[index][0], -1)
        last[trace[index][0]] = index
    with open(path, "wb") as file:
        for index, (object, bytes) in enumerate(trace):
            file.write(struct.pack("<IQIq", 0, object + 1, bytes, following[index]))


def main():
    print("objects,most_bytes,seed,policy,capacity,misses")
    for objects, most, seed in TRACES:
        trace = list(requests(objects, most, seed))
        total = sum(dict(trace).values())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sized.oracleGeneral.bin")
            write(path, trace)
            for policy in POLICIES:
                for share in SHARES:
                    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
                    reader = libcachesim.TraceReader(path, kind, libcachesim.ReaderInitParam())
                    cache = getattr(libcachesim, policy)(total // share)
                    ratio, _ = cache.process_trace(reader)
                    misses = round(ratio * REQUESTS)
                    print(f"{objects},{most},{seed},{policy},{total // share},{misses}")


if __name__ == "__main__":
    sys.exit(main())
