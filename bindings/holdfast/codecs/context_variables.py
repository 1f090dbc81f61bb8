"""Context variables, each with its value in the context that all cells of a process share.

A variable is what it is by identity: functions, tokens and contexts hold on to it. So it has a
number, given when it is first carried, and a process makes one object for a number and keeps it,
as contexts do with variables anyway; what arrives later only sets its value. One of a module is
found there instead. That a variable has no value can't be brought about from outside: where it has
one here and none where it comes from, it is made anew. A default that is a list, dict or set is filled
again in its place; where it is another object that can change, or somebody else holds it, too, the
variable is made anew, with what arrives.

Tokens and contexts stay where they are.
"""

from __future__ import annotations

import contextvars
import sys
import typing as t
import uuid

from .. import _context
from . import Codec, register

_Variable: t.TypeAlias = "contextvars.ContextVar[t.Any]"
_Place: t.TypeAlias = "str | tuple[str, str]"  # its number, or module and name

_ALONE = 3  # references: the variable's, that of the tuple around it, the call's
_FIXED = (bool, int, float, complex, str, bytes, type(None))
_OWN = "__main__", "__mp_main__"  # the notebook's, by two names

_places: dict[_Variable, _Place] = {}
_by_number: dict[str, _Variable] = {}


class _Copy:
    """Stands for a variable where a value is decoded to be compared only: nothing is set by that."""

    def __init__(self, *made: t.Any) -> None:
        self.made = made
        self.value: tuple[t.Any, ...] | None = None

    def __reduce__(self) -> t.Any:
        made = _make_variable, self.made
        return made if self.value is None else (*made, self.value, None, None, _set_variable)


def _make_variable(
    place: _Place,
    name: str,
    default: tuple[t.Any, ...],
    is_set: bool,
    is_alone: bool = True,
) -> _Variable | _Copy:
    if _context.is_comparing():
        return _Copy(place, name, default, is_set, is_alone)
    if isinstance(place, tuple):
        __import__(place[0])
        found = getattr(sys.modules[place[0]], place[1])
        _refill(_default_of(found), default)
        return found
    found = _by_number.get(place)
    is_gone = found is None or (not is_set and found in contextvars.copy_context())
    if is_gone or not (is_alone and _refill(_default_of(found), default)):
        keywords = {"default": default[0]} if default else {}
        found = contextvars.ContextVar(name, **keywords)
        _by_number[place], _places[found] = found, place
    return found


def _is_fixed(value: t.Any) -> bool:
    """Whether nothing can change it, so that one that is equal is as good."""
    return all(map(_is_fixed, value)) if type(value) is tuple else type(value) in _FIXED


def _refill(old: tuple[t.Any, ...], new: tuple[t.Any, ...]) -> bool:
    """Whether a default is by now what arrived."""
    for one, other in zip(old, new, strict=False):
        if type(one) is type(other) is list:
            one[:] = other
        elif type(one) is type(other) and type(one) in (dict, set):
            one.clear()
            one.update(other)
        elif not _is_fixed(other):
            return False
    return True


def _is_alone(default: tuple[t.Any, ...]) -> bool:
    """Whether nobody else holds a default that can change."""
    return not default or _is_fixed(default[0]) or sys.getrefcount(default[0]) <= _ALONE


def _set_variable(variable: _Variable | _Copy, value: tuple[t.Any]) -> None:
    if isinstance(variable, _Copy):
        variable.value = value
    elif variable.get(_places) is not value[0]:
        variable.set(value[0])


def _place_of(variable: _Variable) -> _Place:
    place = _places.get(variable)
    if place is None:
        place = _place_in_a_module(variable) or uuid.uuid4().hex
        _places[variable] = place
        if isinstance(place, str):
            _by_number[place] = variable
    return place


def _place_in_a_module(variable: _Variable) -> tuple[str, str] | None:
    for module, loaded in list(sys.modules.items()):
        if module not in _OWN and getattr(loaded, "__spec__", None) is not None:
            for name, value in list(getattr(loaded, "__dict__", {}).items()):
                if value is variable:
                    return module, name
    return None


def _default_of(variable: _Variable) -> tuple[t.Any, ...]:
    try:
        return (contextvars.Context().run(variable.get),)
    except LookupError:
        return ()


class _Variables(Codec):
    types = ("_contextvars.ContextVar",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        is_set = value in contextvars.copy_context()
        default = _default_of(value)
        about = _place_of(value), value.name, default, is_set, _is_alone(default)
        made = _make_variable, about
        if not is_set:
            return made
        return *made, (value.get(),), None, None, _set_variable

    def shares(self, value: t.Any) -> t.Iterable[object]:
        own = (value.get(),) if value in contextvars.copy_context() else ()
        return *own, *(one for one in _default_of(value) if not _is_fixed(one))


register(_Variables())
