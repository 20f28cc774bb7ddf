"""How the scripts beside this file measure: cases one after the other within a time, what each took, and where.

A script's first line of doc is its help. It imports this before anything else, so that imports count too.
"""
import time
BEGAN = time.perf_counter()
import argparse, contextlib, gc, json, os, platform, statistics, subprocess, sys, threading, traceback

ARGS = argparse.ArgumentParser(description=(sys.modules["__main__"].__doc__ or "").split("\n")[0])
ARGS.add_argument("out", help="folder to write to")
ARGS.add_argument("--seconds", type=float, default=110.0, help="for everything, from the start on")
ARGS.add_argument("--only", default="", help="the cases with this in their names, and what they need")
ARGS.add_argument("--tiny", action="store_true", help="small shapes on the CPU, to check the script")
ARGS = ARGS.parse_args()

import torch

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
TINY, now = ARGS.tiny, time.perf_counter
DEV = "cpu" if TINY else "cuda"

class Book:
    """What was measured so far; written after each case, and when the time is over."""

    def __init__(self):
        self.rows, self.cases, self.profiles, self.machine = [], [], {}, {}
        self.current, self.lock = "", threading.Lock()

    def left(self):
        return ARGS.seconds + BEGAN - now()

    def put(self, quantity, unit, values):
        values = values if isinstance(values, list) else [values]
        if values:
            self.rows.append(dict(case=self.current, quantity=quantity, unit=unit, values=values))

    def case(self, name, need, body):
        """Runs a case if `need` seconds are left; what goes wrong in it is put down, and the next one runs."""
        self.current, began = name, now() - BEGAN
        entry = dict(case=name, began=round(began, 3), outcome="did not come to its end")
        self.cases.append(entry)
        try:
            enough = TINY or self.left() >= need
            entry["outcome"] = (body() or "passed") if enough else f"skipped: {self.left():.1f} s left, {need} s needed"
        except Exception:
            # Where the checkout lies is nobody's business.
            entry.update(outcome="FAILED", error=traceback.format_exc().replace(ROOT, ""))
            print(entry["error"][-1500:], flush=True)
        with contextlib.suppress(Exception):
            gc.collect()
            torch.cuda.empty_cache()
        entry["seconds"] = round(now() - BEGAN - began, 3)
        print(f"{began:7.1f} s  {name:48} {entry['seconds']:6.1f} s  {entry['outcome']}", flush=True)
        self.write()

    def write(self):
        lines = ["case,quantity,unit,count,median,min,max"]
        with self.lock:
            for row in list(self.rows):
                v = row["values"]
                figures = [f"{x:.9g}" for x in (statistics.median(v), min(v), max(v))]
                lines.append(",".join([row["case"], row["quantity"], row["unit"], str(len(v))] + figures))
            whole = dict(machine=self.machine, cases=self.cases, runs=self.rows, profiles=self.profiles)
            for name, text in [("runs.csv", "\n".join(lines)), ("runs.json", json.dumps(whole, indent=1))]:
                path = os.path.join(ARGS.out, name)
                with open(path + ".part", "w") as file:
                    file.write(text + "\n")
                os.replace(path + ".part", path)

    def over(self):
        print("the time is over; what was measured is written", flush=True)
        self.write()
        os._exit(3)

BOOK = Book()

def sync():
    if not TINY:
        torch.cuda.synchronize()

def repeat(body, want=8, least=3, seconds=4.0):
    """Times of waited runs of `body`: `want` of them, fewer once `seconds` are over, but `least`."""
    times, began, seconds = [], now(), seconds / 20 if TINY else seconds
    while len(times) < want and (len(times) < least or now() - began < seconds) and BOOK.left() > 2:
        sync()
        start = now()
        body()
        sync()
        times.append(now() - start)
    return times

def told(path, key=""):
    """What a file of the kernel's says behind a key."""
    with contextlib.suppress(OSError), open(path) as file:
        return next((x.split(":")[-1].strip() for x in file if x.startswith(key)), "")

def machine(**more):
    """What ran where; `more` is what the script itself says of it."""
    BOOK.machine.update(
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), device=DEV, tiny=TINY, seconds=ARGS.seconds,
        cpu=told("/proc/cpuinfo", "model name"), cores=len(os.sched_getaffinity(0)), kernel=platform.release(),
        memory=told("/proc/meminfo", "MemTotal"), huge_pages=told("/sys/kernel/mm/transparent_hugepage/enabled"),
        python=platform.python_version(), torch=torch.__version__, cuda=torch.version.cuda,
        threads=torch.get_num_threads(), **more, imports_seconds=round(now() - BEGAN, 3))
    if not TINY:
        BOOK.machine["device"] = torch.cuda.get_device_name(0)
        ask = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,pcie.link.gen.current,pcie.link.width.current"
        said = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=" + ask, "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=10).stdout.strip()
        BOOK.machine.update(zip(ask.split(","), said.split(", ")))

def profiled(body):
    """Where the time of one run goes, by op and by call of the driver. A profiled run is longer."""
    if BOOK.left() < 15 and not TINY:
        return
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (not TINY)
    try:
        with torch.profiler.profile(activities=kinds) as profile:
            took = repeat(body, want=1)
        rows = [[r.key[:90], r.count, round(r.self_cpu_time_total), round(r.self_device_time_total)]
                for r in profile.key_averages()]
        rows = [["name", "count", "own_cpu_us", "own_device_us"]] + sorted(rows, key=lambda r: -max(r[2:]))[:40]
        BOOK.profiles[BOOK.current] = dict(seconds=took[0], rows=rows)
    except Exception as error:
        BOOK.profiles[BOOK.current] = f"FAILED: {error}"

def pages(shape, dtype=torch.uint8, pinned=True):
    return torch.empty(shape, dtype=dtype, pin_memory=pinned and not TINY)

def run(cases):
    """Runs the cases, each a name, the seconds it needs and what to run, within the time; then ends the process."""
    os.makedirs(ARGS.out, exist_ok=True)
    threading.Timer(max(BOOK.left() - 1.5, 0.1), BOOK.over).start()
    torch.manual_seed(1234)
    for case in cases:
        if ARGS.only in case[0] or case[0] in ("machine", "build the model"):
            BOOK.case(*case)
    os._exit(1 if any(case["outcome"] == "FAILED" for case in BOOK.cases) else 0)
