"""Matplotlib: scales, projections, colours, styles and writers that the notebook has registered.

The parameters and the backend, which IPython also sets, are in worker/settings/figures.py.
"""

from __future__ import annotations

from holdfast.libraries import Imported, Registry

_colors = Imported("matplotlib.colors")


def _forget_colours() -> None:
    """Drop the colours that Matplotlib has computed from their names."""
    _colors._colors_full_map.cache.clear()


DECLARATIONS = (
    Registry("scales", "matplotlib.scale", "", ("_scale_mapping", "_scale_has_axis_parameter")),
    Registry("first day", "matplotlib.dates", "", ("_epoch",)),
    Registry("projections", "matplotlib.projections", "projection_registry"),
    Registry(
        "sequences of colours",
        "matplotlib.colors",
        "_color_sequences",
        ("_color_sequences",),
        fixed=True,
    ),
    Registry(
        "names of colours",
        "matplotlib.colors",
        "",
        ("_colors_full_map",),
        fixed=True,
        then=_forget_colours,
    ),
    Registry("styles", "matplotlib.style", "", ("library",), fixed=True),
    Registry("writers of films", "matplotlib.animation", "writers", ("_registered",), fixed=True),
)
