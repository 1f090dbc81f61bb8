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
from .messages import warn
from .wrapping import around

TYPE_CHECKING = False  # a checker believes otherwise; `typing` takes 5 ms
if TYPE_CHECKING:
    import typing as t

    _F = t.TypeVar("_F")

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

_warned: set = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warn(message)


def _absolute(file_name: str) -> str:
    """The absolute path of a file. A name that isn't a file, such as <string>, stays as it is."""
    return file_name if file_name.startswith("<") else os.path.abspath(file_name)


def printable(name) -> str:
    """Return a name as it is recorded.

    Parameters
    ----------
    name : object
        The name; its `str` is used.

    Returns
    -------
    str
        The text, in which characters that would break the lines of a report are escaped.
    """
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _caller(depth: int):
    """File and line of the code that called into this module."""
    frame = sys._getframe(depth + 1)
    return _absolute(frame.f_code.co_filename), frame.f_lineno


def begin(name: str, file_name, line_number, depth: int) -> None:
    """Enter the region that is shown under this text.

    Parameters
    ----------
    name : str
        The whole text that is shown.
    file_name : str, os.PathLike or None
        The region's file. If it is None: that of the caller.
    line_number : int or None
        The region's line, from 1. If it is None: that of the caller, or 0 if a file is given.
    depth : int
        How many frames the caller is above the function that calls this one.
    """
    if not _recorder.is_open():
        return
    if file_name is None:
        file_name, line = _caller(depth + 1)
        line_number = line if line_number is None else line_number
    _recorder.region_begin(name, _absolute(os.fspath(file_name)), line_number or 0)


def region_begin(name: str, file_name: str | None = None, line_number: int | None = None) -> None:
    """Enter a region of the program's own.

    Without an open recording this does nothing. The first begin of a name fixes its file and line.

    Parameters
    ----------
    name : str
        The region, shown as ``user:name``.
    file_name : str or os.PathLike, optional
        Its file. If it is left out: that of the caller.
    line_number : int, optional
        Its line, from 1. If it is left out: that of the caller.
    """
    begin(printable(f"user:{name}"), file_name, line_number, 1)


def region_end(name: str) -> None:
    """Leave a region of the program's own.

    If no such region is open on this thread, a message on stderr says so once, and the trace has a
    region ``error_region`` with the name as a parameter, as those of the Score-P bindings have.

    Parameters
    ----------
    name : str
        The region.
    """
    end(printable(f"user:{name}"), f"region_end({name!r})", 1)


def end(shown: str, call: str, depth: int) -> None:
    """Leave the region that is shown under this text.

    If it isn't open, a message says so, and the trace has a region ``error_region`` with the name as a
    parameter, as those of the Score-P bindings have.

    Parameters
    ----------
    shown : str
        The whole text that is shown.
    call : str
        The user's call, for the message.
    depth : int
        How many frames the caller is above the function that calls this one.
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
        ``module:function`` or ``module.Class:method``; while functions are recorded
        anyway, it has no other region.
    name : str
        The same, under another name.
    """

    __slots__ = ("_given", "_open")

    def __init__(self, region_name: str = "", *, name: str = "") -> None:
        given = region_name or name
        self._given = str(given) if given else ""
        self._open: list[str] = []

    def __enter__(self) -> t.Self:
        name, place = printable(f"user:{self._given}"), (None, None)
        if not self._given:
            place = _caller(1)
            name = printable(f"user:{os.path.basename(place[0])}:{place[1]}")
        begin(name, *place, 1)
        self._open.append(name)
        return self

    def __exit__(self, *exc: object) -> t.Literal[False]:
        _recorder.region_end(self._open.pop())
        return False

    def __call__(self, function: _F) -> _F:
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
    """The name that the recorder gives to the function; see region_names.c."""
    module = getattr(function, "__module__", None)
    module = module if isinstance(module, str) else "<unknown>"
    qualname = getattr(function, "__qualname__", repr(function))
    owner, dot, name = qualname.rpartition(".")
    if dot and name and not owner.endswith("<locals>"):
        return f"{module}.{owner}:{name}"
    return f"{module}:{qualname}"


class _FixedRegion:
    """The context of a decorated function. Everything about its region is known."""

    __slots__ = ("_name", "_place")

    def __init__(self, name, place):
        self._name, self._place = name, place

    def __enter__(self):
        begin(self._name, *self._place, 1)

    def __exit__(self, kind, value, traceback):
        _recorder.region_end(self._name)
        return False


class _OwnRegion(_FixedRegion):
    """The same, under the function's own name. It is left out if the call itself is recorded."""

    __slots__ = ("_begun",)

    def __enter__(self):
        self._begun = not _recorder.is_enabled()
        if self._begun:
            super().__enter__()

    def __exit__(self, kind, value, traceback):
        return super().__exit__(kind, value, traceback) if self._begun else False


def rewind_begin(name: str, file_name: str | None = None, line_number: int | None = None) -> None:
    """Mark a point to which `rewind_end` can take this thread's trace back.

    Parameters
    ----------
    name : str
        The name of the mark.
    file_name : str, optional
        Accepted as by the Score-P bindings; without effect.
    line_number : int, optional
        Accepted as by the Score-P bindings; without effect.
    """
    _recorder.rewind_begin(printable(name))


def rewind_end(name: str, value: bool) -> None:
    """Forget a mark, and drop what was recorded since it if the caller asks for that.

    Events that are in the file already can't be dropped, nor can those since a
    mark at which other regions were open. A message on stderr says so once.

    Parameters
    ----------
    name : str
        The name of the mark.
    value : bool
        Whether the events are dropped.
    """
    if not _recorder.rewind_end(printable(name), bool(value)):
        _warn_once(f"rewind_end({name!r}): the events could not be dropped")


def parameter_int(name: str, val: int) -> None:
    """Record a signed integer for this thread.

    A value that isn't one is reported once on stderr, and not recorded.

    Parameters
    ----------
    name : str
        The parameter.
    val : int
        Its value, of 64 bits.
    """
    _record(_recorder.parameter_int, name, val)


def parameter_uint(name: str, val: int) -> None:
    """Record an unsigned integer for this thread.

    A value that isn't one is reported once on stderr, and not recorded.

    Parameters
    ----------
    name : str
        The parameter.
    val : int
        Its value, of 64 bits.
    """
    _record(_recorder.parameter_uint, name, val)


def parameter_string(name: str, string: str) -> None:
    """Record a text for this thread.

    A value that isn't one is reported once on stderr, and not recorded.

    Parameters
    ----------
    name : str
        The parameter.
    string : str
        Its value.
    """
    _record(_recorder.parameter_string, name, string)


def _record(parameter, name, value) -> None:
    """Record a parameter. A value of another type is reported once."""
    try:
        parameter(printable(name), value)
    except (TypeError, ValueError, OverflowError) as error:
        _warn_once(f"{parameter.__name__}({name!r}): not recorded: {error}")


enable_recording = _recorder.enable_recording
disable_recording = _recorder.disable_recording


def instrument_function(function: _F, instrumenter_fun: t.Any = region) -> _F:
    """Decorate a function.

    Parameters
    ----------
    function : callable
        The function.
    instrumenter_fun : callable
        Called without arguments; it returns the decorator.

    Returns
    -------
    callable
        The decorated function.
    """
    return instrumenter_fun()(function)


def instrument_module(module: types.ModuleType, instrumenter_fun: t.Any = region) -> None:
    """Decorate every function of a module, in place.

    Parameters
    ----------
    module : module
        The module.
    instrumenter_fun : callable
        As for `instrument_function`.
    """
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType):
            setattr(module, name, instrument_function(value, instrumenter_fun))


def force_finalize() -> None:
    """Write the results now. Nothing is recorded from here on."""
    close_at_end()


def reregister_exit_handler() -> None:
    """Have the results written at exit although the program cleared the exit handlers."""
    if _recorder.is_open():
        atexit.unregister(close_at_end)
        atexit.register(close_at_end)
