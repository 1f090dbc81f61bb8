"""PyTorch: optimizers with all that was hung on them.

Their own pickling is meant for files. It keeps the parameters' groups and the state, and drops two things: hooks,
and the `step` by which a scheduler of learning rates has replaced the class's. By that `step` it knows that a
step was made. Without these, a cell would leave out what a hook does, and warn of a wrong order. So all of
`__dict__` is carried here, and given to `__setstate__`. A class that says itself how it is pickled is left alone.
"""

from __future__ import annotations

import typing as t

import torch

from holdfast.codecs import Codec

_BASE = torch.optim.Optimizer
_OWN = ("__getstate__", "__reduce__", "__reduce_ex__")


def _make(cls: t.Any) -> torch.optim.Optimizer:
    optimizer = cls.__new__(cls)
    optimizer._patch_step_function()  # first, since a `step` that is read may lead to the class's
    return optimizer


class _Optimizers(Codec):
    types = ("torch.optim.optimizer.Optimizer",)

    def reduce(self, value, pickler):
        cls = type(value)
        if any(getattr(cls, name) is not getattr(_BASE, name) for name in _OWN):
            return NotImplemented
        return _make, (cls,), dict(vars(value))


CODECS = (_Optimizers(),)
