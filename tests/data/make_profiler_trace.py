"""Writes fuzz/profiler/seed~trace.json: two steps of a training of two layers, as torch.profiler
writes them, with memory events, a second stream and modules. Made up, small, and with everything
in it that the importer looks for.

    python3 tests/data/make_profiler_trace.py
"""

import json
import pathlib

events, order = [], iter(range(10**6))
clock = 1_700_000_000_000_000.0  # microseconds since 1970
correlation = iter(range(100, 10**6))
device_free = {7: 0.0, 13: 0.0}
given = 6_400_000  # what was there before


def host(name, cat, start, span, tid=1, **args):
    args["Ev Idx"] = next(order)
    events.append(dict(ph="X", cat=cat, name=name, pid=1, tid=tid, ts=start, dur=span, args=args))


def kernel(name, at, span, stream=7, tid=1):
    key = next(correlation)
    events.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=tid, ts=at,
                       dur=2.5, args={"correlation": key, "cbid": 211}))
    start = max(at + 5, device_free[stream])
    device_free[stream] = start + span
    events.append(dict(ph="X", cat="kernel", name=name, pid=0, tid=stream, ts=start, dur=span,
                       args={"correlation": key, "stream": stream, "device": 0, "context": 1,
                             "grid": [8, 1, 1], "est. achieved occupancy %": 50}))


def memory(at, address, size, tid=1):
    global given
    given += size
    events.append(dict(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=1, tid=tid,
                       ts=at, args={"Ev Idx": next(order), "Device Type": 1, "Device Id": 0,
                                    "Addr": address, "Bytes": size, "Total Allocated": given,
                                    "Total Reserved": 8 << 20}))


for step in range(2):
    begin, now = clock, clock + 10
    for layer in range(2):
        sequence = 100 * step + layer
        events.append(dict(ph="X", cat="python_function", name=f"nn.Module: Linear_{layer}", pid=1,
                           tid=1, ts=now, dur=90.25, args={"Python module id": layer}))
        host("aten::linear", "cpu_op", now + 1, 80, **{"Sequence number": sequence})
        host("aten::addmm", "cpu_op", now + 5, 60,
             **{"Sequence number": sequence, "Input Dims": [[512], [256, 512], [512, 512], [], []],
                "Input type": ["float", "float", "float", "Scalar", "Scalar"]})
        memory(now + 10, 0x1000 * (layer + 1), 524_288)
        kernel(f"gemm_{layer}", now + 20, 40.125)
        now += 100
    for layer in (1, 0):
        sequence = 100 * step + layer
        node = "autograd::engine::evaluate_function: "
        host(f"{node}AddmmBackward0", "cpu_op", now, 80, tid=2,
             **{"Sequence number": sequence, "Fwd thread id": 1})
        memory(now + 5, 0x9000 + layer, 1_048_576, tid=2)
        kernel(f"gemm_backward_{layer}", now + 10, 60, tid=2)
        memory(now + 70, 0x1000 * (layer + 1), -524_288, tid=2)
        host(f"{node}torch::autograd::AccumulateGrad", "cpu_op", now + 90, 50, tid=2)
        kernel("add", now + 100, 5, tid=2)
        memory(now + 120, 0x9000 + layer, -1_048_576, tid=2)
        kernel("ncclAllReduce", now + 125, 30, stream=13, tid=2)
        now += 150
    host("Optimizer.step#SGD.step", "user_annotation", now, 60)
    for layer in range(2):
        kernel("axpy", now + 10 + 20 * layer, 5)
    host("Optimizer.zero_grad#SGD.zero_grad", "user_annotation", now + 70, 40)
    for layer in range(2):
        kernel("fill", now + 75 + 10 * layer, 4)
    now += 150
    host(f"ProfilerStep#{step + 3}", "user_annotation", begin, now - begin)
    clock = now + 25

document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Made up"}],
            "distributedInfo": {"rank": 0, "world_size": 2}, "profile_memory": 1}
lines = ",\n".join("    " + json.dumps(event) for event in events)
text = json.dumps(document)[:-1] + ',\n  "traceEvents": [\n' + lines + "\n  ]\n}\n"
folder = pathlib.Path(__file__).parent / "fuzz" / "profiler"
folder.mkdir(parents=True, exist_ok=True)
(folder / "seed~trace.json").write_text(text)
(folder / "no-json~trace.json").write_text(
    '{"traceEvents": [{"ph":"X","cat":"Kernel","name":"C:\\Kernel","pid":0,"tid":"7","ts":"1.5",'
    '"dur":2e0,"args":{"stream":"0x7","device":0,"blocks per SM":inf,"x":NaN}}]}\n')
