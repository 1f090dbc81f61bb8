"""Matplotlib: parameters, backend, open figures, and what the notebook has registered."""

from __future__ import annotations

from holdfast.libraries import Imported, Registry, Setting

from . import parameters, pyplot

_colors = Imported("matplotlib.colors")


def _forget_colours() -> None:
    """Drop the colours that Matplotlib has computed from their names."""
    _colors._colors_full_map.cache.clear()


DECLARATIONS = (
    # Which files say what the parameters are at first depends on the directory: they are always carried.
    Setting(
        "inline backend",
        parameters.inline,
        parameters.set_inline,
        is_drawn=True,
        late=parameters.needs_inline,
    ),
    Setting(
        "parameters",
        parameters.parameters,
        parameters.set_parameters,
        is_drawn=True,
        held=parameters.held,
    ),
    Setting(
        "parameters that hold objects",
        parameters.objects,
        parameters.set_objects,
        has_values=True,
        held=parameters.held,
    ),
    Setting("figures", pyplot.figures, pyplot.set_figures, "matplotlib.figure", has_values=True),
    Setting(
        "colour maps",
        pyplot.colour_maps,
        pyplot.set_colour_maps,
        has_values=True,
        held=pyplot.held,
        parts=lambda: [pyplot.held()],  # a map is replaced, and never changed
    ),
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
