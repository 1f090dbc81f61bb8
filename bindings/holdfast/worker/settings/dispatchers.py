"""Carries what the notebook has registered with libraries' single-dispatch functions, as a slot (kept.py).

`pkgutil.iter_importer_modules.register(Store, store_modules)` puts an entry into a dict that only the
function knows. So the functions of the modules that the notebook uses (differences.py) are asked for their
registries. An entry is the notebook's if its code made the class or the implementation. In another process it
is registered in the same way, as soon as the function's module is imported there. Dask's own `Dispatch` is
such a function.
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.carry import module_objects
from holdfast.carry.patches import MISSING, Slot

from .attributes import is_dispatching, is_notebooks, registry_of

Place = tuple[str, str]  # a module, and a function's name there
Entries = list[tuple[t.Any, t.Any]]  # classes and what is called for them


class Dispatchers:
    """The single-dispatch functions of this process's libraries."""

    def __init__(self) -> None:
        # Registries without the notebook's entries.
        self._begun: dict[Place, dict[t.Any, t.Any]] = {}
        self._waiting = Waiting(self._set, lambda place: place[0])

    def slot(self) -> Slot:
        return Slot("functools", self._read, self._write)

    def meet(self, module: types.ModuleType) -> None:
        """Nothing of the notebook's can have used it yet."""
        for name, one in list(vars(module).items()):
            if is_dispatching(one) or _is_dasks(one):
                entries = list(_registry(one).items())
                begun = {key: value for key, value in entries if not _is_mine(key, value)}
                self._begun.setdefault((module.__name__, name), begun)
                if _is_dasks(one):  # a function is pickled by its name
                    module_objects.know(module.__name__, name)

    def _mine(self, place: Place) -> Entries:
        function, begun = _find(place), self._begun[place]
        if function is None:
            return []
        return [
            (key, value)
            for key, value in list(_registry(function).items())
            if begun.get(key) is not value and _is_mine(key, value)
            if not (_is_dasks(function) and _is_inherited(function, key, value))
        ]

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
        if place not in self._begun:
            self.meet(sys.modules[place[0]])
        function = _find(place)
        if function is None or place not in self._begun:
            raise LookupError(f"{'.'.join(place)} isn't here")
        wanted = dict(entries)
        for key, value in self._mine(place):
            if wanted.get(key) is not value:
                _take_back(function, key, self._begun[place])
        for key, value in entries:
            if _registry(function).get(key) is not value:
                function.register(key, value)


def _is_mine(key: t.Any, value: t.Any) -> bool:
    return is_notebooks(key) or is_notebooks(value)


def _find(place: Place) -> t.Any:
    function = getattr(sys.modules.get(place[0]), place[1], None)
    return function if is_dispatching(function) or _is_dasks(function) else None


def _is_dasks(one: t.Any) -> bool:
    kind = type(one)
    return kind.__name__ == "Dispatch" and kind.__module__ == "dask.utils"


def _registry(function: t.Any) -> t.Mapping[t.Any, t.Any]:
    return function._lookup if _is_dasks(function) else function.registry


def _is_inherited(function: t.Any, key: t.Any, value: t.Any) -> bool:
    """Whether Dask has found the implementation of a base, which it notes among those that are registered."""
    bases = getattr(key, "__mro__", ())[1:]
    return (
        next((_registry(function)[one] for one in bases if one in _registry(function)), None)
        is value
    )


def _take_back(function: t.Any, key: t.Any, begun: dict[t.Any, t.Any]) -> None:
    """The function itself has no way to forget an implementation."""
    registry = function._lookup if _is_dasks(function) else registry_of(function)
    if key in begun:
        registry[key] = begun[key]
    else:
        registry.pop(key, None)
    if not _is_dasks(function):
        function._clear_cache()


dispatchers = Dispatchers()
