"""Runs the command and hears what it says.

All of tiersim is one executable that comes with this package. A call of this module is one process
of it, so the interpreter's lock is never held while it works, Ctrl-C ends it, a crash of it is an
exception, and every number is the command's own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import IO, Any, Callable, Sequence

from .errors import Diagnostic, Error, Fault

Dict = dict[str, Any]

#: Seconds that an interrupted command has to end before it is killed.
_GRACE = 2.0


def command() -> str:
    """The path of the ``tiersim`` executable: what the environment variable ``TIERSIM`` names, or
    the one that was installed with this package."""
    named = os.environ.get("TIERSIM")
    if named:
        return named
    name = "tiersim.exe" if os.name == "nt" else "tiersim"
    schemes = [None, sysconfig.get_preferred_scheme("user")]
    folders = [
        sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme)
        for scheme in schemes
    ]
    # `pip install --target` puts it beside the package.
    folders.append(str(Path(__file__).resolve().parent.parent / "bin"))
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    found = shutil.which("tiersim")
    if found is None:
        raise FileNotFoundError(
            f"no {name} in {', '.join(folders)} or on the path; install tiersim again, or name it "
            "with the environment variable TIERSIM"
        )
    return found


#: Seconds for which nothing is drawn.
_QUIET = 1.0


class Said:
    """What a command printed and said beside it."""

    def __init__(self) -> None:
        self.code = 0
        self.stdout = b""
        self.failed: list[str] = []
        self.warnings: list[Dict] = []
        self.errors: list[Diagnostic] = []
        self.faults: list[str] = []
        self.other: list[str] = []

    def json(self) -> Any:
        """What it printed, which is JSON."""
        return json.loads(self.stdout)


def run(
    arguments: Sequence[str],
    *,
    text: str | None = None,
    progress: bool = True,
    talk: Callable[[IO[bytes], IO[bytes]], None] | None = None,
) -> Said:
    """Runs the command to its end, or raises what it fails with.

    ``text`` goes to its standard input. ``talk`` answers it instead, and is called with its
    standard input and output on this thread.
    """
    stdin = subprocess.PIPE if text is not None or talk is not None else subprocess.DEVNULL
    said, bar = Said(), _Bar(progress)
    started: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []

    def begin(work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        threads.append(thread)

    # Ctrl-C may come at any time: from the first line on, what was started is known here.
    try:
        _start([command(), *arguments, "--messages", "json"], stdin, started)
        process = started[0]
        begin(_hear, process.stderr, said, bar)
        if talk is not None:
            assert process.stdin is not None and process.stdout is not None
            with process.stdout:
                talk(process.stdin, process.stdout)
            _close(process.stdin)  # There is nothing more to ask.
        else:
            begin(_keep, process.stdout, said)
            if text is not None:
                begin(_give, process.stdin, text.encode())
        said.code = process.wait()
    except BaseException:
        for process in started:
            _end(process)
        raise
    finally:
        for thread in threads:
            thread.join()
        for process in started:
            if process.stdin is not None:
                _close(process.stdin)
        bar.close()
    _refuse(said)
    return said


def _start(words: list[str], stdin: int, started: list[subprocess.Popen[bytes]]) -> None:
    """Starts a process on a thread of its own: an interrupt of this one while the process is being
    made would leave one behind that nobody knows."""
    failed: list[BaseException] = []
    done = threading.Event()

    def start() -> None:
        try:
            started.append(
                subprocess.Popen(
                    words,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # Ctrl-C of a terminal goes to a whole group: this one is told by this module.
                    start_new_session=os.name != "nt",
                )
            )
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    # Not join(), which an interrupt lets believe that the thread has ended.
    threading.Thread(target=start).start()
    try:
        done.wait()
    except BaseException:
        done.wait()
        raise
    if failed:
        raise failed[0]


def _refuse(said: Said) -> None:
    """Raises what a command failed with, unless it only says that expectations do not hold."""
    if said.code in (0, 1):
        return
    other = "\n".join(said.other)
    if said.code == 2:
        raise Error(said.errors or [Diagnostic(other.removeprefix("error: "), rule=other)])
    if said.code < 0:
        name = signal.Signals(-said.code).name
        text = f"the command was ended by {name}; it may have run out of memory"
    else:
        text = "\n".join(said.faults) or other or "the command failed and said nothing"
    raise Fault([Diagnostic(text, rule=text)], said.code)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and all that it started."""

    def tell(number: int) -> None:
        try:
            if os.name == "nt":
                process.kill()
            else:
                os.killpg(process.pid, number)
        except ProcessLookupError:
            pass

    tell(signal.SIGTERM)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        tell(getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _keep(stdout: IO[bytes], said: Said) -> None:
    with stdout:
        said.stdout = stdout.read()


def _give(stdin: IO[bytes], data: bytes) -> None:
    try:
        stdin.write(data)
    except BrokenPipeError:
        pass  # It has failed already, and says why.
    _close(stdin)


def _close(stdin: IO[bytes]) -> None:
    try:
        stdin.close()
    except BrokenPipeError:
        pass


def _hear(stderr: IO[bytes], said: Said, bar: _Bar) -> None:
    with stderr:
        for raw in stderr:
            _heard(raw.decode(errors="replace").rstrip("\n"), said, bar)


def _heard(line: str, said: Said, bar: _Bar) -> None:
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        said.other.append(line)
        return
    for key, value in told.items():
        if key == "progress":
            bar.show(value)
        elif key == "error":
            said.errors.append(Diagnostic._of(value))
        elif key == "failed":
            said.failed.append(value)
        elif key == "warning":
            said.warnings.append(value)
        elif key == "fault":
            said.faults.append(value)


class _Bar:
    """Progress by tqdm, where it is installed."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.bar: Any = None

    def show(self, told: Dict) -> None:
        if self.bar is None:
            if not self.wanted:
                return
            try:
                # Notebooks draw it where they can.
                import ipywidgets  # type: ignore # noqa: F401
                from tqdm.auto import tqdm
            except ImportError:
                try:
                    from tqdm import tqdm  # type: ignore
                except ImportError:
                    self.wanted = False
                    return
            about = {"total": told["of"], "desc": told["what"], "leave": False, "delay": _QUIET}
            self.bar = tqdm(**about, file=sys.stderr)
        if told["of"] != self.bar.total:
            self.bar.reset(told["of"])
            self.bar.set_description(told["what"], refresh=False)
        self.bar.update(told["done"] - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
