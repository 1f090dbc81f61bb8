"""PyTorch: optimizers with all that was hung on them.

Their own pickling is for files. It keeps the parameters' groups and the state, and drops hooks, and
the `step` that a scheduler of learning rates puts in the place of the class's, by which it knows
that a step was made: a cell would leave out what a hook does, and warn of a wrong order. So here all
of `__dict__` is carried, and `__setstate__` gets it as it gets what pickling keeps. A class that has a
pickling of its own knows better, and is left alone.
"""

from __future__ import annotations

import typing as t

import torch

from holdfast.codecs import Codec

_BASE = torch.optim.Optimizer
_OWN = ("__getstate__", "__reduce__", "__reduce_ex__")


def _make(cls: t.Any) -> torch.optim.Optimizer:
    optimizer = cls.__new__(cls)
    optimizer._patch_step_function()  # before a `step` that leads to the class's is read
    return optimizer


class _Optimizers(Codec):
    types = ("torch.optim.optimizer.Optimizer",)

    def reduce(self, value, pickler):
        cls = type(value)
        if any(getattr(cls, name) is not getattr(_BASE, name) for name in _OWN):
            return NotImplemented
        return _make, (cls,), dict(vars(value))


CODECS = (_Optimizers(),)
