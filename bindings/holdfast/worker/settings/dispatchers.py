"""Carries what the notebook has registered with single-dispatch functions, as slots (slots.py).

`pkgutil.iter_importer_modules.register(Store, store_modules)` puts an entry into a dict that only the function knows.
So the functions of the modules that the notebook uses (differences.py), and of the user's own modules, are asked for
their registries. Of a library's function an entry is the notebook's if its code made the class or the implementation;
of one of the user's own all count that its module hasn't registered. In another process it is registered in the same way,
as soon as the function's module is imported there.
"""

from __future__ import annotations

import functools
import sys
import types
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.carry.patches import MISSING, Slot
from holdfast.carry.snapshots import Snapshot

from .attributes import functions_of, is_dispatching, is_notebooks, registry_of, value_of

Place = tuple[str, str]  # a module, and a function's path there
Entries = list[tuple[t.Any, t.Any]]  # classes and what is called for them


class Dispatchers:
    """The single-dispatch functions of this process's libraries, or of the user's own modules.

    Parameters
    ----------
    has_others : bool
        Whether libraries register implementations with them, too: then those count that the notebook's code has made.
    """

    def __init__(self, has_others: bool):
        self._has_others = has_others
        self._begun: dict[Place, Snapshot] = {}  # registries without the notebook's entries
        self._waiting = Waiting(self._set, lambda place: place[0])

    def slot(self) -> Slot:
        return Slot("functools", self._read, self._write)

    def meet(self, module: str, functions: t.Iterable[tuple[str, t.Any]]) -> None:
        """Nothing of the notebook's can have used these functions of a module yet; they are given with their paths."""
        for path, function in functions:
            registry = dict(function.registry)
            if self._has_others:
                registry = {
                    key: one for key, one in registry.items() if not _is_notebooks(key, one)
                }
            self._begun[module, path] = Snapshot(registry)

    def _counts(self, key: t.Any, value: t.Any) -> bool:
        return value is not MISSING and (not self._has_others or _is_notebooks(key, value))

    def _mine(self, place: Place) -> Entries:
        function, begun = _find(place), self._begun[place]
        if function is None or begun.is_still(function.registry):
            return []
        changes = begun.changes(function.registry).items()
        return [(key, value) for key, (_, value) in changes if self._counts(key, value)]

    def _read(self) -> t.Any:
        found = {place: self._mine(place) for place in self._begun}
        found |= self._waiting.values
        return {place: entries for place, entries in found.items() if entries} or MISSING

    def _write(self, new: t.Any) -> None:
        wanted = {} if new is MISSING else dict(new)
        self._waiting.values.clear()
        for place in wanted.keys() | self._begun.keys():
            self._waiting.set(place, wanted.get(place, []))

    def _set(self, place: Place, entries: Entries) -> None:
        function = _find(place)
        if function is None:
            if not entries:
                return
            raise LookupError(f"{'.'.join(place)} isn't here")
        if place not in self._begun:
            self.meet(place[0], [(place[1], function)])
        wanted, begun = dict(entries), self._begun[place]
        gone = [key for key, value in self._mine(place) if wanted.get(key) is not value]
        if gone:  # the function itself has no way to forget an implementation
            begun.put_back(registry_of(function), gone)
            function._clear_cache()
        for key, value in entries:
            if function.registry.get(key) is not value:
                function.register(key, value)


def _find(place: Place) -> t.Any:
    module = sys.modules.get(place[0])
    function = None if module is None else value_of(module, place[1])
    function = getattr(function, "__func__", function)
    if type(function) is functools.singledispatchmethod:
        function = function.dispatcher
    return function if is_dispatching(function) else None


def _is_notebooks(key: t.Any, value: t.Any) -> bool:
    return is_notebooks(key) or is_notebooks(value)


def in_library(module: types.ModuleType) -> t.Iterator[tuple[str, t.Any]]:
    """The functions that a library's module has a name for."""
    return (pair for pair in list(vars(module).items()) if is_dispatching(pair[1]))


def in_own_module(module: types.ModuleType) -> t.Iterator[tuple[str, t.Any]]:
    """Those of a module of the user's own and of its classes."""
    return (pair for pair in functions_of(module) if is_dispatching(pair[1]))


of_libraries = Dispatchers(has_others=True)
of_own_modules = Dispatchers(has_others=False)
