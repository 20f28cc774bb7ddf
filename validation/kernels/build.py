#!/usr/bin/env python3
"""Compiles kernels.cu to kernels.ptx, and checks that the two agree.

    build.py [--packages DIR] [--install]            writes kernels.ptx
    build.py [--packages DIR] [--install] --check    compiles again, compares, and assembles

Needs no GPU and no CUDA toolkit, only two Python packages, of exactly these versions:

    nvidia-cuda-nvrtc-cu12 12.0.140   the compiler; CUDA 12.0's writes PTX ISA 8.0, which drivers
                                      from 525 on read
    nvidia-cuda-nvcc-cu12  12.9.86    ptxas; assembles for every device from sm_75 to sm_100

They are looked for in DIR, as `pip install --target DIR` leaves them, or on Python's own path
without --packages. --install puts into DIR what is missing there, and nothing anywhere else.

kernels.ptx is for compute_75 and is committed, so that building tiersim needs none of this. Its
first line names the SHA-256 of its source, which a test compares without any compiler. --check fails
if it is not what kernels.cu compiles to, if ptxas refuses it or warns, if a kernel spills registers
or has a stack, or if it takes more registers than a block of 1024 threads can have.
Exit: 0 done or agrees, 1 does not agree, 2 a tool is missing, 3 a tool failed.
"""

import argparse
import ctypes
import difflib
import hashlib
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE, PTX = HERE / "kernels.cu", HERE / "kernels.ptx"
NVRTC, NVCC = ("nvidia-cuda-nvrtc-cu12", "12.0.140"), ("nvidia-cuda-nvcc-cu12", "12.9.86")
# fmad is the default, named because the FLOP count of `fma_f32` rests on it.
OPTIONS = ["--gpu-architecture=compute_75", "--std=c++17", "--fmad=true"]
DEVICES = ["sm_75", "sm_80", "sm_90", "sm_100"]
# 65536 registers in a multiprocessor, blocks of up to 1024 threads.
MOST_REGISTERS = 64


class Missing(Exception):
    """A package that is not there."""


def install(folder):
    """Puts both packages into `folder`, unless they are there."""
    if all(installed(folder, package) for package in (NVRTC, NVCC)):
        return
    wanted = [f"{name}=={version}" for name, version in (NVRTC, NVCC)]
    # In one go: they share a folder `nvidia`, which --upgrade replaces as a whole.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    try:
        subprocess.run([*pip, "--target", str(folder), *wanted], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"{' and '.join(wanted)} cannot be installed: {error}") from error


def installed(folder, package):
    """Whether a folder has a package of the right version."""
    name, version = package
    return (folder / f"{name.replace('-', '_')}-{version}.dist-info").is_dir()


def find(folder, package, inside):
    """A file of a package of the right version."""
    name, version = package
    if folder is None:
        spec = importlib.util.find_spec("nvidia")
        roots = [pathlib.Path(path) for path in spec.submodule_search_locations] if spec else []
        folders = [root.parent for root in roots]
    else:
        folders = [folder]
    for place in folders:
        path = place / "nvidia" / inside
        if path.exists() and installed(place, package):
            return path
    where = folder or "Python's path"
    raise Missing(f"{name} {version} is not in {where}; --packages DIR --install puts it into DIR")


def compile_ptx(folder):
    """kernels.cu as PTX, by NVRTC."""
    library = find(folder, NVRTC, "cuda_nvrtc/lib/libnvrtc.so.12")
    # The compiler looks for this one by its name alone.
    builtins = find(folder, NVRTC, "cuda_nvrtc/lib/libnvrtc-builtins.so.12.0")
    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(library))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()

    def call(what, *arguments):
        code = getattr(nvrtc, what)(*arguments)
        if code != 0:
            print(text_of(nvrtc, "ProgramLog", program), file=sys.stderr)
            raise RuntimeError(f"{what}: {nvrtc.nvrtcGetErrorString(code).decode()}")

    source = SOURCE.read_bytes()
    create = (ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    call("nvrtcCreateProgram", *create)
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    call("nvrtcCompileProgram", program, len(OPTIONS), options)
    log = text_of(nvrtc, "ProgramLog", program).strip()
    if log:
        raise RuntimeError(f"kernels.cu compiles with warnings:\n{log}")
    digest = hashlib.sha256(source).hexdigest()
    return f"// kernels.cu sha256 {digest}\n" + text_of(nvrtc, "PTX", program)


def text_of(nvrtc, what, program):
    """A text that NVRTC holds for a program."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(size.value, 1))
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def assemble(folder, ptx, device):
    """What ptxas says about a device: (kernel, registers, bytes of stack and spills) each."""
    ptxas = find(folder, NVCC, "cuda_nvcc/bin/ptxas")
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "kernels.ptx"
        source.write_text(ptx)
        flags = ["-v", "--warning-as-error", "-arch", device]
        command = [str(ptxas), *flags, str(source), "-o", str(source.with_suffix(".cubin"))]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"ptxas {device}:\n{run.stdout}{run.stderr}")
    entry = re.compile(
        r"entry function '(\w+)' for '" + device + r"'.*?"
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
        r"Used (\d+) registers",
        re.DOTALL,
    )
    found = entry.findall(run.stderr)
    rows = [(name, int(used), int(a) + int(b) + int(c)) for name, a, b, c, used in found]
    entries = re.findall(r"\.entry (\w+)", ptx)
    if sorted(row[0] for row in rows) != sorted(entries):
        raise RuntimeError(f"ptxas {device} says nothing about some kernels:\n{run.stderr}")
    return rows


def check(folder, ptx):
    """Prints what does not hold; whether all does."""
    good = True
    committed = PTX.read_text() if PTX.exists() else ""
    if committed != ptx:
        good = False
        print("kernels.ptx is not what kernels.cu compiles to; run build.py:")
        lines = difflib.unified_diff(committed.splitlines(), ptx.splitlines(), lineterm="", n=1)
        print("\n".join(list(lines)[:40]))
    print(f"{'device':8} {'kernel':14} {'registers':>9} {'stack and spills':>17}")
    for device in DEVICES:
        for name, registers, spilled in sorted(assemble(folder, ptx, device)):
            bad = spilled > 0 or registers > MOST_REGISTERS
            good = good and not bad
            note = "  <- too many" if bad else ""
            print(f"{device:8} {name:14} {registers:9} {spilled:11} bytes{note}")
    return good


def main():
    parser = argparse.ArgumentParser(description="Compiles kernels.cu to kernels.ptx.")
    parser.add_argument("--packages", type=pathlib.Path, help="folder that holds the packages")
    parser.add_argument("--install", action="store_true", help="put what is missing there")
    parser.add_argument("--check", action="store_true", help="compare and assemble; write nothing")
    arguments = parser.parse_args()
    if arguments.install and arguments.packages is None:
        parser.error("--install needs --packages DIR: nothing is installed into the system")
    try:
        if arguments.install:
            install(arguments.packages)
        ptx = compile_ptx(arguments.packages)
        if arguments.check:
            return 0 if check(arguments.packages, ptx) else 1
        PTX.write_text(ptx)
        version = re.search(r"^\.version (\S+)", ptx, re.MULTILINE).group(1)
        print(f"kernels.ptx: PTX ISA {version}, {len(re.findall(r'.entry ', ptx))} kernels")
        return 0
    except Missing as missing:
        print(f"build.py: {missing}", file=sys.stderr)
        return 2
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
