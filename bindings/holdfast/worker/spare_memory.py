"""Memory for the reply of a cell that took all there is, as `ulimit -v` allows.

It is a mapping whose pages nobody touches, so it costs address space only. (A freed block of this size would
raise malloc's threshold, and memory that a notebook frees would stay.)
"""

from __future__ import annotations

import contextlib
import mmap

_BYTES = 16 << 20  # a traceback with its lines of code, and a reply, take less


class SpareMemory:
    """Kept while there is enough; given away when a cell ends with a MemoryError."""

    def __init__(self) -> None:
        self._mapping: mmap.mmap | None = None

    def keep(self) -> None:
        """Keep some, if as much is left for the cell that begins."""
        if self._mapping is None:
            with contextlib.suppress(OSError, MemoryError):
                mmap.mmap(-1, 2 * _BYTES, mmap.MAP_PRIVATE).close()
                self._mapping = mmap.mmap(-1, _BYTES, mmap.MAP_PRIVATE)

    def give(self) -> None:
        """Give it to whoever asks next."""
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
