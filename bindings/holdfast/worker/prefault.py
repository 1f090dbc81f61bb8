"""Copies the pages that every cell writes, before the cell comes.

`Prefault` is for the workers that wait for a cell, `CellPages` for the main worker.

A worker shares the fork server's pages until it writes to them, and to count a reference is to write. Each
such page was a fault in a cell: nine hundred for an empty one, two thousand with pandas or PyTorch imported,
half of what these cells cost. All forks of one fork server write the same pages. So a worker whose cell took
many faults leaves a list of the pages that it has copied. A standby copies these after it has said that it is
ready, in pieces, and stops when its cell comes.

A fork has no page tables of files either: the code of each library faults again, a hundred times for an
element of a DataFrame. So the list also has the pages of libraries that the cell's worker has used. A standby
that has waited a while touches them, too. If cells follow each other, that would cost more than the faults.

The list is in memory that the fork server shares with its forks. It is advice: from an old or torn list a few
pages are copied that nobody needs. When the fork server has imported more, it begins a new list.
"""

from __future__ import annotations

import array
import io
import mmap
import resource
import struct
import typing as t

from holdfast import _store

_BYTES = 256 * 1024  # of the list: 16 for a run
_PAGES_MAX = 8192  # of a list, not to hold what a cell has computed
_FAULTS_MIN = 256  # fewer aren't worth a new list
_LISTS_MAX = 4  # between two imports: a cell may take faults for its own reasons
_PIECE = 64  # runs copied at once: 0.3 ms or so
_OWN_MAX = 4096  # pages that the main worker's cells write, each of them
_RUN = struct.Struct("QQ")
_HEAD = struct.Struct("QQQQ")  # which imports, lists made since, bytes of the list, of own pages


class Prefault:
    """The list of pages of one fork server and its forks."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _BYTES)
        self._epoch = 0
        self._ranges = b""
        self._code = b""
        self._faults = 0
        self._left: bytes | None = None  # of own pages: not copied yet; None: not looked at

    def settle(self) -> None:
        """Begin a new list in the fork server: its memory is as forks will find it."""
        self._epoch += 1
        self._ranges, self._code = _ranges("rw-p"), _ranges("r-xp", "r--p")
        _HEAD.pack_into(self._shared, 0, self._epoch, 0, 0, 0)

    # ---- in a fork that waits

    def copy_some(self) -> bool:
        """Copy a piece of the listed pages; whether there may be more."""
        if self._left is None:
            self._left = self._list()[0]
        piece, self._left = self._left[: _PIECE * _RUN.size], self._left[_PIECE * _RUN.size :]
        _store._copy_pages(piece)
        return bool(self._left)

    def meet_libraries(self) -> None:
        """Have the listed pages of libraries: 2 ms, for a process that has waited a while already."""
        _store._copy_pages(self._list()[1])

    def _list(self) -> tuple[bytes, bytes]:
        """The runs of own pages, and those of libraries."""
        epoch, _, size, own = _HEAD.unpack_from(self._shared)
        if epoch != self._epoch:
            return b"", b""
        runs = self._shared[_HEAD.size : _HEAD.size + size]
        return runs[:own], runs[own:]

    # ---- in one that has a cell

    def begin(self) -> None:
        """Count faults from here."""
        self._faults = _faults()

    def faults(self) -> int:
        """How many there were since."""
        return _faults() - self._faults

    def learn(self, faults: int) -> None:
        """Leave a list, if a cell that took so many faults shows that it is needed."""
        epoch, lists, *_ = _HEAD.unpack_from(self._shared)
        if faults < _FAULTS_MIN or epoch != self._epoch or lists >= _LISTS_MAX:
            return
        half = _BYTES // 2
        own = _first_pages(_store._own_pages(self._ranges), half)
        runs = own + _first_pages(_store._file_pages(self._code), half - _HEAD.size)
        _HEAD.pack_into(self._shared, 0, epoch, lists + 1, 0, 0)
        self._shared[_HEAD.size : _HEAD.size + len(runs)] = runs
        _HEAD.pack_into(self._shared, 0, epoch, lists + 1, len(runs), len(own))


class CellPages:
    """The pages that the main worker writes in each of its cells: pages that it shares with its
    sleeping fork, and copies when it first writes to them. Known are those that were written after
    each of two forks. They are copied once the next fork sleeps, and nobody uses the notebook."""

    def __init__(self) -> None:
        self._written: set[int] = set()  # after the fork before
        self._runs = b""  # of pages that were written after both
        self._left = b""
        self._faults: int | None = None  # when a fork was made; None: it was looked at

    def begin(self) -> None:
        """A fork sleeps."""
        self._faults, self._left = _faults(), self._runs

    def copy_some(self) -> bool:
        """Copy a piece of them; whether there is more."""
        size = _PIECE * _RUN.size
        piece, self._left = self._left[:size], self._left[size:]
        if piece:
            _store._copy_pages(piece)
            self._faults = _faults()
        return bool(self._left)

    def learn(self) -> None:
        """Cells have run, and the fork is there still: look at what was written, if that was much."""
        before, self._faults = self._faults, None
        if before is None or _faults() - before < _FAULTS_MIN:
            return
        written = set(_pages(_store._own_pages(_ranges("rw-p"))))
        common = sorted(written & self._written)
        self._written = written
        if len(common) <= _OWN_MAX:
            self._runs = _joined(common)


def _pages(runs: bytes) -> t.Iterator[int]:
    for start, length in _RUN.iter_unpack(runs):
        yield from range(start, start + length, mmap.PAGESIZE)


def _joined(pages: list[int]) -> bytes:
    """Runs of these pages, which are in the order of their addresses."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and sum(runs[-1]) == page:
            runs[-1][1] += mmap.PAGESIZE
        else:
            runs.append([page, mmap.PAGESIZE])
    return b"".join(_RUN.pack(*run) for run in runs)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _ranges(*rights: str) -> bytes:
    """This process's memory with one of these rights, in pairs of address and length; without what
    the session keeps, which may be large."""
    ranges = array.array("Q")
    try:
        with io.open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                place, right, _ = line.split(None, 2)
                if right in rights and "/holdfast-" not in line:
                    start, end = (int(text, 16) for text in place.split("-"))
                    ranges.extend((start, end - start))
    except OSError:
        pass  # another system: nothing is learnt
    return ranges.tobytes()


def _first_pages(runs: bytes, room: int) -> bytes:
    """Take as many of the runs as a list can have."""
    size, left = 0, _PAGES_MAX * mmap.PAGESIZE
    room = min(len(runs), room) // _RUN.size * _RUN.size
    for _, length in _RUN.iter_unpack(runs[:room]):
        left -= length
        if left < 0:
            break
        size += _RUN.size
    return runs[:size]


prefault = Prefault()
