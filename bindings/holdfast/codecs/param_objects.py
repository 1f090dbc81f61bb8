"""param: objects with a watcher of several parameters, which is in the list of each, and is called once since it is
one object.

param's own `__setstate__` makes a watcher for each list. Here they are carried as they are.
"""

from __future__ import annotations

import copyreg
import sys
import typing as t

from .. import _restore
from . import Codec, register

_OWN = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")


class _Objects(Codec):
    types = ("param.parameterized.Parameterized",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        private = vars(value).get("_param__private")
        if not _watches_several(getattr(private, "watchers", None)):
            return NotImplemented
        base = sys.modules["param.parameterized"].Parameterized  # type: ignore[attr-defined]
        if any(getattr(cls, name) is not getattr(base, name) for name in _OWN):
            return NotImplemented
        state = value.__getstate__()
        if state.keys() != vars(value).keys():  # it has slots
            return NotImplemented
        make = copyreg.__newobj__  # type: ignore[attr-defined]
        return make, (cls,), (None, state), None, None, _restore.fill_and_hang


def _watches_several(watchers: dict[str, dict[str, list[t.Any]]] | None) -> bool:
    return any(
        len(one.parameter_names) > 1
        for lists in (watchers or {}).values()
        for some in lists.values()
        for one in some
    )


register(_Objects())
