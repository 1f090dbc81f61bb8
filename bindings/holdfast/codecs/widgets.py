"""The codec of ipywidgets' widgets: they go on in the main worker when the cell that made them has ended.

A page knows a widget by the id of its comm, and sends it what its reader does. So a widget crosses
as its traits, its callbacks and that id; the main worker makes a comm of the same id without opening
another one, and the page notices nothing. Its class's own handlers are made by the class.

This is a way back only. A widget of the main worker is not copied into cells: there would be two
for one id. Cells that name one run in the main worker. A fork of that has its widgets: what holds one
crosses with it, as the one that the main worker has, and with the traits that the cell has changed.
"""

from __future__ import annotations

import sys
import typing as t

from .. import _context
from . import Codec, comms, register

# In a cell's namespace while it is saved: what only ipywidgets refers to, such as what `interact`
# shows, and the parts of widgets.
PREFIX = "_holdfast_widget_"
_OWN = ("_trait_values", "_trait_notifiers", "_trait_validators", "_cross_validation_lock")

_leaving = False  # this process ends now, and what answers for its widgets is the main worker
# Widgets that the main worker has, by comm: their traits, and what they call.
_staying: dict[str, tuple[dict[str, t.Any], list[tuple[tuple[str, ...], t.Any]]]] = {}


def _instances() -> dict[str, t.Any]:
    """All that are open, by the ids of their comms."""
    return getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})


def find(comm_id: str | None) -> t.Any:
    """The widget with a comm of this id; None if there is none."""
    return None if comm_id is None else _instances().get(comm_id)


def stay() -> None:
    """In a fork of the main worker: it answers for those that there are, and has them."""
    global _staying
    _staying = {
        key: (dict(widget._trait_values), _handlers(widget)) for key, widget in _instances().items()
    }


def is_leaving() -> bool:
    """Whether this process ends now, and what it made of widgets goes on in the main worker."""
    return _leaving


def leave(namespace: dict[str, t.Any]) -> None:
    """In a cell worker, before the last save: name all widgets that it made."""
    global _leaving
    _leaving = True
    for number, (key, widget) in enumerate(_instances().items()):
        if key not in _staying:
            namespace[f"{PREFIX}{number}"] = widget


def left(unserializable: dict[str, str]) -> dict[str, str]:
    """After it: nothing that happens to the originals is sent to the page. Returns the
    unserializable names without ours, which are reported only if no name of the user's is."""
    comms.leave()
    named = {name: reason for name, reason in unserializable.items() if not name.startswith(PREFIX)}
    return named or {"a widget": reason for reason in unserializable.values()}


def arrive(namespace: dict[str, t.Any], changed: t.Iterable[str]) -> bool:
    """In the main worker, with the names that were bound: whether there were widgets, which have no name
    but the user's now."""
    names = [name for name in changed if name.startswith(PREFIX)]
    for name in names:
        del namespace[name]
    return bool(names)


class _Widgets(Codec):
    types = ("ipywidgets.widgets.widget.Widget",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if not _leaving:
            raise ValueError("a widget stays in the notebook's own process, which answers for it")
        comm_id = None if value.comm is None else value.comm.comm_id
        if comm_id in _staying:
            return _find, (comm_id,), _changes(value, *_staying[comm_id]), None, None, _refresh
        attributes = {name: part for name, part in vars(value).items() if name not in _OWN}
        traits = {name: part for name, part in value._trait_values.items() if name != "comm"}
        callbacks = [(*where, handler) for where, handler in _handlers(value) if len(where) == 2]
        state = attributes, traits, callbacks, comm_id
        return _make, (type(value),), state, None, None, _fill


def _find(comm_id: str) -> t.Any:
    """The one that the main worker has; its user may have closed it meanwhile."""
    widget = _instances().get(comm_id)
    if widget is None:
        raise ValueError("a widget that was closed while the cell ran")
    return widget


def _handlers(widget: t.Any) -> list[tuple[tuple[str, ...], t.Any]]:
    """The functions that are called when something happens to a widget, each with its place: a
    trait and a kind of change, or the attribute that calls it."""
    from traitlets import EventHandler

    found: list[tuple[tuple[str, ...], t.Any]] = [
        ((name, kind), handler)
        for name, kinds in widget._trait_notifiers.items()
        for kind, handlers in kinds.items()
        for handler in handlers
        if not isinstance(handler, EventHandler)
    ]
    for name, part in vars(widget).items():  # of buttons, for one
        if type(part).__name__ == "CallbackDispatcher":
            found += [((name,), handler) for handler in part.callbacks]
    return found


def _calls(widget: t.Any, where: tuple[str, ...]) -> list[t.Any]:
    if len(where) == 1:
        return vars(widget)[where[0]].callbacks
    name, kind = where
    return widget._trait_notifiers.setdefault(name, {}).setdefault(kind, [])


def _changes(
    widget: t.Any, traits: dict[str, t.Any], handlers: list[tuple[tuple[str, ...], t.Any]]
) -> tuple[t.Any, ...]:
    """Changes of a fork's cell to a widget of the main worker's."""
    changed = {
        name: part
        for name, part in widget._trait_values.items()
        if name != "comm" and part is not traits.get(name, _staying)
    }
    now = _handlers(widget)
    added = [one for one in now if one not in handlers]
    removed = [
        (where, number) for number, (where, one) in enumerate(handlers) if (where, one) not in now
    ]
    return changed, added, removed


def _refresh(widget: t.Any, state: tuple[t.Any, ...]) -> None:
    """The page knows, and what observes the widget has been called: in the cell."""
    if _context.is_comparing():
        return
    changed, added, removed = state
    before = _handlers(widget)
    for where, number in removed:
        if number < len(before) and before[number][0] == where:
            _calls(widget, where).remove(before[number][1])
    widget._trait_values.update(changed)
    for where, handler in added:
        _calls(widget, where).append(handler)


def _make(cls: t.Any) -> t.Any:
    return cls.__new__(cls)


def _fill(widget: t.Any, state: tuple[t.Any, ...]) -> None:
    attributes, traits, callbacks, comm_id = state
    vars(widget).update(attributes)
    widget._trait_values.update(traits, comm=None)
    for name, kind, handler in callbacks:
        widget._trait_notifiers.setdefault(name, {}).setdefault(kind, []).append(handler)
    if comm_id is not None:
        _take_over(widget, comm_id)


def _take_over(widget: t.Any, comm_id: str) -> None:
    """Answer for the widget from now on; by no assignment, which its observers would see."""
    before = _instances().get(comm_id)
    if before is not None:
        before._trait_values["comm"] = None
    made = comms.take_over(comm_id, "jupyter.widget")
    made.on_msg(widget._handle_msg)
    widget._trait_values["comm"] = made
    _instances()[comm_id] = widget


register(_Widgets())
