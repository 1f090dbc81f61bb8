"""Forks that Holdfast makes by itself, and the hooks of ``os.register_at_fork``.

Such a fork is a rollback, which sleeps, or a child that tries code that may end the process (carry/trial.py). The
notebook itself has made no fork, so no hook runs in its process: a hook may count, or wait for a lock. All hooks run
in the fork, as if the fork had made itself: `before`, the last one first, then `after_in_child`.
bindings/store/fork_functions.c has the steps, and what happens to locks.

A hook may wait for ever there. An example is `before=lock.acquire`, if another thread had the lock at the fork, or a
cell took it and was stopped. ``os.fork()`` would wait until the thread releases it, but the fork has no such thread.
So a hook that waits gets a `HookTimeout` after `HOOK_SECONDS`. It is printed like any error in a hook, and the other
hooks run: among them `after_in_child=lock.release`, which releases the lock. A hook that waits in C isn't
interrupted. The same holds in the notebook's process, in which hooks run before a fork that runs a cell.
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
    """A hook for forks waits too long, perhaps for ever."""


def _find_hooks(when: str) -> list[t.Any] | None:
    """The interpreter's own list of the hooks that run then. None if it isn't found."""

    def ours() -> None:
        pass

    os.register_at_fork(**{when: ours})  # type: ignore[call-overload]
    for one in gc.get_referrers(ours):
        if type(one) is list and one[-1:] == [ours]:
            one.remove(ours)
            return one
    return None


# Found at import: later, gc.freeze() in the fork server hides the list from gc.get_referrers().
_hooks = _find_hooks("after_in_child")
_others = [_find_hooks(when) for when in ("before", "after_in_parent")]


def count() -> int:
    """How many hooks there are."""
    return sum(len(hooks) for hooks in (_hooks, *_others) if hooks is not None)


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
    if _hooks is None:  # then the hooks run in both processes, as with os.fork()
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
    """In a fork that was made here: run all hooks, first those for before the fork."""
    if _hooks is not None:
        with limited():
            _store._run_fork_hooks()


@contextlib.contextmanager
def limited() -> t.Iterator[None]:
    """Raise `HookTimeout` in a hook that waits, as long as this runs.

    It uses SIGALRM. So it does nothing if the user has an alarm.
    """
    before = signal.getsignal(signal.SIGALRM)
    if (
        before is None  # C code has set the handler
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
