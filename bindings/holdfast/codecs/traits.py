"""traitlets: objects with traits, and who observes them.

traitlets pickles such an object without its observers, links and validators. Here it goes with all of its
attributes, and none of its code runs. Those of IPython and Jupyter go on as their classes say.
"""

from __future__ import annotations

import copyreg
import sys
import typing as t

from .. import _context, _instances, _owned, _restore
from . import Codec, register

_NOT = ("IPython", "ipykernel", "jupyter", "nbconvert", "nbformat", "comm", "ipywidgets")
_WAYS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")


def _make(cls: type) -> t.Any:
    return object.__new__(cls)  # traitlets' own gives it observers


class _Objects(Codec):
    types = ("traitlets.traitlets.HasTraits",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        base = next(one for one in cls.__mro__ if one.__name__ == "HasTraits")
        if any(getattr(cls, name) is not getattr(base, name) for name in _WAYS):
            return NotImplemented
        if cls in copyreg.dispatch_table or _instances._slots(cls):
            return NotImplemented
        if any(one.__module__.partition(".")[0].startswith(_NOT) for one in cls.__mro__):
            return NotImplemented
        return _make, (cls,), vars(value), None, None, _restore.share_dict


def _find(cls: type, name: str) -> t.Any:
    return vars(cls)[name]


class _Handlers(Codec):
    """Methods that `observe` or `validate` decorates: those that their class has."""

    types = ("traitlets.traitlets.EventHandler",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls, name, own = value.this_class, value.name, _context.current.own
        if own is None or cls is None or cls in own or vars(cls).get(name) is not value:
            return NotImplemented
        return _find, (cls, name)


def _fill(made: t.Any, state: tuple[dict[t.Any, t.Any], dict[str, t.Any]]) -> None:
    dict.update(made, state[0])
    vars(made).update(state[1])


class _Configurations(Codec):
    """Those that merged a plain dict refuse it when it is set as an item, as unpickling does."""

    types = ("traitlets.config.loader.Config",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value).__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        make = _restore.make_by_base, (dict, type(value), ())
        return *make, (dict(value), dict(vars(value))), None, None, _fill


class _Marks(Codec):
    """`All`, `Undefined`: they are compared by identity."""

    types = ("traitlets.utils.sentinel.Sentinel",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        found = getattr(sys.modules.get(value.module), "__dict__", {}).get(value.name)
        return (_owned.find, (value.module, value.name)) if found is value else NotImplemented


for _codec in (_Objects(), _Handlers(), _Configurations(), _Marks()):
    register(_codec)
