"""The memory of a namespace's variables in this process: objects, and the memory of buffers.

The walk follows `gc.get_referents` from each name. Each object and each byte of a buffer counts once, at the first
name that reaches it, so that the names add up. The walk stops at what doesn't belong to a variable: modules, types,
the namespaces of modules, and IPython's own objects. No code of the user's runs. If a size is computed in Python
(pandas'), the size that the interpreter allocated is used instead.

Large buffers are looked up in /proc/self/pagemap, page by page (proc_pid_pagemap(5)). A page that is present is
resident. In a mapping of the session, a page of a file or of shared memory is a page of the arena. Another page there
is a copy that this process made when it wrote to the page.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import gc
import mmap
import os
import sys
import types
import typing as t
from array import array

from holdfast import _store

OBJECTS_MOST = 1_000_000
OBJECTS_LEAST = 1_000  # of each name
_LARGE = 1 << 16  # bytes: smaller buffers count as resident
_PRESENT, _SWAPPED, _SHARED = 1 << 63, 1 << 62, 1 << 61
_CHUNK = 1 << 16  # pages that are read at a time
_STOPS = (types.ModuleType, type, types.FrameType, types.CodeType, types.BuiltinFunctionType)

#: Not by the attribute: a metaclass may define its own.
_MODULE_OF = type.__dict__["__module__"].__get__

Range = tuple[int, int]  # begin and end
#: Of an object: bytes without its buffers, these as address and length, and what it refers to.
_Read = tuple[int, list[tuple[int, int]], list[t.Any]] | None


@dataclasses.dataclass
class Weight:
    """The memory of one name, in bytes.

    Attributes
    ----------
    objects : int
        Objects, without large buffers.
    buffers : int
        Memory of large buffers.
    resident : int or None
        Of both what is in memory; None if the system doesn't say.
    arena : int
        Of the buffers: pages of the session's arena, which other processes can map, too; whether this
        process has touched them or not.
    copied : int
        Of the buffers: pages mapped from the arena that this process has copied to write them.
    is_whole : bool
        False if the walk ended before all objects were seen.
    """

    objects: int = 0
    buffers: int = 0
    resident: int | None = 0
    arena: int = 0
    copied: int = 0
    is_whole: bool = True

    @property
    def size(self) -> int:
        """Objects and buffers."""
        return self.objects + self.buffers


class _Ranges:
    """Ranges of addresses that have been counted."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> list[Range]:
        """Count a range. Returns the parts of it that weren't counted before."""
        first = bisect.bisect_left(self._ends, begin)
        last = bisect.bisect_right(self._begins, end)
        fresh, at = [], begin
        for i in range(first, last):
            if at < self._begins[i]:
                fresh.append((at, self._begins[i]))
            at = max(at, self._ends[i])
        if at < end:
            fresh.append((at, end))
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]
        return fresh


class _Pages:
    """The pages of this process, as far as the system shows them."""

    def __init__(self, session: t.Any) -> None:
        self._fd = -1
        self._arena: list[Range] = []
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self._arena = _mappings(os.fstat(session.fd))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def add(self, weight: Weight, begin: int, end: int) -> None:
        """Count the pages of a range of memory."""
        if self._fd < 0:
            weight.resident = None
            return
        for in_arena, first, last in self._split(begin, end):
            present, shared = self._present(first, last)
            weight.resident = (weight.resident or 0) + present
            if in_arena:
                weight.arena += last - first - (present - shared)
                weight.copied += present - shared

    def _split(self, begin: int, end: int) -> t.Iterator[tuple[bool, int, int]]:
        for first, last in self._arena:
            if first < end and begin < last:
                if begin < first:
                    yield False, begin, first
                yield True, max(begin, first), min(end, last)
                begin = min(end, last)
        if begin < end:
            yield False, begin, end

    def _present(self, begin: int, end: int) -> Range:
        """How many bytes of a range are in memory, and how many of these are shared."""
        present = shared = 0
        page = begin // mmap.PAGESIZE
        stop = -(-end // mmap.PAGESIZE)
        while page < stop:
            words = array("Q", os.pread(self._fd, 8 * min(_CHUNK, stop - page), 8 * page))
            if not words:
                break
            for number, word in enumerate(words, page):
                if word & _PRESENT:
                    first, last = number * mmap.PAGESIZE, (number + 1) * mmap.PAGESIZE
                    inside = min(end, last) - max(begin, first)
                    present += inside
                    if word & _SHARED:
                        shared += inside
            page += len(words)
        return present, shared


def _mappings(file: os.stat_result) -> list[Range]:
    """The places at which a file is mapped, in the order of addresses."""
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(maxsplit=5)
            if words[3] == device and int(words[4]) == file.st_ino:
                begin, end = words[0].split("-")
                found.append((int(begin, 16), int(end, 16)))
    return found


def _own_size(value: t.Any) -> int:
    """The size that the interpreter allocated for an object. No code written in Python is
    called."""
    if isinstance(type(value).__sizeof__, types.FunctionType):
        size = object.__sizeof__(value)
    else:
        sizeof: t.Any = type(value).__sizeof__  # of the interpreter's or of an extension
        size = sizeof(value)
    return size + (16 if gc.is_tracked(value) else 0)


def _root(value: t.Any) -> t.Any:
    """The array at whose memory an array looks, or the object behind that."""
    import numpy

    while isinstance(value.base, numpy.ndarray):
        value = value.base
    return value


class _Walk:
    """One walk over all names."""

    def __init__(self, session: t.Any, skipped: t.Iterable[t.Any], most: int) -> None:
        self.seen = {id(value) for value in skipped}
        modules = [
            one for one in list(sys.modules.values()) if issubclass(type(one), types.ModuleType)
        ]
        # Not by `vars`: a lazy module would load itself when it is asked for an attribute.
        self.seen |= {id(object.__getattribute__(module, "__dict__")) for module in modules}
        self.left = most
        self.pages = _Pages(session)
        self._ranges = _Ranges()
        self._readers: dict[type, t.Callable[[t.Any], _Read] | None] = {}

    def weigh(self, value: t.Any) -> Weight:
        weight = Weight()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if id(one) in self.seen or issubclass(type(one), _STOPS):
                continue
            if self.left <= 0:
                weight.is_whole = False
                break
            self.left -= 1
            self.seen.add(id(one))
            waiting += self._look(one, weight)
        if weight.resident is not None:
            weight.resident += weight.objects
        return weight

    def _reader(self, kind: type) -> t.Callable[[t.Any], _Read] | None:
        """Find the reader of the library that a type, or one of its bases, belongs to."""
        if kind not in self._readers:
            roots = [str(_MODULE_OF(base)).partition(".")[0] for base in kind.__mro__]
            found = (_READERS[root] for root in roots if root in _READERS)
            self._readers[kind] = next(found, None)
        return self._readers[kind]

    def _look(self, value: t.Any, weight: Weight) -> list[t.Any]:
        """Count one object. Returns what it refers to."""
        reader = self._reader(type(value))
        if reader is not None:
            try:
                read = reader(value)
            except Exception:  # an unknown version of the library: measured as any object
                read = None
            if read is not None:
                size, buffers, more = read
                weight.objects += size
                for begin, length in buffers:
                    self._buffer(weight, begin, length)
                return more
        if type(value) in (bytes, bytearray, array, mmap.mmap) and len(value) >= _LARGE:
            with contextlib.suppress(BufferError, ValueError):
                view = memoryview(value)
                self._buffer(weight, _store._address_of(view), view.nbytes)
                view.release()
                return []
        weight.objects += _own_size(value)
        return gc.get_referents(value)

    def _buffer(self, weight: Weight, begin: int, length: int) -> None:
        for first, last in self._ranges.add(begin, begin + length):
            if last - first < _LARGE:
                weight.objects += last - first
            else:
                weight.buffers += last - first
                self.pages.add(weight, first, last)


def _numpy(value: t.Any) -> _Read:
    import numpy

    if not isinstance(value, numpy.ndarray):
        return None
    root = _root(value)
    address = root.__array_interface__["data"][0]
    if root.flags.contiguous or root.flags.f_contiguous:
        extent = (address, root.nbytes)
    else:
        spans = [(n - 1) * s for n, s in zip(root.shape, root.strides, strict=True) if root.size]
        low, high = sum(min(one, 0) for one in spans), sum(max(one, 0) for one in spans)
        extent = (address + low, high - low + root.itemsize if root.size else 0)
    more = list(value.flat) if value.dtype.hasobject and value.size else []
    return object.__sizeof__(value), [extent], [*more, *gc.get_referents(value)]


def _torch(value: t.Any) -> _Read:
    import torch

    if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.is_sparse:
        return None
    storage = value.untyped_storage()
    held = [value.grad] if value.is_leaf and value.grad is not None else []
    return object.__sizeof__(value), [(storage.data_ptr(), storage.nbytes())], held


def _pyarrow(value: t.Any) -> _Read:
    import pyarrow

    if isinstance(value, pyarrow.Buffer):
        return object.__sizeof__(value), [(value.address, value.size)], []
    if isinstance(value, pyarrow.Array):
        chunks = [value]
    elif isinstance(value, pyarrow.ChunkedArray):
        chunks = value.chunks
    elif isinstance(value, (pyarrow.Table, pyarrow.RecordBatch)):
        return object.__sizeof__(value), [], list(value.columns)
    else:
        return None
    buffers = [one for chunk in chunks for one in chunk.buffers() if one is not None]
    return object.__sizeof__(value), [(one.address, one.size) for one in buffers], []


def _polars(value: t.Any) -> _Read:
    import polars

    if not isinstance(value, (polars.DataFrame, polars.Series)):
        return None
    return object.__sizeof__(value) + round(value.estimated_size()), [], []


_READERS: dict[str, t.Callable[[t.Any], _Read]] = {
    "numpy": _numpy,
    "torch": _torch,
    "pyarrow": _pyarrow,
    "polars": _polars,
}


def weigh(
    namespace: dict[str, t.Any],
    names: t.Iterable[str],
    session: t.Any,
    *,
    skipped: t.Iterable[t.Any] = (),
    most: int = OBJECTS_MOST,
) -> dict[str, Weight]:
    """The memory of each of these names, in their order.

    `skipped` are objects that belong to no name. `most` bounds the objects of all names together; a
    name after one that took them all still has some, since a large array is one object.
    """
    walk = _Walk(session, (namespace, *skipped), most)
    try:
        found = {}
        for name in names:
            walk.left = max(walk.left, OBJECTS_LEAST)
            found[name] = walk.weigh(namespace[name])
        return found
    finally:
        walk.pages.close()
