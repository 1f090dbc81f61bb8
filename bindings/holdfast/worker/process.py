"""Turns a fork of the fork server into a process of its own.

A forked child must look like a freshly started Python:

* It keeps the three descriptors that it was given, and the session's. All others are closed, so that nobody
  waits for the end of a file or pipe. stdin is empty (worker/fork.c).
* It gets default signal handlers, and random generators that differ from its siblings'. (Python reseeds
  `random` itself; NumPy doesn't.)
* It dies with the frontend, its parent (worker/fork.c), even if user code blocks: by PR_SET_PDEATHSIG if the
  system has that. On other systems it ends when its control channel does, as soon as the main thread comes
  back from user code.
"""

from __future__ import annotations

import _signal
import atexit
import contextlib
import ctypes
import faulthandler
import os
import random
import select
import signal
import sys
import threading
import time
import typing as t

from holdfast import _store
from holdfast.base import usage

if t.TYPE_CHECKING:
    import asyncio

_EXIT_SECONDS = 5.0
_EXECUTOR_SECONDS = 0.5
_EXECUTORS = ("concurrent.futures.process", "joblib.externals.loky.process_executor")
_REUSED = "joblib.externals.loky.reusable_executor"
_TRACKER_SECONDS = 2.0
_TRACKING = ("multiprocessing.resource_tracker", "joblib.externals.loky.backend.resource_tracker")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_DEFAULTS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM)

_SIGNALS = _signal.valid_signals()  # `signal` makes an enumerator of each


def become_worker() -> None:
    """Turn this fork into a worker: set what Python keeps itself, such as its table of signal handlers."""
    for signum in _DEFAULTS:
        signal.signal(signum, signal.SIG_DFL)
    # Until the worker sets its own handler: an interrupt is not for a worker without a cell.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(file=2)
    _reseed()


class Forks:
    """Facts for Python's hooks for forks about the fork that runs them."""

    goes_on = False  # as the worker that it is a fork of


class Unshared:
    """State that fork() changes or drops, so that a fork of the main worker can restore it: the
    seed of `random`, the interval timers, and the descriptor that signals wake the loop by.

    Made right before the fork.
    """

    def __init__(self) -> None:
        self._random = random.getstate()
        self.has_timers = _store._note_timers()  # which `_store._start_timers` starts in the fork
        self._wakeup = wakeup_descriptor()

    def restore(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the fork: go on in the event loop that ran in the parent."""
        import asyncio  # this file is needed before `postponed` can keep TLS away from it

        random.setstate(self._random)
        asyncio._set_running_loop(loop)
        asyncio.set_event_loop(loop)
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(self._wakeup)


def wakeup_descriptor() -> int:
    """Where signals wake a loop, or -1; a descriptor that was closed is forgotten. Python only tells it when it
    is set. A signal that comes meanwhile isn't missed."""
    blocked = _signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        found = signal.set_wakeup_fd(-1)
        with contextlib.suppress(OSError, ValueError):
            signal.set_wakeup_fd(found, warn_on_full_buffer=False)
            return found
        return -1
    finally:
        _signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def trackers() -> dict[int, t.Any]:
    """By their pids the processes that multiprocessing and loky have started to remove what is left at the end."""
    found = (getattr(sys.modules.get(one), "_resource_tracker", None) for one in _TRACKING)
    return {one._pid: one for one in found if getattr(one, "_pid", None) is not None}


def _is_child(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False  # the parent's


def has_children() -> bool:
    """Whether this process has children that the notebook may ask about. A tracker of shared memory
    serves forks as well."""
    try:
        return not usage.children() <= trackers().keys()
    except OSError:
        return True


def end_own_children() -> None:
    """Before a cell in a fork is done: end the workers of executors and the daemons that it has started, as Python
    does at a program's end. A worker would go on to take the work of the notebook's executor, whose pipes it has."""
    for module in filter(None, map(sys.modules.get, _EXECUTORS)):
        managers = [one for one in list(module._threads_wakeups) if one.is_alive()]
        if managers:
            _end_executors(module._python_exit, managers)
    process = sys.modules.get("multiprocessing.process")
    for child in process.active_children() if process is not None else ():
        if child.daemon:
            child.terminate()


def _end_executors(end: t.Callable[[], None], managers: list[t.Any]) -> None:
    """Nothing is left in their pipes: what their workers say at their end, and work that none of them has begun."""
    workers = [one for manager in managers for one in dict(manager.processes or {}).values()]
    queues = [one.call_queue for one in managers]
    pipes = [os.dup(queue._reader.fileno()) for queue in queues]
    pipes += [os.dup(one.result_queue._reader.fileno()) for one in managers]
    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    ending.join(_EXECUTOR_SECONDS)
    if ending.is_alive():
        for worker in filter(lambda one: one.is_alive(), workers):
            # They work, and hold no lock of the pipes. Loky's have no kill().
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        ending.join(_EXECUTOR_SECONDS)
    for pipe in pipes:
        while select.select([pipe], [], [], 0)[0] and os.read(pipe, 1 << 16):
            pass
        os.close(pipe)
    for queue in queues:
        for _ in range(queue.qsize()):
            queue._sem.release()


def end_own_trackers() -> None:
    """Before a cell's process ends: remove what multiprocessing has made in it. A tracker that it has started would
    remove shared memory that the notebook goes on with. One that serves this process's parent stays."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._run_finalizers(0)  # those of this process
    _delete_folders()
    for pid in filter(_is_child, trackers()):
        os.kill(pid, signal.SIGKILL)


def _delete_folders() -> None:
    """Delete the folders that joblib has made in this process for the arrays of its workers. It would do that in an
    exit handler, and a fork of the notebook runs none."""
    executor = getattr(sys.modules.get(_REUSED), "_executor", None)
    manager = getattr(executor, "_temp_folder_manager", None)
    for context, folder in dict(getattr(manager, "_cached_temp_folders", {})).items():
        if f"_{os.getpid()}_" in os.path.basename(folder):
            manager._clean_temporary_resources(context, force=True)


def await_trackers() -> None:
    """When the notebook ends: let its trackers remove what is left, before they are killed with the rest."""
    end = time.monotonic() + _TRACKER_SECONDS
    for pid, tracker in trackers().items():
        if _is_child(pid):
            os.close(tracker._fd)
            tracker._fd = tracker._pid = None
            while _is_child(pid) and time.monotonic() < end:
                time.sleep(0.001)


def trim_heap() -> None:
    """Give the system what was freed and C's malloc keeps."""
    if hasattr(_LIBC, "malloc_trim"):  # glibc's
        _LIBC.malloc_trim(0)


def leave(status: int = 0) -> t.NoReturn:
    """Run exit handlers, for `_EXIT_SECONDS` at most, and end this process.

    Threads that user code left running are not waited for: what they would still change
    has nowhere to go. So the interpreter isn't finalized.
    """
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _EXIT_SECONDS)
    try:
        atexit._run_exitfuncs()
        await_trackers()
    except BaseException:  # printed by atexit
        pass
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:
            pass
    os._exit(status)


def _reseed() -> None:
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
