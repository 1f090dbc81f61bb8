"""typing's objects that are made by a call: NewType, TypeVar, ParamSpec, TypeVarTuple, aliases.

pickle takes them by the name of the variable that they should be bound to, in the module that made
them: the notebook's `__main__` is another one in each process. Functions and classes refer to them
in their annotations, and compare them by identity. So those of the notebook are made once in each
process, by a number that they get when they are first carried, as classes are.
"""

from __future__ import annotations

import contextlib
import sys
import typing as t

from cloudpickle import cloudpickle as _rules

from . import Codec, register

_OPTIONS = "bound", "covariant", "contravariant", "infer_variance", "default"
_DEFAULTS: dict[str, t.Any] = {
    "bound": None,
    "covariant": False,
    "contravariant": False,
    "infer_variance": False,
    "default": getattr(t, "NoDefault", None),
}


def _is_of_a_module(value: t.Any) -> bool:
    module, name = value.__module__, getattr(value, "__qualname__", value.__name__)
    found = None if module == "__main__" else sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return found is value


def _track(identifier: str, made: t.Any, module: str) -> t.Any:
    with contextlib.suppress(AttributeError, TypeError):
        made.__module__ = module
    return _rules._lookup_class_or_track(identifier, made)


def _make_parameter(kind, identifier, module, args, options):
    known = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    return _track(identifier, kind(*args, **options), module) if known is None else known


def _make_new_type(kind, identifier, name):
    known = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    return _track(identifier, kind(name, object), "__main__") if known is None else known


def _fill_new_type(made, state):
    vars(made).clear()
    vars(made).update(state)


class _Parameters(Codec):
    types = "typing.TypeVar", "typing.ParamSpec", "typing.TypeVarTuple"

    def reduce(self, value, pickler):
        if _is_of_a_module(value):
            return NotImplemented
        options = {
            name: found
            for name in _OPTIONS
            if (found := getattr(value, f"__{name}__", _DEFAULTS[name])) != _DEFAULTS[name]
        }
        args = value.__name__, *getattr(value, "__constraints__", ())
        number = _rules._get_or_create_tracker_id(value)
        return _make_parameter, (type(value), number, value.__module__, args, options)


class _NewTypes(Codec):
    types = ("typing.NewType",)

    def reduce(self, value, pickler):
        if _is_of_a_module(value):
            return NotImplemented
        args = type(value), _rules._get_or_create_tracker_id(value), value.__name__
        return _make_new_type, args, dict(vars(value)), None, None, _fill_new_type


class _Aliases(Codec):
    """The object that a `type` statement makes (Python 3.12)."""

    types = ("typing.TypeAliasType",)

    def reduce(self, value, pickler):
        if _is_of_a_module(value):
            return NotImplemented
        args, options = (value.__name__, value.__value__), {"type_params": value.__type_params__}
        number = _rules._get_or_create_tracker_id(value)
        return _make_parameter, (type(value), number, value.__module__, args, options)


for _codec in (_Parameters(), _NewTypes(), _Aliases()):
    register(_codec)
