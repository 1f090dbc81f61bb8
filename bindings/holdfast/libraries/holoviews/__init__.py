"""HoloViews: its extension, and the options of output and elements."""

from __future__ import annotations

import typing as t

from holdfast.libraries import Replay


def _sets(name: str, arguments: tuple[t.Any, ...]) -> bool:
    """`hv.output` shows what it is given, unless that is text."""
    return name != "output.__call__" or all(isinstance(one, str) for one in arguments)


DECLARATIONS = (
    Replay(
        "extension",
        (
            ("holoviews.ipython", "notebook_extension.__call__"),
            ("holoviews.util", "output.__call__"),
            ("holoviews.util", "opts.defaults"),
        ),
        through=True,
        counts=_sets,
    ),
)
