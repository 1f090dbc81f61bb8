"""What pyplot keeps for the notebook: open figures and colour maps.

Most notebooks have no open figure between cells: the inline backend shows and
closes them. If one is open, `plt.gcf()` and `plt.figure(1)` give it. So a clean process and the main worker
have the same figures under the same numbers, in the same order.
"""

from __future__ import annotations

import importlib
import sys
import typing as t

from holdfast.libraries import MISSING, Imported
from holdfast.libraries.ipywidgets import widgets

_matplotlib = Imported("matplotlib")


def _gcf() -> t.Any:
    return getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)


def _managers() -> dict[t.Any, t.Any]:
    return {} if _gcf() is None else _gcf().figs


def figures() -> t.Any:
    """With their numbers, and the ids of the canvases that are widgets; the current one is the last."""
    found = [
        (number, manager.canvas.figure, _comm_id(manager.canvas))
        for number, manager in _managers().items()
    ]
    return found or MISSING


def _comm_id(canvas: t.Any) -> str | None:
    return getattr(getattr(canvas, "comm", None), "comm_id", None)


def _on_canvas(comm_id: str | None, figure: t.Any) -> t.Any:
    """The manager of the canvas that the page shows the figure on, if that is a widget that is here."""
    canvas = widgets.find(comm_id)
    if canvas is None:
        return None
    canvas.figure = figure
    figure.set_canvas(canvas)
    manager = canvas.manager
    canvas.mpl_connect("close_event", lambda event: _gcf().destroy(manager))
    return manager


def set_figures(new: t.Any) -> None:
    """A figure has been given some number when it was decoded."""
    if new is MISSING and not _managers():
        return
    # A figure without it can't be drawn.
    pyplot: t.Any = importlib.import_module("matplotlib.pyplot")
    managers = _managers()
    found = {id(one.canvas.figure): one for one in managers.values()}
    managers.clear()
    for number, figure, comm_id in [] if new is MISSING else new:
        manager = found.pop(id(figure), None) or _on_canvas(comm_id, figure)
        if manager is None:
            with pyplot.ioff():  # else a backend of widgets shows it once more
                backend = pyplot._get_backend_mod()
                manager = backend.new_figure_manager_given_figure(number, figure)
            _gcf()._set_new_active_manager(manager)
        manager.num = number
        is_computed = isinstance(getattr(type(figure), "number", None), property)
        vars(figure)["_number" if is_computed else "number"] = number
        managers[number] = manager
    for manager in found.values():
        if manager not in managers.values():
            manager.destroy()


def held() -> t.Any:
    """Colour maps by name; None while Matplotlib is being imported."""
    return getattr(getattr(_matplotlib, "colormaps", None), "_cmaps", None)


def colour_maps() -> t.Any:
    """Those that Matplotlib doesn't have by itself."""
    if held() is None:
        return MISSING
    registry = _matplotlib.colormaps
    known = registry._builtin_cmaps
    return {name: one for name, one in registry._cmaps.items() if name not in known} or MISSING


def set_colour_maps(new: t.Any) -> None:
    """Also those that a library has registered here are taken back: it has its own where they come from."""
    registry = _matplotlib.colormaps
    for name in registry._cmaps.keys() - registry._builtin_cmaps:
        registry.unregister(name)
    for name, one in ({} if new is MISSING else new).items():
        registry.register(one, name=name)
