"""The rollback: a sleeping fork of the main worker that holds the notebook as it was before a cell.

The main worker runs a cell itself. So the cell finds every module, object, setting, thread and child of the
notebook, and what it makes stays. A clean process has one more advantage: the notebook survives its death. A
fork gives the same: it costs some milliseconds, encodes nothing, and sleeps. If the main worker dies, the
frontend wakes the fork (kernel/session/rollback.c):

* As a rule it takes the main worker's place: every object, with its identity, and every module is there. What
  belongs to a process and not to its memory is missing: children, threads, pipes, sockets and terminals.
  Timers start again with the time that was left at the fork.
* If native threads of the notebook's may have held locks at the fork, or a GPU was in use, the fork can't go
  on as a program. Then it only encodes what the last commit doesn't have, and a new main worker binds that.

Facts at the fork decide which of the two it is (native_threads.py). Pools of libraries that handle forks
themselves don't count; OpenMP's is paused first.

If cells are recorded, the fork is made while nobody uses the notebook. The next cell needs no other fork if
this one still has the notebook as it is: nothing has run since, and nothing can run by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import traceback
import typing as t

from holdfast import _store
from holdfast.base import fork_hooks
from holdfast.base.user_threads import alone

from .control import Frame
from .native_threads import Threads
from .prefault import CellPages
from .process import Unshared

if t.TYPE_CHECKING:
    from .main_worker import MainWorker

_ASIDE_BYTES = 16 << 20  # of which page tables are given up at once: 1 ms


def descriptor_moves(main: MainWorker, control: int, stdout: int, stderr: int) -> tuple:
    """Which descriptors a fork of the main worker puts in the place of that one's own."""
    spares = main.shell.health.spares
    return (
        (control, main.channel.fileno()),
        (stdout, 1),
        (stdout, spares[1]),
        (stderr, 2),
        (stderr, spares[2]),
    )


class Rollback:
    """Makes the main worker's sleeping forks; in one that wakes, takes over or commits.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self.threads = Threads()
        self._writing = Threads()  # the same, as last looked at without a fork
        self._frontend = os.getppid()
        self._has_all = False  # the notebook, as it is now
        self._pages = CellPages()

    def make(self, control: int, stdout: int, stderr: int) -> Frame:
        """Fork; what is reported to the frontend. Takes the descriptors. In a fork that wakes the
        call returns as well: the process is the main worker then, or has ended."""
        main, started = self._main, time.process_time()
        obstacle = self.threads.obstacle()
        moves = descriptor_moves(main, control, stdout, stderr)
        unshared = Unshared()
        try:
            with main.shell.history_manager.at_rest():
                pid, forking = fork_hooks.fork_aside(
                    main.session, moves, self._frontend, self._kept()
                )
        except (OSError, _store.Error) as error:
            return {"pid": 0, "error": str(error)}
        finally:
            for fd in (control, stdout, stderr):
                with contextlib.suppress(OSError):
                    os.close(fd)
        if pid == 0:
            try:
                self._wake(obstacle, unshared)
            except BaseException:  # the frontend goes on with the last commit
                traceback.print_exc(file=sys.__stderr__)
                sys.__stderr__.flush()
                os._exit(1)
            return {}
        self._has_all = self._is_still() and not unshared.has_timers
        self._pages.begin()
        seconds = time.process_time() - started + forking
        return {"pid": pid, "obstacle": obstacle, "seconds": seconds}

    def _kept(self) -> tuple[int, ...]:
        """The descriptors of the event loop, which the fork keeps."""
        loop = self._main.loop
        found = (loop._selector, loop._ssock, loop._csock)  # type: ignore[attr-defined]
        return tuple(one.fileno() for one in found)

    # ---- between two forks

    def outdate(self) -> None:
        """Something is about to run that may change the notebook."""
        self._has_all = False

    def has_all(self) -> bool:
        """Whether the last fork has the notebook as it is now."""
        return self._has_all and self._is_still()

    def is_alone(self) -> bool:
        """Whether no other thread can write to the notebook's memory now, be it Python's or not."""
        return alone() and self._writing.are_pools()

    def _is_still(self) -> bool:
        """Whether nothing of the notebook's runs unless somebody asks: no thread, task or timer."""
        main = self._main
        return (
            self.is_alone()
            and not main.subshells.busy
            and not main.loop._scheduled  # type: ignore[attr-defined]
            and len(asyncio.all_tasks(main.loop)) <= 1  # the one that handles a frame
        )

    def look_at_pages(self) -> None:
        """Find the pages that cells have written, before a commit that no cell waits for."""
        self._pages.learn()

    def copy_pages(self) -> None:
        """While nobody asks: have the pages that the next cell will write, and give up the page
        tables that the last fork has set aside."""
        main = self._main
        if main._serving or main._waiting:  # a frame
            return
        if self._pages.copy_some() or (
            main.session is not None and _store._drop_aside(main.session, _ASIDE_BYTES)
        ):
            main.loop.call_soon(self.copy_pages)

    # ---- in the fork

    def _wake(self, obstacle: str, unshared: Unshared) -> None:
        """The main worker is dead: be it, or save what it had."""
        main, loop = self._main, self._main.loop
        main.forget_requests()  # among them the one that the dead one died of
        main.channel.begin_anew()
        main.app.begin_fork()
        fork_hooks.run_hooks()
        unshared.restore(loop)
        loop.remove_reader(main.channel.fileno())  # that was the dead one's
        word = main.channel.wait_for("wake")
        if main.session is not None:
            _store._succeed(main.session)
        main.begin_fork()
        if obstacle:
            self._commit_and_leave(word)
        _store._start_timers()
        main.shell.history_manager.resume()
        main.shell.execution_count = word["execution_count"] + 1
        main.begin_anew()
        loop.add_reader(main.channel.fileno(), main._readable)
        loop.call_soon(main._readable)  # what was read together with the word to wake

    def _commit_and_leave(self, word: Frame) -> t.NoReturn:
        self._main.op_commit({"op": "commit", "id": word["id"], "durable": True, "leaves": True})
        self._main.channel.await_end()
        os._exit(0)
