"""pandas: blocks that know what else looks at their memory.

With copy-on-write, a frame, its columns and its slices look at one memory. Before one of them is changed, it
copies the memory if others look at it, too. The blocks (and indexes) note this in an object that they share.
pandas's own pickling leaves that object out, and the memory is shared where it arrives. So a change of one
would be seen in all. Here blocks are pickled with that object, and a Series as its block, as a frame is.

Results that types and arrays keep about themselves (`_cache`) are left out. Otherwise a cell that only looked
at a column would have changed it.

Attributes that the notebook sets on a frame, a column or an index (`s.unit = "m"`) are carried in addition to
what pandas's own pickling keeps.
"""

from __future__ import annotations

import copyreg
import functools
import typing as t

import numpy as np
import pandas as pd
from pandas._libs.internals import BlockPlacement, BlockValuesRefs
from pandas.core.generic import NDFrame

from holdfast.carry import restoring
from holdfast.codecs import Codec, names_of_columns, register

from . import exported

_KEPT = frozenset(("_mgr", "_attrs", "_flags", "_name"))  # the parts of most frames and columns


class References(Codec):
    types = ("pandas._libs.internals.BlockValuesRefs",)

    def reduce(self, value, pickler):
        return BlockValuesRefs, ()  # each block adds itself to it


class Block(Codec):
    types = ("pandas._libs.internals.Block",)

    def reduce(self, value, pickler):
        refs = getattr(value, "refs", None)
        if refs is None:  # before pandas 2
            return NotImplemented
        return _make_block, (type(value), value.values, value.mgr_locs.indexer, value.ndim, refs)


class SeriesManager(Codec):
    types = ("pandas.core.internals.managers.SingleBlockManager",)

    def reduce(self, value, pickler):
        return type(value), (value.blocks[0], value.axes[0])


class Frame(Codec):
    types = ("pandas.core.generic.NDFrame",)

    def reduce(self, value, pickler):
        cls = type(value)
        hung = vars(value).keys() - _KEPT
        if not hung or cls.__getstate__ is not NDFrame.__getstate__:
            return NotImplemented
        hung -= {*cls._metadata, *cls._internal_names, *cls._accessors}
        if not hung or cls.__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        state = value.__getstate__(), _of_these(value, hung)
        return copyreg.__newobj__, (cls,), state, None, None, restoring.fill_and_hang

    def table(self, value):
        if type(value) is not pd.DataFrame:
            return None
        names = names_of_columns(value.columns.tolist())
        if names is None:
            return None
        parts, columns = [], []
        for block in value._mgr.blocks:
            values, places = block.values, block.mgr_locs.as_array.tolist()
            array, kind = _array_of(values), values.dtype
            if array is None:
                kind = str(kind)  # these are compared, which is cheap for texts
            parts.append((places, array, None, kind))
            columns += exported.columns(values, places)
        return len(value), names, parts, [*columns, *exported.index(value, names)]


class Index(Codec):
    types = ("pandas.Index", "pandas.core.indexes.base.Index")

    def reduce(self, value, pickler):
        refs = vars(value).get("_references")  # a range has no memory: there it is a property
        reduced = value.__reduce__()
        if reduced[2:] not in ((), (None,)):
            return reduced
        hung = vars(value).keys() - _declared(type(value))
        looks = refs is not None and refs.has_reference()
        if not hung:
            return (*reduced[:2], refs, None, None, _look_at) if looks else reduced
        state = refs if looks else None, _of_these(value, hung)
        return *reduced[:2], state, None, None, _look_and_hang


class Cached(Codec):
    """Types of columns, and arrays over NumPy's arrays, without their cache."""

    types = (
        "pandas.api.extensions.ExtensionDtype",
        "pandas.core.dtypes.base.ExtensionDtype",
        "pandas._libs.arrays.NDArrayBacked",
    )

    def reduce(self, value, pickler):
        if "_cache" not in getattr(value, "__dict__", ()):
            return NotImplemented
        make, args, state, *rest = tuple(value.__reduce_ex__(5)) + (None,)
        if isinstance(state, dict):
            state = _without_cache(state) or None
        elif isinstance(state, tuple) and isinstance(state[-1], dict):
            attributes = _without_cache(state[-1])
            state = (*state[:-1], attributes) if attributes else state[:-1]
        return make, args, state, *rest[:2]


class ArrowArray(Codec):
    """By its chunks as they are. pandas would join them first, which is a copy at each save."""

    types = (
        "pandas.arrays.ArrowExtensionArray",
        "pandas.core.arrays.arrow.array.ArrowExtensionArray",
    )

    def reduce(self, value, pickler):
        attributes = dict(vars(value))
        if "_cache" in attributes:
            attributes["_cache"] = {}  # it is filled again when it is needed
        return copyreg.__newobj__, (type(value),), attributes, None, None, restoring.share_dict


for codec in (References(), Block(), SeriesManager(), Frame(), Index(), Cached(), ArrowArray()):
    register(codec)


def samples() -> tuple[t.Any, ...]:
    frame = pd.DataFrame(np.ones((4096, 2)), columns=["a", "b"])
    frame.iat[0, 0] = frame["b"].iat[1]
    return frame, frame["a"]


def _without_cache(attributes: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in attributes.items() if name != "_cache"}


def _of_these(value: t.Any, names: t.Collection[str]) -> dict[str, t.Any]:
    """The attributes with these names, in the order in which they were set."""
    return {name: one for name, one in vars(value).items() if name in names}


@functools.lru_cache(maxsize=64)
def _declared(cls: type) -> set[str]:
    """The attributes of an index that pandas's classes declare."""
    return {
        name
        for base in cls.__mro__
        if base.__module__.partition(".")[0] == "pandas"
        for name in (*vars(base), *vars(base).get("__annotations__", ()))
    }


def _array_of(values: t.Any) -> t.Any:
    """The memory of a block, or None. Times with a zone are more than their memory."""
    if type(values) is np.ndarray:
        return values
    is_plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "mM"
    return getattr(values, "_ndarray", values) if is_plain else None


def _make_block(cls: t.Any, values: t.Any, place: t.Any, ndim: int, refs: t.Any) -> t.Any:
    return cls(values, placement=BlockPlacement(place), ndim=ndim, refs=refs)


def _look_at(index, refs):
    index._references = refs
    refs.add_index_reference(index)


def _look_and_hang(index, state):
    refs, hung = state
    if refs is not None:
        _look_at(index, refs)
    vars(index).update(hung)
