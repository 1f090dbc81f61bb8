"""Carries the objects in which libraries keep what the notebook has set: each `Registry` is a slot (kept.py).

Its value is what differs from how the process began, or imported the library: attributes, and entries of its
dicts. It is encoded like a variable, with what it shares with variables. In the other process it is set in
the object that is there, since the library may have that by several names.
"""

from __future__ import annotations

import collections
import operator
import sys
import types
import typing as t

from holdfast.carry import module_objects
from holdfast.carry.patches import MISSING, Slot
from holdfast.libraries import Registry

from ..bound import look
from .watched import Memo, objects_in


class _Entry(t.NamedTuple):
    """The value that another attribute has had under a key since the process began."""

    attribute: str
    key: t.Any


class _Begun:
    """The earlier value of an attribute, to be compared with the present one."""

    def __init__(self, value: t.Any, fixed: bool):
        self.value = value
        self.entries: dict[t.Any, tuple[t.Any, t.Any]] = {}
        self.look: t.Any = None
        self._fixed = fixed
        self._values = list(dict.values(value)) if isinstance(value, dict) else []
        if isinstance(value, _HOLDERS):
            entries = _entries(value).items()
            self.entries = {key: (one, None if fixed else look(one)) for key, one in entries}
        else:
            self.look = look(value)

    def is_still(self, now: t.Any) -> bool:
        return _is_as(self.value, self.look, now)

    def has_all(self, now: t.Any) -> bool:
        """Whether entries that are only ever replaced are the same, seen without a step for each."""
        if not self._fixed or not isinstance(now, dict):
            return False
        if len(now) != len(self.entries) or not all(
            map(operator.is_, dict.keys(now), self.entries)
        ):
            return False
        return all(map(operator.is_, dict.values(now), self._values))


_HOLDERS = (dict, set)  # stay the objects that they are


def _entries(holder: t.Any) -> dict[t.Any, t.Any]:
    """Of a set each item is the key of itself. What a class does to read its own dict isn't asked for."""
    if not isinstance(holder, dict):
        return {item: item for item in holder}
    is_ordered = isinstance(holder, collections.OrderedDict)
    return dict(holder if is_ordered else dict.items(holder))


def _is_as(value: t.Any, looked: t.Any, now: t.Any) -> bool:
    """Whether it is what it was; what shows nothing of itself is the same if it is the same object."""
    if looked is None:
        return now is value
    return looked == look(now)


class Kept:
    """One registry, and how it was when the process began or the library was imported."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self._begun: dict[str, _Begun] = {}
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
        self._begun = {name: _Begun(one, self._registry.fixed) for name, one in attributes.items()}
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
            if begun is not None and _is_refilled(begun.value, now):
                parts.append(now)
                values = [] if self._registry.fixed else list(_entries(now).values())
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
            if begun is not None and _is_refilled(begun.value, now):
                if differing := self._differing(begun, now):
                    entries[name] = differing
            elif begun is None or not begun.is_still(now):
                found[name] = now
        if not found:
            return [found, entries] if entries else MISSING
        known = {
            id(one): _Entry(name, key)
            for name, begun in self._begun.items()
            for key, (one, _) in begun.entries.items()
            if key not in entries.get(name, ({}, []))[0]
        }
        for name, value in found.items():
            if type(value) is list:
                found[name] = [known.get(id(one), one) for one in value]
            else:
                found[name] = known.get(id(value), value)
        return [found, entries]

    def _differing(self, begun: _Begun, now: t.Any) -> t.Any:
        """The items that were put into a dict or changed there, and the keys that are gone."""
        if begun.has_all(now):
            return None
        current = _entries(now)
        put = {
            key: value
            for key, value in current.items()
            if key not in begun.entries or not self._is_kept(begun.entries[key], value)
        }
        gone = [key for key in begun.entries if key not in now]
        return (put, gone) if put or gone else None

    def _is_kept(self, begun: tuple[t.Any, t.Any], now: t.Any) -> bool:
        return self._registry.is_lazy(begun[0]) or _is_as(*begun, now)

    # ---- setting it

    def _write(self, new: t.Any) -> None:
        found, entries = ({}, {}) if new is MISSING else new
        holder, now = self._holder(), self._attributes()
        for name, begun in self._begun.items():
            if _is_refilled(begun.value, now.get(name)) and name not in found:
                self._refill(begun, now[name], *entries.get(name, ({}, [])))
        if self._registry.attributes:
            for name in now.keys() - found.keys() - self._begun.keys():
                delattr(holder, name)
        for name in found.keys() | self._begun.keys():
            if name in found:
                setattr(holder, name, self._resolved(found[name]))
            elif not isinstance(begun := self._begun[name].value, _HOLDERS):
                if now.get(name) is not begun:
                    setattr(holder, name, begun)
        if self._registry.then is not None and (self._was_set or new is not MISSING):
            self._was_set = new is not MISSING
            self._registry.then()

    def _refill(
        self, begun: _Begun, holder: t.Any, put: dict[t.Any, t.Any], gone: list[t.Any]
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
        current = _entries(holder)
        for key, (value, looked) in begun.entries.items():
            if key not in gone and key not in put:
                if key not in current or not self._is_kept((value, looked), current[key]):
                    holder[key] = value
        holder.update(put)

    def _resolved(self, value: t.Any) -> t.Any:
        if type(value) is list:
            return [self._resolved(one) for one in value]
        if type(value) is not _Entry:
            return value
        return getattr(self._holder(), value.attribute)[value.key]


def _is_refilled(begun: t.Any, now: t.Any) -> bool:
    return isinstance(begun, _HOLDERS) and type(now) is type(begun)
