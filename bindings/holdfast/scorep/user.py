"""Regions and parameters that the program names itself.

They are recorded whether or not the events of Python functions are, on the thread that
calls. Without an open recording they do nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
import types

from holdfast import _recorder

from .ending import close_at_end
from .telling import warn
from .wrapping import around

__all__ = [
    "disable_recording",
    "enable_recording",
    "force_finalize",
    "instrument_function",
    "instrument_module",
    "parameter_int",
    "parameter_string",
    "parameter_uint",
    "region",
    "region_begin",
    "region_end",
    "reregister_exit_handler",
    "rewind_begin",
    "rewind_end",
]

_told: set = set()


def _warn_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        warn(message)


def _absolute(file_name: str) -> str:
    """What has no file, such as <string>, keeps its name."""
    return file_name if file_name.startswith("<") else os.path.abspath(file_name)


def printable(name) -> str:
    """A name as it is recorded; what would break the lines of a report is escaped."""
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _caller(depth: int):
    """File and line of the code that called into this module."""
    frame = sys._getframe(depth + 1)
    return _absolute(frame.f_code.co_filename), frame.f_lineno


def begin(name: str, file_name, line_number, depth: int) -> None:
    """Enter the region that is shown so; its place is that of the caller, where not given."""
    if not _recorder.is_open():
        return
    if file_name is None:
        file_name, line = _caller(depth + 1)
        line_number = line if line_number is None else line_number
    _recorder.region_begin(name, _absolute(os.fspath(file_name)), line_number or 0)


def region_begin(name: str, file_name=None, line_number=None) -> None:
    """Enter the region `name`, shown as ``user:name``.

    The first begin of a name fixes its file and line: those given, else the caller's.
    """
    begin(printable(f"user:{name}"), file_name, line_number, 1)


def region_end(name: str) -> None:
    """Leave the region `name`. Where none is open, say so once and go on."""
    end(printable(f"user:{name}"), f"region_end({name!r})", 1)


def end(shown: str, call: str, depth: int) -> None:
    """Leave the region that is shown so. A `call` without its begin is told, and has a region
    of its own in the trace, with a parameter that names it, as in those of the Score-P bindings.
    """
    if _recorder.region_end(shown):
        return
    _warn_once(f"{call}: no such region is open on this thread")
    if _recorder.is_open():
        _recorder.region_begin("error_region", *_caller(depth + 1))
        _recorder.parameter_string("leave-region", shown)
        _recorder.region_end("error_region")


class region:
    """A region as context manager or decorator.

    Parameters
    ----------
    region_name : str
        Shown as ``user:region_name``. A ``with`` block without one is shown as
        ``user:file:line``. A decorated function without one is shown under its own name,
        ``module:function`` or ``module.Class:method``; where functions are recorded
        anyhow, it has no other region.
    name : str
        The same.
    """

    __slots__ = ("_given", "_open")

    def __init__(self, region_name: str = "", *, name: str = ""):
        given = region_name or name
        self._given = str(given) if given else ""
        self._open: list = []

    def __enter__(self):
        name, place = printable(f"user:{self._given}"), (None, None)
        if not self._given:
            place = _caller(1)
            name = printable(f"user:{os.path.basename(place[0])}:{place[1]}")
        begin(name, *place, 1)
        self._open.append(name)
        return self

    def __exit__(self, kind, value, traceback):
        _recorder.region_end(self._open.pop())
        return False

    def __call__(self, function):
        inner = getattr(function, "__func__", function)
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        code = getattr(inner, "__code__", None)
        place = (_absolute(code.co_filename), code.co_firstlineno) if code else _caller(1)
        if self._given:
            name = printable(f"user:{self._given}")
            return around(function, lambda: _FixedRegion(name, place))
        name = _own_name(inner)
        return around(function, lambda: _OwnRegion(name, place))


def _own_name(function) -> str:
    """As the recorder names functions; see region_names.c."""
    module = getattr(function, "__module__", None)
    module = module if isinstance(module, str) else "<unknown>"
    qualname = getattr(function, "__qualname__", repr(function))
    owner, dot, name = qualname.rpartition(".")
    if dot and name and not owner.endswith("<locals>"):
        return f"{module}.{owner}:{name}"
    return f"{module}:{qualname}"


class _FixedRegion:
    """The context of a decorated function: everything about it is known."""

    __slots__ = ("_name", "_place")

    def __init__(self, name, place):
        self._name, self._place = name, place

    def __enter__(self):
        begin(self._name, *self._place, 1)

    def __exit__(self, kind, value, traceback):
        _recorder.region_end(self._name)
        return False


class _OwnRegion(_FixedRegion):
    """The same under the function's own name, unless its call is recorded by itself."""

    __slots__ = ("_begun",)

    def __enter__(self):
        self._begun = not _recorder.is_enabled()
        if self._begun:
            super().__enter__()

    def __exit__(self, kind, value, traceback):
        return super().__exit__(kind, value, traceback) if self._begun else False


def rewind_begin(name: str, file_name=None, line_number=None) -> None:
    """Mark a point that ``rewind_end(name, True)`` takes this thread's trace back to."""
    _recorder.rewind_begin(printable(name))


def rewind_end(name: str, value: bool) -> None:
    """Forget the mark `name`; where `value` is true, drop what was recorded since it.

    Events that have been written to the file already can't be dropped, nor can those since a
    mark where other regions were open: that is said once.
    """
    if not _recorder.rewind_end(printable(name), bool(value)):
        _warn_once(f"rewind_end({name!r}): the events could not be dropped")


def parameter_int(name: str, val: int) -> None:
    """Record a signed integer of 64 bits."""
    _record(_recorder.parameter_int, name, val)


def parameter_uint(name: str, val: int) -> None:
    """Record an unsigned integer of 64 bits."""
    _record(_recorder.parameter_uint, name, val)


def parameter_string(name: str, string: str) -> None:
    """Record a text."""
    _record(_recorder.parameter_string, name, string)


def _record(parameter, name, value) -> None:
    """A value that is no such parameter is told once, and nothing else happens."""
    try:
        parameter(printable(name), value)
    except (TypeError, ValueError, OverflowError) as error:
        _warn_once(f"{parameter.__name__}({name!r}): not recorded: {error}")


enable_recording = _recorder.enable_recording
disable_recording = _recorder.disable_recording


def instrument_function(function, instrumenter_fun=region):
    """Return `function` decorated with ``instrumenter_fun()``."""
    return instrumenter_fun()(function)


def instrument_module(module, instrumenter_fun=region) -> None:
    """Decorate every function that `module` holds, in place."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType):
            setattr(module, name, instrument_function(value, instrumenter_fun))


def force_finalize() -> None:
    """Write the results now; nothing is recorded from here on."""
    close_at_end()


def reregister_exit_handler() -> None:
    """Have the results written at exit although the program cleared the exit handlers."""
    if _recorder.is_open():
        atexit.unregister(close_at_end)
        atexit.register(close_at_end)
