"""pandas: columns in Arrow's form, for programs without pandas.

Columns of numbers and times are NumPy's memory, which the parts of a table describe. Here are the others: what has
memory in Arrow's form or is made of such memory, and the index. Missing values are said as pandas says them: by
NaT, by a code below 0, or by a mask of bytes. `shm_store/arrays/table_export.c` makes Arrow's bits of them.
"""

from __future__ import annotations

import typing as t

import numpy as np
import pandas as pd

_NULLABLE, _ORDERED = 2, 1  # flags of Arrow
_BITS, _LOWEST, _NEGATIVE, _BYTES = range(4)  # how missing elements are said
_LETTERS = {
    **{"i1": "c", "i2": "s", "i4": "i", "i8": "l", "u1": "C", "u2": "S", "u4": "I", "u8": "L"},
    **{"f2": "e", "f4": "f", "f8": "g"},
}
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}


def columns(values: t.Any, places: list[int]) -> list[tuple[t.Any, ...]]:
    """The columns of a block, unless they are plain memory of NumPy's."""
    chunks = getattr(values, "_pa_array", None)
    if chunks is not None:
        return [(places[0], chunks, None)]
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biufmM":
        return []
    rows = values if values.ndim == 2 else (values,)
    return [(place, node_of(row), None) for place, row in zip(places, rows)]


def index(frame: pd.DataFrame, names: list[str]) -> t.Iterator[tuple[t.Any, ...]]:
    """The index, named as pyarrow names it, unless it only counts rows."""
    rows = frame.index
    if isinstance(rows, pd.RangeIndex):
        return
    what = "it is a MultiIndex" if isinstance(rows, pd.MultiIndex) else node_of(rows.array)
    is_name = type(rows.name) is str and rows.name not in names
    yield len(names), what, rows.name if is_name else "__index_level_0__"


def node_of(values: t.Any) -> t.Any:
    """What `Codec.table` says of an array of pandas or NumPy."""
    if isinstance(values, pd.arrays.NumpyExtensionArray):
        values = values.to_numpy()
    dtype = values.dtype
    if hasattr(values, "_pa_array"):
        return values._pa_array  # chunks of Arrow
    if isinstance(values, pd.Categorical):
        flags = _NULLABLE | (_ORDERED if values.ordered else 0)
        codes = values.codes
        return (
            _LETTERS[codes.dtype.str[1:]],
            flags,
            _NEGATIVE,
            [None, codes],
            node_of(values.categories.array),
        )
    if isinstance(dtype, pd.DatetimeTZDtype):
        return (
            f"ts{_UNITS[dtype.unit]}:{dtype.tz}",
            _NULLABLE,
            _LOWEST,
            [None, values._ndarray],
            None,
        )
    if hasattr(values, "_mask") and hasattr(values, "_data"):  # nullable numbers and bools
        letter = _letter(values._data.dtype)
        return (
            letter
            and (letter, _NULLABLE, _BYTES, [values._mask, values._data], None)
            or f"of {dtype}"
        )
    return _numbers(getattr(values, "_ndarray", values), dtype)


def _numbers(values: t.Any, dtype: t.Any) -> t.Any:
    """Numbers and times of NumPy."""
    if not isinstance(dtype, np.dtype) or not isinstance(values, np.ndarray):
        return f"of {dtype}"
    if dtype.kind in "mM":
        unit = _UNITS.get(np.datetime_data(dtype)[0])
        letter = unit and (f"ts{unit}:" if dtype.kind == "M" else f"tD{unit}")
        return (letter, _NULLABLE, _LOWEST, [None, values], None) if letter else f"of {dtype}"
    letter = _letter(dtype)
    missing = _BYTES if letter == "b" else _BITS
    return (letter, _NULLABLE, missing, [None, values], None) if letter else f"of {dtype}"


def _letter(dtype: np.dtype[t.Any]) -> str | None:
    if dtype.kind == "b":
        return "b"
    return _LETTERS.get(dtype.str[1:]) if dtype.isnative else None
