"""Writes large CUDA memory snapshots of many kinds into a folder, to measure the model with.

    python3 stress_snapshots.py FOLDER [NAME...] [--entries N]
    python3 stress_snapshots.py FOLDER --worlds N

Each is cut where a recorder cuts: at the front by its ring buffer, by starting late, at the end
while streams still use blocks. They are not kept: `tiersim allocator FOLDER/NAME.pickle` measures one.
"""

import pickle
import random
import sys
from pathlib import Path

from make_snapshots import MIB, Allocator, OutOfMemory, drive

GIB = 1 << 30


class Collecting(Allocator):
    """With garbage_collection_threshold: garbage_collect_cached_blocks."""

    def __init__(self, *args, threshold=0.0, **more):
        super().__init__(*args, **more)
        self.threshold, self.calls = threshold, {True: 0, False: 0}
        self.clocks = {}

    def get_free_block(self, size, stream, small, pool):
        self.calls[small] += 1
        block = super().get_free_block(size, stream, small, pool)
        if block is None:
            self.collect()
        return block

    def free_completed(self, block):
        super().free_completed(block)
        self.clocks[id(block)] = self.calls[block.small]

    def age(self, block):
        return self.calls[block.small] - self.clocks.get(id(block), 0)

    def collect(self):
        least = int(self.threshold * (self.memory - self.others))
        if self.reserved <= least:
            return
        target, reclaimed = self.reserved - least, 0
        free = [b for b in self.blocks if b.mapped and b.free() and not b.small
                and not b.prev and not b.next and b.segment is None and b.pool == (0, 0)]
        total = sum(self.age(b) for b in free)
        freed = True
        while reclaimed < target and freed and free:
            mean, freed = total / len(free), False
            for b in sorted(free, key=lambda b: (b.stream, b.size, b.ptr)):
                if self.age(b) >= mean:
                    freed = True
                    reclaimed += b.size
                    total -= self.age(b)
                    free.remove(b)
                    self.release(b)

    def snapshot(self, conf=""):
        made = super().snapshot(conf)
        made["allocator_settings"]["garbage_collection_threshold"] = self.threshold
        return made


def transformer(a, seed, entries, layers=24, width=1024, streams=(0,)):
    """Steps of varying length: activations kept for the backward pass, gradients, an optimizer's
    states at the first step, buffers of another stream that are freed late."""
    rng = random.Random(seed)
    params = [a.malloc(size) for _ in range(layers)
              for size in (8 * width * width, 8 * width * width, 4 * width, 4 * width)]
    grads, states, waiting = [], [], []
    while len(a.trace) < entries:
        length = rng.choice([64, 128, 200, 256, 333, 512])
        saved = []
        try:
            for _ in range(layers):
                for width_factor in (1, 3, 1, 4, 4, 1):
                    saved.append(a.malloc(rng.choice([1, 2]) * length * width * width_factor))
                if rng.random() < 0.3:
                    scratch = a.malloc(rng.randrange(1, 16) * MIB + 3)
                    a.free_requested(scratch)
                if len(streams) > 1 and rng.random() < 0.5:
                    block = a.malloc(rng.randrange(1, 30 * MIB), streams[1])
                    a.free_requested(block, True)
                    waiting.append(block)
            for block in reversed(saved):
                if rng.random() < 0.3:
                    grads.append(a.malloc(8 * width * width))
                a.free_requested(block)
                saved.pop()
                while waiting and rng.random() < 0.4:
                    block = waiting.pop(0)
                    if block.pending:
                        a.free_completed(block)
            if not states:
                states = [a.malloc(4 * (b.requested // 2)) for b in params for _ in "mv"]
        except OutOfMemory:
            for block in saved:
                if block.allocated:
                    a.free_requested(block)
        for block in grads:
            a.free_requested(block)
        grads.clear()
        if rng.random() < 0.01:
            a.empty_cache()


def late(a, seed, entries):
    a.recording = False
    drive(a, seed, 3000)
    a.recording = True
    drive(a, seed + 1, entries // 2)


def cases(entries):
    free = dict(max_entries=entries)
    yield "default", lambda: Allocator(80 * GIB), lambda a: transformer(a, 1, entries), ""
    yield ("streams", lambda: Allocator(80 * GIB, versions_pool_id=False),
           lambda a: transformer(a, 2, entries, streams=(0, 0x5577)), "")
    yield ("tight", lambda: Allocator(3 * GIB, others=300 * MIB),
           lambda a: transformer(a, 3, entries, streams=(0, 0x5577)), "")
    yield ("expandable", lambda: Allocator(80 * GIB, expandable=True),
           lambda a: transformer(a, 4, entries, streams=(0, 0x5577)), "expandable_segments:True")
    yield ("expandable-tight", lambda: Allocator(3 * GIB, others=333 * MIB, expandable=True),
           lambda a: transformer(a, 5, entries, streams=(0, 0x5577)), "expandable_segments:True")
    yield ("ring", lambda: Allocator(80 * GIB, max_entries=entries // 7 + 1, versions_pool_id=False),
           lambda a: fill(a, 6, entries), "")
    yield ("ring-tight", lambda: Allocator(3 * GIB, max_entries=entries // 11 + 3),
           lambda a: fill(a, 7, entries), "")
    yield ("ring-expandable", lambda: Allocator(3 * GIB, max_entries=entries // 7 + 1, expandable=True),
           lambda a: fill(a, 8, entries), "expandable_segments:True")
    yield "late", lambda: Allocator(GIB), lambda a: late(a, 9, entries), ""
    yield "late-expandable", lambda: Allocator(GIB, expandable=True), lambda a: late(a, 10, entries), ""
    yield ("captures", lambda: Allocator(8 * GIB, versions_pool_id=False),
           lambda a: drive(a, 11, entries // 2, capture=0.002), "")
    yield ("max-split", lambda: Allocator(GIB, max_split=32 * MIB),
           lambda a: drive(a, 12, entries // 2), "max_split_size_mb:32")
    yield ("divisions", lambda: Allocator(80 * GIB, divisions=[8] * 16),
           lambda a: transformer(a, 13, entries), "roundup_power2_divisions:8")
    yield ("collected", lambda: Collecting(3 * GIB, threshold=0.6),
           lambda a: transformer(a, 14, entries), "garbage_collection_threshold:0.6")
    yield ("random", lambda: Allocator(GIB), lambda a: drive(a, 15, entries // 2), "")


def fill(a, seed, entries):
    """A ring buffer's trace never grows beyond it: as many entries go through it."""
    whole, a.max_entries = a.max_entries, None
    transformer(a, seed, entries, streams=(0, 0x5577))
    del a.trace[:-whole]
    a.max_entries = whole


def world(seed):
    """Settings, memory, lateness and cuts by chance: a name that says them, and the snapshot."""
    rng = random.Random(seed * 7919)
    kind = rng.choice(["plain", "exp", "split", "gc", "cap", "div", "mix"])
    memory, named = rng.choice([200, 400, 600, 1000]) * MIB, rng.random() < 0.5
    more = {"versions_pool_id": named, "others": rng.choice([0, 7, 33]) * MIB,
            "expandable": kind == "exp" or (kind == "cap" and rng.random() < 0.3)}
    if kind == "split":
        more["max_split"] = rng.choice([24, 32, 64]) * MIB
    if kind == "div":
        more["divisions"] = [rng.choice([0, 1, 2, 4, 8])] * 16
    if kind == "gc":
        a = Collecting(memory, threshold=rng.choice([0.3, 0.5, 0.8]), **more)
    else:
        a = Allocator(4 * GIB if kind == "cap" else memory, **more)
    late, cut = rng.random() < 0.3, rng.random() < 0.4
    if late:
        a.recording = False
        drive(a, seed, rng.choice([100, 600]))
        a.recording = True
    for part in range(3):
        drive(a, seed + part * 1000, 400, pending=rng.choice([0, 0.1, 0.5]),
              empty=rng.choice([0, 0.002, 0.02]), capture=0.01 if kind == "cap" else 0)
        a.capturing = None
        pools = sorted({b.pool for b in a.blocks if b.pool != (0, 0)})
        if pools and rng.random() < 0.7:
            a.freeable.add(rng.choice(pools))
        if kind == "mix" and rng.random() < 0.7:
            a.expandable = not a.expandable
    if cut:
        del a.trace[: rng.randrange(len(a.trace) * 3 // 4)]
    words = [f"{seed:04}", kind] + ["late"] * late + ["cut"] * cut + ["unnamed"] * (not named)
    return "-".join(words), a.snapshot()


def main():
    words = sys.argv[1:]
    if "--worlds" in words:
        folder = Path(words[0])
        folder.mkdir(parents=True, exist_ok=True)
        for seed in range(int(words[words.index("--worlds") + 1])):
            name, made = world(seed)
            (folder / f"{name}.pickle").write_bytes(pickle.dumps(made, protocol=2 + seed % 4))
        return
    entries = 20_000
    if "--entries" in words:
        place = words.index("--entries")
        entries = int(words[place + 1])
        del words[place:place + 2]
    folder, names = Path(words[0]), words[1:]
    folder.mkdir(parents=True, exist_ok=True)
    for name, allocator, run, conf in cases(entries):
        if names and name not in names:
            continue
        a = allocator()
        run(a)
        made = a.snapshot(conf)
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(made, protocol=4))
        print(name, len(made["device_traces"][0]), "entries", len(made["segments"]), "segments", flush=True)


if __name__ == "__main__":
    main()
