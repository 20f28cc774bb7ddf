"""A Zipf trace as an oracleGeneral file: fixed seed, so that everybody measures the same bytes."""

import numpy as np

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("bytes", "<u4"), ("next", "<i8")])
# Requests that are drawn at a time: what bounds the generator's memory.
CHUNK = 1 << 20


def draw(requests, objects, alpha, seed):
    """Object of each request: ranks by Zipf's law, under ids that are spread over 64 bits."""
    weights = np.arange(1, objects + 1, dtype=np.float64) ** -alpha
    below = np.cumsum(weights)
    below /= below[-1]
    rng = np.random.default_rng(seed)
    ranks = np.empty(requests, dtype=np.uint32)
    for start in range(0, requests, CHUNK):
        count = min(CHUNK, requests - start)
        ranks[start : start + count] = np.searchsorted(below, rng.random(count))
    # Ids are drawn too: consecutive ones would be kind to some tables and unkind to others.
    ids = np.unique(rng.integers(1, 1 << 63, size=objects + objects // 8, dtype=np.uint64))
    rng.shuffle(ids)
    return ranks, ids[:objects]


def next_uses(ranks):
    """Index of the next request of the same object, or -1."""
    order = np.argsort(ranks, kind="stable")
    following = np.full(len(ranks), -1, dtype=np.int64)
    same = ranks[order[:-1]] == ranks[order[1:]]
    following[order[:-1][same]] = order[1:][same]
    return following


def write(path, requests, objects, alpha, seed):
    """Writes the trace; returns how many different objects it requests."""
    ranks, ids = draw(requests, objects, alpha, seed)
    following = next_uses(ranks)
    with open(path, "wb") as file:
        for start in range(0, requests, CHUNK):
            part = slice(start, min(start + CHUNK, requests))
            records = np.empty(part.stop - part.start, dtype=RECORD)
            records["time"] = np.arange(part.start, part.stop) // 1000
            records["object"] = ids[ranks[part]]
            records["bytes"] = 4096
            records["next"] = following[part]
            records.tofile(file)
    return len(np.unique(ranks))
