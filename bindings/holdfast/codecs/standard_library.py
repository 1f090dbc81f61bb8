"""Codecs of small things of the standard library that pickle doesn't know.

Loggers are carried by name. So a handler that a variable holds crosses, with its stream or file, and so
does how it was configured; what a logger has is a setting of its process (worker/settings/).
"""

from __future__ import annotations

import argparse
import copyreg
import logging
import random
import typing as t

from .. import _owned, _restore
from . import Codec, register

# ---- logging's handlers: all but their lock, which is made anew -----------------------------


def _make_handler(cls):
    return cls.__new__(cls)


def _fill_handler(handler, state):
    handler.__dict__.update(state)
    handler.createLock()
    logging._addHandlerRef(handler)  # type: ignore[attr-defined] # flushed at the end


class _Handlers(Codec):
    types = ("logging.Handler",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value).__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        state = {name: item for name, item in vars(value).items() if name != "lock"}
        return _make_handler, (type(value),), state, None, None, _fill_handler


# ---- argparse -------------------------------------------------------------------------------


def _find_suppress():
    return argparse.SUPPRESS


class _Suppress:
    """`argparse.SUPPRESS` is a text that is compared by identity; a pickle keeps only what it says."""

    def __reduce__(self):
        return _find_suppress, ()


class _Parsers(Codec):
    types = ("argparse.Action", "argparse._ActionsContainer")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value).__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        state = {
            name: _Suppress() if item is argparse.SUPPRESS else item
            for name, item in vars(value).items()
        }
        return copyreg.__newobj__, (type(value),), state  # type: ignore[attr-defined]


# ---- made again from what made them ---------------------------------------------------------


class _Loggers(Codec):
    """One that no `getLogger` finds is itself; pickle would make one of its name there, or find another."""

    types = ("logging.Logger",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        known = value.manager.loggerDict.get(value.name)
        if known is value or value is logging.root:
            name = (value.name,) if known is value else ()
            return logging.getLogger, name  # no attributes, also of one of the notebook's class
        state = {name: one for name, one in vars(value).items() if name not in _OF_ALL_LOGGERS}
        return _make_handler, (type(value),), state, None, None, _fill_logger


_OF_ALL_LOGGERS = frozenset(("manager", "_cache"))


def _fill_logger(logger, state):
    vars(logger).update(state)
    logger._cache = {}


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


class _MockCalls(Codec):
    """What a mock notes of a call. To look for `__setstate__` in one that is empty doesn't end."""

    types = ("unittest.mock._Call",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        make = tuple.__new__, (type(value), tuple(value))
        return *make, dict(vars(value)), None, None, _restore.share_dict


class _DictPatches(Codec):
    """A `patch.dict` that is started has the dict that it changed, and `stop` puts back what that had."""

    types = ("unittest.mock._patch_dict",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        state = dict(vars(value))
        state["in_dict"] = _owned.in_module(state["in_dict"])
        return object.__new__, (type(value),), state, None, None, _restore.share_dict


for _codec in (
    _Handlers(),
    _Loggers(),
    _Parsers(),
    _Structs(),
    _SystemGenerators(),
    _MockCalls(),
    _DictPatches(),
):
    register(_codec)
