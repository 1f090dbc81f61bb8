"""The codec of ipywidgets' widgets: they go on in the main worker when the cell that made them has ended.

A page knows a widget by the id of its comm, and sends it the user's input. So a widget crosses as its
traits, its callbacks and that id. The main worker makes a comm with the same id, and sends the page no
message. The handlers of the widget's class are made by the class.

Widgets only cross back. A widget of the main worker is not copied into the process of a cell, since then
two widgets would have one id. A cell that names a widget runs in the main worker.

A fork of the main worker has its widgets. From a fork, a widget crosses back as the one that the main worker
has, with what the cell has changed: traits, attributes, callbacks. A callback or an attribute that can refer
to an object of the notebook always crosses: the main worker makes that object again, and both must have the
same one. The main worker keeps its own part only if no codec encodes it and the cell hasn't changed it.
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast.carry import context, in_place
from holdfast.codecs import Codec, register
from holdfast.libraries.comm import comms

# Names in a cell's namespace while it is saved. They stand for widgets that only ipywidgets refers
# to, such as those of `interact`, and the parts of others.
PREFIX = "_holdfast_widget_"
_OWN = ("_trait_values", "_trait_notifiers", "_trait_validators", "_cross_validation_lock")
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), range))
_CONTAINERS = frozenset((list, tuple, set, frozenset, dict))
_MEMBERS_MAX = 10_000  # a part with more members counts as changed
_TRYING = "whether parts of widgets can be carried is found out"  # among the pickler's notes

Place = tuple[str, ...]
Reason = t.TypeVar("Reason")

_leaving = False  # this process ends now, and the main worker answers for its widgets
# In a fork of the main worker: the widgets that the main worker has, by their addresses.
_staying: dict[int, _Staying] = {}
_held_back: set[int] | None = None  # addresses of parts that the main worker keeps; None: unknown
_closed: dict[str, t.Any] = {}  # the main worker's widgets that the last cell has closed


def _instances() -> dict[str, t.Any]:
    """All open widgets, by the ids of their comms."""
    return getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})


def find(comm_id: str | None) -> t.Any:
    """The widget whose comm has this id. None if there is none."""
    return None if comm_id is None else _instances().get(comm_id)


def stay(look: t.Callable[[t.Any], t.Any] = lambda part: None) -> None:
    """In a fork of the main worker: note the widgets that exist, which the main worker has and
    answers for. `look` returns what a part shows of itself, for a comparison with a later look, or
    None."""
    global _staying
    _staying = {id(widget): _Staying(widget, key) for key, widget in _instances().items()}
    for known in _staying.values():  # after all of them are noted: they refer to each other
        known.look_at(look)


def is_leaving() -> bool:
    """Whether this process ends now, and its widgets go on in the main worker."""
    return _leaving


def leave(namespace: dict[str, t.Any]) -> None:
    """In a cell worker, before the last save: give names to all widgets that it made, and to those
    of the main worker that have changes."""
    global _leaving
    _leaving = True
    found = [widget for widget in _instances().values() if id(widget) not in _staying]
    found += [known.widget for known in _staying.values() if known.has_changes()]
    for number, widget in enumerate(found):
        namespace[f"{PREFIX}{number}"] = widget


def left(unserializable: dict[str, Reason]) -> dict[str, Reason]:
    """After the last save: nothing that happens to the widgets here is sent to the page. Returns
    the unserializable names without ours. If there are no others, one entry stands for ours."""
    comms.leave()
    named = {name: reason for name, reason in unserializable.items() if not name.startswith(PREFIX)}
    return named or {"a widget": reason for reason in unserializable.values()}


def arrive(namespace: dict[str, t.Any], changed: t.Iterable[str]) -> bool:
    """In the main worker, after the names were bound: drop those of widgets. Returns whether there
    were any."""
    names = [name for name in changed if name.startswith(PREFIX)]
    for name in names:
        del namespace[name]
    _closed.clear()
    in_place.forget()
    return bool(names)


class _Widgets(Codec):
    types = ("ipywidgets.widgets.widget.Widget",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if not _leaving:
            raise TypeError("a widget stays in the notebook's own process")
        known = _staying.get(id(value))
        if known is not None:
            if _TRYING in pickler.notes:
                return _find, (known.comm_id,)
            return _find, (known.comm_id,), known.changes(), None, None, _refresh
        comm_id = None if value.comm is None else value.comm.comm_id
        attributes = {name: part for name, part in vars(value).items() if name not in _OWN}
        traits = {name: part for name, part in value._trait_values.items() if name != "comm"}
        calls = {
            place: [one for one in calls if not _is_of_class(one)]
            for place, calls in _calls(value).items()
            if place[0] != "dispatcher"  # a dispatcher is carried as an attribute
        }
        return _make, (type(value),), (attributes, traits, calls, comm_id), None, None, _fill


# ---- what calls the notebook's code ---------------------------------------------------------


def _is_of_class(handler: t.Any) -> bool:
    """Whether it is a method with `observe` or `validate`. Each instance of the class has it."""
    from traitlets import EventHandler

    return isinstance(handler, EventHandler)


def _is_dispatcher(part: t.Any) -> bool:
    """Whether it calls callbacks, as those of a button."""
    return type(part).__name__ == "CallbackDispatcher"


def _spaces(widget: t.Any) -> dict[str, dict[str, t.Any]]:
    return {"traits": widget._trait_values, "attributes": vars(widget)}


def _calls(widget: t.Any) -> dict[Place, list[t.Any]]:
    """The functions that are called when something happens to a widget. The key of each list is its
    place: a trait and a kind of change, a trait, or the attribute that calls them."""
    found: dict[Place, list[t.Any]] = {
        ("notifier", name, kind): handlers
        for name, kinds in widget._trait_notifiers.items()
        for kind, handlers in kinds.items()
    }
    for name, validator in widget._trait_validators.items():
        found["validator", name] = [validator]
    for space, parts in _spaces(widget).items():
        for name, part in parts.items():
            if _is_dispatcher(part):
                found["dispatcher", space, name] = part.callbacks
    return found


def _set_calls(widget: t.Any, place: Place, calls: list[t.Any]) -> None:
    kind, name, *rest = place
    if kind == "notifier":
        _set_list(widget._trait_notifiers.setdefault(name, {}).setdefault(rest[0], []), calls)
    elif kind == "dispatcher":
        _set_list(_spaces(widget)[name][rest[0]].callbacks, calls)
    elif calls:
        widget._trait_validators[name] = calls[0]
        in_place.put_into(widget._trait_validators, name)
    else:
        widget._trait_validators.pop(name, None)


def _set_list(here: list[t.Any], calls: list[t.Any]) -> None:
    here[:] = calls
    for number in range(len(calls)):
        in_place.put_into(here, number)


# ---- in a fork: what its cell changes -------------------------------------------------------


def _members(value: t.Any) -> tuple[list[t.Any], list[int]]:
    """A value, all that its containers hold, and the sizes of the containers."""
    found: list[t.Any] = []
    sizes, work = [], [value]
    while work and len(found) < _MEMBERS_MAX:
        one = work.pop()
        found.append(one)
        if type(one) in _CONTAINERS:
            sizes.append(len(one))
            work += one
            work += one.values() if type(one) is dict else ()
    return found, sizes if not work else [-1]


def _is_fixed(one: t.Any) -> bool:
    """Whether code can't change it, or it is an object that the main worker has and finds
    itself."""
    kind = type(one)
    if kind in _ATOMS or kind in _CONTAINERS or issubclass(kind, (type, types.ModuleType)):
        return True
    if kind is types.MethodType:
        return _is_fixed(one.__self__)
    if kind is types.FunctionType:
        cells = one.__closure__ or ()
        return one.__module__ != "__main__" and not (cells or one.__defaults__ or vars(one))
    return id(one) in _staying or _is_dispatcher(one) or _is_of_class(one)


class _Part:
    """A trait, an attribute or a callback of a widget, as it was before a fork's cell."""

    def __init__(self, value: t.Any, look: t.Callable[[t.Any], t.Any]):
        self.members, self.sizes = _members(value)
        self.is_fixed = self.sizes != [-1] and all(map(_is_fixed, self.members))
        self._look = look
        self._shown = None if self.is_fixed else look(value)

    def differs(self, value: t.Any) -> bool:
        """Whether the value is another one now, or holds other objects."""
        members, sizes = _members(value)
        if sizes != self.sizes or len(members) != len(self.members):
            return True
        return any(one is not other for one, other in zip(members, self.members, strict=True))

    def may_stay(self) -> bool:
        """Whether the main worker may keep its own: nothing that the part shows has changed."""
        value = self.members[0]
        if self.differs(value):
            return False
        return self._shown is None or self._look(value) == self._shown


class _Staying:
    """A widget of the main worker, as it was before a fork's cell.

    Parameters
    ----------
    widget : ipywidgets.Widget
        The widget.
    comm_id : str
        The id by which the main worker finds it.
    """

    def __init__(self, widget: t.Any, comm_id: str):
        self.widget, self.comm_id = widget, comm_id
        self._comm, self._kind = widget.comm, type(widget)
        self._before = {space: dict(parts) for space, parts in _spaces(widget).items()}
        for name in _OWN:
            self._before["attributes"].pop(name, None)
        self._before["traits"].pop("comm", None)
        self._parts: dict[Place, _Part] = {}
        self._calls: dict[Place, list[_Part]] = {}

    def look_at(self, look: t.Callable[[t.Any], t.Any]) -> None:
        """Note what its parts are."""
        for space, parts in self._before.items():
            for name, part in parts.items():
                if type(part) not in _ATOMS and not _is_dispatcher(part):
                    self._parts[space, name] = _Part(part, look)
        self._calls = {
            place: [_Part(one, look) for one in calls]
            for place, calls in _calls(self.widget).items()
        }

    def loose(self) -> t.Iterator[_Part]:
        """The parts that can refer to objects of the notebook."""
        for part in [
            *self._parts.values(),
            *(one for calls in self._calls.values() for one in calls),
        ]:
            if not part.is_fixed:
                yield part

    def has_changes(self) -> bool:
        """Whether there is anything that the main worker must get."""
        return any(True for _ in self.loose()) or any(self._differences(set()))

    def changes(self) -> tuple[t.Any, ...]:
        """The state that `_refresh` gives to the main worker's widget."""
        global _held_back
        if _held_back is None:
            _held_back = _find_held_back()
        found = self._differences(_held_back)
        return (*found, self._comm_id_now())

    def _comm_id_now(self) -> str | None:
        comm = self.widget.comm
        return None if comm is None else comm.comm_id

    def _differences(self, held_back: set[int]) -> tuple[t.Any, ...]:
        kind = type(self.widget)
        sent, gone = [], []
        for space, before in self._before.items():
            now = _spaces(self.widget)[space]
            names = [name for name in now if name not in _OWN and (space, name) != _COMM]
            sent += [
                (space, name, now[name])
                for name in names
                if self._is_sent(space, name, now[name], held_back)
            ]
            gone += [(space, name) for name in before if name not in now]
        calls = self._changed_calls(held_back)
        closed = self.widget.comm is not self._comm
        return (kind if kind is not self._kind else None), sent, gone, calls, closed

    def _is_sent(self, space: str, name: str, part: t.Any, held_back: set[int]) -> bool:
        if part is not self._before[space].get(name, self):
            return True
        known = self._parts.get((space, name))
        if known is None:
            return False
        return known.differs(part) or not (known.is_fixed or id(part) in held_back)

    def _changed_calls(self, held_back: set[int]) -> dict[Place, list[t.Any]]:
        """The lists that have changed. A callback that the main worker has is given by its number
        there."""
        now, changed = _calls(self.widget), {}
        for place in self._calls.keys() | now.keys():
            before = self._calls.get(place, [])
            numbers = {
                id(part.members[0]): number
                for number, part in enumerate(before)
                if part.is_fixed or id(part.members[0]) in held_back
            }
            found = [numbers.get(id(one), one) for one in now.get(place, ())]
            if [one if type(one) is int else None for one in found] != list(range(len(before))):
                changed[place] = found
        return changed


_COMM = ("traits", "comm")


def _find_held_back() -> set[int]:
    """The parts that no codec encodes and that the cell hasn't changed."""
    loose = [part for known in _staying.values() for part in known.loose()]
    if _is_carried([part.members[0] for part in loose]):
        return set()
    return {
        id(part.members[0])
        for part in loose
        if part.may_stay() and not _is_carried(part.members[0])
    }


def _is_carried(value: t.Any) -> bool:
    from holdfast.carry import pickling

    try:
        pickling._pickle(value, {_TRYING: True})
    except Exception:
        return False
    return True


# ---- what a pickle calls when it is read ----------------------------------------------------


def _find(comm_id: str) -> t.Any:
    """The widget that the main worker has. The user may have closed it meanwhile."""
    widget = _instances().get(comm_id) or _closed.get(comm_id)
    if widget is None:
        raise ValueError("a widget that was closed while the cell ran")
    in_place.leave(widget)
    return widget


def _refresh(widget: t.Any, state: tuple[t.Any, ...]) -> None:
    """Set what the cell has changed. The page has got it, and the observers were called, in the
    cell."""
    if context.is_comparing():
        return
    kind, sent, gone, calls, has_other_comm, comm_id = state
    before = {place: list(handlers) for place, handlers in _calls(widget).items()}
    if kind is not None:
        widget.__class__ = kind
    spaces = _spaces(widget)
    for space, name, part in sent:
        spaces[space][name] = part
        in_place.put_into(spaces[space], name)
    for space, name in gone:
        spaces[space].pop(name, None)
    for place, found in calls.items():
        had = before.get(place, [])
        now = [one for one in found if type(one) is not int or one < len(had)]
        _set_calls(widget, place, [had[one] if type(one) is int else one for one in now])
    if has_other_comm:
        _close(widget)
        if comm_id is not None:
            _take_over(widget, comm_id)


def _close(widget: t.Any) -> None:
    """Close it without a message to the page, which knows it already."""
    import comm

    old = widget._trait_values.get("comm")
    widget._trait_values["comm"] = None
    if old is not None:
        old._closed = True
        comm.get_comm_manager().unregister_comm(old)
        _closed[old.comm_id] = _instances().pop(old.comm_id, widget)


def _make(cls: t.Any) -> t.Any:
    widget = cls.__new__(cls)
    in_place.leave(widget)
    return widget


def _fill(widget: t.Any, state: tuple[t.Any, ...]) -> None:
    attributes, traits, calls, comm_id = state
    vars(widget).update(attributes)
    widget._trait_values.update(traits, comm=None)
    for space, sent in (("attributes", attributes), ("traits", traits)):
        for name in sent:
            in_place.put_into(_spaces(widget)[space], name)
    for place, handlers in calls.items():
        if handlers:
            of_class = _calls(widget).get(place, []) if place[0] == "notifier" else []
            _set_calls(widget, place, [*of_class, *handlers])
    if comm_id is not None and not context.is_comparing():
        _take_over(widget, comm_id)


def _take_over(widget: t.Any, comm_id: str) -> None:
    """Answer for the widget from now on. Its comm isn't assigned as a trait: observers would be
    called."""
    before = _instances().get(comm_id)
    if before is not None:
        before._trait_values["comm"] = None
    made = comms.take_over(comm_id, "jupyter.widget")
    made.on_msg(widget._handle_msg)
    widget._trait_values["comm"] = made
    _instances()[comm_id] = widget


register(_Widgets())
