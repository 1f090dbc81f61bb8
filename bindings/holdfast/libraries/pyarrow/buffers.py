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
        parts = [([place], *part_of(one)) for place, one in enumerate(value.columns)]
        if names is None:
            return None
        others = [(places[0], value.column(places[0]), None)
                  for places, values, _, kind in parts if is_more_than(values, kind)]  # fmt: skip
        return value.num_rows, names, parts, together(others)

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


def part_of(column: t.Any) -> tuple[t.Any, t.Any, t.Any]:
    """A column's values as an array over its memory, the bits of its validity, and its type.

    None for the values if they aren't one block of numbers or times.
    """
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        chunks = [chunk for chunk in column.chunks if len(chunk)] or column.chunks[:1]
        if len(chunks) != 1:
            return None, None, kind
        column = chunks[0]
    name = _type_string(kind)
    begins = column.offset % 8
    if name is None or (column.null_count and begins):
        return None, None, kind
    import numpy

    bits, data = column.buffers()
    end = column.offset + len(column)
    values = numpy.frombuffer(data or b"", name)[column.offset : end]
    if not column.null_count:
        return values, None, kind
    first = column.offset // 8
    return values, numpy.frombuffer(bits, "u1")[first : first + (len(column) + 7) // 8], kind


def together(columns: list[tuple[t.Any, ...]]) -> list[tuple[t.Any, ...]]:
    """Columns for `Codec.table`, with those of Arrow in one table if each is one chunk.

    To export a table costs less than to export its columns one by one.
    """
    kinds = pa.Array, pa.ChunkedArray
    whole = [one for one in columns if one[2] is None and isinstance(one[1], kinds)
             and getattr(one[1], "num_chunks", 1) == 1]  # fmt: skip
    if not whole:
        return columns
    table = pa.Table.from_arrays(
        [what for _, what, _ in whole], names=[str(place) for place, _, _ in whole]
    )
    taken = {place for place, _, _ in whole}
    rest = [one for one in columns if one[0] not in taken]
    return [([place for place, _, _ in whole], table, None), *rest]


def is_more_than(values: t.Any, kind: t.Any) -> bool:
    """Whether a column of this type is more than what `part_of` says of it."""
    return values is None or pa.types.is_temporal(kind)


def _type_string(kind: t.Any) -> str | None:
    """NumPy's type string of an Arrow type; None if elements aren't of one size, or are more than
    numbers."""
    if pa.types.is_timestamp(kind):
        return None if kind.tz else f"M8[{kind.unit}]"
    if pa.types.is_duration(kind):
        return f"m8[{kind.unit}]"
    if pa.types.is_integer(kind):
        return f"{'u' if str(kind).startswith('u') else 'i'}{kind.bit_width // 8}"
    return f"f{kind.bit_width // 8}" if pa.types.is_floating(kind) else None


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
