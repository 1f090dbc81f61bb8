"""Arrow: whatever holds its data in buffers, by those buffers.

pyarrow's own pickling takes arrays, batches, tables and their types apart, down to the
buffers, which all slices of an array share; so the buffer is all that needs a rule. It
arrives as a buffer over the mapped region, so nothing is copied, and is writable only if it
was. A NumPy array that Arrow looks at (or the other way round) is the same memory again.

Tensors, which pyarrow doesn't pickle, are their NumPy array.
"""

from __future__ import annotations

import typing as t

import pyarrow as pa

from holdfast.codecs import Codec, register

BUFFER_MIN = 16384  # bytes; less is cheaper inside of the pickle, as for arrays


class Buffer(Codec):
    types = ("pyarrow.lib.Buffer",)

    def reduce(self, value, pickler):
        if not value.is_cpu:
            raise ValueError("a buffer on a device; copy it to the host")
        if value.size < BUFFER_MIN:
            return _make_small, (value.to_pybytes(), value.is_mutable)
        memory = pickler.memory(value.address, value.size, value)
        return make_buffer, (memory, value.is_mutable)

    def shares(self, value):
        return addresses((value,))


class Columns(Codec):
    """Arrays, batches, tables: pickled by pyarrow, down to their buffers.

    An array may have a bitmap for nulls, and none of these. pyarrow would leave that buffer out, and
    `nbytes` would be another number; it doesn't where the nulls are not counted yet.
    """

    types = ("pyarrow.lib.Array", "pyarrow.lib.ChunkedArray", "pyarrow.lib.RecordBatch",
             "pyarrow.lib.Table")  # fmt: skip

    def reduce(self, value, pickler):
        if not isinstance(value, pa.Array):
            return NotImplemented
        restore, (parts,) = value.__reduce__()
        return restore, (_with_bitmaps(parts),)

    def shares(self, value):
        return addresses(buffers_of(value))

    def memory(self, value):
        """The buffer that `to_numpy` of an array without nulls, or of a slice of one, looks
        into."""
        if not isinstance(value, pa.Array) or not pa.types.is_primitive(value.type):
            return None
        data = value.buffers()[-1]
        return None if data is None or not data.is_cpu else (data.address, data.size)


class Tensor(Codec):
    types = ("pyarrow.lib.Tensor",)

    def reduce(self, value, pickler):
        return _make_tensor, (value.to_numpy(), value.dim_names or None)

    def shares(self, value):
        return (value.to_numpy(),)


class ExtensionType(Codec):
    """Made without its class's own code, which may need names that aren't bound yet."""

    types = ("pyarrow.lib.ExtensionType",)

    def reduce(self, value, pickler):
        cls, attributes = type(value), getattr(value, "__dict__", {})
        return _make_type, (cls, value.storage_type, value.extension_name), attributes


for codec in (Buffer(), Columns(), Tensor(), ExtensionType()):
    register(codec)


def samples() -> tuple[t.Any, ...]:
    rows = BUFFER_MIN // 8
    return (pa.table({"numbers": pa.array(range(rows)), "texts": pa.array(["text"] * rows)}),)


def buffers_of(value: t.Any) -> t.Iterator[t.Any]:
    """The buffers of an array, and of all that it is made of."""
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        for column in value.itercolumns():
            yield from buffers_of(column)
    elif isinstance(value, pa.ChunkedArray):
        for chunk in value.iterchunks():
            yield from buffers_of(chunk)
    else:
        yield from value.buffers()
        if isinstance(value, pa.DictionaryArray):
            yield from buffers_of(value.dictionary)


def addresses(buffers: t.Iterable[t.Any]) -> tuple[int, ...]:
    """The buffers' addresses; those without bytes share one address, and nothing."""
    return tuple({one.address for one in buffers if one is not None and one.size})


def _with_bitmaps(parts):
    """What pyarrow makes an array of, so that it keeps all buffers."""
    kind, length, nulls, offset, buffers, children, dictionary = parts
    if nulls == 0 and buffers and buffers[0] is not None:
        nulls = -1  # not counted yet
    children = [_with_bitmaps(child) for child in children]
    dictionary = dictionary and _with_bitmaps(dictionary)
    return kind, length, nulls, offset, buffers, children, dictionary


def make_buffer(memory, writable=False):
    return pa.py_buffer(memory if writable else memoryview(memory).toreadonly())


def _make_small(content, writable):
    return pa.py_buffer(bytearray(content) if writable else content)


def _make_tensor(array, names):
    return pa.Tensor.from_numpy(array, names)


def _make_type(cls, storage, name):
    made = cls.__new__(cls)
    pa.ExtensionType.__init__(made, storage, name)
    return made
