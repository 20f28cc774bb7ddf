"""Counts what a trace of the PyTorch profiler holds, without tiersim: what input/tests/import_profiler.rs
compares imports with.

    python3 tests/count_profiler_trace.py FILE...
"""

import collections
import gzip
import json
import sys

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def union(spans):
    """Time in which any of some spans ran."""
    total, end = 0, float("-inf")
    for start, span in sorted(spans):
        if start + span > end:
            total += start + span - max(start, end)
            end = start + span
    return total


def count(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path) as file:
        events = json.load(file)["traceEvents"]
    print(f"{path}: {len(events)} events")
    device = [event for event in events if event.get("cat") in DEVICE]
    for cat in DEVICE:
        spans = [event["dur"] for event in device if event["cat"] == cat]
        print(f"  {cat}: {len(spans)}, {sum(spans):.3f} us")
    names = collections.defaultdict(lambda: [0, 0])
    for event in device:
        if event["cat"] != "kernel":
            names[event["name"]][0] += 1
            names[event["name"]][1] += event["args"].get("bytes", 0)
    for name, (number, size) in names.items():
        print(f"  {name}: {number} of {size} bytes")
    if device:
        spans = [(event["ts"], event["dur"]) for event in device]
        whole = max(start + span for start, span in spans) - min(spans)[0]
        print(f"  busy {union(spans):.3f} us of {whole:.3f} us")
    launches = {event["args"].get("correlation") for event in events
                if event.get("cat") in ("cuda_runtime", "cuda_driver")}
    lost = sum(event["args"].get("correlation") not in launches for event in device)
    print(f"  {lost} without a launch")
    steps = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
    print(f"  {len(steps)} steps")
    memory(events, bool(device))
    accumulations(events)


def memory(events, on_device):
    rows = [event for event in events if event.get("name") == "[memory]"
            and (event["args"]["Device Type"] != 0) == on_device]
    rows.sort(key=lambda event: (event["ts"], event["args"]["Ev Idx"]))
    given = [event["args"]["Bytes"] for event in rows if event["args"]["Bytes"] > 0]
    if rows:
        first = rows[0]["args"]
        peak = max(event["args"]["Total Allocated"] for event in rows)
        print(f"  {len(given)} objects of {sum(given)} bytes, peak {peak}, "
              f"before {first['Total Allocated'] - first['Bytes']}")


def accumulations(events):
    """Bytes that are given back within AccumulateGrad, by step: the parameters."""
    name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    nodes = [(event["ts"], event["ts"] + event["dur"], event["tid"]) for event in events
             if event.get("name") == name]
    freed = [(event["ts"], -event["args"]["Bytes"], event["tid"]) for event in events
             if event.get("name") == "[memory]" and event["args"]["Bytes"] < 0
             and event["args"]["Device Type"] != 0]
    inside = [size for start, end, tid in nodes for at, size, of in freed
              if of == tid and start <= at <= end] if len(nodes) * len(freed) < 10**8 else []
    steps = sum(event.get("name", "").startswith("ProfilerStep#") for event in events) or 1
    print(f"  AccumulateGrad: {len(nodes)}, {len(inside) // steps} a step give back "
          f"{sum(inside) // steps} bytes")


for argument in sys.argv[1:]:
    count(argument)
