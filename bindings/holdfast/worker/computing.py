"""Notes which worker runs a cell's code, so that waiting workers don't disturb it.

A waiting worker copies pages for ten milliseconds and more (prefault.py). On a machine with two processors
that took a quarter of the time of a matrix product that computes on both. So it stops while measured code
runs. The note is in memory that the fork server shares with its forks. It names the process, so one that was
killed in its code stops nobody.
"""

from __future__ import annotations

import mmap
import os
import struct

_PID = struct.Struct("q")


class Computing:
    """The note of one fork server and its forks."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)

    def begin(self) -> None:
        """This process runs code from here on."""
        _PID.pack_into(self._shared, 0, os.getpid())

    def end(self) -> None:
        """Note that no code runs any more. In a child that the code forked it changes nothing."""
        if self._pid() == os.getpid():
            _PID.pack_into(self._shared, 0, 0)

    def is_going_on(self) -> bool:
        """Whether a process that lives runs code."""
        pid = self._pid()
        if not pid:
            return False
        try:
            os.kill(pid, 0)
        except OSError:  # it is gone, or its number is another user's by now
            return False
        return True

    def _pid(self) -> int:
        return _PID.unpack_from(self._shared)[0]  # no built-in names: a cell may have taken them


computing = Computing()
