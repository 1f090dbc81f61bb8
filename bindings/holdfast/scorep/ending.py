"""Closes the recording when a program ends without exit handlers: by SIGTERM or os._exit.

While the guard is set, both close the recording first. So the trace holds what was recorded until then.

SIGTERM is handled only if its action is the default, and then it still kills the process. The handler is one of
Python's, so a long call into C delays it. Around a fork the default action is restored. Otherwise Python drops a
signal that arrives in the fork before os.fork() has returned there, and a process pool that is terminated at once
would hang. A forked child that is recorded is guarded as its parent is.

Not covered: SIGKILL, crashes, exit() and _exit() called from C.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import typing as t

from holdfast import _recorder
from holdfast.base.tabular import size

from . import experiments
from .messages import warn

_close: t.Callable[[], object] | None = None
_exit = os._exit


def close() -> dict | None:
    """Switch events off and write the results.

    Returns
    -------
    dict or None
        As `_recorder.close`: the directory, the files, and counts of events. None if no recording is open.

    Raises
    ------
    OSError
        The results can't be written.
    RuntimeError
        Writing them failed in another way.
    """
    _recorder.disable()
    result = _recorder.close()
    return None if result is None else dict(result)


def close_at_end() -> dict | None:
    """Close, and say on stderr what is wrong; for the end of a process.

    Returns
    -------
    dict or None
        As `close`; None after an error, too. Nothing is raised.
    """
    try:
        result = close()
    except (OSError, RuntimeError, MemoryError) as error:
        warn(f"the recording could not be written: {error}")
        return None
    finally:
        unguard()  # only now: a process pool that ends its workers doesn't wait
    if result and result["collapsed"]:
        warn(
            f"{result['collapsed']} calls were too deep, or on too many paths, to be kept apart in {result['profile']}"
        )
    if result and result["lost"]:
        warn(missing(result))
    return result


def missing(result: t.Mapping[str, t.Any]) -> str:
    """Say that a recording has lost events.

    Parameters
    ----------
    result : mapping of str
        As `close` returned it.

    Returns
    -------
    str
        Why, how much there is, and what records less.
    """
    directory, trouble = result["directory"], result["trouble"]
    if not trouble:
        return f"{result['lost']:,} events could not be written to {directory}"
    why = os.strerror(trouble)
    if trouble in (errno.ENOSPC, errno.EDQUOT):
        why = "the disk is full, but for what it leaves free (HOLDFAST_DISK_RESERVE)"
    return (
        f"the recording {directory} was stopped: {why}. Its first {result['events']:,} events are kept"
        f" ({size(experiments.size(directory))}), {result['lost']:,} later ones are missing. Less is recorded with"
        " a filter (SCOREP_FILTERING_FILE), without --c-functions, or with --noinstrumenter and regions of your own."
    )


def guard(close: t.Callable[[], object]) -> None:
    """Have a function called before this process ends by SIGTERM or `os._exit`.

    Parameters
    ----------
    close : callable
        Called without arguments. It must not raise.
    """
    global _close
    _close = close
    os._exit = _close_and_exit
    _take_sigterm()


def unguard() -> None:
    """Take the guard down. A handler that somebody else has set meanwhile stays."""
    global _close
    _close = None
    if os._exit is _close_and_exit:
        os._exit = _exit
    _return_sigterm()


def _take_sigterm() -> None:
    if _close is not None and _may_set() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _close_and_die)
        _recorder._insist_on_sigterm()


def _return_sigterm() -> None:
    if _may_set() and signal.getsignal(signal.SIGTERM) is _close_and_die:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _may_set() -> bool:
    """Whether this is the main thread: Python lets no other one set handlers."""
    return threading.current_thread() is threading.main_thread()


def _end() -> None:
    """Close once. A signal may come in between and close it, too: closing twice does nothing."""
    global _close
    if _close is not None:
        _close()
    _close = None


def _close_and_exit(status: int) -> t.NoReturn:
    _end()
    _exit(status)


def _close_and_die(signum: int, frame: object) -> None:
    # The signal is sent again until this runs. A second one would end us before all is written.
    signal.signal(signum, signal.SIG_IGN)
    _end()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def _guard_child() -> None:
    if _recorder.is_open():
        _take_sigterm()
    else:
        unguard()


os.register_at_fork(
    before=_return_sigterm, after_in_parent=_take_sigterm, after_in_child=_guard_child
)
