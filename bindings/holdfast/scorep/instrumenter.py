"""Switching the events of Python functions on and off.

``enable`` and ``disable`` are context managers and decorators. One that doesn't change
the state has no effect. It doesn't even record a region of its name.
"""

from __future__ import annotations

import os
import sys
import typing as t

from holdfast import _recorder

from . import user
from .options import TYPES
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
    """The recorder's instrumenter, with the methods of the Score-P bindings' own.

    There is one. A region's name is ``module_name:function_name``; those of the module ``user`` are the
    regions of :mod:`.user`.
    """

    def __init__(self) -> None:
        self._enabled = False
        # By identity, since code objects of two files may be equal. The entries hold them.
        self._known: dict[int, tuple[object, tuple[str, t.Any, t.Any]]] = {}

    def register(self) -> None:
        """Switch events on, on every thread."""
        _recorder.enable()

    def unregister(self) -> None:
        """Switch events off."""
        _recorder.disable()

    def get_registered(self) -> bool:
        """Return whether events are on."""
        return _recorder.is_enabled()

    def run(self, cmd, globals=None, locals=None) -> None:
        """Execute code, with events on if ``get_instrumenter(True)`` asked for that.

        After it they are off.

        Parameters
        ----------
        cmd : str or code
            What `exec` takes.
        globals, locals : dict, optional
            The namespaces. Without `globals` the code gets one of its own.
        """
        names = {} if globals is None else globals
        if self._enabled:
            self.register()
        try:
            exec(cmd, names, names if locals is None else locals)  # noqa: S102
        finally:
            self.unregister()

    def region_begin(
        self, module_name, function_name, file_name, line_number, code_object=None
    ) -> None:
        """Enter a region.

        Parameters
        ----------
        module_name, function_name : str
            The two parts of its name.
        file_name : str
            Its file.
        line_number : int
            Its line, from 1.
        code_object : code, optional
            From now on `try_region_begin` and `try_region_end` find the region by this.
        """
        place = user.printable(f"{module_name}:{function_name}"), file_name, line_number
        if code_object is not None:
            self._known[id(code_object)] = code_object, place
        user.begin(*place, 1)

    def region_end(self, module_name, function_name, code_object=None) -> None:
        """Leave a region.

        Parameters
        ----------
        module_name, function_name : str
            The two parts of its name.
        code_object : code, optional
            Without effect.
        """
        name = user.printable(f"{module_name}:{function_name}")
        user.end(name, f"region_end({name!r})", 1)

    def try_region_begin(self, code_object) -> bool:
        """Enter the region that `region_begin` knows by a code object.

        Parameters
        ----------
        code_object : code
            The object.

        Returns
        -------
        bool
            Whether there is such a region.
        """
        known = self._known.get(id(code_object))
        if known is not None:
            user.begin(*known[1], 1)
        return known is not None

    def try_region_end(self, code_object) -> bool:
        """Leave the region that `region_begin` knows by a code object.

        Parameters
        ----------
        code_object : code
            The object.

        Returns
        -------
        bool
            Whether there is such a region.
        """
        known = self._known.get(id(code_object))
        if known is not None:
            name = known[1][0]
            user.end(name, f"try_region_end of {name!r}", 1)
        return known is not None

    rewind_begin = staticmethod(user.rewind_begin)
    rewind_end = staticmethod(user.rewind_end)
    user_enable_recording = staticmethod(user.enable_recording)
    user_disable_recording = staticmethod(user.disable_recording)
    user_parameter_int = staticmethod(user.parameter_int)
    user_parameter_uint = staticmethod(user.parameter_uint)
    user_parameter_string = staticmethod(user.parameter_string)
    force_finalize = staticmethod(user.force_finalize)
    reregister_exit_handler = staticmethod(user.reregister_exit_handler)


_instrumenter = _Instrumenter()


def get_instrumenter(enable_instrumenter=None, instrumenter_type=None) -> _Instrumenter:
    """Return the instrumenter.

    Parameters
    ----------
    enable_instrumenter : bool, optional
        Whether its ``run`` switches events on. If it is left out, that stays as it is.
    instrumenter_type : str, optional
        One of the types of the Score-P bindings, which are all the same here.

    Returns
    -------
    object
        It has the methods of the Score-P bindings' instrumenter: ``register``, ``unregister``,
        ``get_registered``, ``run``, ``region_begin``, ``region_end`` and others.

    Raises
    ------
    RuntimeError
        There is no such type.
    """
    if instrumenter_type not in (None, *TYPES):
        raise RuntimeError(f"unknown instrumenter type {instrumenter_type!r}")
    if enable_instrumenter is not None:
        _instrumenter._enabled = bool(enable_instrumenter)
    return _instrumenter


def has_c_instrumenter() -> bool:
    """Return whether the instrumenter is written in C.

    Returns
    -------
    bool
        Always True.
    """
    return True


def register() -> None:
    """Switch events on. Nothing happens without an open recording."""
    _recorder.enable()


def unregister() -> None:
    """Switch events off."""
    _recorder.disable()


class _Switch:
    """Puts events into one state for a block or function, and back after it."""

    _on: bool

    def __init__(self, region_name: str | None = None):
        self._given = region_name
        self._name = user.printable(f"user_instrumenter:{region_name}") if region_name else None
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
        _recorder.switch_thread(self._on)
        return self

    def __exit__(self, kind, value, traceback):
        if self._changed.pop():
            _recorder.switch_thread(not self._on)
            if self._name:
                _recorder.region_end(self._name)
        return False

    def __call__(self, function):
        return around(function, lambda: type(self)(self._given))


# The base takes the parameter of both, which numpydoc doesn't see.
class enable(_Switch):  # numpydoc ignore=PR02
    """Record Python functions inside the block or function.

    This concerns the thread that runs it, and threads that are started meanwhile.

    Parameters
    ----------
    region_name : str, optional
        Show the block as region ``user_instrumenter:region_name``, if this changes the
        state.
    """

    _on = True


class disable(_Switch):  # numpydoc ignore=PR02
    """Don't record Python functions inside the block or function.

    This concerns the thread that runs it, and threads that are started meanwhile.

    Parameters
    ----------
    region_name : str, optional
        Show the block as region ``user_instrumenter:region_name``, if this changes the
        state.
    """

    _on = False
