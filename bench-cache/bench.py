"""Requests per second of `tiersim cache` and of libCacheSim on the same file in the same run.

Each replays one LRU cache of unit sizes, alternately, several times; every time is printed, and
the best of each gives the ratio. A run of tiersim is the whole command: it starts, reads the file,
counts the misses at every capacity, and writes table, JSON, CSV and chart. A run of libCacheSim is
`process_trace` alone, in a process of its own, without the start of Python. Both must count the
same misses. See README.md.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import zipf


def libcachesim(path, capacity):
    """Wall and CPU seconds, and the miss ratio."""
    code = (
        "import json, sys, time, libcachesim as l\n"
        "param = l.ReaderInitParam(ignore_obj_size=True)\n"
        "reader = l.TraceReader(sys.argv[1], l.TraceType.ORACLE_GENERAL_TRACE, param)\n"
        "cache = l.LRU(int(sys.argv[2]))\n"
        "wall, cpu = time.perf_counter(), time.process_time()\n"
        "ratio, _ = cache.process_trace(reader)\n"
        "print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, ratio]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path, str(capacity)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def tiersim(command, path, capacity, out):
    """Wall and CPU seconds, and what the command says."""
    args = [command, "cache", path, "--policy", "lru", "--capacity", str(capacity), "--unit"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter()
    done = subprocess.run(
        args + ["--format", "json", "--out", out], check=True, capture_output=True, text=True
    )
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, json.loads(done.stdout)


def memory(command, path, out):
    """Most bytes that the command holds, by the system's account."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    args = [command, "cache", path, "--policy", "lru", "--capacity", "1", "--unit", "-q", "--out", out]
    done = subprocess.run(
        [sys.executable, "-c", code, *args], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", default="target/release/tiersim", help="the binary")
    parser.add_argument("--requests", type=int, default=20_000_000)
    parser.add_argument("--objects", type=int, default=2_000_000, help="that may be drawn")
    parser.add_argument("--alpha", type=float, default=0.9, help="exponent of Zipf's law")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capacity", type=int, default=100_000, help="in objects")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trace", help="a trace of this generator to use again")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.trace or os.path.join(folder, "zipf.oracleGeneral.bin")
        if not os.path.exists(path):
            zipf.write(path, args.requests, args.objects, args.alpha, args.seed)
        out = os.path.join(folder, "out")
        times = {"tiersim": [], "libCacheSim": []}
        for number in range(args.rounds):
            wall, cpu, found = tiersim(args.command, path, args.capacity, out)
            times["tiersim"].append((wall, cpu))
            other_wall, other_cpu, ratio = libcachesim(path, args.capacity)
            times["libCacheSim"].append((other_wall, other_cpu))
            ours = found["results"][0]["miss_ratio"]
            if abs(ours - ratio) > 1e-6:
                sys.exit(f"the miss ratios differ: {ours} and {ratio}")
            print(
                f"round {number + 1}: tiersim {wall:.2f} s ({cpu:.2f} s of CPU), "
                f"libCacheSim {other_wall:.2f} s ({other_cpu:.2f} s of CPU)",
                flush=True,
            )
        requests, objects = found["requests"], found["objects"]
        print(f"{requests} requests for {objects} objects, miss ratio {ours:.6f} for both")
        for place, clock in enumerate(["wall", "CPU"]):
            best = {name: min(run[place] for run in runs) for name, runs in times.items()}
            rates = {name: requests / seconds / 1e6 for name, seconds in best.items()}
            print(
                f"by {clock} time, best of {args.rounds}: tiersim {rates['tiersim']:.1f} M/s, "
                f"libCacheSim {rates['libCacheSim']:.1f} M/s, "
                f"ratio {rates['tiersim'] / rates['libCacheSim']:.2f}"
            )
        whole = memory(args.command, path, out)
        print(
            f"memory of tiersim: {whole / 2**20:.1f} MiB at most, {whole / objects:.1f} bytes per "
            "object, the program itself included"
        )


if __name__ == "__main__":
    main()
