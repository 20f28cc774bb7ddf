"""Counts what a CUDA memory snapshot or a memory timeline of the PyTorch profiler holds, without
tiersim: what input/tests/import_footprint.rs compares imports with.

    python3 tests/count_memory.py FILE...
"""

import gzip
import json
import pickle
import sys


def load(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        data = file.read()
    return pickle.loads(data) if data[:1] == b"\x80" else json.loads(data)


def timeline(rows):
    before = [size for _, action, size, _ in rows if action == 1]
    made = [size for _, action, size, _ in rows if action == 2]
    alive = peak = 0
    for _, _, size, _ in rows:
        alive += size
        peak = max(peak, alive)
    times = [time for time, *_ in rows if time >= 0]
    print(f"  {len(rows)} rows over {max(times) - min(times)} ns")
    report(before, made, peak)


def snapshot(data):
    number = max(range(len(data["device_traces"])), key=lambda n: len(data["device_traces"][n]))
    history = data["device_traces"][number]
    now = {}
    for segment in data["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            at = block.get("address", at)
            if segment.get("device", 0) == number and block["state"] != "inactive":
                now[at] = block.get("requested_size", block["size"])
            at += block["size"]
    for entry in reversed(history):
        if entry["action"] == "alloc":
            now.pop(entry["addr"], None)
        elif entry["action"] == "free_completed":
            now[entry["addr"]] = entry["size"]
    before = list(now.values())
    peak, made = sum(before), []
    for entry in history:
        if entry["action"] == "alloc":
            now[entry["addr"]] = entry["size"]
            made.append(entry["size"])
        elif entry["action"] == "free_completed":
            now.pop(entry["addr"], None)
        peak = max(peak, sum(now.values()))
    print(f"  {len(history)} entries of device {number}")
    report(before, made, peak)


def report(before, made, peak):
    print(f"  {len(before)} objects of {sum(before)} bytes before, "
          f"{len(made)} of {sum(made)} made, at most {peak}")


for argument in sys.argv[1:]:
    print(argument)
    content = load(argument)
    timeline(content) if isinstance(content, list) else snapshot(content)
