"""wrapt's proxies: what `wrapt.decorator` makes of a function, and `ObjectProxy`.

A proxy says of itself that it is what it wraps, whose attributes it shows. It is made again by wrapt's own
class, with what it wraps and with its own attributes (`_self_*`). A decorated function of a module is found
there by its name, as any function is.
"""

from __future__ import annotations

import gc
import sys
import typing as t

from .. import _owned, _restore, _trial
from . import Codec, register

_MODULES = "_wrappers", "wrapt.wrappers"  # in C, and the same in Python
_FIELDS = ("instance", "wrapper", "enabled", "binding", "parent", "owner")
_MADE_WITH_WRAPPED = "wrapt.proxies.AutoObjectProxy", "wrapt.proxies.LazyObjectProxy"


def _bases(cls: type) -> dict[str, t.Any]:
    """wrapt's own classes below it, the nearest first."""
    return {one.__name__: one for one in cls.__mro__ if one.__module__ in _MODULES}


def _attributes(value: t.Any) -> dict[str, t.Any]:
    """The proxy's own, which `vars()` doesn't show."""
    cls = type(value)
    if hasattr(cls, "__self_dict__"):
        return object.__getattribute__(value, "__self_dict__")
    if "_wrappers" not in [one.__module__ for one in cls.__mro__]:
        raise TypeError("a proxy of a wrapt that doesn't show its attributes")
    return next(one for one in gc.get_referents(value) if type(one) is dict)


def _place(wrapped: t.Any, value: t.Any) -> tuple[str, str] | None:
    """The module and the name there, if it is a function of a module."""
    module, name = (getattr(wrapped, one, None) for one in ("__module__", "__qualname__"))
    if type(module) is not str or type(name) is not str or module == "__main__":
        return None
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return (module, name) if found is value else None


class _Proxies(Codec):
    types = tuple(f"{module}.ObjectProxy" for module in _MODULES)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        bases = _bases(cls)
        if any(cls.__reduce__ is not one.__reduce__ for one in bases.values()):
            return NotImplemented
        if any(f"{one.__module__}.{one.__qualname__}" in _MADE_WITH_WRAPPED for one in cls.__mro__):
            raise TypeError("a proxy of wrapt that has a class of its own")
        if _slots(cls):
            raise TypeError("a proxy of wrapt with __slots__")
        wrapped = object.__getattribute__(value, "__wrapped__")
        attributes = _attributes(value)
        place = _place(wrapped, value)
        if place is not None:
            if _trial.is_own(place[0]) and _has_own_state(cls, attributes):
                raise TypeError(f"a wrapped function of {place[0]} with attributes of its own")
            return _owned.find, place
        names: tuple[str, ...] = ()
        if "_FunctionWrapperBase" in bases:
            names = _FIELDS
        elif "PartialCallableObjectProxy" in bases:
            names = "args", "kwargs"
        fields = tuple(object.__getattribute__(value, f"_self_{name}") for name in names)
        return _make, (cls,), (dict(attributes), wrapped, fields), None, None, _fill


def _has_own_state(cls: type, attributes: dict[str, t.Any]) -> bool:
    """Whether there may be more than the module makes when it is imported."""
    module = cls.__module__
    if module in _MODULES or not module.startswith("wrapt.") or module == "wrapt.caching":
        return any(name.startswith("_self_") for name in attributes)
    return False


def _slots(cls: type) -> list[str]:
    return [
        name
        for one in cls.__mro__
        if one.__flags__ & _restore.HEAP_TYPE and one.__module__ not in _MODULES
        for name, part in vars(one).items()
        if type(part).__name__ == "member_descriptor"
    ]


def _make(cls: type) -> t.Any:
    return next(iter(_bases(cls).values())).__new__(cls)


def _fill(proxy: t.Any, state: tuple[t.Any, ...]) -> None:
    attributes, wrapped, fields = state
    bases = _bases(type(proxy))
    if "_FunctionWrapperBase" in bases:
        bases["_FunctionWrapperBase"].__init__(proxy, wrapped, *fields)
    elif "PartialCallableObjectProxy" in bases:
        bases["PartialCallableObjectProxy"].__init__(proxy, wrapped, *fields[0], **fields[1])
    else:
        bases["ObjectProxy"].__init__(proxy, wrapped)
    _attributes(proxy).update(attributes)


register(_Proxies())
