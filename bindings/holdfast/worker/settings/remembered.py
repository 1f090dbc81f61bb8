"""Carries what functions of the user's own modules remember, as a slot (kept.py).

A function that `functools.lru_cache` wraps keeps results, and one of `functools.singledispatch` the
implementations that the notebook has registered. Another process has such a function as its module made it.
So what a function has beyond that is one value, encoded like a variable, and put into the function that the
other process has.
"""

from __future__ import annotations

import functools
import sys
import types
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.carry import cached_functions
from holdfast.carry.cached_functions import Results
from holdfast.carry.patches import MISSING, Slot

from .attributes import is_dispatching, registry_of

Implementations = list[tuple[t.Any, t.Any]]  # classes and functions
OfModule = dict[str, t.Any]  # Results or Implementations, by the path of the function
_Cached = type(functools.lru_cache(lambda: None))
_KINDS = (_Cached, types.FunctionType)


class Remembered:
    """What the functions of this process's own modules remember."""

    def __init__(self) -> None:
        self._begun: dict[int, dict[t.Any, t.Any]] = {}  # what the module registered, by function
        self._modules: set[str] = set()  # that were imported
        self._waiting = Waiting(self._fill)
        self._last: dict[int, Results] = {}  # by function: one object while nothing changes

    def slot(self) -> Slot:
        return Slot("functools", self._read, self._write)

    def imported(self, module: types.ModuleType) -> None:
        """Note a module of the user's own that was imported just now."""
        self._modules.add(module.__name__)
        for _, function in _functions_of(module):
            if type(function) is not _Cached:
                self._begun[id(function)] = dict(registry_of(function))

    # ---- what differs

    def _read(self) -> t.Any:
        found = dict(self._waiting.values)
        for name, module in self._own().items():
            of_module = {path: self._kept_by(one) for path, one in _functions_of(module)}
            if of_module := {path: kept for path, kept in of_module.items() if kept}:
                found[name] = of_module
        return found or MISSING

    def _own(self) -> dict[str, types.ModuleType]:
        return {name: sys.modules[name] for name in self._modules if name in sys.modules}

    def _kept_by(self, function: t.Any) -> Results | Implementations | None:
        if type(function) is not _Cached:
            begun = self._begun.get(id(function), {})
            registry = registry_of(function)
            return [(cls, one) for cls, one in registry.items() if begun.get(cls) is not one]
        results = cached_functions.results_of(function)
        last = self._last.get(id(function))
        if results is not None and (last is None or not last.is_as(results)):
            self._last[id(function)] = last = results
        return None if results is None else last

    # ---- setting it

    def _write(self, new: t.Any) -> None:
        wanted: dict[str, OfModule] = {} if new is MISSING else new
        modules = self._own()
        self._waiting.values.clear()
        for name in modules.keys() | wanted.keys():
            self._waiting.set(name, wanted.get(name, {}))

    def _fill(self, name: str, of_module: OfModule) -> None:
        for path, function in _functions_of(sys.modules[name]):
            kept = of_module.get(path)
            if type(function) is not _Cached:
                self._register(function, kept or [])
            elif kept is not self._last.get(id(function)) or kept is None:
                function.cache_clear()
                if kept is not None:
                    kept.fill(function)
                    self._last[id(function)] = kept

    def _register(self, function: t.Any, kept: Implementations) -> None:
        registry, begun = registry_of(function), self._begun.get(id(function), {})
        if self._kept_by(function) != kept:
            registry.clear()
            registry.update(begun)
            registry.update(kept)
            function._clear_cache()


def _functions_of(module: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """The functions of a module and its classes that remember something, by their paths."""
    work = list(getattr(module, "__dict__", {}).items())
    name = getattr(module, "__name__", None)
    for path, value in work:  # which grows
        kind = type(value)
        if kind is functools.singledispatchmethod:
            yield path, value.dispatcher
        elif kind in (staticmethod, classmethod):
            work.append((path, value.__func__))
        elif kind not in _KINDS and not issubclass(kind, type):
            continue
        elif value.__module__ != name:
            continue
        elif kind is _Cached or is_dispatching(value):
            yield path, value
        elif issubclass(kind, type) and value.__qualname__ == path:
            work += [(f"{path}.{inner}", one) for inner, one in vars(value).items()]


remembered = Remembered()
