"""Finds damage that a cell has done to its process, and repairs it.

A cell can do what it likes to its process, and the next cell may run there, too. So after the code of each
cell, before other code of ours runs, these are checked:

* builtins that were there before the first cell. One that is gone or is no function any more is put back. One
  that the interpreter's own modules can't do without is put back whenever it was replaced;
* modules that were loaded before the first cell, if `sys.modules` was emptied: they are put back;
* descriptors 0, 1 and 2. If one is closed, or something that can't be written to has taken its number, it is
  opened again, 1 and 2 on the pipes that they were. SQLite, which keeps the history in another thread, opens
  /dev/null wherever it finds one of the three free;
* `sys.stdout` and `sys.stderr`. If one is None or gone, it is put back: IPython writes to them before it runs
  a cell;
* SIGINT. If it is blocked, it is unblocked, since nobody could interrupt the next cell.

Each repair is reported. If the control channel or the event loop's own descriptor is closed, the process ends
at once: what it would write there might go to a file of the user's by then. The frontend starts another
process from the store, and names what is lost.

Everything else is the user's choice and stays, as in ipykernel: another function as `print`, `input` or
`__import__`, another object as `sys.stdout`, handlers of other signals, limits, the collector switched off,
the umask, threads and children.

The checks cost four system calls, and one copy of the builtins' names and one pass over them. This module
uses nothing that a cell can replace: what it needs it keeps from its import on.
"""

from __future__ import annotations

import _signal
import builtins
import fcntl
import os
import resource
import select
import signal
import sys
import typing as t
from builtins import Exception as _Exception
from builtins import all as _all
from builtins import callable as _callable
from builtins import dict as _dict
from builtins import map as _map
from builtins import sorted as _sorted
from builtins import str as _str
from builtins import type as _type
from operator import is_ as _is

from holdfast.base.sentences import say as _say

# Functions that nobody replaces for a purpose, and modules fail without.
_VITAL = frozenset(
    "len isinstance issubclass getattr setattr hasattr delattr iter next callable id hash".split()
)
_STREAMS = ("stdout", "stderr")
# Above what a cell closes by hand, below the usual limit of 1024, and below another.
_SPARE_MIN = min(200, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
_names = builtins.__dict__
_look_up = _names.get
_of_sys = sys.__dict__.get
_sigmask = _signal.pthread_sigmask  # `signal` makes a set of enumerators
_modules: dict[str, t.Any] = {}  # as they were before the first cell


def note_modules() -> None:
    """These are the modules that a cell finds."""
    _modules.update(sys.modules)


class Health:
    """The checks of one process. Its descriptors 1 and 2 are those that it began with."""

    def __init__(self, lifelines: t.Iterable[int]) -> None:
        self.repairs = 0
        self._spares = {fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SPARE_MIN) for fd in (1, 2)}
        self._poll = select.poll()
        self._poll.register(0, 0)  # reports errors only, a closed descriptor being one
        self._lifelines = frozenset(lifelines)  # descriptors without which the process is of no use
        for fd in self._lifelines:
            self._poll.register(fd, 0)
        self._sigint = {signal.SIGINT}
        self._own: dict[str, t.Any] | None = None  # builtins that are no user's
        self._streams: dict[str, t.Any] = {}  # what the last cell began with
        if not _modules:
            note_modules()

    @property
    def spares(self) -> dict[int, int]:
        """Descriptors 1 and 2: where each can be had again."""
        return self._spares

    def begin(self) -> dict[str, t.Any]:
        """Before the code of a cell: the builtins that it finds, for `check`. At the first call no
        cell has run, nor has any brought back what it set."""
        found = _dict(_names)
        if self._own is None:
            self._own = found
        self._streams = {name: _of_sys(name) for name in _STREAMS}
        return found

    def check(self, found: dict[str, t.Any]) -> None:
        """Look after the code of a cell, repair, and report it."""
        repaired: list[str] = []
        if not _all(_map(_is, _map(_look_up, found), found.values())):
            repaired += _restore_builtins(found, self._own)
        if sys.modules.get("builtins") is not builtins:
            repaired += _restore_modules()
        for fd, event in self._look():
            if event & select.POLLNVAL and fd in self._lifelines:
                os.write(2, b"holdfast: the cell closed its process's channel to the kernel\n")
                os._exit(1)
            elif event & select.POLLNVAL:
                _open_null(fd)  # nobody misses it
        for fd, spare in self._spares.items():
            if not _is_writable(fd):
                _reopen(fd, spare)
                repaired.append(f"descriptor {fd}")
        if _of_sys("stdout") is None or _of_sys("stderr") is None:
            repaired += self._restore_streams()
        if signal.SIGINT in _sigmask(signal.SIG_UNBLOCK, self._sigint):
            repaired += ["SIGINT, which was blocked"]
        if repaired:
            self.repairs += 1
            _report(
                "put back resources that the cell took from its process: " + ", ".join(repaired)
            )

    def _restore_streams(self) -> list[str]:
        lost = [name for name in _STREAMS if _of_sys(name) is None]
        for name in lost:
            sys.__dict__[name] = self._streams.get(name)
        return [f"sys.{name}" for name in lost if self._streams.get(name) is not None]

    def _look(self) -> list[tuple[int, int]]:
        try:
            return self._poll.poll(0)
        except OSError:  # the cell set a limit below the count of what is polled
            return []


def _is_writable(fd: int) -> bool:
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def _reopen(fd: int, spare: int) -> None:
    try:
        os.dup2(spare, fd)
    except OSError:  # it is closed, too: what is written there has no reader
        _open_null(fd)


def _open_null(wanted: int) -> None:
    fd = os.open(os.devnull, os.O_RDWR)
    if fd != wanted:
        os.dup2(fd, wanted)
        os.close(fd)


def _restore_builtins(found: dict[str, t.Any], own: t.Container[str] | None) -> list[str]:
    """Put back what a cell found, where another one is no choice of anybody's; their names."""
    back = []
    for name, original in found.items():
        now = _look_up(name)
        if now is original or (own is not None and name not in own):
            continue
        kept = _callable(now) and name not in _VITAL and _type(original) is not _type
        if not kept and (_callable(original) or name not in _names):
            _names[name] = original
            back.append(name)
    return _sorted(back)


def _restore_modules() -> list[str]:
    for name, module in _modules.items():
        sys.modules.setdefault(name, module)
    return ["sys.modules"]


def _report(text: _str) -> None:
    try:
        _say(text)
    except _Exception:  # the user's own stream
        pass
