"""Makes calls by which a notebook sets up a library again in another process: each `Replay` is a slot (slots.py).

`hv.extension("bokeh")` and `tqdm.pandas()` change classes, renderers and formatters in many places, and
`codecs.register` keeps its argument in C. Such changes can't be carried. So the calls that a `Replay`
declares are noted, with their arguments, and made again in the other process, in their order. Their output
isn't shown again.

A call is noted when it has returned, if the notebook's code makes it, or leads to it where the declaration
says so. Calls inside of it aren't noted. Calls of a module of the user's own while it is imported are left
out: its import makes them in the other process.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import typing as t

from IPython import get_ipython
from IPython.utils.capture import capture_output

from holdfast.carry.patches import MISSING, Slot
from holdfast.libraries import Replay

from .exit_handlers import imports, is_own, is_same

Place = tuple[str, str]  # a module, and a path there
Call = tuple[Place, tuple[t.Any, ...], dict[str, t.Any]]  # what was called, arguments, named ones


class Replays:
    """The notebook's calls of some functions.

    Parameters
    ----------
    replay : Replay
        Which.
    after : str
        The module whose import has to end before they are made again.
    namespace : dict
        The notebook's variables: the globals of its code.
    """

    _is_calling = False  # any such function: one calls another

    def __init__(self, replay: Replay, after: str, namespace: dict[str, t.Any]):
        self._replay, self._after, self._namespace = replay, after, namespace
        self.made: list[Call] = []

    def slot(self) -> Slot:
        """The calls that the namespace knows."""
        return Slot(self._after, lambda: list(self.made) or MISSING, self._write)

    def awaits(self, module: str) -> bool:
        """Whether one of the functions is there."""
        return any(place[0] == module for place in self._replay.functions)

    def imported(self, module: str) -> None:
        """That has been imported just now: stand in for its functions. LookupError: this version of the library lacks one."""
        for place in self._replay.functions:
            if place[0] == module:
                self._install(*place)

    def _install(self, module: str, path: str) -> None:
        if not _replace(module, path, functools.partial(self._noting, (module, path))):
            raise LookupError(f"{module} has no {path}")
        if self._replay.back and not _replace(module, self._replay.back, self._forgetting):
            raise LookupError(f"{module} has no {self._replay.back}")

    # ---- the notebook's calls

    def _noting(self, place: Place, function: t.Any) -> t.Any:
        @functools.wraps(function)
        def stand_in(*args: t.Any, **kwargs: t.Any) -> t.Any:
            if Replays._is_calling or not self._counts(sys._getframe(1)):
                return function(*args, **kwargs)
            Replays._is_calling = True
            try:
                result = function(*args, **kwargs)
            finally:
                Replays._is_calling = False
            if self._replay.counts(place[1], args):
                own = args[1:] if place[1].endswith("__call__") else args
                self.made.append((place, own, kwargs))
            return result

        return stand_in

    def _counts(self, frame: t.Any) -> bool:
        """Whether the notebook's code makes a call. If a library's may: it may be one's import, since another process may
        have imported that where IPython isn't there yet, as the fork server does."""
        while not is_own(frame.f_globals, self._namespace):
            frame = frame.f_back
            if frame is None or not self._replay.through:
                return False
        return not imports(frame, self._namespace)

    def _forgetting(self, function: t.Any) -> t.Any:
        @functools.wraps(function)
        def stand_in(*args: t.Any, **kwargs: t.Any) -> t.Any:
            result = function(*args, **kwargs)
            self.made = [one for one in self.made if args[:1] != (self._key(one),)]
            return result

        return stand_in

    def _key(self, call: Call) -> t.Any:
        return self._replay.key(call[1][0])

    # ---- another process's

    def _write(self, new: t.Any) -> None:
        wanted = [] if new is MISSING else list(new)
        kept = 0
        while kept < min(len(wanted), len(self.made)) and _is_same(wanted[kept], self.made[kept]):
            kept += 1
        gone, self.made = self.made[kept:], []
        Replays._is_calling = True
        try:
            # Libraries ask for `get_ipython`, which is there while a cell runs.
            with get_ipython().builtin_trap, capture_output():
                for call in gone if self._replay.back else ():
                    module = importlib.import_module(call[0][0])
                    getattr(module, self._replay.back)(self._key(call))
                for call in wanted[kept:]:
                    _make(*call)
        finally:
            Replays._is_calling = False
        self.made = wanted


def _replace(module: str, path: str, stand_in: t.Callable[[t.Any], t.Any]) -> bool:
    """Whether the module has it."""
    holder: t.Any = importlib.import_module(module)
    *steps, name = path.split(".")
    for step in steps:
        holder = None if holder is None else vars(holder).get(step)
    original = None if holder is None else vars(holder).get(name)
    if original is None:
        return False
    function = getattr(original, "__func__", original)
    made = stand_in(function)
    made.__module__ = getattr(function, "__module__", module) if steps else module
    if function is not original:
        made = type(original)(made)
    if isinstance(holder, types.ModuleType):
        setattr(holder, name, made)
    else:
        type.__setattr__(holder, name, made)
    return True


def _is_same(one: Call, other: Call) -> bool:
    return one[0] == other[0] and is_same((None, *one[1:]), (None, *other[1:]))


def _make(place: Place, args: tuple[t.Any, ...], kwargs: dict[str, t.Any]) -> None:
    called: t.Any = importlib.import_module(place[0])
    *steps, name = place[1].split(".")
    for step in steps:
        called = getattr(called, step)
    if name == "__call__":
        called(*args, **kwargs)
    elif steps:
        getattr(args[0], name)(*args[1:], **kwargs)  # of a class, which may be another one's
    else:
        getattr(called, name)(*args, **kwargs)
