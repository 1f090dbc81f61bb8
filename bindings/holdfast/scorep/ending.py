"""Ends that run no exit handlers: SIGTERM and os._exit.

While the guard is up, the recording is closed on the way out of both, so that the trace
holds what was recorded until then. SIGTERM is taken only where its action is the
default, and then still kills the process; it waits for the interpreter, as every handler
in Python does, so a long call into C delays it. A forked child gets its default back.

Not covered: SIGKILL, crashes, exit() and _exit() called from C.
"""

from __future__ import annotations

import os
import signal
import threading
import typing as t

_close: t.Callable[[], object] | None = None
_exit = os._exit


def guard(close: t.Callable[[], object]) -> None:
    """Call `close`, which must not raise, before this process ends in one of these ways."""
    global _close
    _close = close
    os._exit = _close_and_exit
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _close_and_die)


def unguard() -> None:
    """Take the guard down; what somebody else has put in its place stays."""
    global _close
    _close = None
    if os._exit is _close_and_exit:
        os._exit = _exit
    if signal.getsignal(signal.SIGTERM) is _close_and_die:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end() -> None:
    global _close
    close, _close = _close, None
    if close is not None:
        close()


def _close_and_exit(status: int) -> t.NoReturn:
    _end()
    _exit(status)


def _close_and_die(signum: int, frame: object) -> None:
    _end()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


os.register_at_fork(after_in_child=unguard)
