"""Carries the objects in which libraries keep what the notebook has set: each `Registry` is a slot (slots.py).

Its value is what differs from how the process began, or imported the library: attributes, and entries of its
dicts. It is encoded like a variable, with what it shares with variables. In the other process it is set in
the object that is there, since the library may have that by several names.
"""

from __future__ import annotations

import operator
import sys
import types
import typing as t

from holdfast.carry import module_objects
from holdfast.carry.patches import MISSING, Slot
from holdfast.carry.snapshots import Snapshot, entries_of
from holdfast.libraries import Registry

from ..bound import look
from .memo import Memo, objects_in


class _Entry(t.NamedTuple):
    """The value that another attribute has had under a key since the process began."""

    attribute: str
    key: t.Any


class _Attribute:
    """An attribute as it was when the process began or the library was imported.

    What shows nothing of itself is the same if it is the same object; so is an entry of a registry that is `fixed`.
    """

    def __init__(self, value: t.Any, fixed: bool):
        self.value = value
        self.is_holder = isinstance(value, _HOLDERS)
        self._fixed = fixed
        self._held = Snapshot(value if self.is_holder else {})
        self.entries = self._held.entries
        self._look = None if self.is_holder else look(value)
        self._looks = {} if fixed else {key: look(one) for key, one in self.entries.items()}

    def is_refilled(self, now: t.Any) -> bool:
        """Whether it is a dict or set, and the present one is of the same kind."""
        return self.is_holder and type(now) is type(self.value)

    def is_still(self, now: t.Any) -> bool:
        return now is self.value if self._look is None else self._look == look(now)

    def is_entry(self, key: t.Any, now: t.Any) -> bool:
        """Whether this was the entry under a key that there was."""
        looked = self._looks.get(key)
        return now is self.entries[key] if looked is None else looked == look(now)

    def has_all(self, now: t.Any) -> bool:
        """Whether entries that are only ever replaced are the same, seen without a step for each."""
        return self._fixed and self._held.is_still(now)


_HOLDERS = (dict, set)  # stay the objects that they are


class Contents:
    """One registry, and how it was when the process began or the library was imported."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self._begun: dict[str, _Attribute] = {}
        self._was_set = False

    @property
    def after(self) -> str:
        """The module whose import has to end before."""
        return self._registry.after or self._registry.module

    def slot(self) -> Slot:
        read = Memo(self._read, self._holder, self._parts)
        return Slot(self.after, read, self._write)

    def begin(self) -> None:
        """Nothing of the notebook's has used it. LookupError: this version of the library has no such object."""
        module, path, attributes = self._registry.module, self._registry.path, self._attributes()
        if self._holder() is None or not (path or attributes):
            raise LookupError(f"{module} has no {path or self._registry.attributes[0]}")
        self._begun = {
            name: _Attribute(one, self._registry.fixed) for name, one in attributes.items()
        }
        if path:
            module_objects.know(module, path)
            return
        for name, value in attributes.items():
            if isinstance(value, _HOLDERS):
                module_objects.know(module, name)

    def _holder(self) -> t.Any:
        found: t.Any = sys.modules[self._registry.module]
        for step in filter(None, self._registry.path.split(".")):
            found = getattr(found, "__dict__", {}).get(step)
        return found

    def _attributes(self) -> dict[str, t.Any]:
        holder = self._holder()
        names = self._registry.attributes or [
            *getattr(holder, "__dict__", ()),
            *getattr(type(holder), "__slots__", ()),
        ]
        return {name: getattr(holder, name) for name in names if hasattr(holder, name)}

    # ---- what differs

    def _parts(self) -> list[t.Any] | None:
        """What it was read from; None if that may change without holding another object."""
        holder = self._holder()
        space = getattr(holder, "__dict__", None)
        if space is None:
            return None
        parts = [holder if isinstance(holder, (type, types.ModuleType)) else space]
        for name, now in self._attributes().items():
            if name not in space:
                return None  # a property
            begun = self._begun.get(name)
            values = [now]
            if begun is not None and begun.is_refilled(now):
                parts.append(now)
                values = [] if self._registry.fixed else list(entries_of(now).values())
            for value in values:
                inner = objects_in(value)
                if inner is None:
                    return None
                parts += inner
        return parts

    def _read(self) -> t.Any:
        found, entries = {}, {}
        for name, now in self._attributes().items():
            begun = self._begun.get(name)
            if begun is not None and begun.is_refilled(now):
                if differing := self._differing(begun, now):
                    entries[name] = differing
            elif begun is None or not begun.is_still(now):
                found[name] = now
        if not found:
            return [found, entries] if entries else MISSING
        known = {
            id(one): _Entry(name, key)
            for name, begun in self._begun.items()
            for key, one in begun.entries.items()
            if key not in entries.get(name, ({}, []))[0]
        }
        for name, value in found.items():
            if type(value) is list:
                found[name] = [known.get(id(one), one) for one in value]
            else:
                found[name] = known.get(id(value), value)
        return [found, entries]

    def _differing(self, begun: _Attribute, now: t.Any) -> t.Any:
        """The items that were put into a dict or changed there, and the keys that are gone."""
        if begun.has_all(now):
            return None
        put = {
            key: value
            for key, value in entries_of(now).items()
            if key not in begun.entries or not self._is_kept(begun, key, value)
        }
        gone = [key for key in begun.entries if key not in now]
        return (put, gone) if put or gone else None

    def _is_kept(self, begun: _Attribute, key: t.Any, now: t.Any) -> bool:
        return self._registry.is_lazy(begun.entries[key]) or begun.is_entry(key, now)

    # ---- setting it

    def _write(self, new: t.Any) -> None:
        found, entries = ({}, {}) if new is MISSING else new
        holder, now = self._holder(), self._attributes()
        for name, begun in self._begun.items():
            if begun.is_refilled(now.get(name)) and name not in found:
                self._refill(begun, now[name], *entries.get(name, ({}, [])))
        if self._registry.attributes:
            for name in now.keys() - found.keys() - self._begun.keys():
                delattr(holder, name)
        for name in found.keys() | self._begun.keys():
            if name in found:
                setattr(holder, name, self._resolved(found[name]))
            elif not self._begun[name].is_holder:
                if now.get(name) is not self._begun[name].value:
                    setattr(holder, name, self._begun[name].value)
        if self._registry.then is not None and (self._was_set or new is not MISSING):
            self._was_set = new is not MISSING
            self._registry.then()

    def _refill(
        self, begun: _Attribute, holder: t.Any, put: dict[t.Any, t.Any], gone: list[t.Any]
    ) -> None:
        """Where it has all that already, nothing is touched; else what is put comes in its own order."""
        has, lacks = self._differing(begun, holder) or ({}, [])
        if list(has) == list(put) and lacks == gone:
            if all(map(operator.is_, has.values(), put.values())):
                return
        is_dict = isinstance(holder, dict)
        for key in [key for key in holder if key not in begun.entries or key in gone]:
            holder.pop(key) if is_dict else holder.discard(key)
        if not is_dict:
            holder.update(put, (key for key in begun.entries if key not in gone))
            return
        current = entries_of(holder)
        for key, value in begun.entries.items():
            if key not in gone and key not in put:
                if key not in current or not self._is_kept(begun, key, current[key]):
                    holder[key] = value
        holder.update(put)

    def _resolved(self, value: t.Any) -> t.Any:
        if type(value) is list:
            return [self._resolved(one) for one in value]
        if type(value) is not _Entry:
            return value
        return getattr(self._holder(), value.attribute)[value.key]
