#!/usr/bin/env python3
"""Times of single kernels of PyTorch on a CUDA device, as tables that `tiersim ops` reads.

Writes OUT_DIR/{streaming,other,product,prefill,backward,beside,mixed,copies}.csv and kernels.json after each group
of cases, and ends within the seconds given; README.md says what is timed and how.
"""
import time
BEGAN = time.perf_counter()
import argparse, csv, json, math, os, platform, statistics, subprocess

ARGS = argparse.ArgumentParser(description=__doc__.splitlines()[0])
ARGS.add_argument("out", help="folder to write to")
ARGS.add_argument("--seconds", type=float, default=120.0, help="for everything, from the start on")
ARGS.add_argument("--only", default="", help="the groups of cases with this in their names: " +
                  "rowwise logits optimizers beside copies mixed attention product tables")
ARGS.add_argument("--tiny", action="store_true", help="small shapes on the CPU, to check the script")
ARGS = ARGS.parse_args()

import torch
import torch.nn.functional as F
aten, TINY = torch.ops.aten, ARGS.tiny
DEV, BF16, FP32 = "cpu" if TINY else "cuda", torch.bfloat16, torch.float32
DTYPES = {"bf16": BF16, "fp32": FP32}
# So many bytes of inputs and outputs are gone through before a kernel meets the same ones again:
# more than any device's last cache has.
BEYOND_CACHE = 1 << (16 if TINY else 28)
TABLES, FAILED = {}, []

def left():
    return ARGS.seconds + BEGAN - time.perf_counter()

def graph_of(calls):
    """All calls as one graph: the host has no part in their times."""
    for call in calls[:2]:
        call()
    if TINY:
        return lambda: [call() for call in calls]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        # Kept, so that each call writes to memory of its own.
        kept = [call() for call in calls]
    return lambda: (graph.replay(), kept)

def timed(calls, repeats=7):
    """Microseconds of one call, by repeat: the graph of all over their number."""
    replay, times = graph_of(calls), []
    replay()
    for _ in range(repeats):
        if TINY:
            began = time.perf_counter()
            replay()
            times.append((time.perf_counter() - began) * 1e6 / len(calls))
            continue
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The device is busy with one graph while the host launches the next, which is timed.
        replay()
        start.record()
        replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / len(calls))
    return times

def put(table, times, **row):
    row.update(us=f"{statistics.median(times):.4g}", us_min=f"{min(times):.4g}", us_max=f"{max(times):.4g}")
    TABLES.setdefault(table, []).append(row)

def measure(table, make, need, row, least=16):
    """Times `make()`, which gives a call on tensors of its own; enough of them to leave the cache."""
    if left() < 3:
        return
    try:
        many = max(1, min(64, math.ceil(BEYOND_CACHE / need)))
        sets = [make() for _ in range(many)]
        put(table, timed([sets[i % many] for i in range(max(many, least))]), **row)
    except Exception as error:
        FAILED.append(f"{table} {row}: {str(error).splitlines()[0][:200]}")
    finally:
        sets = None

def random(*shape, dtype=BF16):
    return torch.randn(*shape, device=DEV, dtype=dtype)

# --- kernels that read and write memory once

def streaming(kernel, name, rows, width, dtype, make, moved, table="streaming"):
    """`moved` are the bytes that the kernel reads and writes if each is moved once. In the table
    `other` are those that no formula is of."""
    row = dict(kernel=kernel, name=name, dtype=dtype, rows=rows, width=width, bytes=moved)
    measure(table, make, moved, row)

def rowwise(rows, width, dtype):
    """The kernels of eager models, one by one; every result is allocated before, or by the graph."""
    of, number = DTYPES[dtype], DTYPES[dtype].itemsize
    all_of, fresh = rows * width * number, lambda: random(rows, width, dtype=of)
    def two(call):
        def make():
            a, b = fresh(), fresh()
            return lambda: call(a, b)
        return make
    def one(call):
        def make():
            a = fresh()
            return lambda: call(a)
        return make
    def put_one(kernel, name, call, times):
        streaming(kernel, name, rows, width, dtype, one(call), int(times * all_of))
    def put_two(kernel, name, call, times):
        streaming(kernel, name, rows, width, dtype, two(call), times * all_of)
    put_two("vectorized", "copy", lambda a, b: b.copy_(a), 2)
    put_two("vectorized", "add", torch.add, 3)
    put_two("vectorized", "mul", torch.mul, 3)
    put_one("vectorized", "mul by a number", lambda a: a * 0.5, 2)
    put_one("vectorized", "square", lambda a: a.pow(2), 2)
    put_one("vectorized", "neg", torch.neg, 2)
    row_of = random(width, dtype=of)
    put_one("strided", "mul by a row", lambda a: a * row_of, 2)
    put_one("vectorized", "dropout", lambda a: F.dropout(a, 0.1, True), 2 + 1 / number)
    other, wide = (FP32, 4) if dtype == "bf16" else (BF16, 2)
    # Of fewer bits into more it cannot go by vectors.
    streaming("strided" if dtype == "bf16" else "vectorized", "cast", rows, width, dtype, one(lambda a: a.to(other)), all_of + rows * width * wide)
    if rows > 1:
        streaming("strided", "transpose", rows, width, dtype, one(lambda a: a.t().contiguous()), 2 * all_of, "other")
    put_two("vectorized", "cat", lambda a, b: torch.cat([a, b], -1), 4)
    put_one("reduction", "mean of a row", lambda a: a.mean(-1), 1)
    put_one("reduction", "sum over rows", lambda a: a.sum(0), 1)
    put_one("vectorized", "gelu", lambda a: F.gelu(a, approximate="tanh"), 2)
    put_one("vectorized", "silu", F.silu, 2)
    put_two("vectorized", "gelu backward", lambda a, b: aten.gelu_backward(a, b, approximate="tanh"), 3)
    put_two("vectorized", "silu backward", lambda a, b: aten.silu_backward(a, b), 3)
    weight = random(width, dtype=of)
    put_one("layer-norm", "layer norm", lambda a: F.layer_norm(a, (width,), weight, weight), 2)
    put_one("layer-norm", "rms norm", lambda a: F.rms_norm(a, (width,), weight, 1e-6), 2)
    def backward():
        a, grad = fresh(), fresh()
        _, mean, rstd = aten.native_layer_norm(a, [width], weight, weight, 1e-5)
        mask = [True, True, True]
        return lambda: aten.native_layer_norm_backward(grad, a, [width], mean, rstd, weight, weight, mask)
    streaming("layer-norm", "layer norm backward", rows, width, dtype, backward, 3 * all_of)

def logits(rows, vocabulary, dtype):
    of, number = DTYPES[dtype], DTYPES[dtype].itemsize
    all_of = rows * vocabulary * number
    def call(body):
        def make():
            a, b = (random(rows, vocabulary, dtype=of) for _ in range(2))
            return lambda: body(a, b)
        return make
    for name, body, times in [
        ("softmax", lambda a, b: torch.softmax(a, -1), 2),
        ("log softmax", lambda a, b: torch.log_softmax(a, -1), 2),
        ("softmax backward", lambda a, b: aten._softmax_backward_data(a, b, -1, of), 3),
        ("log softmax backward", lambda a, b: aten._log_softmax_backward_data(a, b, -1, of), 3),
    ]:
        streaming("softmax", name, rows, vocabulary, dtype, call(body), times * all_of)

def tables(rows, width, vocabulary):
    def look_up():
        table, ids = random(vocabulary, width), torch.randint(vocabulary, (rows,), device=DEV)
        return lambda: F.embedding(ids, table)
    streaming("embedding", "embedding", rows, width, "bf16", look_up, 2 * rows * width * 2 + 8 * rows)
    def backward():
        grad, ids = random(rows, width), torch.randint(vocabulary, (rows,), device=DEV)
        return lambda: aten.embedding_dense_backward(grad, ids, vocabulary, -1, False)
    moved = (rows + vocabulary) * width * 2 + 8 * rows
    streaming("embedding", "embedding backward", rows, width, "bf16", backward, moved)

def optimizers(parameters, dtype):
    """AdamW of one tensor: weight, gradient and both moments read, all but the gradient written."""
    of = DTYPES[dtype]
    moved = 7 * of.itemsize * parameters
    for kind in ["fused"] if TINY else ["fused", "foreach"]:
        def make():
            weight = torch.nn.Parameter(random(parameters, dtype=of))
            weight.grad = random(parameters, dtype=of)
            optimizer = torch.optim.AdamW([weight], lr=1e-4, capturable=not TINY, **{kind: True})
            # The first one makes the moments.
            optimizer.step()
            return optimizer.step
        table = "streaming" if kind == "fused" else "other"
        streaming("optimizer", f"AdamW {kind}", 1, parameters, dtype, make, moved, table)

# --- products, as a forward and a backward have them

def product(m, n, k):
    x, w, y = (2 * a * b for a, b in [(m, k), (n, k), (m, n)])
    def forward():
        a, b = random(m, k), random(n, k)
        return lambda: torch.mm(a, b.t())
    def to_input():
        grad, b = random(m, n), random(n, k)
        return lambda: torch.mm(grad, b)
    def to_weight():
        grad, a = random(m, n), random(m, k)
        return lambda: torch.mm(grad.t(), a)
    for name, layout, make, shape in [("forward", "nt", forward, (m, n, k)),
                                      ("gradient of the input", "nn", to_input, (m, k, n)),
                                      ("gradient of the weight", "tn", to_weight, (n, k, m))]:
        row = dict(name=name, dtype="bf16", **dict(zip("mnk", shape)), layout=layout)
        measure("product", make, x + w + y, row, least=8)

def attention(batch, sequence, heads, kv_heads, head):
    shape = dict(dtype="bf16", kv_dtype="bf16", batch=batch, sequence=sequence, past=0, heads=heads,
                 kv_heads=kv_heads, head_dim=head)
    need = 2 * batch * sequence * head * (2 * heads + 2 * kv_heads)
    backends = {"flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION,
                "cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION}
    for name, backend in ({"math": torch.nn.attention.SDPBackend.MATH} if TINY else backends).items():
        def run(q, k, v):
            with torch.nn.attention.sdpa_kernel([backend]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
        def tensors(grad):
            counts = [heads, kv_heads, kv_heads]
            return [random(batch, n, sequence, head).requires_grad_(grad) for n in counts]
        def forward():
            q, k, v = tensors(False)
            return lambda: run(q, k, v)
        def both():
            q, k, v = tensors(True)
            grad = random(batch, heads, sequence, head)
            def call():
                torch.autograd.grad(run(q, k, v), (q, k, v), grad)
            return call
        measure("prefill", forward, need, dict(name=name, **shape), least=8)
        # What a graph cannot tell apart is told by the difference.
        measure("backward", both, 4 * need, dict(name=f"{name}, forward and backward", **shape), least=4)

# --- kernels beside copies

def beside():
    """Kernels alone, and while pinned copies of 16 MiB go on, in, out or both, in other streams."""
    if TINY or left() < 10:
        return
    size = 16 << 20
    home, there = torch.empty(size, dtype=torch.uint8).pin_memory(), torch.empty(size, dtype=torch.uint8, device=DEV)
    home2, there2 = torch.empty_like(home).pin_memory(), torch.empty_like(there)
    small, large = [random(1 << 14) for _ in range(2)], [random(1 << 27) for _ in range(2)]
    a, b = random(8192, 8192), random(8192, 8192)
    one, weight = random(1, 8192), random(8192, 8192)
    cases = {
        "add of 16384": (lambda: torch.add(*small), 400), "add of 2^27": (lambda: torch.add(*large), 8),
        "product of 8192": (lambda: torch.mm(a, b), 4), "vector by 8192 x 8192": (lambda: torch.mm(one, weight), 60),
    }
    streams = [torch.cuda.Stream() for _ in range(2)]
    ways = {"alone": [], "in": [(there, home)], "out": [(home2, there2)], "in and out": [(there, home), (home2, there2)]}
    for name, (call, count) in cases.items():
        replay = graph_of([call] * count)
        replay()
        for way, pairs in ways.items():
            times = []
            for _ in range(5):
                torch.cuda.synchronize()
                for (to, of), stream in zip(pairs, streams):
                    with torch.cuda.stream(stream):
                        for _ in range(24):
                            to.copy_(of, non_blocking=True)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                replay()
                end.record()
                end.synchronize()
                outlasted = all(not stream.query() for stream in streams[:len(pairs)])
                if outlasted:
                    times.append(start.elapsed_time(end) * 1e3 / count)
            if times:
                put("beside", times, name=name, copies=way)
            else:
                FAILED.append(f"beside {name} {way}: the copies ended before the kernels")

def mixed():
    """Products that take a share of a device's time for a second, kernels that only stream the rest of it: what is
    left of their rate once the device is warm, and the clock and the power that it says it has then."""
    cycle, warm = (20, 0.0) if TINY else (6000, 0.8)
    for m, n, k in [(8192, 8192, 8192), (4096, 8192, 2048)]:
        if left() < 12:
            return
        m, n, k = (max(2, x // 256) for x in (m, n, k)) if TINY else (m, n, k)
        pairs = [(random(m, k), random(n, k)) for _ in range(4)]
        a, b = [random(1 << (10 if TINY else 25)) for _ in range(2)]
        out, turn = torch.empty_like(a), iter(range(1 << 30))
        def one():
            x, w = pairs[next(turn) % 4]
            torch.mm(x, w.t())
        def stream():
            torch.mul(a, b, out=out)
        rest = statistics.median(timed([stream] * 16))
        for share in [1.0, 0.75, 0.5, 0.35, 0.2, 0.1]:
            time.sleep(0 if TINY else 0.5)
            alone = statistics.median(timed([one] * 2, repeats=1))
            count = max(1, round(cycle * share / alone))
            others = round(count * alone * (1 / share - 1) / rest)
            # As evenly as a model has them.
            calls = [call for i in range(count) for call in
                     [one] + [stream] * (others * (i + 1) // count - others * i // count)]
            replay = graph_of(calls)
            began, times, said = time.perf_counter(), [], ""
            while time.perf_counter() - began < warm:
                replay()
                torch.cuda.synchronize()
            for index in range(3 if TINY else 40):
                start, end = ((lambda: None),) * 2 if TINY else (torch.cuda.Event(enable_timing=True) for _ in range(2))
                if TINY:
                    clock = time.perf_counter()
                    replay()
                    times.append((time.perf_counter() - clock) * 1e6)
                    continue
                start.record()
                replay()
                end.record()
                if index == 20:
                    said = asked("clocks.sm,power.draw", "csv,noheader,nounits")
                end.synchronize()
                times.append(start.elapsed_time(end) * 1e3)
            busy = [(us - others * rest) / count for us in times[len(times) // 2 + 1:]]
            clock, watts = said.split(", ") if said else ("", "")
            put("mixed", busy, dtype="bf16", m=m, n=n, k=k, share=share, products=count, others=others,
                first_us=f"{alone:.4g}", other_us=f"{rest:.4g}", sm_mhz=clock, watts=watts)

def copies():
    """Copies between the host and the device, each waited for."""
    for size in [1 << power for power in range(12, 17 if TINY else 29, 2)]:
        for memory in ["pageable"] if TINY else ["pageable", "pinned"]:
            home, there = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8, device=DEV)
            home = home.pin_memory() if memory == "pinned" else home
            for way, to, of in [("in", there, home), ("out", home, there)]:
                times = []
                for _ in range(9):
                    began = time.perf_counter()
                    to.copy_(of)
                    if not TINY:
                        torch.cuda.synchronize()
                    times.append((time.perf_counter() - began) * 1e6)
                put("copies", times[1:], memory=memory, way=way, bytes=size)

def write(machine):
    for table, rows in TABLES.items():
        with open(os.path.join(ARGS.out, table + ".csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    machine.update(seconds=round(time.perf_counter() - BEGAN, 1), failed=FAILED)
    with open(os.path.join(ARGS.out, "kernels.json"), "w") as file:
        json.dump(machine, file, indent=1)
        file.write("\n")

def asked(what, form="csv,noheader"):
    """What nvidia-smi says of the first device."""
    return subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=" + what, "--format=" + form],
                          capture_output=True, text=True, timeout=10).stdout.strip()

def about():
    machine = dict(date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), device=DEV, tiny=TINY,
                   python=platform.python_version(), torch=torch.__version__, cuda=torch.version.cuda)
    if not TINY:
        machine["device"] = torch.cuda.get_device_name(0)
        ask = "driver_version,clocks.max.sm,clocks.max.mem"
        machine.update(zip(ask.split(","), asked(ask).split(", ")))
    return machine

def main():
    os.makedirs(ARGS.out, exist_ok=True)
    torch.manual_seed(1234)
    machine = about()
    scale = (lambda n: max(2, n // 256)) if TINY else (lambda n: n)
    groups = []
    for rows, width in [(1, 4096), (16, 4096), (128, 4096), (1024, 4096), (4096, 4096), (16384, 4096),
                        (2048, 768), (16384, 1024), (2048, 14336), (8192, 8192)]:
        groups.append((rowwise, rows, scale(width), "bf16"))
        if rows * width <= 1 << 26:
            groups.append((rowwise, rows, scale(width), "fp32"))
    for rows, vocabulary in [(2048, 50257), (2048, 128256), (8192, 32000), (24576, 1024), (65536, 2048), (256, 128)]:
        for dtype in DTYPES:
            groups.append((logits, rows, scale(vocabulary), dtype))
    for parameters in [1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 25, 1 << 27]:
        for dtype in DTYPES:
            groups.append((optimizers, scale(parameters), dtype))
    groups += [(beside,), (copies,), (mixed,)]
    for batch, sequence, heads, kv_heads, head in [
        (2, 1024, 12, 12, 64), (8, 1024, 12, 12, 64), (16, 512, 16, 16, 64), (4, 2048, 32, 8, 128), (1, 4096, 32, 8, 128),
        (1, 8192, 32, 8, 128), (1, 2048, 96, 96, 128), (1, 16384, 32, 8, 128), (1, 4096, 64, 8, 128), (4, 1024, 25, 25, 64),
        (1, 512, 32, 32, 128), (2, 128, 8, 4, 64),
    ]:
        groups.append((attention, batch, scale(sequence), heads, kv_heads, head))
    for m, hidden, ffn in [(2048, 768, 3072), (8192, 768, 3072), (4096, 1600, 6400), (2048, 4096, 14336), (8192, 4096, 14336),
                           (4096, 8192, 28672), (2048, 5120, 13824), (8192, 2048, 8192), (512, 4096, 14336), (16384, 4096, 4096),
                           (2048, 12288, 6144)]:
        for n, k in [(3 * hidden, hidden), (hidden, hidden), (ffn, hidden), (hidden, ffn)]:
            groups.append((product, m, scale(n), scale(k)))
    groups.append((product, 2048, scale(50257), scale(768)))
    groups.append((product, 2048, scale(128256), scale(4096)))
    # Rows of 2, 4, 8 bytes and so on more than a multiple of 16.
    for n, k in [(4097, 4096), (4098, 4096), (4100, 4096), (4104, 4096), (4096, 4097), (4096, 4098), (4096, 4100),
                 (32001, 4096), (50257, 1600), (50258, 768)]:
        groups.append((product, 2048, scale(n), scale(k)))
    for rows, width, vocabulary in [(2048, 768, 50257), (8192, 4096, 128256), (64, 4096, 128256), (8192, 2048, 32000)]:
        groups.append((tables, rows, scale(width), scale(vocabulary)))
    with torch.no_grad():
        for run, *arguments in groups:
            if ARGS.only not in run.__name__:
                continue
            with torch.set_grad_enabled(run is attention):
                run(*arguments)
            if not TINY:
                torch.cuda.empty_cache()
            write(machine)
    counts = ", ".join(f"{len(rows)} of {table}" for table, rows in TABLES.items())
    print(f"{counts}; {len(FAILED)} failed, in {machine['seconds']} s")
    print("\n".join(FAILED[:12]))

main()
