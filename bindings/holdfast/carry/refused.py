"""Types whose values pickle would change without an error: such a value stays in its process.

An iterator over a dict would become one over a copied list. The copy of a temporary file would delete the file at
its end. docs/not-carried.md has the whole list, and the reasons.
"""

from __future__ import annotations

import typing as t

from holdfast.codecs import Codec, register

_ITERATORS = (
    *(f"dict_{way}{name}iterator" for way in ("", "reverse") for name in ("key", "value", "item")),
    "odict_iterator",
    "set_iterator",
)
_PROCESS = "a process is its parent's alone"
_WORKERS = "its workers belong to one process"
_FAMILY = "a process shares it with its children only"
_LOOP = "it belongs to one process's event loop"
_COMPRESSED = "its decompressed data is in this process"
REASONS = {
    **{f"builtins.{name}": "it iterates over an object of this process" for name in _ITERATORS},
    "itertools.groupby": "a copy would lose its current group",
    "itertools._grouper": "it belongs to another iterator",
    "gzip.GzipFile": _COMPRESSED,
    "bz2.BZ2File": _COMPRESSED,
    "lzma.LZMAFile": _COMPRESSED,
    "tempfile._TemporaryFileWrapper": "it deletes its file at its end",
    "threading.Thread": "a thread ends with its process",
    "subprocess.Popen": _PROCESS,
    "asyncio.subprocess.Process": _PROCESS,
    "multiprocessing.process.BaseProcess": _PROCESS,
    "multiprocessing.managers.BaseManager": _PROCESS,
    "multiprocessing.managers.BaseProxy": "its manager serves the process that started it",
    **dict.fromkeys(
        (
            "multiprocessing.pool.Pool",
            "concurrent.futures.thread.ThreadPoolExecutor",
            "concurrent.futures.process.ProcessPoolExecutor",
            "concurrent.futures._base.Future",
        ),
        _WORKERS,
    ),
    **dict.fromkeys(
        (
            "multiprocessing.synchronize.SemLock",
            "multiprocessing.synchronize.Condition",
            "multiprocessing.synchronize.Event",
            "multiprocessing.synchronize.Barrier",
            "multiprocessing.queues.Queue",
            "multiprocessing.queues.SimpleQueue",
            "multiprocessing.sharedctypes.SynchronizedBase",
        ),
        _FAMILY,
    ),
    **dict.fromkeys(
        (
            "_asyncio.Future",
            "_asyncio.Task",
            "asyncio.events.Handle",
            "asyncio.events.AbstractEventLoop",
            "asyncio.events.AbstractServer",
            "asyncio.runners.Runner",
            "asyncio.taskgroups.TaskGroup",
        ),
        _LOOP,
    ),
    # Its own pickle makes views independent arrays, and so arrays that share memory by DLPack.
    "cupy.ndarray": "an array on a GPU: carry the result of cupy.asnumpy",
    "argparse.Action": "a parser compares some texts by identity",
    "argparse._ActionsContainer": "a parser compares some texts by identity",
    "unittest.mock._patch": "its changes are in this process",
    "unittest.mock._patch_dict": "its changes are in this process",
}


def reason(kind: type) -> str | None:
    """Why values of a type are refused; None if they aren't."""
    found = (REASONS.get(f"{base.__module__}.{base.__qualname__}") for base in kind.__mro__)
    return next(filter(None, found), None)


class Refused(Codec):
    types = tuple(REASONS)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        kind = type(value)
        raise TypeError(f"cannot pickle '{kind.__name__}' object: {reason(kind)}")


register(Refused())
