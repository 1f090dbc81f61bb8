"""Dask: what is called for the notebook's classes."""

from __future__ import annotations

import sys
import typing as t

from . import Registry


def _implementations(name: str, module: str) -> Registry:
    """What the functions of a module find by the class of their first argument."""

    def holders(names: t.Iterable[t.Any]) -> dict[t.Any, t.Any]:
        space = vars(sys.modules[module])
        return {
            name: one._lookup for name, one in space.items() if type(one).__name__ == "Dispatch"
        }

    return Registry(f"implementations for {name}", module, holders=holders)


DECLARATIONS = (
    _implementations("arrays", "dask.array.dispatch"),
    _implementations("data frames", "dask.dataframe.dispatch"),
    _implementations("extensions of data frames", "dask.dataframe.extensions"),
    _implementations("sizes", "dask.sizeof"),
    _implementations("tokens", "dask.tokenize"),
)
