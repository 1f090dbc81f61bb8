"""The codec of logging's handlers: all but their lock, which is made anew.

Loggers need none: pickle carries them by name. So a handler that a variable holds crosses, with
its stream or file, and so does how it was configured; which handlers a logger has is its process's own.
"""

from __future__ import annotations

import logging
import typing as t

from . import Codec, register


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


register(_Handlers())
