"""Regions and parameters that the program names itself.

They are recorded whether or not the events of Python functions are, on the thread that
calls. Without an open recording they do nothing.
"""

from __future__ import annotations

import os
import sys
import types

from holdfast import _recorder

from .telling import warn
from .wrapping import around

__all__ = [
    "disable_recording",
    "enable_recording",
    "instrument_function",
    "instrument_module",
    "parameter_int",
    "parameter_string",
    "parameter_uint",
    "region",
    "region_begin",
    "region_end",
    "rewind_begin",
    "rewind_end",
]

_told: set = set()


def _warn_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        warn(message)


def _caller(depth: int):
    """File and line of the code that called into this module."""
    frame = sys._getframe(depth + 1)
    return os.path.abspath(frame.f_code.co_filename), frame.f_lineno


def _begin(name: str, file_name, line_number, depth: int) -> None:
    if not _recorder.is_open():
        return
    if file_name is None:
        file_name, line = _caller(depth + 1)
        line_number = line if line_number is None else line_number
    _recorder.region_begin(name, os.fspath(file_name), line_number or 0)


def region_begin(name: str, file_name=None, line_number=None) -> None:
    """Enter the region `name`, shown as ``user:name``.

    The first begin of a name fixes its file and line: those given, else the caller's.
    """
    _begin(f"user:{name}", file_name, line_number, 1)


def region_end(name: str) -> None:
    """Leave the region `name`. Where none is open, say so once and go on."""
    if not _recorder.region_end(f"user:{name}"):
        _warn_once(f"region_end({name!r}): no such region is open on this thread")


class region:
    """A region as context manager or decorator.

    Parameters
    ----------
    region_name : str
        Shown as ``user:region_name``. A decorated function without one is shown as
        ``module:qualified_name``; a ``with`` block without one as ``user:file:line``.
    """

    __slots__ = ("_given", "_open")

    def __init__(self, region_name: str = ""):
        self._given = str(region_name) if region_name else ""
        self._open: list = []

    def __enter__(self):
        name, place = f"user:{self._given}", (None, None)
        if not self._given:
            place = _caller(1)
            name = f"user:{os.path.basename(place[0])}:{place[1]}"
        _begin(name, *place, 1)
        self._open.append(name)
        return self

    def __exit__(self, kind, value, traceback):
        _recorder.region_end(self._open.pop())
        return False

    def __call__(self, function):
        inner = getattr(function, "__func__", function)
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        module = getattr(inner, "__module__", None) or "<unknown>"
        qualname = getattr(inner, "__qualname__", repr(inner))
        name = f"user:{self._given}" if self._given else f"{module}:{qualname}"
        code = getattr(inner, "__code__", None)
        place = (None, None)
        if code:
            place = (os.path.abspath(code.co_filename), code.co_firstlineno)
        return around(function, lambda: _FixedRegion(name, place))


class _FixedRegion:
    """The context of a decorated function: everything about it is known."""

    __slots__ = ("_name", "_place")

    def __init__(self, name, place):
        self._name, self._place = name, place

    def __enter__(self):
        _begin(self._name, *self._place, 1)

    def __exit__(self, kind, value, traceback):
        _recorder.region_end(self._name)
        return False


def rewind_begin(name: str, file_name=None, line_number=None) -> None:
    """Mark a point that ``rewind_end(name, True)`` takes this thread's trace back to."""
    _recorder.rewind_begin(name)


def rewind_end(name: str, value: bool) -> None:
    """Forget the mark `name`; where `value` is true, drop what was recorded since it.

    Events that have been written to the file already, and those since regions that were
    open at the mark have ended, can't be dropped: that is said once.
    """
    if not _recorder.rewind_end(name, bool(value)):
        _warn_once(f"rewind_end({name!r}): the events could not be dropped")


def parameter_int(name: str, val: int) -> None:
    """Record a signed integer of 64 bits."""
    _recorder.parameter_int(name, val)


def parameter_uint(name: str, val: int) -> None:
    """Record an unsigned integer of 64 bits."""
    _recorder.parameter_uint(name, val)


def parameter_string(name: str, string: str) -> None:
    """Record a text."""
    _recorder.parameter_string(name, string)


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
