"""HoloViews' objects, with the options that were set for each.

An object has a number, by which HoloViews finds its options in a table of the process. So the options
are carried with the object. The process that reads it gives it a free number, since the old one may belong to
another object there. Objects that shared a number share the new one.
"""

from __future__ import annotations

import functools
import typing as t
import weakref

from holdfast.codecs import Codec, register


def _store() -> t.Any:
    from holoviews.core.options import Store

    return Store


def _make(cls: t.Any) -> t.Any:
    return cls.__new__(cls)


def _fill(value: t.Any, state: tuple[t.Any, ...]) -> None:
    attributes, trees = state
    value.__setstate__(attributes)
    if not trees:
        return
    options = _store()._custom_options
    number = next(
        (
            key
            for backend, tree in trees.items()
            for key, one in options.get(backend, {}).items()
            if one is tree
        ),
        None,
    )
    if number is None:
        used = [key for by_number in options.values() for key in by_number]
        number = max(used, default=-1) + 1
        for backend, tree in trees.items():
            options.setdefault(backend, {})[number] = tree
    vars(value)["_id"] = number
    _forget_with(value, number)


def _forget_with(value: t.Any, number: int) -> None:
    """Drop the options with the last object that has them, as HoloViews does."""
    from holoviews.core.options import cleanup_custom_options

    forget = functools.partial(cleanup_custom_options, number)
    _store()._weakrefs.setdefault(number, []).append(weakref.ref(value, forget))


class _Objects(Codec):
    types = ("holoviews.core.dimension.LabelledData",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        number = vars(value).get("_id")
        trees = {
            backend: by_number[number]
            for backend, by_number in _store()._custom_options.items()
            if number is not None and number in by_number
        }
        attributes = value.__getstate__()
        attributes["_id"] = None
        kept = {name: one for name, one in attributes.items() if not name.startswith("_custom_opt")}
        return _make, (type(value),), (kept, trees), None, None, _fill


register(_Objects())
