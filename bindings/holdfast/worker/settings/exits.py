"""Carries the exit handlers (`atexit`) that the notebook's code registers.

In ipykernel they run when the kernel ends. Here they belong to the main worker, wherever they were
registered: a cell's process only lists them, and never runs them. They are a slot of the namespace (kept.py).
So they go to cells and come back with the objects that they share, and a later main worker has them, too.

Libraries' handlers, registered by code of the standard library or site-packages, belong to the process in
which they were registered, and run at its end. So do handlers that a module of the user's own registers while
it is imported. In a cell's process these are left out: the main worker has its own if it imports that module.
"""

from __future__ import annotations

import atexit
import functools
import sys
import typing as t

from holdfast._patches import MISSING, Slot

from ..origin import is_library

Call = tuple[t.Any, tuple, dict[str, t.Any]]  # function, arguments, named arguments


class _Handler:
    """A handler that atexit has. It is equal only to itself, so that it can be taken out."""

    def __init__(self, call: Call):
        self.call = call

    def __call__(self) -> None:
        function, arguments, named = self.call
        function(*arguments, **named)


class Exits:
    """The exit handlers of one process's notebook.

    Parameters
    ----------
    namespace : dict
        The notebook's variables: the globals of its code.
    run_here : bool
        Whether they run when this process ends.
    """

    def __init__(self, namespace: dict[str, t.Any], run_here: bool):
        self._namespace = namespace
        self._run_here = run_here
        self._handlers: list[_Handler] = []
        self._register: t.Any = atexit.register
        self._unregister: t.Any = atexit.unregister

    def install(self) -> None:
        """Stand in for `atexit.register` and `atexit.unregister`."""

        @functools.wraps(self._register)
        def register(func: t.Any, /, *args: t.Any, **kwargs: t.Any) -> t.Any:
            caller = sys._getframe(1)
            if not is_own(caller.f_globals, self._namespace):
                return self._register(func, *args, **kwargs)
            if not callable(func):
                raise TypeError("the first argument must be callable")
            if not imports(caller, self._namespace):
                self._add((func, args, kwargs))
            elif self._run_here:
                self._register(func, *args, **kwargs)
            return func

        @functools.wraps(self._unregister)
        def unregister(func: t.Any, /) -> None:
            self._remove([one for one in self._handlers if one.call[0] == func])
            self._unregister(func)

        atexit.register = register
        atexit.unregister = unregister

    def slot(self) -> Slot:
        """The handlers that the namespace knows."""
        return Slot("atexit", self._read, self._write)

    def _add(self, call: Call) -> None:
        handler = _Handler(call)
        self._handlers.append(handler)
        if self._run_here:
            self._register(handler)

    def _remove(self, handlers: t.Iterable[_Handler]) -> None:
        for handler in list(handlers):
            self._handlers.remove(handler)
            self._unregister(handler)

    def _read(self) -> t.Any:
        return [one.call for one in self._handlers] or MISSING

    def _write(self, new: t.Any) -> None:
        """The same calls are the same handlers; the others' order among libraries' is that of now."""
        calls = [] if new is MISSING else new
        kept = 0
        while kept < min(len(calls), len(self._handlers)) and is_same(
            self._handlers[kept].call, calls[kept]
        ):
            kept += 1
        self._remove(self._handlers[kept:])
        for call in calls[kept:]:
            self._add(call)


def is_own(space: dict[str, t.Any], namespace: dict[str, t.Any]) -> bool:
    """Whether code with these globals is the user's."""
    path = space.get("__file__")
    return space is namespace or (isinstance(path, str) and not is_library(path))


def imports(frame: t.Any, namespace: dict[str, t.Any]) -> bool:
    """Whether it is the code of a module that is being imported."""
    return frame.f_code.co_name == "<module>" and frame.f_globals is not namespace


def is_same(one: Call, other: Call) -> bool:
    """Whether two calls give the same objects to the same function."""
    flat = [[call[0], *call[1], *call[2].values()] for call in (one, other)]
    return (
        len(flat[0]) == len(flat[1])
        and list(one[2]) == list(other[2])
        and all(a is b for a, b in zip(*flat))
    )
