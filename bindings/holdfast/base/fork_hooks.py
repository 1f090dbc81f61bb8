"""Forks that Holdfast makes by itself, and the hooks of ``os.register_at_fork``.

Such a fork is a rollback, which sleeps, or a child that tries code that may end the process (carry/trial.py). The
notebook made none, so no hook runs in its process. A hook may do anything: it may count, or wait for a lock.
In the fork all hooks run as if it had made the fork itself: `before`, the last one first, then
`after_in_child`. bindings/store/fork_functions.c has the steps, and what becomes of locks.

A hook may wait for ever there: `before=lock.acquire`, if another thread had the lock at the fork, or a cell
took it and was stopped. ``os.fork()`` would wait until the thread releases it; the fork has no such thread.
So a hook that waits gets a `HookTimeout` after `HOOK_SECONDS`. It is printed like any error in a hook, and
the others run: among them `after_in_child=lock.release`, which releases the lock. A hook that waits in C
isn't ended so. The same holds in the notebook's process, in which hooks run before a fork that runs a cell.
"""

from __future__ import annotations

import _imp
import contextlib
import gc
import os
import signal
import threading
import typing as t

from holdfast import _store

HOOK_SECONDS = 5.0


class HookTimeout(Exception):
    """A hook for forks waits, perhaps for ever."""


def _find_hooks() -> list[t.Any] | None:
    """The interpreter's own list of the hooks that run in a fork; None if it isn't found."""

    def ours() -> None:
        pass

    os.register_at_fork(after_in_child=ours)
    for one in gc.get_referrers(ours):
        if type(one) is list and one[-1:] == [ours]:
            one.remove(ours)
            return one
    return None


# Found when this is imported: objects that are frozen aren't seen (gc.freeze, in the fork server).
_hooks = _find_hooks()


def fork_aside(
    session: _store.Session | None,
    moves: tuple[tuple[int, int], ...],
    frontend: int,
    kept: tuple[int, ...],
) -> tuple[int, float]:
    """Fork as `_store._fork` does. The fork has to call `run_hooks`."""
    return _quietly(lambda *hooks: _store._fork("sleeper", session, moves, frontend, kept, *hooks))


def fork_child() -> int:
    """Fork as os.fork() does. The child has to call `run_hooks`."""
    return _quietly(lambda *hooks: (_store._fork_child(*hooks) if hooks else os.fork(), 0.0))[0]


def _quietly(fork: t.Callable[..., tuple[int, float]]) -> tuple[int, float]:
    if _hooks is None:  # then they run in both, as after os.fork()
        return fork()
    saved = _hooks[:]
    _imp.acquire_lock()
    pid = -1
    try:
        pid, seconds = fork(_hooks)
    finally:
        if pid != 0:
            _imp.release_lock()
    if pid == 0:
        _hooks[:0] = saved
    return pid, seconds


def run_hooks() -> None:
    """Run all hooks in a fork that was made here: first those for before the fork."""
    if _hooks is not None:
        with limited():
            _store._run_fork_hooks()


@contextlib.contextmanager
def limited() -> t.Iterator[None]:
    """While this runs, a hook that waits gets a `HookTimeout`.

    Not if the user has an alarm, whose signal this takes.
    """
    before = signal.getsignal(signal.SIGALRM)
    if (
        before is None  # C code's
        or any(signal.getitimer(signal.ITIMER_REAL))
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    maker = os.getpid()
    signal.signal(signal.SIGALRM, _end_wait)
    signal.setitimer(signal.ITIMER_REAL, HOOK_SECONDS, HOOK_SECONDS)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is _end_wait:
            if os.getpid() == maker:  # a fork has no timer
                signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _end_wait(signum: int, frame: object) -> None:
    raise HookTimeout(
        f"a hook of os.register_at_fork has waited for {HOOK_SECONDS:g} s, perhaps for a lock that "
        "another thread or a stopped cell has; the fork goes on without it"
    )
