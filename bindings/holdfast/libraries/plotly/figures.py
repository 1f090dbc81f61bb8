"""Parts of Plotly's figures: a trace, an axis, a marker that a variable holds beside its figure.

Plotly pickles each part as a copy of its properties. A change of the copy wouldn't change the figure. So a part
is pickled as its place in the figure or the trace that it belongs to.
"""

from __future__ import annotations

import typing as t

from holdfast.codecs import Codec, register

Step = tuple[str, int | None]  # a property, and the index in it if it is a list


def _find(whole: t.Any, path: t.Sequence[Step]) -> t.Any:
    for name, place in path:
        whole = whole[name] if place is None else whole[name][place]
    return whole


def _step(whole: t.Any, part: t.Any) -> Step | None:
    """The place of a part in the object that it names as its parent."""
    single: dict[str, t.Any] = {"layout": getattr(whole, "_layout_obj", None)}
    many = {"data": getattr(whole, "_data_objs", ()), "frames": getattr(whole, "_frame_objs", ())}
    single |= getattr(whole, "_compound_props", {})
    many |= getattr(whole, "_compound_array_props", {})
    for name, one in single.items():
        if one is part:
            return name, None
    for name, several in many.items():
        for place, one in enumerate(several or ()):
            if one is part:
                return name, place
    return None


class Part(Codec):
    types = ("plotly.basedatatypes.BasePlotlyType",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        whole = value
        path: list[Step] = []
        while (above := getattr(whole, "_parent", None)) is not None:
            step = _step(above, whole)
            if step is None:  # it isn't in there any more
                return NotImplemented
            path.insert(0, step)
            whole = above
        return (_find, (whole, path)) if path else NotImplemented


class Figure(Codec):
    """A figure stays in its process if functions follow its changes (`on_change`): Plotly leaves
    these out."""

    types = ("plotly.graph_objs._figure.Figure",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if any(part._change_callbacks for part in (value._layout_obj, *value._data_objs)):
            raise TypeError("a figure whose changes a function follows (on_change)")
        return NotImplemented


register(Part())
register(Figure())
