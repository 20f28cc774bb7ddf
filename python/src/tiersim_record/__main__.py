"""``python -m tiersim_record --out my-trace script.py ARGUMENTS`` records a program as it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from .script import NotRecorded, Watch, run
from .write import check_free


def options() -> argparse.Namespace:
    """What the command was given."""
    parser = argparse.ArgumentParser(
        prog="python -m tiersim_record",
        description="Runs a PyTorch program and records some of its steps as a trace for tiersim.",
        epilog="The program ends when all is recorded, unless --go-on lets it.",
    )
    add = parser.add_argument
    add("--out", required=True, help="folder of the trace; must not exist or be empty")
    add("--warmup", type=int, default=2, help="plain steps before the recorded ones; in training "
        "one more comes before them, which shows the model [%(default)s]")
    add("--steps", type=int, default=2, help="recorded steps [%(default)s]")
    add("--batch", type=int, help="sequences of a step [first dimension of the model's input]")
    add("--sequence", type=int, help="tokens of a sequence [second dimension, of whole numbers]")
    add("--name", help="name of the trace [that of the folder]")
    add("--about", help="what it is, in words [the model's class]")
    add("--machine", help="the machine whose times these are, in words [what PyTorch says]")
    add("--threads", type=int, help="threads of PyTorch; on a CPU one makes its times whole")
    add("--go-on", action="store_true", help="let the program run to its own end")
    add("script", help="the program")
    add("arguments", nargs=argparse.REMAINDER, help="what it is given")
    return parser.parse_args()


def main() -> int:
    """Exit code 0 with a trace, 1 where the program ended without, 2 for wrong options."""
    given = options()
    try:
        if not Path(given.script).is_file():
            raise FileNotFoundError(f"{given.script}: no such program")
        if min(given.warmup, given.steps) < 1:
            raise ValueError("--warmup and --steps are at least 1")
        check_free(Path(given.out))
    except (OSError, ValueError) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    names = ("out", "batch", "sequence", "name", "about", "machine")
    known = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    try:
        run(given.script, given.arguments, Watch(given.warmup, given.steps, given.go_on, **known))
    except NotRecorded as why:
        print(f"error: {given.script}: {why}", file=sys.stderr)
        return 1
    print(f"written to {given.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
