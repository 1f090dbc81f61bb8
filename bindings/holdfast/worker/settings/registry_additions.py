"""Carries what the notebook has added to lists and dicts to which libraries add, too.

Such lists are finders of modules, callbacks of the collector, hooks of IPython. A `Registry` with `holders` declares
some. What the notebook has added to them is a slot (slots.py); in another process it is added to what libraries have put
there. An entry is the notebook's if its code made it, or if nobody's code did (`len`) and the process didn't begin
with it.
"""

from __future__ import annotations

import functools
import types
import typing as t

from holdfast.carry import module_objects
from holdfast.carry.patches import MISSING, Deleted, Slot
from holdfast.carry.snapshots import Snapshot
from holdfast.libraries import Registry

from .attributes import is_notebooks, own_modules
from .memo import Watched

Items = list[tuple[t.Any, t.Any]]  # keys or places, and values


# ---- who has made an entry


def _parts(value: t.Any) -> list[t.Any]:
    """What it consists of: the object of a method, the function of a partial one, the hook beside its priority."""
    kind = type(value)
    if kind is tuple:
        return [part for one in value if callable(one) for part in _parts(one)]
    if kind is functools.partial:
        return [part for part in _parts(value.func) if is_notebooks(part)] or [value]
    return [value, value.__self__] if kind is types.MethodType else [value]


def is_own(one: object) -> bool:
    """Whether a module of the user's own has made it."""
    own = own_modules()
    home = getattr(one, "__module__", None)
    return (isinstance(home, str) and home in own) or type(one).__module__ in own


def is_notebooks_or_nobodys(one: object) -> bool:
    """Whether no library has made it."""
    return getattr(one, "__module__", None) in (None, "builtins") or is_notebooks(one)


# ---- what it has made


class Additions:
    """The items that the notebook has added to some lists and dicts.

    Parameters
    ----------
    registry : Registry
        What is declared of them.
    """

    def __init__(self, registry: Registry):
        assert registry.holders is not None
        self._registry, self._holders = registry, registry.holders
        self._begun: dict[t.Any, Snapshot] = {}
        # Keys of dicts. What libraries add later may be gone with them.
        self._first: dict[t.Any, list[t.Any]] = {}
        self._watched: Watched | None = None  # what was read last,
        self._found: t.Any = MISSING  # and what was there

    @property
    def after(self) -> str:
        """The module whose import has to end before."""
        return self._registry.after or self._registry.module

    def begin(self) -> None:
        """Nothing of the notebook's has used them."""
        found, self._watched = self._holders(()), None
        self._begun = {name: Snapshot(holder) for name, holder in found.items()}
        self._first = {
            name: list(one.entries) for name, one in self._begun.items() if one.kind is dict
        }
        for name in found:
            if isinstance(name, str):
                module_objects.know(self._registry.module, name)

    def slot(self) -> Slot:
        return Slot(self.after, self._read, self._write)

    def _is_made(self, one: object) -> bool:
        """Whether something that the process didn't begin with is to be carried."""
        if self._registry.made_by == "own modules":
            return is_own(one)
        if self._registry.made_by == "cells" and is_own(one):
            return False
        return self._registry.counts(one) or is_notebooks_or_nobodys(one)

    def _mine(self, name: t.Any, holder: t.Any) -> Items:
        """Places and values. A place in a list is counted from its end, but for the first."""
        begun = self._begun.get(name)
        if begun is None:
            begun = self._begun[name] = Snapshot({})
        if begun.is_still(holder):
            return []
        if isinstance(holder, list):
            mine = self._added(holder, begun)
        else:
            mine = self._put(holder, begun)
            if self._registry.has_removals:
                mine += [(key, Deleted) for key in self._first.get(name, ()) if key not in holder]
        if not mine:  # what libraries have added is known from now on
            self._begun[name] = Snapshot(holder)
        return mine

    def _added(self, holder: list[t.Any], begun: Snapshot) -> Items:
        return [
            (index - len(holder) if index else 0, value)
            for index, value in enumerate(holder)
            if self._counts(value, is_new=id(value) not in begun.entries)
        ]

    def _put(self, holder: dict[t.Any, t.Any], begun: Snapshot) -> Items:
        """The other entries, libraries', are known from now on."""
        changed = {
            key: value for key, (_, value) in begun.changes(holder).items() if value is not MISSING
        }
        mine = {
            key: value
            for key, value in changed.items()
            if self._counts(value, is_new=True) or (is_notebooks(key) and self._is_made(key))
        }
        if mine:
            begun.entries.update({key: one for key, one in changed.items() if key not in mine})
        return list(mine.items())

    def _counts(self, value: t.Any, is_new: bool) -> bool:
        """Whether an entry counts: what the notebook's code has made always does."""
        return any((is_new or is_notebooks(one)) and self._is_made(one) for one in _parts(value))

    def _read(self) -> t.Any:
        holders = self._holders(())
        if self._watched is None or not self._watched.is_still_of(holders.values()):
            self._watched = Watched(holders.values())
            found = {name: self._mine(name, holder) for name, holder in holders.items()}
            self._found = {name: mine for name, mine in found.items() if mine} or MISSING
        return self._found

    def _write(self, new: t.Any) -> None:
        wanted = {} if new is MISSING else new
        for name, holder in self._holders(wanted).items():
            mine, entries = self._mine(name, holder), wanted.get(name, [])
            if isinstance(holder, list):
                taken = {id(value) for _, value in mine}
                holder[:] = [value for value in holder if id(value) not in taken]
                for place, value in reversed(entries):  # each has all behind it there
                    holder.insert(len(holder) + 1 + place if place else 0, value)
                continue
            self._begun[name].put_back(holder, [key for key, _ in mine])
            for key, value in entries:
                if value is Deleted:
                    holder.pop(key, None)
                else:
                    holder[key] = value
