"""Keep warnings quiet while values are decoded, unlike `warnings.catch_warnings`, which puts a copy in the
place of `warnings.filters`, and has each warning shown once more afterwards."""

from __future__ import annotations

import contextlib
import typing as t
import warnings


@contextlib.contextmanager
def no_warnings() -> t.Iterator[None]:
    """None is shown meanwhile. For all threads, as filters are."""
    filters: t.Any = warnings.filters
    ignores = "ignore", None, Warning, None, 0
    filters.insert(0, ignores)
    try:
        yield
    finally:
        filters[:] = [one for one in filters if one is not ignores]
