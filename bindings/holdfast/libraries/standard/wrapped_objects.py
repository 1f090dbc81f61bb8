"""Objects of the interpreter that show another one: mapping proxies, views of dicts.

The dict has no name, but the garbage collector lists it among what they refer to. They go on showing the same dict.
"""

from __future__ import annotations

import collections
import gc
import types
import typing as t

from holdfast.carry import refused  # noqa: F401 - those of builtins
from holdfast.codecs import Codec, register

_VIEWS = ("keys", "values", "items")


def _referents(value: t.Any) -> list[t.Any]:
    return [one for one in gc.get_referents(value) if one is not type(value)]


class _Proxies(Codec):
    types = ("builtins.mappingproxy",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        (mapping,) = _referents(value)
        if type(mapping) is dict and {"__module__", "__doc__"} <= mapping.keys():
            raise TypeError("a copy would not show later changes of the class")
        return types.MappingProxyType, (mapping,)


class _Views(Codec):
    """The views of a dict: `keys`, `values` and `items`."""

    types = tuple(f"builtins.{kind}dict_{name}" for kind in ("", "o") for name in _VIEWS)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        (mapping,) = _referents(value)
        return _make_view, (mapping, type(value).__name__.rpartition("_")[2])


def _make_view(mapping, name):
    base = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    return getattr(base, name)(mapping)


for _codec in (_Proxies(), _Views()):
    register(_codec)
