"""Calls of a Python process that fail or kill at a chosen one, and the driver of tests with them.

A test program has scenarios. Each does one thing in a process that has failing_preload.c loaded: its
first call fails, then its second, until there is none left to fail; for each errno, once and from there
on, and by SIGKILL. Then it does the same with Python's allocations, which fail once.

`main` of this module is that of such a program. It starts a server for each scenario, or one for a
sample of all, with the library preloaded, that imports once and forks a process for each point.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import gc
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIBRARY = "tests/bindings/failing_preload.so"  # in the build directory
OTHERS_ENDED = 77  # exit status: the interpreter or NumPy ended it; failing_preload.c
HELD = 78  # of a process in which something was held to its end after an object's allocation had failed
PATIENCE_SECONDS = 60
_OBJECTS_MAX = 1000  # else; a commit has some thousands


@dataclasses.dataclass(frozen=True)
class Fault:
    """How a call fails: by an errno, or 0 to be killed; once, or from there on."""

    err: int
    ever: bool = False
    objects: bool = False  # Python's allocations fail, not the calls

    def __str__(self) -> str:
        what = os.strerror(self.err) if self.err else "killed"
        return what + (" ever after" if self.ever else "")


_ERRNOS = (errno.ENOSPC, errno.ENOMEM, errno.EIO, errno.EINTR, errno.EMFILE)
FAULTS = (
    Fault(0),
    *(Fault(err) for err in _ERRNOS),
    *(Fault(err, ever=True) for err in _ERRNOS if err != errno.EINTR),
    Fault(errno.ENOMEM, objects=True),
)


class _Seen(ctypes.Structure):
    """hft_calls, and what the process says of its end."""

    _fields_: t.ClassVar = [
        ("counted", ctypes.c_long),
        ("failed", ctypes.c_long),
        ("name", ctypes.c_char * 32),
        ("version", ctypes.c_int),
        ("had_error", ctypes.c_int),
    ]


class Calls:
    """The preloaded library; `seen` is shared with the forks of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self.seen = _Seen.from_buffer(self._memory)
        self._library.hft_preload_begin(ctypes.byref(self.seen))
        self.at, self.fault = 0, Fault(0)

    def choose(self, at: int, fault: Fault) -> None:
        """What the next `attempt` of a process is to meet."""
        self.at, self.fault = at, fault
        ctypes.memset(ctypes.byref(self.seen), 0, ctypes.sizeof(self.seen))

    def attempt(self, action: t.Callable[[], t.Any]) -> tuple[t.Any, BaseException | None]:
        """Do it while a call fails: what it gave, and the error that it raised."""
        error = answer = None
        disarm = self._library.hft_preload_disarm
        arguments = (self.at, self.fault.err, int(self.fault.ever), int(self.fault.objects))
        self._library.hft_preload_arm(*arguments)
        try:
            answer = action()
        except BaseException as raised:
            error = raised
        finally:
            disarm()
        self.seen.had_error = error is not None
        return answer, error

    def disarm(self) -> None:
        """In a fork that was made while calls fail."""
        self._library.hft_preload_disarm()

    def blocks(self) -> int:
        """The blocks of the C library that the extension has got and not freed."""
        return self._library.hft_preload_blocks()


def holdings(calls: Calls) -> dict[str, int]:
    """What a process has that can leak."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        mapped = [line for line in maps if "holdfast" in line and ".so" not in line]
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mappings": len(mapped),
        "blocks": calls.blocks(),
    }


def in_child(run: t.Callable[[], None]) -> int:
    """A fork; its pid. An assertion that fails ends it."""
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(PATIENCE_SECONDS)
            run()
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    return pid


@dataclasses.dataclass
class Tally:
    """What a scenario brought."""

    calls: int = 0
    objects: int = 0
    points: int = 0
    ok: int = 0
    errors: int = 0
    killed: int = 0
    held: int = 0  # by something that CPython has lost, as it does if a cell can't be made
    ended: int = 0  # by a defect of the interpreter or NumPy
    bad: int = 0


def _try_point(calls: Calls, name: str, run: t.Callable[[], None], tally: Tally) -> bool:
    """One point, in a process of its own; False if there is no such call."""
    with tempfile.TemporaryFile() as said:
        pid = in_child(lambda: (os.dup2(said.fileno(), 2), run()))  # type: ignore[func-returns-value]
        status = os.waitpid(pid, 0)[1]
        said.seek(0)
        words = said.read().decode(errors="replace")
    seen, fault = calls.seen, calls.fault
    failed = seen.failed > 0
    if os.waitstatus_to_exitcode(status) == OTHERS_ENDED and fault.objects:
        tally.ended += 1
    elif os.waitstatus_to_exitcode(status) == HELD and fault.objects:
        tally.held += 1
    elif status != 0:
        tally.bad += 1
        call = seen.name.decode()
        print(f"{name}: call {calls.at}, {call}, {fault}: status {status:#x}\n{words}", flush=True)
    if failed:
        tally.points += 1
        tally.killed += not fault.err
        tally.errors += bool(fault.err and seen.had_error)
        tally.ok += bool(fault.err and not seen.had_error)
    elif fault.objects:
        tally.objects = max(tally.objects, seen.counted)
    elif not (fault.err and seen.counted >= calls.at):
        tally.calls = max(tally.calls, seen.counted)
    return seen.counted >= calls.at


def _serve(calls: Calls, name: str, run: t.Callable[[Calls], None], most: int) -> int:
    """All points of a scenario, or about `most` of them, of faults of each kind. The exit status."""
    tally = Tally()
    faults = FAULTS[:: -(-len(FAULTS) // most) if most else 1]
    counted: dict[bool, int] = {}
    for number, fault in enumerate(faults):
        if fault.objects not in counted:
            calls.choose(0, fault)
            if os.waitpid(in_child(lambda: run(calls)), 0)[1] != 0:
                print(f"{name}: fails without a fault", flush=True)
                return 1
            counted[fault.objects] = calls.seen.counted
        count = counted[fault.objects]
        limit = -(-most // len(FAULTS)) or (_OBJECTS_MAX if fault.objects else count)
        step = max(1, count // max(1, limit))
        at = 1 + number * step // len(faults)
        calls.choose(at, fault)
        while _try_point(calls, name, lambda: run(calls), tally):
            at += step
            calls.choose(at, fault)
    print(
        f"{name:16} {tally.calls:4} calls, {tally.objects:5} objects, {tally.points:5} points:"
        f" {tally.ok:5} done all the same, {tally.errors:5} errors, {tally.killed:4} killed,"
        f" {tally.ended} ended by others, {tally.held} held,"
        f" {tally.bad} bad",
        flush=True,
    )
    return tally.bad != 0


def _build() -> Path:
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("HOLDFAST_BUILD") or root / "build" / "c")


def main(
    program: str, scenarios: t.Mapping[str, t.Callable[[Calls], None]], warm: t.Callable[[], None]
) -> int:
    """Of a test program: `all` or names of scenarios; `--sample N` before them takes about N points of each."""
    words = sys.argv[1:]
    if words[:1] == ["--serve"]:
        os.environ.pop("LD_PRELOAD", None)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        calls = Calls()
        warm()
        gc.freeze()
        return max(_serve(calls, name, scenarios[name], int(words[1])) for name in words[2:])
    most = 0
    if words[:1] == ["--sample"]:
        most, words = int(words[1]), words[2:] or ["all"]
    wanted = [name for name in scenarios if "all" in words or name in words]
    # A pool of threads would make each fork slow.
    environment = os.environ | {"LD_PRELOAD": str(_build() / LIBRARY), "OPENBLAS_NUM_THREADS": "1"}

    def ask(names: list[str]) -> int:
        command = [sys.executable, program, "--serve", str(most), *names]
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE)
        print(done.stdout, end="", flush=True)
        return done.returncode

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # To start a server takes as long as some points.
        return max(pool.map(ask, [wanted] if most else [[name] for name in wanted]), default=2)
