"""Bokeh's models and documents.

A model is pickled as any object. Its lists and dicts are containers that know the models whose properties
they are, by descriptors of the models' classes. The descriptors are found again by name. A container gets its
owners before anything is put into it. Themes and templates that Bokeh brings are pickled by their names.
"""

from __future__ import annotations

import importlib
import sys
import typing as t

from holdfast.codecs import Codec, register

_BASES = (list, set, dict)
_BRINGERS = ("bokeh", "panel")


def _make(cls: t.Any) -> t.Any:
    made = cls.__new__(cls)
    made._owners = set()
    return made


def _fill(container: t.Any, state: tuple[t.Any, ...]) -> None:
    contents, owners, attributes = state
    base: t.Any = next(base for base in _BASES if isinstance(container, base))
    # By the base's own method, which doesn't notify the owners: nothing has changed for them.
    (base.extend if base is list else base.update)(container, contents)
    vars(container).update(attributes)
    container._owners = {(owner, type(owner).lookup(name)) for owner, name in owners}


class _Containers(Codec):
    types = ("bokeh.core.property.wrappers.PropertyValueContainer",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        base = next(base for base in _BASES if isinstance(value, base))
        attributes = {name: one for name, one in vars(value).items() if name != "_owners"}
        owners = [(owner, descriptor.name) for owner, descriptor in value._owners]
        return _make, (type(value),), (base(value), owners, attributes), None, None, _fill


def _make_model(cls: t.Any) -> t.Any:
    return object.__new__(cls)  # `__new__` would give a new id, or want a template's source


class _Models(Codec):
    types = ("bokeh.model.model.Model",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return _make_model, (type(value),), dict(vars(value))


def _find(module: str, name: str) -> t.Any:
    return getattr(importlib.import_module(module), name)


class _Own(Codec):
    """Templates and themes that Bokeh or Panel brings, by name. Other templates of Jinja as any
    object."""

    types = ("bokeh.themes.theme.Theme", "jinja2.environment.Template")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        for module in [name for name in sys.modules if name.partition(".")[0] in _BRINGERS]:
            for name, one in list(getattr(sys.modules[module], "__dict__", {}).items()):
                if one is value:
                    return _find, (module, name)
        if type(value).__name__ != "Template" or not type(value).__module__.startswith("jinja2"):
            return NotImplemented
        return _make_model, (type(value),), dict(vars(value))


for _codec in (_Containers(), _Models(), _Own()):
    register(_codec)
