"""Finds numbers in variables that are descriptors of a cell's own process.

`os.open()` and `os.pipe()` give a number. In the notebook's process it means nothing, or another file, which may
be one of ours. So a variable that a cell has set is named if it holds the number of a descriptor that the cell has
opened and that no object owns. What C code has opened may have the same number as a variable by chance. So this
looks only after cells of a notebook whose code speaks of such numbers.
"""

from __future__ import annotations

import gc
import io
import os
import re
import socket
import typing as t

from .addresses import held_by

_SPEAKS = re.compile(
    r"\bos\.(open|pipe|dup)|\b(pipe2?|fileno|detach|mkstemp|memfd_create|eventfd|openpty|pidfd_open)\b"
)
_OWNERS = (io.FileIO, socket.socket)


class Descriptors:
    """The descriptors that are open before a cell."""

    def __init__(self) -> None:
        self._before = _all_open()

    def held(self, names: t.Iterable[str], shell: t.Any) -> list[str]:
        """After it: which of these variables hold the number of a new one."""
        new = _all_open() - self._before
        if not new or not any(map(_SPEAKS.search, shell.history_manager.input_hist_raw)):
            return []
        namespace = shell.user_ns
        found = {
            name: held_by(namespace[name], namespace, new.__contains__)
            for name in names
            if name in namespace
        }
        loose = new - _owned() if any(found.values()) else set()
        return sorted(name for name, numbers in found.items() if loose.intersection(numbers or ()))


def _all_open() -> set[int]:
    try:
        return set(filter(_is_open, map(int, os.listdir("/dev/fd"))))
    except OSError:
        return set()


def _is_open(fd: int) -> bool:
    """The listing's own isn't."""
    try:
        return os.get_inheritable(fd) in (True, False)
    except OSError:
        return False


def _owned() -> set[int]:
    objects = (one for one in gc.get_objects() if isinstance(one, _OWNERS))
    return {one.fileno() for one in objects if isinstance(one, socket.socket) or not one.closed}
