"""rich's consoles: their locks are made anew, and the environment that they look at is the process's own.

A console that records, or writes to a file of its own, goes on with what it has recorded, and with that file.
"""

from __future__ import annotations

import os
import threading
import typing as t

from . import Codec, register

_Lock = type(threading.RLock())


def _make(cls: t.Any) -> t.Any:
    return cls.__new__(cls)


def _fill(console: t.Any, state: tuple[t.Any, ...]) -> None:
    from rich.console import ConsoleThreadLocals

    attributes, locks, themes, buffer, has_environment = state
    vars(console).update(attributes)
    for name in locks:
        setattr(console, name, threading.RLock())
    console._thread_locals = ConsoleThreadLocals(theme_stack=themes)
    console._thread_locals.buffer.extend(buffer)
    if has_environment:
        console._environ = os.environ


class _Consoles(Codec):
    types = ("rich.console.Console",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        attributes = dict(vars(value))
        local = attributes.pop("_thread_locals", None)
        if local is None:
            return NotImplemented  # another version
        locks = [name for name, one in attributes.items() if type(one) is _Lock]
        has_environment = attributes.get("_environ") is os.environ
        for name in (*locks, *(("_environ",) if has_environment else ())):
            del attributes[name]
        state = attributes, locks, local.theme_stack, list(local.buffer), has_environment
        return _make, (type(value),), state, None, None, _fill


register(_Consoles())
