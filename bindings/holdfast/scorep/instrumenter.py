"""Switching the events of Python functions on and off.

``enable`` and ``disable`` are context managers and decorators. One that doesn't change
the state does nothing at all: it adds no region either, even where it has a name.
"""

from __future__ import annotations

import os
import sys

from holdfast import _recorder

from .wrapping import around

__all__ = [
    "disable",
    "enable",
    "get_instrumenter",
    "has_c_instrumenter",
    "register",
    "unregister",
]


class _Instrumenter:
    """The one that there is: the recorder's C callback."""

    def register(self) -> None:
        """Switch events on, on every thread."""
        _recorder.enable()

    def unregister(self) -> None:
        """Switch events off."""
        _recorder.disable()

    def get_registered(self) -> bool:
        """Whether events are on."""
        return _recorder.is_enabled()


_instrumenter = _Instrumenter()


def get_instrumenter(*_unused, **_ignored) -> _Instrumenter:
    """Return the instrumenter; arguments of upstream's function are accepted."""
    return _instrumenter


def has_c_instrumenter() -> bool:
    """Whether the instrumenter is written in C: always."""
    return True


def register() -> None:
    """Switch events on; nothing happens without an open recording."""
    _recorder.enable()


def unregister() -> None:
    """Switch events off."""
    _recorder.disable()


class _Switch:
    """Puts events into one state for a block or function, and back after it."""

    _on: bool

    def __init__(self, region_name: str | None = None):
        self._given = region_name
        self._name = f"user:{region_name}" if region_name else None
        self._changed: list = []

    def __enter__(self):
        changed = _recorder.is_open() and _recorder.is_enabled() != self._on
        self._changed.append(changed)
        if not changed:
            return self
        if self._name:
            frame = sys._getframe(1)
            place = os.path.abspath(frame.f_code.co_filename), frame.f_lineno
            _recorder.region_begin(self._name, *place)
        self._set(self._on)
        return self

    def __exit__(self, kind, value, traceback):
        if self._changed.pop():
            self._set(not self._on)
            if self._name:
                _recorder.region_end(self._name)
        return False

    @staticmethod
    def _set(on: bool) -> None:
        if on:
            _recorder.enable()
        else:
            _recorder.disable()

    def __call__(self, function):
        return around(function, lambda: type(self)(self._given))


class enable(_Switch):
    """Record Python functions inside the block or function.

    Parameters
    ----------
    region_name : str, optional
        Show the block as region ``user:region_name``, if this changes the state.
    """

    _on = True


class disable(_Switch):
    """Don't record Python functions inside the block or function.

    Parameters
    ----------
    region_name : str, optional
        Show the block as region ``user:region_name``, if this changes the state.
    """

    _on = False
