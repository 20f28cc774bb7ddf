"""Writes the CUDA memory snapshots of tests/data/snapshots.

No GPU and no PyTorch is needed: this is a plain second implementation of DeviceCachingAllocator
(c10/cuda/CUDACachingAllocator.cpp), written from its source and not from the Rust model. Lists are
searched in full instead of kept in order, so that a mistake here and one there are not alike. It
writes what THCPModule_memorySnapshot writes: segments, device_traces and allocator_settings.

    python3 make_snapshots.py [--check]

Without arguments all files are written; with --check they are compared with what is there.
"""

import gzip
import json
import pickle
import random
import sys
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
NONE = (1 << 64) - 1


class OutOfMemory(Exception):
    pass


class Block:
    def __init__(self, ptr, size, stream, small, pool, segment, mapped=True):
        self.ptr, self.size, self.stream, self.small, self.pool = ptr, size, stream, small, pool
        self.segment, self.mapped = segment, mapped
        self.prev = self.next = None
        self.allocated, self.pending, self.requested = False, False, 0

    def free(self):
        return not self.allocated and not self.pending


class Segment:
    """An expandable segment's reservation; None stands for a plain cudaMalloc."""

    def __init__(self, base, size, handle):
        self.base, self.size, self.handle = base, size, handle


class Allocator:
    def __init__(self, device_memory, others=0, expandable=False, max_split=None, divisions=(),
                 max_entries=None, versions_pool_id=True):
        self.memory, self.others = device_memory, others
        self.expandable, self.max_split = expandable, max_split
        self.divisions = list(divisions) or [0] * 16
        self.blocks = []  # every block, in use or not, mapped or not
        self.trace, self.max_entries = [], max_entries
        self.says_pool = versions_pool_id
        self.recording = True
        self.reserved = 0
        self.next_address = 0x7F0000000000
        self.holes = []
        self.clock = 1_700_000_000_000_000
        self.capturing = None
        self.freeable = set()

    def record(self, action, addr, size, stream, pool):
        if not self.recording:
            return
        self.clock += 7
        entry = {"action": action, "device_free" if action == "oom" else "addr": addr,
                 "size": size, "stream": stream, "time_us": self.clock,
                 "compile_context": "N/A", "user_metadata": ""}
        if self.says_pool:
            entry["pool_id"] = pool
        entry["frames"] = FRAMES
        self.trace.append(entry)
        if self.max_entries and len(self.trace) > self.max_entries:
            del self.trace[0]

    # The driver: 2 MiB pages; freed addresses are used again, the latest first, so that addresses
    # do not rise with time.
    def driver_take(self, size):
        for i in range(len(self.holes) - 1, -1, -1):
            at, room = self.holes[i]
            if room == size:
                del self.holes[i]
                return at
        at = self.next_address
        self.next_address += -(-size // (2 * MIB)) * 2 * MIB
        return at

    def round_size(self, size):
        if size < 512:
            return 512
        log = size.bit_length() - 1
        divisions = self.divisions[min(max(log - 20, 0), 15)]
        if divisions > 1 and size > 512 * divisions:
            if size & (size - 1) == 0:
                return size
            floor = 1 << log
            step = floor >> (divisions.bit_length() - 1)
            if step == 0:
                return floor << 1
            low = size & ~(step - 1)
            return size if low == size else low + step
        return 512 * ((size + 511) // 512)

    @staticmethod
    def allocation_size(size):
        if size <= MIB:
            return 2 * MIB
        if size < 10 * MIB:
            return 20 * MIB
        return 2 * MIB * ((size + 2 * MIB - 1) // (2 * MIB))

    def pool_blocks(self, stream, small, pool):
        found = [b for b in self.blocks if b.mapped and b.free() and b.stream == stream
                 and b.small == small and b.pool == pool]
        return sorted(found, key=lambda b: (b.size, b.ptr))

    def get_free_block(self, size, stream, small, pool):
        fits = [b for b in self.pool_blocks(stream, small, pool) if b.size >= size]
        if not fits:
            return None
        i = 0
        if fits[0].segment is not None and not self.expandable:
            fits = [b for b in fits if b.segment is None]
            if not fits:
                return None
        if fits[0].segment is not None:
            def reach(b):
                return b.size + (b.next.size if b.next and not b.next.mapped else 0)
            while i + 1 < len(fits) and reach(fits[i + 1]) < reach(fits[i]):
                i += 1
        limit = self.max_split if self.max_split else NONE
        block = fits[i]
        if size < limit and block.size >= limit:
            return None
        if size >= limit and block.size >= size + 20 * MIB:
            return None
        return block

    def malloc(self, requested, stream=0):
        size = self.round_size(requested)
        small, pool = size <= MIB, self.capturing or (0, 0)
        block = self.get_free_block(size, stream, small, pool)
        if block is None:
            block = self.alloc_block(size, stream, small, pool)
        if block is None and self.release_available(size, stream, small, pool):
            block = self.alloc_block(size, stream, small, pool)
        if block is None and not self.capturing:
            self.empty_cache()
            block = self.alloc_block(size, stream, small, pool)
        if block is None:
            free = self.memory - self.others - self.reserved
            self.record("oom", free, size, stream, pool)
            raise OutOfMemory
        left = block.size - size
        if small or self.expandable:
            split = left >= 512
        else:
            split = size < (self.max_split or NONE) and left > MIB
        if split:
            rest = block
            block = Block(rest.ptr, size, stream, small, pool, rest.segment)
            block.prev, block.next = rest.prev, rest
            if rest.prev:
                rest.prev.next = block
            rest.prev = block
            rest.ptr += size
            rest.size -= size
            self.blocks.append(block)
        block.allocated, block.requested = True, requested
        self.record("alloc", block.ptr, requested, stream, pool)
        return block

    def alloc_block(self, size, stream, small, pool):
        if self.expandable:
            return self.expand(size, stream, small, pool)
        need = self.allocation_size(size)
        if self.reserved + need > self.memory - self.others:
            return None
        block = Block(self.driver_take(need), need, stream, small, pool, None)
        self.blocks.append(block)
        self.reserved += need
        self.record("segment_alloc", block.ptr, need, stream, pool)
        return block

    def expand(self, size, stream, small, pool):
        unmapped = sorted((b for b in self.blocks if not b.mapped and b.stream == stream
                           and b.small == small and b.pool == pool), key=lambda b: b.ptr)
        block = None
        for candidate in unmapped:
            if candidate.prev and candidate.prev.free():
                candidate = candidate.prev
            room, at = 0, candidate
            while room < size and at and at.free():
                room += at.size
                at = at.next
            if room >= size:
                block = candidate
                break
        if block is None:
            handle = 2 * MIB if small else 20 * MIB
            room = -(-(self.memory * 9 // 8) // handle) * handle
            segment = Segment(self.driver_take(room), room, handle)
            block = Block(segment.base, room, stream, small, pool, segment, mapped=False)
            self.blocks.append(block)
        if not block.mapped and not self.map(block, min(block.size, size)):
            return None
        while block.size < size:
            after = block.next
            if not self.map(after, min(size - block.size, after.size)):
                return None
            block = after
        return block

    def map(self, block, size):
        handle = block.segment.handle
        size = -(-size // handle) * handle
        if self.reserved + size > self.memory - self.others:
            return False
        start = block.ptr
        if size < block.size:
            rest = Block(block.ptr + size, block.size - size, block.stream, block.small, block.pool,
                         block.segment, mapped=False)
            rest.prev, rest.next = block, block.next
            if block.next:
                block.next.prev = rest
            block.next = rest
            block.size = size
            self.blocks.append(rest)
        block.mapped = True
        self.merge(block, block.prev)
        self.merge(block, block.next)
        self.reserved += size
        self.record("segment_map", start, size, block.stream, block.pool)
        return True

    def merge(self, block, near):
        if near is None or not near.free() or near.mapped != block.mapped:
            return
        if block.prev is near:
            block.ptr = near.ptr
            block.prev = near.prev
            if near.prev:
                near.prev.next = block
        else:
            block.next = near.next
            if near.next:
                near.next.prev = block
        block.size += near.size
        self.blocks.remove(near)

    def free_requested(self, block, pending=False):
        block.allocated = False
        block.pending = pending
        self.record("free_requested", block.ptr, block.requested, block.stream, block.pool)
        if not pending:
            self.free_completed(block)

    def free_completed(self, block):
        block.pending = False
        self.record("free_completed", block.ptr, block.requested, block.stream, block.pool)
        self.merge(block, block.prev)
        self.merge(block, block.next)

    def release(self, block):
        self.record("segment_free", block.ptr, block.size, block.stream, block.pool)
        self.blocks.remove(block)
        self.reserved -= block.size
        self.holes.append((block.ptr, -(-block.size // (2 * MIB)) * 2 * MIB))

    def release_available(self, size, stream, small, pool):
        if not self.max_split:
            return False
        target = max(size, self.max_split)
        listed = self.pool_blocks(stream, small, pool)
        enough = [b for b in listed if b.size >= target and b.segment is None]
        if enough:
            self.release(enough[0])
            return True
        total = 0
        for block in reversed([b for b in listed if b.size < target]):
            if total >= target or block.size < self.max_split:
                break
            if block.segment is None:
                total += block.size
                self.release(block)
        return total >= target

    def empty_cache(self):
        for block in [b for b in self.blocks if b.pending]:
            self.free_completed(block)
        pools = [(0, 0)] + sorted(self.freeable)
        for pool in pools:
            for small in (False, True):
                free = [b for b in self.blocks if b.mapped and b.free() and b.small == small
                        and b.pool == pool]
                free.sort(key=lambda b: (b.stream, b.size, b.ptr))
                for block in [b for b in free if b.segment is None]:
                    if not block.prev and not block.next:
                        self.release(block)
                for block in [b for b in free if b.segment is not None]:
                    self.unmap(block)

    def unmap(self, block):
        base, handle = block.segment.base, block.segment.handle
        first = base + -(-(block.ptr - base) // handle) * handle
        last = base + (block.ptr + block.size - base) // handle * handle
        if first >= last:
            return
        before, after = first - block.ptr, block.ptr + block.size - last
        if before:
            new = Block(block.ptr, before, block.stream, block.small, block.pool, block.segment)
            new.prev, new.next = block.prev, block
            if block.prev:
                block.prev.next = new
            block.prev = new
            self.blocks.append(new)
        if after:
            new = Block(last, after, block.stream, block.small, block.pool, block.segment)
            new.prev, new.next = block, block.next
            if block.next:
                block.next.prev = new
            block.next = new
            self.blocks.append(new)
        block.ptr, block.size, block.mapped = first, last - first, False
        self.merge(block, block.prev)
        self.merge(block, block.next)
        self.reserved -= last - first
        self.record("segment_unmap", first, last - first, block.stream, block.pool)
        if not block.prev and not block.next:
            self.blocks.remove(block)
            self.holes.append((block.ptr, -(-block.size // (2 * MIB)) * 2 * MIB))

    def snapshot(self, conf=""):
        segments = []
        for head in self.blocks:
            if not head.mapped or (head.prev and head.prev.mapped):
                continue
            blocks, at = [], head
            while at and at.mapped:
                state = ("active_allocated" if at.allocated else
                         "active_pending_free" if at.pending else "inactive")
                blocks.append({"address": at.ptr, "size": at.size, "requested_size": at.requested,
                               "state": state, "frames": []})
                at = at.next
            active = [b for b in blocks if b["state"] != "inactive"]
            segments.append({
                "device": 0, "address": head.ptr, "total_size": sum(b["size"] for b in blocks),
                "allocated_size": sum(b["size"] for b in blocks
                                      if b["state"] == "active_allocated"),
                "active_size": sum(b["size"] for b in active),
                "requested_size": sum(b["requested_size"] for b in active),
                "stream": head.stream, "segment_type": "small" if head.small else "large",
                "segment_pool_id": head.pool, "is_expandable": head.segment is not None,
                "frames": FRAMES, "blocks": blocks})
        segments.sort(key=lambda s: s["address"])
        active = sum(s["active_size"] for s in segments)
        self.record("snapshot", 0, active, 0, (0, 0))
        settings = {
            "PYTORCH_CUDA_ALLOC_CONF": conf, "max_split_size": self.max_split or -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": self.expandable,
            "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False,
            "roundup_power2_divisions": {str(1 << i): d for i, d in enumerate(self.divisions)}}
        return {"segments": segments, "device_traces": [self.trace, []],
                "allocator_settings": settings, "external_annotations": []}


# One list that all entries share, as PyTorch's own are shared by stack.
FRAMES = [{"name": "forward", "filename": "model.py", "line": 12}]


def random_size(rng):
    kind = rng.randrange(10)
    if kind < 4:
        return rng.randrange(1, 8000)
    if kind < 6:
        return rng.randrange(1, 2 * MIB)
    if kind == 6:
        return 512 << rng.randrange(16)
    if kind == 7:
        return rng.randrange(1, 8) * 3 * MIB
    return rng.randrange(1, 40 * MIB)


def drive(allocator, seed, count, streams=(0, 0x55D0C0DE), empty=0.002, pending=0.1, capture=0.0):
    rng = random.Random(seed)
    live, waiting, pools = [], [], 0
    for _ in range(count):
        if rng.random() < capture:
            if allocator.capturing:
                allocator.capturing = None
            else:
                pools += 1
                allocator.capturing = (0, pools)
        if not allocator.capturing:
            while waiting and rng.random() < 0.5:
                block = waiting.pop(0)
                if block.pending:
                    allocator.free_completed(block)
            if rng.random() < empty:
                allocator.empty_cache()
        used = sum(b.size for b in live)
        share = 0.35 if used > 0.6 * (allocator.memory - allocator.others) else 0.55
        if rng.random() < share:
            try:
                live.append(allocator.malloc(random_size(rng), rng.choice(streams)))
            except OutOfMemory:
                for block in live[: len(live) // 2]:
                    allocator.free_requested(block)
                del live[: len(live) // 2]
        elif live:
            block = live.pop(rng.randrange(len(live)))
            later = rng.random() < pending
            allocator.free_requested(block, later)
            if later:
                waiting.append(block)
    return live


def train(allocator, seed, steps, layers=8):
    """Parameters, then steps of activations that are freed backwards, of varying length."""
    rng = random.Random(seed)
    allocator.recording = False
    for _ in range(layers):
        for size in (12 * MIB, 3 * MIB, 4 * KIB):
            allocator.malloc(size)
    allocator.recording = True
    states = []
    for step in range(steps):
        length = rng.choice([128, 384, 512, 777, 1024])
        saved = []
        for _ in range(layers):
            saved.append(allocator.malloc(length * 4096))
            scratch = allocator.malloc(length * 8192 + 36)
            saved.append(allocator.malloc(length * 12))
            allocator.free_requested(scratch)
        grads = []
        for block in reversed(saved):
            grads.append(allocator.malloc(3 * MIB))
            allocator.free_requested(block)
            if len(grads) > 4:
                allocator.free_requested(grads.pop(0))
        if step == 0:
            states = [allocator.malloc(12 * MIB) for _ in range(layers)]
        for block in grads:
            allocator.free_requested(block)
    return states


def cases():
    gib = 1 << 30
    a = Allocator(2 * gib)
    train(a, 1, 12)
    yield "train", a.snapshot(), 4
    a = Allocator(600 * MIB, others=37 * MIB)
    drive(a, 2, 1200)
    yield "random-short", a.snapshot(), 2
    a = Allocator(600 * MIB, others=5 * MIB, expandable=True)
    drive(a, 3, 1200)
    yield "random-expandable", a.snapshot("expandable_segments:True"), 5
    a = Allocator(600 * MIB, max_split=32 * MIB)
    drive(a, 4, 1200)
    yield "random-max-split", a.snapshot("max_split_size_mb:32"), 4
    a = Allocator(4 * gib, divisions=[8, 4, 4, 2] + [1] * 12)
    drive(a, 5, 1000)
    yield "random-divisions", a.snapshot("roundup_power2_divisions:[1:8,2:4,4:4,8:2,>:1]"), 3
    a = Allocator(4 * gib)
    drive(a, 6, 1200, capture=0.01)
    yield "random-captures", a.snapshot(), 4
    a = Allocator(600 * MIB, max_entries=700, versions_pool_id=False)
    drive(a, 7, 1500)
    yield "ring-buffer", a.snapshot(), 4
    a = Allocator(500 * MIB)
    drive(a, 29, 1500, pending=0.3, empty=0.0)
    yield "retry-synchronized", a.snapshot(), 4
    a = Allocator(500 * MIB, max_split=32 * MIB)
    drive(a, 21, 1500, pending=0.3, empty=0.01)
    yield "emptied-max-split", a.snapshot("max_split_size_mb:32"), 4
    a = Allocator(600 * MIB)
    a.recording = False
    drive(a, 11, 900)
    a.recording = True
    drive(a, 12, 900)
    yield "late-start", a.snapshot(), 4
    a = Allocator(2 * gib, versions_pool_id=False)
    drive(a, 33, 1500, capture=0.01, empty=0.02)
    yield "captures-unnamed", a.snapshot(), 4
    a = Allocator(64 * MIB)
    drive(a, 14, 12)
    yield "tiny", a.snapshot(), 4
    a = Allocator(900 * MIB, max_entries=700, expandable=True)
    drive(a, 8, 1500)
    yield "ring-buffer-expandable", a.snapshot("expandable_segments:True"), 4


def main():
    folder = Path(__file__).parent / "snapshots"
    folder.mkdir(exist_ok=True)
    check = "--check" in sys.argv
    for name, snapshot, protocol in cases():
        data = gzip.compress(pickle.dumps(snapshot, protocol=protocol), mtime=0)
        path = folder / f"{name}.pickle.gz"
        if name == "tiny" and not check:
            (folder / f"{name}.json").write_text(json.dumps(snapshot, indent=1) + "\n")
        if check:
            there = pickle.loads(gzip.decompress(path.read_bytes()))
            assert there == pickle.loads(gzip.decompress(data)), f"{path} differs"
        else:
            path.write_bytes(data)
            print(path.name, len(snapshot["device_traces"][0]), "entries", len(data), "bytes")


if __name__ == "__main__":
    main()
