"""PyTorch: modules with parametrized tensors (`weight_norm`, `register_parametrization`).

PyTorch gives such a module a class of its own, with a property for each of these tensors, and refuses to pickle it.
Here it is made as a module of the class below that, filled, and given such a class again.
"""

from __future__ import annotations

import typing as t

from torch.nn.utils import parametrize

from . import Codec


class _Parametrized(Codec):
    types = ("torch.nn.modules.module.Module",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        if cls.__module__ != parametrize.__name__ or not parametrize.is_parametrized(value):
            return NotImplemented
        names = list(value.parametrizations)
        if cls.__name__ != "Parametrized" + cls.__base__.__name__:
            return NotImplemented
        state = dict(vars(value)), names
        return _make, (cls.__base__,), state, None, None, _fill


def _make(cls: t.Any) -> t.Any:
    """The class is given to it before it is filled: what it holds may refer to it."""
    module = cls.__new__(cls)
    parametrize._inject_new_class(module)
    return module


def _fill(module: t.Any, state: tuple[dict[str, t.Any], list[str]]) -> None:
    attributes, names = state
    vars(module).update(attributes)
    for name in names:
        parametrize._inject_property(module, name)


CODECS = (_Parametrized(),)
