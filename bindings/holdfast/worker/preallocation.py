"""Gets memory for a cell's new arrays before its code runs.

Undo keeps what the last cell made, so the new arrays of a recorded cell lie in fresh pages. Fresh pages took
20 ms for 32 MiB, a third of what was measured. Code that runs again asks for the same blocks again. So they
are noted by the code, in memory that the fork server shares with its forks. The worker that gets that code
preallocates them before the recording begins, in the same time that it would take in the cell.

If free space has memory already, it takes a tenth of that. So a worker that has waited a while fills free
space with as much as one of the last cells asked for. It does so in steps, and one worker after the other.
Code that runs for the first time has the use of it, too.

The notes are advice, as the list of pages in prefault.py is: a torn list costs a block that nobody needs.
"""

from __future__ import annotations

import array
import mmap
import struct
import typing as t

from holdfast import _store

from . import preparation
from .computing import Computing

BYTES_MAX = 256 << 20  # for one cell
_CELLS = 16  # that are remembered
_LATELY = 8  # cells ago
_SIZES = 64  # of each; as many as the store lists
_STEP = 4 << 20  # bytes: 3 ms where pages are small, 1 if they are huge
_PAUSE_SECONDS = 0.005  # between two steps: nobody waits for them
_TURN_SECONDS = 0.1  # until one looks again whether another is done
_COUNT = struct.Struct("Q")  # cells that ran
_HEAD = struct.Struct("16sQQ")  # the key of a code, when it ran, how many sizes it has
_RECORD = _HEAD.size + 8 * _SIZES
_BYTES = _COUNT.size + _CELLS * _RECORD


class Preallocation:
    """What cells asked for, as one fork server and its forks remember it."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _BYTES)
        self._prefilling = Computing()
        self._began = False

    # ---- in a worker that waits

    def prefill_some(self, session: t.Any) -> float | None:
        """Do a step; seconds until the next, or None if there is no more to do."""
        if not self._began:
            if self._prefilling.is_going_on():
                return _TURN_SECONDS
            self._prefilling.begin()
            self._began = True
            _store._prefill(session, self._lately())
        if _store._prefill_some(session, _STEP):
            return _PAUSE_SECONDS
        self.prefill_no_more(session)
        return None

    def prefill_no_more(self, session: t.Any) -> None:
        """Let everybody have what there is by now."""
        if self._began:
            _store._prefill(session, b"")
            self._prefilling.end()
            self._began = False

    def _lately(self) -> bytes:
        """The sizes that the largest of the last cells asked for."""
        (now,) = _COUNT.unpack_from(self._shared)
        places = [place for place in range(_CELLS) if now - self._head(place)[1] < _LATELY]
        return max(map(self._sizes, places), key=_total, default=b"")

    # ---- in one that has a cell

    def fill(self, session: t.Any, code: str) -> int:
        """Before a cell: have ready what its code asked for the last time; how many bytes."""
        place = self._find(_key(code))
        sizes = self._sizes(place) if place is not None else b""
        preallocated = _store._preallocate(session, sizes) if sizes else 0
        _store._taken(session)  # what was asked for until now wasn't the cell's
        return preallocated

    def learn(self, session: t.Any, code: str) -> None:
        """After a cell: remember what it asked for, the last cell first."""
        sizes = _bounded(_store._taken(session), BYTES_MAX)
        mark = _key(code)
        place = self._find(mark)
        now = _COUNT.unpack_from(self._shared)[0] + 1
        _COUNT.pack_into(self._shared, 0, now)
        if place is None:
            if not sizes:
                return
            place = _CELLS - 1
        first, end = _COUNT.size, _COUNT.size + place * _RECORD
        record = (_HEAD.pack(mark, now, len(sizes) // 8) + sizes).ljust(_RECORD, b"\0")
        self._shared[first : end + _RECORD] = record + self._shared[first:end]

    def _head(self, place: int) -> tuple[bytes, int, int]:
        return _HEAD.unpack_from(self._shared, _COUNT.size + place * _RECORD)

    def _find(self, mark: bytes) -> int | None:
        for place in range(_CELLS):
            if self._head(place)[0] == mark:
                return place
        return None

    def _sizes(self, place: int) -> bytes:
        start = _COUNT.size + place * _RECORD + _HEAD.size
        return self._shared[start : start + 8 * min(self._head(place)[2], _SIZES)]


def _key(code: str) -> bytes:
    return preparation.key(code).encode()


def _total(sizes: bytes) -> int:
    return sum(array.array("Q", sizes))


def _bounded(sizes: bytes, most: int) -> bytes:
    """The first ones that have room in so many bytes."""
    kept = array.array("Q")
    for size in array.array("Q", sizes):
        if size <= most:
            kept.append(size)
            most -= size
    return kept.tobytes()


preallocation = Preallocation()
