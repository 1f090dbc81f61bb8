"""pandas: blocks that know what else looks at their memory.

Under copy-on-write a frame, its columns and its slices look at one memory, and who
changes it copies first if another looks on. That another does is noted in an object
that the blocks (and indexes) share, which pandas's own pickling leaves out: the memory
would be shared where it arrives, and a change of one would show in all. Here blocks are
pickled with it, and a Series as its block, as a frame is.

Results that types and arrays keep about themselves (`_cache`) are left out: a cell that only looked
at a column would have changed it.
"""

from __future__ import annotations

import copyreg
import typing as t

import numpy as np
import pandas as pd
from pandas._libs.internals import BlockPlacement, BlockValuesRefs

from .. import _restore
from . import Codec, register


class References(Codec):
    types = ("pandas._libs.internals.BlockValuesRefs",)

    def reduce(self, value, pickler):
        return BlockValuesRefs, ()  # each block adds itself


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


class Index(Codec):
    types = ("pandas.Index", "pandas.core.indexes.base.Index")

    def reduce(self, value, pickler):
        refs = vars(value).get("_references")  # a range has no memory, but a property
        reduced = value.__reduce__()
        if refs is None or not refs.has_reference() or reduced[2:] not in ((), (None,)):
            return reduced
        return *reduced[:2], refs, None, None, _look_at


class Cached(Codec):
    """Types of columns, and arrays over NumPy's."""

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
    """By its chunks as they are; pandas would make one of them first, a copy at each save."""

    types = (
        "pandas.arrays.ArrowExtensionArray",
        "pandas.core.arrays.arrow.array.ArrowExtensionArray",
    )

    def reduce(self, value, pickler):
        attributes = dict(vars(value))
        if "_cache" in attributes:
            attributes["_cache"] = {}  # is filled again when asked for
        return copyreg.__newobj__, (type(value),), attributes, None, None, _restore.share_dict


for codec in (References(), Block(), SeriesManager(), Index(), Cached(), ArrowArray()):
    register(codec)


def samples() -> tuple[t.Any, ...]:
    frame = pd.DataFrame(np.ones((4096, 2)), columns=["a", "b"])
    frame.iat[0, 0] = frame["b"].iat[1]
    return frame, frame["a"]


def _without_cache(attributes: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in attributes.items() if name != "_cache"}


def _make_block(cls: t.Any, values: t.Any, place: t.Any, ndim: int, refs: t.Any) -> t.Any:
    return cls(values, placement=BlockPlacement(place), ndim=ndim, refs=refs)


def _look_at(index, refs):
    index._references = refs
    refs.add_index_reference(index)
