"""param: objects with a watcher of several parameters stay in their process.

Such a watcher is in the list of each of its parameters. It is one object, so param calls it once. param's own
`__setstate__` would make a watcher for each list.
"""

from __future__ import annotations

import typing as t

from holdfast.codecs import Codec, register


class _Objects(Codec):
    types = ("param.parameterized.Parameterized",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        private = vars(value).get("_param__private")
        if not _watches_several(getattr(private, "watchers", None)):
            return NotImplemented
        raise TypeError(f"a {type(value).__name__} with a watcher of several parameters")


def _watches_several(watchers: dict[str, dict[str, list[t.Any]]] | None) -> bool:
    return any(
        len(one.parameter_names) > 1
        for lists in (watchers or {}).values()
        for some in lists.values()
        for one in some
    )


register(_Objects())
