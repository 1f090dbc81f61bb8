"""Polars: each column by the Arrow buffers that it is made of.

Polars gives and takes buffers through pyarrow by the Arrow C data interface, without a copy. Polars's own
pickling writes an IPC stream into the pickle. It is used for types that the interface doesn't carry unchanged
(categories, enumerations, 128-bit integers), and for everything if there is no pyarrow. Neither carries
columns of Python objects.

A frame is carried as its columns. A column is carried as its chunks, and whether it is known to be sorted. The
attributes that the notebook sets on frames, columns, plans and expressions are carried, too. Polars's own
pickling leaves them out.
"""

from __future__ import annotations

import functools

import polars as pl

from holdfast.carry import restoring
from holdfast.codecs import Codec, names_of_columns, register

_BY_ARROW = {
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Binary, pl.Null),
    *(pl.Date, pl.Time, pl.Datetime, pl.Duration, pl.Decimal),
}


_PARTS = frozenset(("_s", "_df", "_ldf", "_pyexpr"))  # where each keeps what is in Rust
_FUNCTIONS = (b"PLPYFN", b"PLPYUDF")  # before each pickled function; the second in older versions


class Series(Codec):
    types = ("polars.series.series.Series",)

    def reduce(self, value, pickler):
        arrow = _as_arrow(value)
        if arrow is None:
            return _with_hung(value, NotImplemented)
        flags = value.flags
        order = "asc" if flags["SORTED_ASC"] else "desc" if flags["SORTED_DESC"] else None
        return _with_hung(value, (_make_series, (value.name, value.dtype, arrow, order)))

    def shares(self, value):
        from holdfast.libraries.pyarrow.buffers import addresses, buffers_of

        arrow = _as_arrow(value)
        return () if arrow is None else addresses(buffers_of(arrow))


class Frame(Codec):
    types = ("polars.dataframe.frame.DataFrame",)

    def reduce(self, value, pickler):
        if type(value) is not pl.DataFrame or not _pyarrow() or not value.width:
            return _with_hung(value, NotImplemented)
        return _with_hung(value, (_make_frame, (value.get_columns(),)))

    def shares(self, value):
        for column in value.get_columns():
            yield from _series.shares(column)

    def table(self, value):
        if type(value) is not pl.DataFrame or not _pyarrow():
            return None
        names = names_of_columns(value.columns)
        if names is None:
            return None
        others = {kind for kind in set(value.dtypes) if not _goes_by_arrow(kind)}
        if names and not others and set(value.n_chunks("all")) == {1}:
            return value.height, names, [], [(list(range(len(names))), value, None)]
        columns = [
            (place, f"of Polars's type {one.dtype}" if one.dtype in others else one, None)
            for place, one in enumerate(value.get_columns())
        ]
        return value.height, names, [], columns


class Plan(Codec):
    """A plan with Python functions stays in its process. Polars would pickle copies of them, with
    other variables than the notebook's."""

    types = ("polars.lazyframe.frame.LazyFrame", "polars.expr.expr.Expr")

    def reduce(self, value, pickler):
        state = value.__getstate__()
        if any(mark in state for mark in _FUNCTIONS):
            raise TypeError(
                "its plan has a Python function, of which another process would have a copy"
            )
        return _with_hung(value, (object.__new__, (type(value),), state))


_series = Series()
register(_series)
register(Frame())
register(Plan())


@functools.cache
def _pyarrow():
    """The module, if it knows the type that Polars uses for texts; else None."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow if hasattr(pyarrow, "string_view") else None


def _with_hung(value, reduced):
    """How a value is pickled, with the attributes that the notebook has set on it. `reduced` is how
    it is pickled without them, or NotImplemented."""
    attributes = vars(value)
    if attributes.keys() <= _PARTS:
        return reduced
    hung = {name: one for name, one in attributes.items() if name not in _PARTS}
    if reduced is NotImplemented:
        reduced = value.__reduce_ex__(5)
        if not isinstance(reduced, tuple) or any(one is not None for one in reduced[3:]):
            return reduced
    make, args, state = (*reduced, None)[:3]
    return make, args, (state, hung), None, None, restoring.fill_and_hang


def _goes_by_arrow(dtype) -> bool:
    inner = getattr(dtype, "inner", None)
    if inner is not None:
        return dtype.base_type() in (pl.List, pl.Array) and _goes_by_arrow(inner)
    fields = getattr(dtype, "fields", None)
    if fields is not None:
        return all(_goes_by_arrow(field.dtype) for field in fields)
    return dtype.base_type() in _BY_ARROW


def _as_arrow(series):
    """The chunks of a series, not copied. None if they would not come back the same."""
    pyarrow = _pyarrow()
    if pyarrow is None or type(series) is not pl.Series or not _goes_by_arrow(series.dtype):
        return None
    return pyarrow.chunked_array(series)


class _Stream:
    """Chunks in a form that Polars reads without pyarrow. Otherwise it would import
    pyarrow.compute, which takes longer than all the rest of a cell."""

    def __init__(self, arrow):
        self.__arrow_c_stream__ = arrow.__arrow_c_stream__


def _make_series(name, dtype, arrow, order):
    series = pl.Series(_Stream(arrow)).rename(name)
    if series.dtype != dtype:
        series = series.cast(dtype)
    if order is not None:
        series = series.set_sorted(descending=order == "desc")
    return series


def _make_frame(columns):
    return pl.DataFrame(columns)
