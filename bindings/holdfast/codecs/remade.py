"""Codecs of small things of the standard library that are made again from what made them."""

from __future__ import annotations

import random
import typing as t

from . import Codec, register


class _Structs(Codec):
    types = ("_struct.Struct",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return type(value), (value.format,)


class _Generators(Codec):
    """The one behind the functions of `random` is that of the other process, which has its state."""

    types = ("random.Random",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return (_shared, ()) if value is _shared() else NotImplemented


def _shared() -> random.Random:
    return random._inst  # type: ignore[attr-defined]


class _SystemGenerators(Codec):
    """They have no state, and their own pickling asks for it."""

    types = ("random.SystemRandom",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value) is not random.SystemRandom:
            return NotImplemented
        return random.SystemRandom, ()


for _codec in (_Structs(), _Generators(), _SystemGenerators()):
    register(_codec)
