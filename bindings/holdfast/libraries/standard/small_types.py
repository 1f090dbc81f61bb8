"""Codecs of logging: loggers and handlers.

A logger is carried as its name. What is set on it is a setting of its process (worker/settings/). A handler that a
variable refers to is carried with its stream or file, and with its configuration.
"""

from __future__ import annotations

import logging
import typing as t

from holdfast.codecs import Codec, register

# ---- logging's handlers: everything but the lock, which is made anew -------------------------


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


# ---- loggers --------------------------------------------------------------------------------


class _Loggers(Codec):
    """A logger that `getLogger` doesn't find is carried as itself. pickle would make one with its
    name there, or find another one."""

    types = ("logging.Logger",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        known = value.manager.loggerDict.get(value.name)
        if known is value or value is logging.root:
            name = (value.name,) if known is value else ()
            return logging.getLogger, name  # no attributes, even if its class is the notebook's
        state = {name: one for name, one in vars(value).items() if name not in _OF_ALL_LOGGERS}
        return _make_handler, (type(value),), state, None, None, _fill_logger


_OF_ALL_LOGGERS = frozenset(("manager", "_cache"))


def _fill_logger(logger, state):
    vars(logger).update(state)
    logger._cache = {}


for _codec in (
    _Handlers(),
    _Loggers(),
):
    register(_codec)
