"""Suppresses warnings while values are decoded.

`warnings.catch_warnings` can't be used: it replaces `warnings.filters`, which a variable may be, by a copy,
and warnings that were shown once are shown again afterwards.
"""

from __future__ import annotations

import contextlib
import typing as t
import warnings


@contextlib.contextmanager
def no_warnings() -> t.Iterator[None]:
    """Show no warning meanwhile, in any thread: filters belong to all of them."""
    filters: t.Any = warnings.filters
    ignores = "ignore", None, Warning, None, 0
    filters.insert(0, ignores)
    try:
        yield
    finally:
        filters[:] = [one for one in filters if one is not ignores]
