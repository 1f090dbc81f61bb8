"""Measures the resources that a cell took: processor time, memory, I/O.

The counters are read once before the cell's code and once after it, in the cell's own process. These are four
reads, of some tens of microseconds.

* Wall and processor time are those of the code alone, as the shell noted them (ipython/shell.py). What IPython does
  before and after it belongs to the hand-over.
* Memory is resident memory (RSS). Touched pages of mapped values count. The peak is the system's counter, which is
  reset before the cell. Memory that was freed and is kept for later arrays doesn't count, nor does memory that was
  prepared and not used.
* I/O is what passed through read and write calls (rchar, wchar), from a disk or a cache. What IPython's history
  writes meanwhile doesn't count, nor what recorders in children write when these end.
* Processes below it count: those that have been waited for, and what the living ones, such as joblib's workers,
  have done meanwhile.
"""

from __future__ import annotations

import contextlib
import glob
import mmap
import os
import resource
import threading
import typing as t

# Imported here by name: if a cell replaces one, we don't call the replacement.
from builtins import OSError, int, len, max
from os import close as _close
from os import open as _open
from os import read as _read_some

from holdfast import _store

Frame = dict[str, t.Any]

if t.TYPE_CHECKING:
    from holdfast._store import _Saved
    from holdfast.worker import reports

_PAGE = mmap.PAGESIZE
_TICKS = os.sysconf("SC_CLK_TCK")  # a second
_LOOKS = 10  # tries to read the I/O while a thread of ours writes; it waits for the disk most of the time


def children() -> set[int]:
    """The children of this process.

    Raises
    ------
    OSError
        The system doesn't say.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    found = _children_of("self")
    if not found:
        raise OSError("the system doesn't list the children of a process")
    return found


def _children_of(process: int | str) -> set[int]:
    found: set[int] = set()
    for task in os.listdir(f"/proc/{process}/task"):
        found.update(map(int, _read(f"/proc/{process}/task/{task}/children", 1 << 16).split()))
    return found


def _of_children() -> float:
    """The processor time, in seconds, of all processes below this one: those that were waited for, to the
    microsecond, and the living ones, in the system's ticks."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = waited.ru_utime + waited.ru_stime
    with contextlib.suppress(OSError):
        below = children()
        while below:
            seconds += sum(map(_of_process, below))
            below = set().union(*map(_children_of, below))
    return seconds


def _of_process(pid: int) -> float:
    """The processor time of a process, and of the children that it has waited for."""
    words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, words[11:15])) / _TICKS  # proc(5): utime, stime, cutime, cstime


def of_commit(saved: _Saved) -> reports.CommitCounts:
    """A report's part about a commit, from the result of Names.save()."""
    return {
        "bytes_copied": saved["bytes_copied"],
        "bytes_shared": saved["bytes_shared"],
        "copy_faults": saved["pages_changed"],
        "names_saved": len(saved["saved"]),
        "names_unserializable": len(saved["unserializable"]),
        "names_examined": saved["names_examined"],
        "names_encoded": saved["names_encoded"],
    }


def word(begins: bool = False, brief: bool = False) -> Frame:
    """The report of this moment for the monitor. Others see the counters a little later, and the
    children's time in hundredths of a second. The peak is that since the last recorded cell began.
    The program may read it, too, so it isn't reset before other cells. If a cell's code `begins`, the
    time to read the counters doesn't count to it. Memory and I/O take longest to read: a `brief` one
    has neither."""
    global _looked
    said, read = _store._moment(_session, begins, brief)
    _looked += read
    return said


_session: t.Any = None  # this process keeps memory of it for later arrays


def leave_out_memory_of(session: t.Any) -> None:
    """From now on, don't count the session's memory that this process keeps for later arrays."""
    global _session
    _session = session


_looked = 0  # bytes that _read has read: a cell didn't read these


def _read(path: str, most: int = 512) -> bytes:
    global _looked
    try:
        fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # another system
    try:
        found = _read_some(fd, most)
    finally:
        _close(fd)
    _looked += len(found)
    return found


def resident() -> int:
    """Resident memory of this process in bytes. 0 if the system doesn't say."""
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
    """The I/O of our own threads. It belongs to the process, but not to a cell."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # a thread may have the lock at the fork

    def _begin(self) -> None:
        self._io = (0, 0)
        self._lock = threading.Lock()
        self._counting: dict[
            int, tuple[int, int]
        ] = {}  # threads in a block, and their I/O at its begin

    @property
    def io(self) -> tuple[int, int]:
        """The I/O until now. A thread that is in its block counts with what it has done so far."""
        with self._lock:
            read, written = self._io
            for thread, before in self._counting.items():
                now = _transferred(f"/proc/self/task/{thread}/io")
                if any(now):
                    read, written = read + now[0] - before[0], written + now[1] - before[1]
            return read, written

    def io_of_others(self) -> tuple[int, int] | None:
        """The I/O of the process without these threads and without `_read`. None if the system
        doesn't say. The two counters are read one after the other. If a thread of ours did
        something meanwhile, they are read again."""
        ours = self.io
        for _ in range(_LOOKS):
            before, looked, everything = ours, _looked, _transferred()
            ours = self.io
            if ours == before:
                break
        read, written = everything[0] - ours[0] - looked, everything[1] - ours[1]
        return (read, written) if any(everything) else None

    @contextlib.contextmanager
    def counted(self) -> t.Iterator[None]:
        """Count all I/O of this thread in the block as ours."""
        thread = threading.get_native_id()
        with self._lock:
            looked = _looked
            before = _transferred("/proc/thread-self/io")
            # This read is in the difference, and in _looked.
            self._counting[thread] = before = (before[0] + _looked - looked, before[1])
        try:
            yield
        finally:
            with self._lock:
                after = _transferred("/proc/thread-self/io")
                read, written = self._io
                self._io = read + after[0] - before[0], written + after[1] - before[1]
                self._counting.pop(thread, None)


aside = Aside()


def _written_by_recorders(experiment: str) -> int:
    """Bytes that processes which have ended wrote for the archive: their events and definitions."""
    if not experiment:
        return 0
    files = glob.iglob(os.path.join(glob.escape(experiment), "parts", "*", "**"), recursive=True)
    return sum(os.path.getsize(path) for path in files if os.path.isfile(path))


class Usage:
    """The resources that one cell uses."""

    def begin(self) -> None:
        """Read the counters before the cell's code."""
        if _session is not None:
            _store._leave_cache(_session)  # memory that is kept, so that it isn't in the peak
        _forget_peak()
        self._io = aside.io_of_others()
        self._children = _of_children()

    def end(
        self, span: t.Mapping[str, Frame], own_seconds: float, experiment: str = ""
    ) -> reports.Usage:
        """Read the counters after the cell's code: the report's part. Which of the processes below it
        were recorded isn't known here: all of their time is called unrecorded.

        Parameters
        ----------
        span : dict
            The words of the begin and the end of the cell's code.
        own_seconds : float
            Processor time of this process, from the begin of the cell's code to its end.
        experiment : str
            The directory that its children record to, too.
        """
        # One may have gone out of sight, since its parent has ended.
        of_children = max(0, _of_children() - self._children)
        found: reports.Usage = {
            "seconds_cpu": own_seconds + of_children,
            "seconds_unrecorded": of_children,
        }
        begin, end = (span.get(edge, {}) for edge in ("begin", "end"))
        if "memory" in begin and "memory" in end:
            found["bytes_peak"] = max(end["peak"], begin["memory"])
            found["bytes_grown"] = end["memory"] - begin["memory"]
        now = aside.io_of_others()
        if now and self._io:
            read, written = (max(0, b - a) for a, b in zip(self._io, now, strict=True))
            found["bytes_read"] = read
            found["bytes_written"] = max(0, written - _written_by_recorders(experiment))
        return found
