"""Queues, asyncio's locks and events, and futures that are done: all but what nobody waits at.

Their locks and conditions are made anew where they arrive. An object at which somebody waits stays, and a queue
stays while other threads run, which may go on using the one that they have.
"""

from __future__ import annotations

import copyreg
import threading
import typing as t

from .. import _threads
from . import Codec, register

_CONDITIONS = "not_empty", "not_full", "all_tasks_done"


def _has_own_ways(cls: t.Any) -> bool:
    names = "__reduce_ex__", "__reduce__", "__getstate__"
    own = any(getattr(cls, name) is not getattr(object, name) for name in names)
    return own or hasattr(cls, "__setstate__") or cls in copyreg.dispatch_table


def _make(cls: type) -> t.Any:
    return object.__new__(cls)


def _fill_queue(queue: t.Any, state: dict[str, t.Any]) -> None:
    vars(queue).update(state)
    queue.mutex = threading.Lock()
    for name in _CONDITIONS:
        setattr(queue, name, threading.Condition(queue.mutex))


class _Queues(Codec):
    types = ("queue.Queue",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if _has_own_ways(type(value)):
            return NotImplemented
        if not _threads.alone() or value.mutex.locked():
            raise TypeError("a queue that other threads may use")
        own = {name: one for name, one in vars(value).items() if name not in _CONDITIONS}
        del own["mutex"]
        return _make, (type(value),), own, None, None, _fill_queue


class _OfLoops(Codec):
    """asyncio's: one that was used knows the loop, and the next loop that uses it is another one."""

    types = ("asyncio.mixins._LoopBoundMixin",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if _has_own_ways(type(value)) or vars(value).get("_loop") is None:
            return NotImplemented
        if any(vars(value).get(name) for name in ("_waiters", "_getters", "_putters")):
            raise TypeError("somebody waits for it")
        own = {name: one for name, one in vars(value).items() if name != "_loop"}
        return copyreg.__newobj__, (type(value),), own  # type: ignore[attr-defined]


def _fill_future(future: t.Any, state: dict[str, t.Any]) -> None:
    vars(future).update(state)
    future._condition = threading.Condition()


class _Futures(Codec):
    types = ("concurrent.futures._base.Future",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if _has_own_ways(type(value)):
            return NotImplemented
        if not value.done():
            raise TypeError("a future that isn't done")
        own = {name: one for name, one in vars(value).items() if name != "_condition"}
        return _make, (type(value),), own | {"_waiters": []}, None, None, _fill_future


for _codec in (_Queues(), _OfLoops(), _Futures()):
    register(_codec)
