"""Makes the forks of the main worker that run a cell, each one cell (forked.py).

A fork lacks what belongs to a process and not to its memory: its number, its children, threads and POSIX
locks. If that would show, the cell runs in a clean process, and the line below it names the reason (where.py).
Timers are set anew. Tasks of the event loop go on only while the cell awaits.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import select
import selectors
import socket
import stat
import sys
import typing as t

from holdfast import _store
from holdfast.base import fork_hooks
from holdfast.carry import device_lease, handles
from holdfast.libraries.ipywidgets import widgets

from . import where
from .bound import Budget, look
from .process import Forks, Unshared
from .rollback import descriptor_moves
from .settings import attributes

if t.TYPE_CHECKING:
    from .control import Frame
    from .main_worker import MainWorker

_BUFFERED = frozenset((io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair))
_NOT_FILES = ("/memfd:", "/dev/shm/holdfast-")  # the store, what is counted of the pipes


class Forking:
    """Makes the forks.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self._frontend = os.getppid()

    def make(self, frame: Frame) -> bool:
        """Fork, and report it to the frontend; whether this is the fork."""
        main = self._main
        descriptors = main.channel.take_descriptors(frame)
        parent = os.getpid()
        try:
            obstacle = where.obstacle(main.rollback.threads)
            pid = -1 if obstacle else self._fork(*descriptors)
        except Exception as error:  # the cell has another process, then
            if os.getpid() != parent:
                os._exit(1)
            obstacle, pid = str(error), -1
        if pid == 0:
            return True
        for fd in descriptors:
            with contextlib.suppress(OSError):
                os.close(fd)
        if pid > 0:
            main.channel.send("forked", id=frame["id"], pid=pid)
        else:
            main.channel.send("forked", id=frame["id"], pid=0, error=obstacle)
        return False

    def _fork(self, control: int, stdout: int, stderr: int) -> int:
        main = self._main
        main.app.flush_all()
        _flush_files((*main.shell.health.spares.values(), stdout, stderr))
        attributes.know_modules()
        main.way.recording.is_open()  # what records is loaded, so that the fork needn't
        moves = descriptor_moves(main, control, stdout, stderr)
        recorder = sys.modules["holdfast._recorder"]
        recorder._forget_in_fork(True)  # what the notebook records is the notebook's
        Forks.goes_on = True  # in the fork, when its hooks run
        handles.table.lend_all()
        try:
            unshared = Unshared()
            with main.shell.history_manager.at_rest(), fork_hooks.limited():
                pid, _ = _store._fork("cell", main.session, moves, self._frontend, ())
        finally:
            Forks.goes_on = False
            recorder._forget_in_fork(False)
        if pid == 0:
            self._become(unshared)
        return pid

    def _become(self, unshared: Unshared) -> None:
        """In the fork: make resources that were shared with the main worker our own."""
        main, loop = self._main, self._main.loop
        _part_loop(loop)
        unshared.restore(loop)
        _store._start_timers()
        main.channel.begin_anew()
        main.shell.ends_with_cell = True
        main.shell.history_manager.only_read()
        handles.table.begin_anew()
        device_lease.leases.answers, device_lease.leases.durable = False, True
        budget = Budget()
        widgets.stay(lambda part: look(part, budget))


def _part_loop(loop: t.Any) -> None:
    """The event loop's own descriptors under the same numbers: a fork shares its parent's, and what
    either would wait for."""
    for old, new in zip((loop._ssock, loop._csock), socket.socketpair(), strict=True):
        os.dup2(new.fileno(), old.fileno(), inheritable=False)
        new.close()
        old.setblocking(False)
    fresh = select.epoll()
    os.dup2(fresh.fileno(), loop._selector.fileno(), inheritable=False)
    fresh.close()
    for key in list(loop._selector.get_map().values()):
        events = select.EPOLLIN if key.events & selectors.EVENT_READ else 0
        events |= select.EPOLLOUT if key.events & selectors.EVENT_WRITE else 0
        with contextlib.suppress(OSError):  # a file that was closed, which nobody waits for
            loop._selector._selector.register(key.fd, events)


def _flush_files(own: t.Iterable[int]) -> None:
    """Flush the buffers of open files: the fork would write their content, too. `own`: pipes of
    ours and the fork's."""
    known = {os.fstat(fd).st_ino for fd in own}
    if not any(_is_written(fd, known) for fd in map(int, os.listdir("/proc/self/fd"))):
        return  # to look at all objects takes milliseconds
    for one in gc.get_objects():
        if type(one) in _BUFFERED and not one.closed:
            with contextlib.suppress(OSError, ValueError):
                one.flush()


def _is_written(fd: int, known: t.Container[int]) -> bool:
    """Whether it is a file or pipe that a buffer may stand before."""
    try:
        about, flags = os.fstat(fd), fcntl.fcntl(fd, fcntl.F_GETFL)
        path = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False  # the listing's own
    if flags & os.O_ACCMODE == os.O_RDONLY or about.st_ino in known:
        return False
    is_file = stat.S_ISREG(about.st_mode) and not path.startswith(_NOT_FILES)
    return stat.S_ISFIFO(about.st_mode) or (is_file and ".sqlite" not in path)
