"""dateutil's time zones. A process has one object for each name.

Two dates of the same zone object are subtracted as they are written. If the zones are two objects, even
equal ones, the dates are converted to UTC first.
"""

from __future__ import annotations

import importlib
import sys
import typing as t
import weakref

from holdfast.codecs import Codec, register

_MAKERS = ("gettz", "tzstr")


class _Zones(Codec):
    types = ("dateutil.tz.tz.tzfile", "dateutil.tz._tzfile.tzfile", "dateutil.tz.tz.tzstr")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        for maker in _MAKERS:
            key = _key_of(value, getattr(sys.modules["dateutil.tz"], maker))
            if key is not None:
                return make, (maker, *(key if isinstance(key, tuple) else (key,)))
        return NotImplemented


def make(maker: str, *args: t.Any) -> t.Any:
    """The zone object that this process has for the name."""
    return getattr(importlib.import_module("dateutil.tz"), maker)(*args)


def _key_of(zone: t.Any, known: t.Any) -> t.Any:
    """The arguments with which `known` returns this object. None if there are none."""
    for held in vars(known).values():
        if isinstance(held, weakref.WeakValueDictionary):
            return next((key for key, one in held.items() if one is zone), None)
    return None


register(_Zones())
