"""TensorFlow: the seed of all operations."""

from __future__ import annotations

import random
import typing as t

from holdfast.libraries import Imported, Setting

_MODULE = "tensorflow.python.eager.context"
_eager = Imported(_MODULE)


def _seed() -> list[t.Any]:
    """It, and the state of the generator that gives each operation its own."""
    context = _eager._context
    if context is None or context._seed is None:
        return []
    return [int(context._seed), context._rng.getstate()]


def _set_seed(new: list[t.Any]) -> None:
    context = _eager.context()
    seed, state = new or (None, random.Random().getstate())
    if context._seed != seed:
        context._set_global_seed(seed)
    context._rng.setstate(state)


DECLARATIONS = (Setting("seed", _seed, _set_seed, _MODULE),)
