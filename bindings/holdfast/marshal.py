"""Values to streams and back, by the codecs of the store.

A stream contains all that it needs: a head, the codec's meta and payload, then the buffers, each
aligned to 64 bytes within the stream. Buffers are written from the memory of the arrays and read into
the memory that the new arrays have: one copy each way. A file needs only `write`, or
`read` or `readinto`, so it may be a pipe or a socket. A checksum covers what says how the value is built:
head, sizes, meta, and a payload of up to 64 KiB, as in the store. Larger payloads and buffers have none.

Functions and classes of `__main__` are stored by value with the globals that they use, as
cloudpickle does it. In a stream of `dump_module`, functions get the module's own dict as globals.
"""

from __future__ import annotations

import io
import struct
import sys
import types
import zlib

from holdfast import _store, codecs
from holdfast.carry import context, reasons

TYPE_CHECKING = False  # a checker believes otherwise; `typing` takes 5 ms
if TYPE_CHECKING:
    import typing as t

_MAGIC = b"HFST"
_VERSION = 2
# Magic, version, byte order, codec, sizes of meta and payload, number of buffers; the checksum.
_HEAD = struct.Struct("<4sHBxIIQI")
_SUM = struct.Struct("<I")
_SUMMED_MAX = 64 << 10  # of the payload
_ALIGNMENT = 64
_SIZE_MAX = 1 << 56


def dump(
    obj: object,
    file: t.Any,
    protocol: object = None,
    *,
    byref: object = None,
    fmode: object = None,
    recurse: object = None,
    **ignored: object,
) -> None:
    """Write one value to a binary file.

    Parameters
    ----------
    obj : object
        Anything that Holdfast carries.
    file : binary file
        Where the stream goes. It needs the method `write` only.
    protocol, byref, fmode, recurse : object, optional
        Accepted for programs that call dill or pickle; without effect.
    **ignored : object
        Other options of dill; without effect.

    Raises
    ------
    holdfast.store.Error
        No codec encodes a part of the value. The message names the part and the reason.
    OSError
        The file can't be written.
    """
    codecs.find(type(obj))  # loads those of its library
    try:
        codec, meta, payload, buffers = _store._encode(obj)
    except _store.Error as error:
        if error.status == "HF_DECLINED":
            error.args = (reasons.explain("value", obj, str(error)),)
        raise
    order = 0 if sys.byteorder == "little" else 1
    head = _HEAD.pack(_MAGIC, _VERSION, order, codec, len(meta), len(payload), len(buffers))
    sizes = struct.pack(f"<{len(buffers)}Q", *(len(view) for view, _ in buffers))
    file.write(head + _SUM.pack(_checksum(head, sizes, meta, payload)) + sizes)
    at = _HEAD.size + _SUM.size + len(sizes)
    for part in (meta, payload, *(view for view, _ in buffers)):
        _write_all(file, bytes(-at % _ALIGNMENT))
        _write_all(file, part)
        at += -at % _ALIGNMENT + len(part)


def _checksum(head, sizes, meta, payload):
    total = 0
    for part in (head, sizes, meta, payload if len(payload) <= _SUMMED_MAX else b""):
        total = zlib.crc32(part, total)
    return total


def _write_all(file, data):
    """A raw file may take less than it was given."""
    view = memoryview(data)
    while len(view):
        written = file.write(view)
        if written is None or written >= len(view):
            return
        view = view[written:]


def load(file: t.Any, ignore: object = None, **ignored: object) -> t.Any:
    """Read one value that `dump` wrote.

    Parameters
    ----------
    file : binary file
        It needs the method `read` or `readinto`. It is read up to the end of the value.
    ignore : object, optional
        Accepted for programs that call dill; without effect.
    **ignored : object
        Other options of dill; without effect.

    Returns
    -------
    object
        The value. Its arrays are writable, and share no memory with the file.

    Raises
    ------
    EOFError
        The stream ends too early.
    holdfast.store.CorruptError
        It isn't a stream of `dump`, or it is damaged.
    """
    reader = _Reader(file)
    head = reader.take(_HEAD.size)
    (wanted,) = _SUM.unpack(reader.take(_SUM.size))
    magic, version, order, codec, meta_size, payload_size, count = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise _store.CorruptError("not a holdfast stream")
    if version != _VERSION or (order == 1) != (sys.byteorder == "big"):
        raise _store.CorruptError("a holdfast stream of another version or byte order")
    listed = reader.take(8 * count)
    sizes = struct.unpack(f"<{count}Q", listed)
    if max([meta_size, payload_size, *sizes]) > _SIZE_MAX:
        raise _store.CorruptError("a damaged holdfast stream: its head has impossible sizes")
    meta, payload = reader.take_aligned(meta_size), reader.take_aligned(payload_size)
    if _checksum(head, listed, meta, payload) != wanted:
        raise _store.CorruptError("a damaged holdfast stream: its checksum doesn't match")
    buffers = [reader.take_aligned(size) for size in sizes]
    return _store._decode(codec, meta, payload, buffers)


class _Reader:
    """Counts what it reads, so that it finds the aligned parts."""

    _STEP = 1 << 26  # how much is believed before it is there

    def __init__(self, file):
        self._file = file
        self._into = getattr(file, "readinto", None)
        self._at = 0

    def take(self, size):
        data = bytearray(min(size, self._STEP))
        got = 0
        while got < size:
            if got == len(data):
                data.extend(bytes(min(size - got, max(got, self._STEP))))
            got += self._some(data, got)
        self._at += size
        return data

    def take_aligned(self, size):
        self.take(-self._at % _ALIGNMENT)
        return self.take(size)

    def _some(self, data, start):
        with memoryview(data) as view, view[start:] as rest:
            if self._into is not None:
                count = self._into(rest)
            else:
                piece = self._file.read(len(rest))
                count = len(piece)
                rest[:count] = piece
        if not count:
            raise EOFError("the stream ends too early")
        return count


def dumps(obj: object, protocol: object = None, **ignored: object) -> bytes:
    """Return the stream of one value.

    Parameters
    ----------
    obj : object
        Anything that Holdfast carries.
    protocol : object, optional
        Accepted for programs that call dill or pickle; without effect.
    **ignored : object
        Other options of dill; without effect.

    Returns
    -------
    bytes
        What `dump` would write.

    Raises
    ------
    holdfast.store.Error
        No codec encodes a part of the value.
    """
    file = io.BytesIO()
    dump(obj, file)
    return file.getvalue()


def loads(data: t.Any, ignore: object = None, **ignored: object) -> t.Any:
    """Return the value of a stream.

    Parameters
    ----------
    data : bytes-like
        What `dumps` returned.
    ignore : object, optional
        Accepted for programs that call dill; without effect.
    **ignored : object
        Other options of dill; without effect.

    Returns
    -------
    object
        The value, as `load` returns it.

    Raises
    ------
    EOFError
        The stream ends too early.
    holdfast.store.CorruptError
        It isn't a stream of `dump`, or it is damaged.
    """
    return load(io.BytesIO(data))


def _module(module):
    if module is None:
        return sys.modules["__main__"]
    return module if isinstance(module, types.ModuleType) else sys.modules[module]


def _open(file, mode):
    return file if hasattr(file, "write") or hasattr(file, "read") else open(file, mode)


def dump_module(
    filename: t.Any = "session.hfst",
    module: t.Any = None,
    refimported: object = False,
    **ignored: object,
) -> None:
    """Write the variables of a module to a file.

    Names that begin and end with two underscores are left out. Functions are stored with the module
    as their globals.

    Parameters
    ----------
    filename : str, os.PathLike or binary file
        Where the stream goes.
    module : module or str, optional
        The module or its name. If it is left out: `__main__`.
    refimported : object, optional
        Accepted for programs that call dill; without effect.
    **ignored : object
        Other options of dill; without effect.

    Raises
    ------
    holdfast.store.Error
        No codec encodes a variable. The message names the reason; the file is incomplete.
    OSError
        The file can't be written.
    """
    namespace = vars(_module(module))
    state = {
        name: value
        for name, value in namespace.items()
        if not (name.startswith("__") and name.endswith("__"))
    }
    before = context.enter(None, namespace, None)
    try:
        file = _open(filename, "wb")
        try:
            dump(state, file)
        finally:
            if file is not filename:
                file.close()
    finally:
        context.leave(before)


def load_module(filename: t.Any = "session.hfst", module: t.Any = None, **ignored: object) -> None:
    """Bind the variables that `dump_module` wrote in a module.

    Parameters
    ----------
    filename : str, os.PathLike or binary file
        Where the stream is.
    module : module or str, optional
        The module or its name, which is imported already. If it is left out: `__main__`.
    **ignored : object
        Other options of dill; without effect.

    Raises
    ------
    EOFError
        The stream ends too early.
    holdfast.store.CorruptError
        It isn't a stream of `dump_module`, or it is damaged.
    OSError
        The file can't be read.
    """
    namespace = vars(_module(module))
    before = context.enter(None, namespace, None)
    try:
        file = _open(filename, "rb")
        try:
            namespace.update(load(file))
        finally:
            if file is not filename:
                file.close()
    finally:
        context.leave(before)
