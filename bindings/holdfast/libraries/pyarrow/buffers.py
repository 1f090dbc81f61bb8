"""Arrow: objects that hold their data in buffers, by those buffers.

pyarrow's own pickling takes arrays, batches, tables and their types apart, down to the buffers, which all
slices of an array share. So only the buffer needs a codec. It arrives as a buffer over the mapped region,
without a copy. It is writable only if it was. If Arrow and a NumPy array look at the same memory, they do so
where they arrive, too.

pyarrow doesn't pickle tensors. They are carried as their NumPy array.
"""

from __future__ import annotations

import typing as t

import pyarrow as pa

from holdfast.codecs import Codec, names_of_columns, register

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
    """Arrays, batches and tables. pyarrow pickles them, down to their buffers.

    An array may have a bitmap for nulls although it has no nulls. pyarrow would leave that buffer
    out, and `nbytes` would differ. It keeps the buffer if the nulls are not counted yet.
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

    def table(self, value):
        if not isinstance(value, (pa.Table, pa.RecordBatch)):
            return None
        names = names_of_columns(value.column_names)
        if names is None:
            return None
        table = pa.Table.from_batches([value]) if isinstance(value, pa.RecordBatch) else value
        columns = [(list(range(len(names))), table, None)]
        if names and (table.column(0).num_chunks > 1 or len(table.to_batches()) > 1):
            columns = [(place, one, None) for place, one in enumerate(table.itercolumns())]
        return value.num_rows, names, [], columns

    def memory(self, value):
        """The memory that `to_numpy` of an array without nulls, or of a slice of one, looks
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
    """Made without the code of its own class, which may need names that aren't bound yet."""

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
    """The buffers of an array, and of all its parts."""
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
    """The addresses of buffers. Empty buffers are left out: all of them have the same address, and
    share nothing."""
    return tuple({one.address for one in buffers if one is not None and one.size})


def _with_bitmaps(parts):
    """The parts of which pyarrow makes an array, changed so that it keeps all buffers."""
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
