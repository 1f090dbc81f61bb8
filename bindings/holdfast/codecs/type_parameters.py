"""typing's objects that are made by a call: NewType, TypeVar, ParamSpec, TypeVarTuple, aliases.

pickle takes them by the name of the variable that they should be bound to, in the module that made
them: the notebook's `__main__` is another one in each process. Functions and classes refer to them
in their annotations, and compare them by identity. So those of the notebook are made once in each
process, by a number that they get when they are first carried, as classes are.
"""

from __future__ import annotations

import contextlib
import keyword
import sys
import typing as t
import uuid

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


# By number, and the numbers by id. No weak reference leads to an alias, so those that were carried stay.
# With each the globals in which it finds its value, if it was made here.
_aliases: dict[str, tuple[t.Any, dict[str, t.Any]]] = {}
_numbers: dict[int, str] = {}


def _keep_alias(number, made, space):
    _aliases[number], _numbers[id(made)] = (made, space), number
    return made


def _make_alias(number, name, module):
    """It finds its value when somebody asks for that, and so the value may refer to it."""
    if number in _aliases:
        return _aliases[number][0]
    space = {"__name__": module}
    exec(f"type {name} = _holdfast_value", space)
    return _keep_alias(number, space[name], space)


def _fill_alias(made, value):
    _, space = _aliases[_numbers[id(made)]]
    space.setdefault("_holdfast_value", value)


def _make_generic_alias(number, kind, name, module, value, parameters):
    if number in _aliases:
        return _aliases[number][0]
    space = {"__name__": module}  # of the code that makes it: the alias has this module's name
    made = eval("lambda make, *args, **options: make(*args, **options)", space)(
        kind, name, value, type_params=parameters
    )
    return _keep_alias(number, made, {})


def _refers_to_itself(alias):
    seen, left = set(), [alias.__value__]
    for parameter in alias.__type_params__:
        left += [getattr(parameter, "__bound__", None), *getattr(parameter, "__constraints__", ())]
    while left:
        one = left.pop()
        if one is alias:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            left += one if type(one) is list else (t.get_origin(one), *t.get_args(one))
            left.append(getattr(one, "__value__", None))
    return False


class _Aliases(Codec):
    """The object that a `type` statement makes (Python 3.12)."""

    types = ("typing.TypeAliasType",)

    def reduce(self, value, pickler):
        if _is_of_a_module(value):
            return NotImplemented
        name, parameters = value.__name__, value.__type_params__
        number = _numbers.get(id(value)) or uuid.uuid4().hex
        if number not in _aliases:
            _keep_alias(number, value, {})
        if not parameters and name.isidentifier() and not keyword.iskeyword(name):
            args = number, name, value.__module__
            return _make_alias, args, value.__value__, None, None, _fill_alias
        if _refers_to_itself(value):
            raise TypeError("an alias with type parameters that refers to itself can't be carried")
        args = number, type(value), name, value.__module__, value.__value__, parameters
        return _make_generic_alias, args


for _codec in (_Parameters(), _NewTypes(), _Aliases()):
    register(_codec)
