#!/usr/bin/env python3
"""Runs a sweep as tasks of Dask, one shard each, and puts the shards together.

    python deploy/dask.py SCENARIO --shards 16 --out OUT --scheduler tcp://HOST:8786
    python deploy/dask.py SCENARIO --shards 16 --out OUT --workers 4

Needs the package `distributed`, and the command `tiersim` on every worker. OUT must be a folder
that every worker sees. A shard whose worker dies is run again by Dask and goes on where it was: its
journal in OUT has all that is finished. Options behind `--` are handed to `tiersim sweep`.
"""

import argparse
import os
import subprocess
import sys

# This file has the name of a package that it needs, which would find the file first.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [place for place in sys.path if os.path.realpath(place or ".") != HERE]


def shard(command, scenario, index, of, out, more):
    """One shard, by the command; gives back its number or raises with what the command said."""
    run = [command, "sweep", scenario, "--shard", f"{index}/{of}", "--resume", "--jobs", "1"]
    ended = subprocess.run([*run, "--quiet", "--out", out, *more], capture_output=True, text=True)
    if ended.returncode != 0:
        raise RuntimeError(f"shard {index}/{of}: exit {ended.returncode}: {ended.stderr.strip()}")
    return index


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("scenario")
    parser.add_argument("--shards", type=int, required=True, help="several for each worker balance better")
    parser.add_argument("--out", required=True)
    parser.add_argument("--tiersim", default="tiersim", help="the command")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", help="address of a scheduler that runs")
    where.add_argument("--workers", type=int, default=2, help="processes on this machine [2]")
    parser.epilog = "What stands behind -- is handed to tiersim sweep."
    typed = sys.argv[1:]
    end = typed.index("--") if "--" in typed else len(typed)
    args = parser.parse_args(typed[:end])
    args.more = typed[end + 1 :]
    return args


def main():
    # Here, so that --help needs no package.
    from distributed import Client, as_completed

    args = arguments()
    if args.scheduler:
        client = Client(args.scheduler)
    else:
        client = Client(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with client:
        numbers = range(1, args.shards + 1)
        # A shard is a process of its own, so it is no function of its arguments to Dask.
        tasks = [
            client.submit(
                shard, args.tiersim, args.scenario, index, args.shards, args.out, args.more, pure=False, retries=2
            )
            for index in numbers
        ]
        for done, task in enumerate(as_completed(tasks), 1):
            print(f"shard {task.result()} is done: {done} of {args.shards}", file=sys.stderr)
    merge = [args.tiersim, "merge", args.out, "--scenario", args.scenario, "--out", f"{args.out}/merged"]
    return subprocess.run(merge).returncode


if __name__ == "__main__":
    sys.exit(main())
