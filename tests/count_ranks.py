"""Counts what recordings of several ranks by the PyTorch profiler do together, without tiersim: what
input/tests/import_ranks.rs compares imports with. The n-th collective of one rank is the n-th of all.

    python3 tests/count_ranks.py RANK0 RANK1 ...
"""

import gzip
import json
import sys

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
ELEMENT = {"double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::Half": 2, "c10::BFloat16": 2}


def rank_of(path):
    """The rank, how many activities its device has, and its collectives in the order of their calls:
    name, bytes that go in, start, duration."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path) as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    device = [event for event in events if event.get("cat") in DEVICE]
    launches = {event["args"]["correlation"]: event for event in events
                if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event["args"]}
    calls = [event for event in events if event.get("ph") == "X" and event["name"].startswith("nccl:")]
    found = []
    for kernel in device:
        if kernel["cat"] != "kernel" or "nccl" not in kernel["name"].lower():
            continue
        launch = launches[kernel["args"]["correlation"]]
        call, = [call for call in calls if call["tid"] == launch["tid"]
                 and call["ts"] <= launch["ts"] < call["ts"] + call["dur"]]
        size = ELEMENT[call["args"]["Input type"][0]]
        for side in call["args"]["Input Dims"][0]:
            size *= side
        found.append((launch["ts"], call["name"], size, kernel["ts"], kernel["dur"]))
    first = min(event["ts"] for event in device)
    found = [(name, size, start - first, span) for _, name, size, start, span in sorted(found)]
    return trace["distributedInfo"]["rank"], len(device), found


ranks = sorted(rank_of(path) for path in sys.argv[1:])
for rank, activities, found in ranks:
    print(f"rank {rank}: {activities} activities, {len(found)} collectives, "
          f"{sum(span for *_, span in found)} us")
tied = list(zip(*(found for *_, found in ranks), strict=True))
for group in tied:
    assert len({name for name, *_ in group}) == 1, group
    name, spans = group[0][0], [span for *_, span in group]
    print(f"  {name} of {max(size for _, size, *_ in group)} bytes: {min(spans)} us, "
          f"others waited {sum(spans) - len(spans) * min(spans)} us")
spans = [[span for *_, span in group] for group in tied]
print(f"together {sum(activities for _, activities, _ in ranks) - len(tied) * (len(ranks) - 1)} activities; "
      f"collectives {sum(map(min, spans))} us, "
      f"waited {sum(sum(group) - len(group) * min(group) for group in spans)} us")
ends = [[start + span for _, _, start, span in found] for *_, found in ranks]
shift = [sorted(a - b for a, b in zip(ends[0], other))[len(other) // 2] for other in ends]
print("clocks", [one - min(shift) for one in shift], "us; ends apart at most",
      max(abs(a - b - by) for other, by in zip(ends, shift) for a, b in zip(ends[0], other)), "us")
