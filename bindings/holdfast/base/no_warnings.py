"""Suppresses warnings while values are decoded.

`warnings.catch_warnings` can't be used. It replaces the list `warnings.filters` by a copy, and a variable may refer
to the list. Also, warnings that were shown once are shown again afterwards.
"""

from __future__ import annotations

import contextlib
import typing as t
import warnings


@contextlib.contextmanager
def no_warnings() -> t.Iterator[None]:
    """Show no warning in this block. It holds for all threads, since they share the filters."""
    filters: t.Any = warnings.filters
    ignores = "ignore", None, Warning, None, 0
    filters.insert(0, ignores)
    try:
        yield
    finally:
        filters[:] = [one for one in filters if one is not ignores]
