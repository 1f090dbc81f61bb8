"""Carries the results that functions of the user's own modules keep, as a slot (slots.py).

A function that `functools.lru_cache` wraps keeps results. Another process has such a function as its module made it. So
the results of a function are one value, encoded like a variable, and put into the function that the other process
has.
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.carry import cached_functions
from holdfast.carry.cached_functions import Cached, Results
from holdfast.carry.patches import MISSING, Slot

from .attributes import functions_of

OfModule = dict[str, Results]  # by the path of the function


class FunctionResults:
    """What the functions of this process's own modules remember."""

    def __init__(self) -> None:
        self._modules: set[str] = set()  # that were imported
        self._waiting = Waiting(self._fill)
        self._last: dict[int, Results] = {}  # by function: one object while nothing changes

    def slot(self) -> Slot:
        return Slot("functools", self._read, self._write)

    def imported(self, module: types.ModuleType) -> None:
        """Note a module of the user's own that was imported just now."""
        self._modules.add(module.__name__)

    def _read(self) -> t.Any:
        found = dict(self._waiting.values)
        for name in self._modules & sys.modules.keys():
            results = {path: self._kept_by(one) for path, one in _caches_of(name)}
            if of_module := {path: one for path, one in results.items() if one is not None}:
                found[name] = of_module
        return found or MISSING

    def _kept_by(self, function: t.Any) -> Results | None:
        results = cached_functions.results_of(function)
        if results is None:
            return None
        last = self._last.get(id(function))
        if last is None or not last.is_as(results):
            self._last[id(function)] = last = results
        return last

    def _write(self, new: t.Any) -> None:
        wanted: dict[str, OfModule] = {} if new is MISSING else new
        self._waiting.values.clear()
        for name in (self._modules & sys.modules.keys()) | wanted.keys():
            self._waiting.set(name, wanted.get(name, {}))

    def _fill(self, name: str, of_module: OfModule) -> None:
        for path, function in _caches_of(name):
            kept = of_module.get(path)
            if kept is not self._last.get(id(function)) or kept is None:
                function.cache_clear()
                if kept is not None:
                    kept.fill(function)
                    self._last[id(function)] = kept


def _caches_of(module: str) -> t.Iterator[tuple[str, t.Any]]:
    return (pair for pair in functions_of(sys.modules[module]) if type(pair[1]) is Cached)


function_results = FunctionResults()
