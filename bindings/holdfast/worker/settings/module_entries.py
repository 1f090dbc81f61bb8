"""Carries what the notebook puts under names in `sys.modules`, and takes out of it, as a slot (slots.py).

`sys.modules["sklearn.externals.joblib"] = joblib` lets old code find a library, `sys.modules["heavy"] = MagicMock()`
lets it do without one, and `del sys.modules["mine"]` has it imported anew. Such an entry has no `__spec__` of its name.
Libraries make such entries, too (`os.path`): those under their own name, while they are imported or with objects of
their own. The import makes them in each process.

A module that the notebook has made, and that nothing says where to find, can't be carried. Those are only named
(plain_settings.py), and so is a library that was imported anew. A module of the user's own is imported anew in the
other process, too (own_code.py). `None` as an entry is a row of its own (process_settings.py).
"""

from __future__ import annotations

import sys
import types
import typing as t
import weakref

from holdfast import _store
from holdfast.carry.patches import MISSING, Slot
from holdfast.carry.restoring import is_made_here

from .attributes import is_users, mark_of


class ModuleEntries:
    """The notebook's entries in this process."""

    def __init__(self) -> None:
        self._marks: dict[str, object] = {}  # which object each was at the last look
        self._put: dict[str, t.Any] = {}
        self._replaced: dict[str, t.Any] = {}  # what stood there before an entry of `_put`
        self._removed: set[str] = set()
        self._made: set[str] = set()  # which can't be carried
        self._anew: set[str] = set()  # libraries that were imported anew

    def slot(self) -> Slot:
        """Begin: what is there now isn't the notebook's."""
        self.look()
        self._put, self._replaced, self._removed = {}, {}, set()
        self._made, self._anew = set(), set()
        return Slot("sys", self._read, self._write)

    def look(self) -> None:
        """Note what was put, replaced and removed since the last look."""
        other, gone = _store._modules_changed(self._marks)
        before = [self._mark(name) for name in other]
        imported = {name for name, was in zip(other, before) if was is None and _is_imported(name)}
        for name, was in zip(other, before):
            was_put = self._put.pop(name, None) is not None
            if name.partition(".")[0] not in imported and not name.startswith("_"):
                self._meet(name, was, was_put)
        for name in gone:
            del self._marks[name]
        self._removed.update(gone)

    def _mark(self, name: str) -> object:
        """Note which object an entry is. Returns the mark before, if any."""
        before, self._marks[name] = self._marks.get(name), mark_of(sys.modules[name])
        return before

    def _meet(self, name: str, before: t.Any, was_put: bool) -> None:
        """Note an entry that is new, or in which another object was, which the notebook may have put there."""
        one = sys.modules[name]
        if _is_notebooks(name):
            self._put[name] = one
            if isinstance(before, weakref.ref) and not was_put:
                self._replaced[name] = before()
        elif _is_made(name):
            self._made.add(name)
        elif before is not None and _is_imported(name) and not is_users(name):
            known = self._replaced.pop(name, None)
            if known is not one and not (known is None and was_put) and "." not in name:
                self._anew.add(name)

    def made(self) -> list[str]:
        """The modules that code has made since the last call: another process can't import them."""
        self.look()
        found = sorted(self._made & self._marks.keys())
        self._made, self._anew = set(), set()
        return [f"the module {name}" for name in found]

    def changed(self) -> list[str]:
        """The same, and libraries that were imported anew: another process has them as they were."""
        self.look()
        anew = [f"the module {name}, imported anew" for name in sorted(self._anew)]
        return self.made() + anew

    def _read(self) -> t.Any:
        self.look()
        self._removed -= self._marks.keys()
        self._put = {name: one for name, one in self._put.items() if name in self._marks}
        return (dict(self._put), sorted(self._removed)) if self._put or self._removed else MISSING

    def _write(self, new: t.Any) -> None:
        put, removed = ({}, []) if new is MISSING else new
        for name in {*removed, *(self._put.keys() - put.keys())}:
            sys.modules.pop(name, None)
            before = self._replaced.pop(name, None)
            if before is not None and name not in removed:
                sys.modules[name] = before
        for name in (put.keys() - self._put.keys()) & sys.modules.keys():
            self._replaced[name] = sys.modules[name]
        sys.modules.update(put)
        self.look()
        self._put, self._removed = dict(put), set(removed)


def _spec_name(name: str) -> object:
    """The name by which this entry was imported; without the entry's own `__getattribute__`, which may load it."""
    try:
        return object.__getattribute__(sys.modules[name], "__spec__").name
    except AttributeError:
        return None


def _is_imported(name: str) -> bool:
    return _spec_name(name) == name


def _is_notebooks(name: str) -> bool:
    one = sys.modules[name]
    if one is None or _is_imported(name):
        return False
    is_module = issubclass(type(one), types.ModuleType)
    if is_module and _spec_name(name) is None:
        return False
    home = vars(one).get("__name__") if is_module else type(one).__module__
    return str(home).partition(".")[0] != name.partition(".")[0]


def _is_made(name: str) -> bool:
    """Whether the notebook has made this module, and not a library: Cython and SWIG make some, too."""
    one, kind = sys.modules[name], type(sys.modules[name])
    is_own = issubclass(kind, types.ModuleType) and kind.__module__ in ("builtins", "__main__")
    return is_own and "_runtime" not in name and is_made_here(one)


module_entries = ModuleEntries()
