"""Leaves out the exit handlers (`atexit`) that the notebook's code registers in the process of a cell.

They run when the notebook's own process ends. The process of a cell ends with the cell, so what its code registers or
takes back there changes nothing, and is named. A fork has the notebook's handlers: there it isn't named if the function
to be taken back is none of them. A clean process doesn't know them.

Libraries' handlers, registered by code of the standard library or site-packages, belong to the process in
which they were registered, and run at its end. So do handlers that a module of the user's own registers while
it is imported. In a cell's process these are left out: the main worker has its own if it imports that module.
"""

from __future__ import annotations

import atexit
import functools
import sys
import typing as t

from ..origin import is_library

Call = tuple[t.Any, tuple, dict[str, t.Any]]  # function, arguments, named arguments

# What the notebook's code has registered or taken back in this process, which doesn't run it.
left_out: list[object] = []


def leave_out(namespace: dict[str, t.Any], knows_all: bool = False) -> None:
    """Stand in for `atexit.register` and `unregister`, in a process that ends after its cell; `knows_all`: it has
    the notebook's handlers."""
    register: t.Any = atexit.register
    unregister: t.Any = atexit.unregister

    @functools.wraps(register)
    def note(func: t.Any, /, *args: t.Any, **kwargs: t.Any) -> t.Any:
        caller = sys._getframe(1)
        if not is_own(caller.f_globals, namespace):
            return register(func, *args, **kwargs)
        if not imports(caller, namespace):
            left_out.append(func)
        return func

    @functools.wraps(unregister)
    def note_less(func: t.Any, /) -> None:
        caller = sys._getframe(1)
        if is_own(caller.f_globals, namespace) and not imports(caller, namespace):
            asked = _Asked(func)
            unregister(asked)  # takes nothing back
            if asked.is_there or not knows_all:
                left_out.append(func)
        unregister(func)

    atexit.register, atexit.unregister = note, note_less


class _Asked:
    """Compared with the functions of all handlers, learns whether one of them is this."""

    def __init__(self, func: t.Any) -> None:
        self._func, self.is_there = func, False

    def __eq__(self, other: object) -> bool:
        self.is_there |= other is self._func or other == self._func
        return False


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
