"""Objects of the interpreter that show another one: mapping proxies, views of dicts, keys of `cmp_to_key`.

They show only the objects that the garbage collector sees of them. A proxy goes on showing the same
dict, and that of a class (`vars(cls)`) the class's own.
"""

from __future__ import annotations

import collections
import functools
import gc
import types
import typing as t

from . import Codec, iterators, register  # noqa: F401 - iterators: those of builtins

_VIEWS = ("keys", "values", "items")
_Key = type(functools.cmp_to_key(lambda one, other: 0))


def _referents(value: t.Any) -> list[t.Any]:
    return [one for one in gc.get_referents(value) if one is not type(value)]


def _class_of(mapping: t.Any) -> type | None:
    """The class whose attributes these are."""
    for name in ("__dict__", "__weakref__"):
        owner = getattr(mapping.get(name), "__objclass__", None)
        if owner is not None and _referents(vars(owner))[:1] == [mapping]:
            return owner
    return None


class _Proxies(Codec):
    types = ("builtins.mappingproxy",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        (mapping,) = _referents(value)
        if type(mapping) is dict and {"__module__", "__doc__"} <= mapping.keys():
            owner = _class_of(mapping)
            if owner is None:
                raise TypeError("the attributes of a class")
            return vars, (owner,)
        return types.MappingProxyType, (mapping,)


def _make_key(compare, *wrapped):
    key = functools.cmp_to_key(compare)
    return key(*wrapped) if wrapped else key


class _Keys(Codec):
    types = (f"{_Key.__module__}.{_Key.__qualname__}",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return _make_key, tuple(_referents(value))


class _Views(Codec):
    """Of a dict: `keys`, `values` and `items`."""

    types = tuple(f"builtins.{kind}dict_{name}" for kind in ("", "o") for name in _VIEWS)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        (mapping,) = _referents(value)
        return _make_view, (mapping, type(value).__name__.rpartition("_")[2])


def _make_view(mapping, name):
    base = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    return getattr(base, name)(mapping)


for _codec in (_Proxies(), _Keys(), _Views()):
    register(_codec)
