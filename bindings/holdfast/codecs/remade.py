"""Codecs of small things of the standard library that are made again from what made them."""

from __future__ import annotations

import random
import typing as t

from . import Codec, register


class _Structs(Codec):
    types = ("_struct.Struct",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return type(value), (value.format,)


class _SystemGenerators(Codec):
    """They have no state, and their own pickling asks for it."""

    types = ("random.SystemRandom",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value) is not random.SystemRandom:
            return NotImplemented
        return random.SystemRandom, ()


for _codec in (_Structs(), _SystemGenerators()):
    register(_codec)
