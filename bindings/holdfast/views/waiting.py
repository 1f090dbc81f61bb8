"""Says which regions only wait: for a lock, for input, for another process, for time to pass.

Python's functions are known by the names that the recorders write (`module:function`, with the class of a method).
The list has functions that return when something has happened elsewhere, and do almost nothing themselves. For MPI it
has those that return when a message or another rank has arrived. A collective that computes, such as a reduction,
isn't in it. In other archives the role of a region counts (a barrier, a wait for tasks or threads). `holdfast._views`
reads the role.
"""

from __future__ import annotations

import re

_FUNCTIONS = r"""
time:sleep
select:select select.epoll:poll select.poll:poll select.kqueue:control
selectors.\w+:select selectors.\w+:_select
_thread.lock:acquire _thread.RLock:acquire _thread.lock:acquire_lock _thread.lock:__enter__
_thread.RLock:__enter__ _thread._ThreadHandle:join
threading.Condition:wait(_for)? threading.Event:wait threading.Barrier:(wait|_wait|_enter)
threading.Semaphore:acquire threading.BoundedSemaphore:acquire threading._RLock:acquire
threading.Thread:(join|_wait_for_tstate_lock|_join_os_thread)
_queue.SimpleQueue:get queue.\w+:join
os:wait(pid|id|3|4)? posix:wait(pid|id|3|4)? posix:pause signal:pause signal:sigwait(info)?
signal:sigtimedwait
subprocess.Popen:(wait|_wait|_try_wait)
multiprocessing.popen_\w+.Popen:(wait|poll) multiprocessing.connection:wait
multiprocessing.connection.\w+:poll multiprocessing.process.BaseProcess:join
multiprocessing.pool.ApplyResult:wait multiprocessing.pool.Pool:join
multiprocessing.synchronize.Condition:wait(_for)? multiprocessing.synchronize.Event:wait
_multiprocessing.SemLock:(acquire|__enter__)
concurrent.futures._base:wait concurrent.futures.thread.ThreadPoolExecutor:shutdown
joblib.parallel.\w+:_wait_retrieval
_socket.socket:(accept|recv|recv_into|connect) socket.socket:accept
zmq.sugar.poll.Poller:poll zmq.backend.cython.\w+:zmq_poll
mpi4py.MPI.(Comm|Request|Message|Prequest|Grequest|Win):(Barrier|barrier|Probe|probe|Mprobe|mprobe|Wait(any|all|some)?|wait(any|all|some)?)
(P?MPI_|mpi_)(Barrier|Wait(any|all|some)?|Probe|Mprobe|Win_(wait|fence))
"""
_WAITS = re.compile("|".join(f"(?:{line})" for line in _FUNCTIONS.split()))


def waits(name: str) -> bool:
    """Return whether a region of this name only waits.

    Parameters
    ----------
    name : str
        The region's name in the trace.

    Returns
    -------
    bool
        True for what is known to wait.
    """
    return _WAITS.fullmatch(name) is not None
