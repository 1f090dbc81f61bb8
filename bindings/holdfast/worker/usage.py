"""What a cell took of its machine: processor time, memory, I/O, and what recording it cost.

Looked at once before the cell's code and once after it, in the cell's own process: four reads,
some tens of microseconds. Memory is resident memory (RSS), which counts pages of mapped values
that were touched; its peak is the kernel's own, begun anew with the cell. I/O is what passed
through read and write calls (rchar, wchar), whether it came from a disk or a cache, but for what
IPython's history writes meanwhile. Children count when they were waited for.

What recording costs is measured as well, not assumed: a process that waits for a cell calls an
empty function some thousand times, with and without a recording, and what an event costs is
then known to all forks of the fork server. Once is enough: it is the same code on the same
machine. Under Score-P nothing is measured, since a process records only once there.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import shutil
import struct
import tempfile
import time
import typing as t

# As they are now: what a cell puts in their place isn't called by us.
from os import close as _close
from os import open as _open
from os import read as _read_some
from time import monotonic_ns as _monotonic_ns
from time import process_time_ns as _process_time_ns

from .control import Frame

if t.TYPE_CHECKING:
    from holdfast._store import _Saved

    from . import reports

_PAGE = mmap.PAGESIZE
_CALLS = 1000
_ROUNDS = 5


def _seconds() -> float:
    own, children = (resource.getrusage(who) for who in _WHO)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def of_commit(saved: _Saved) -> reports.CommitCounts:
    """What a report has of a commit, from what Names.save() returns."""
    return {
        "bytes_copied": saved["bytes_copied"],
        "bytes_shared": saved["bytes_shared"],
        "copy_faults": saved["pages_changed"],
        "names_saved": len(saved["saved"]),
        "names_unserializable": len(saved["unserializable"]),
        "names_examined": saved["names_examined"],
        "names_encoded": saved["names_encoded"],
    }


def word(io: bool = True) -> Frame:
    """What the monitor gets of this moment (Moment): others see it a little later, and the
    children's time in hundredths of a second. What was read and written takes longest to ask."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "time_ns": _monotonic_ns(),
        "cpu_ns": _process_time_ns(),
        "children_ns": round((children.ru_utime + children.ru_stime) * 1e9),
        "io": _read("/proc/self/io") if io else b"",
    }


def _read(path: str) -> bytes:
    try:
        fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # another system
    try:
        return _read_some(fd, 512)
    finally:
        _close(fd)


def _resident() -> int:
    words = _read("/proc/self/statm").split()
    return int(words[1]) * _PAGE if words else 0


def _transferred(path: str = "/proc/self/io") -> tuple[int, int]:
    words = _read(path).split()
    return (int(words[1]), int(words[3])) if words else (0, 0)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        fd = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"5")  # proc(5): the peak only
        finally:
            os.close(fd)


class Aside:
    """What our own threads read and write: it is no part of a cell, but of its process."""

    def __init__(self) -> None:
        self.io = (0, 0)

    @contextlib.contextmanager
    def counted(self) -> t.Iterator[None]:
        """All that this thread does in the block."""
        before = _transferred("/proc/thread-self/io")
        try:
            yield
        finally:
            after = _transferred("/proc/thread-self/io")
            read, written = self.io
            self.io = read + after[0] - before[0], written + after[1] - before[1]


aside = Aside()


class Usage:
    """Of one cell."""

    def begin(self) -> None:
        """Before its code."""
        _forget_peak()
        self._resident, self._io, self._aside = _resident(), _transferred(), aside.io
        self._seconds = _seconds()

    def end(self) -> reports.Usage:
        """After it: the report's part."""
        seconds = _seconds() - self._seconds
        found: reports.Usage = {"seconds_cpu": seconds}
        resident = _resident()
        if resident:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            found["bytes_peak"] = max(peak, resident, self._resident)
            found["bytes_grown"] = resident - self._resident
        now = _transferred()
        if any(now):
            read, written = (
                max(0, end - begin - (later - earlier))
                for end, begin, later, earlier in zip(
                    now, self._io, aside.io, self._aside, strict=True
                )
            )
            found["bytes_read"], found["bytes_written"] = read, written
        return found


# Neither a file of this package's nor called by one: those are never recorded.
_PROBE = compile(
    """
def nothing():
    pass

def best(rounds, calls, clock):
    took = []
    for _ in range(rounds):
        started = clock()
        for _ in range(calls):
            nothing()
        took.append(clock() - started)
    return min(took)
""",
    "<what an event costs>",
    "exec",
)


class EventCost:
    """Seconds that recording one event takes; of a fork server and its forks."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def known(self) -> float:
        """0 while nobody has measured it."""
        return struct.unpack_from("d", self._shared)[0]

    def measure(self, recorder: t.Any) -> None:
        """In a process that waits: a recording of nothing, in a directory of its own."""
        probe: dict[str, t.Any] = {}
        exec(_PROBE, probe)  # noqa: S102
        measured = (_ROUNDS, _CALLS, time.perf_counter)
        plain = probe["best"](*measured)
        directory = tempfile.mkdtemp(prefix="holdfast-")
        settings = {name: os.environ.pop(name) for name in _measurement_settings()}
        try:
            recorder.open(directory, tracing=True, profiling=False)
            try:
                recorder.enable()
                recorded = probe["best"](*measured)
            finally:
                recorder.disable()
                counted = recorder.close()
        finally:
            os.environ.update(settings)
            shutil.rmtree(directory, ignore_errors=True)
        if counted["events"] >= 2 * _CALLS * _ROUNDS:
            cost = (recorded - plain) / (2 * _CALLS)
            struct.pack_into("d", self._shared, 0, max(cost, 1e-12))


def _measurement_settings() -> list[str]:
    """Those of the notebook's recordings, which this is none of."""
    return [name for name in os.environ if name.startswith("SCOREP_")]


event_cost = EventCost()
