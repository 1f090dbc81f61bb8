"""Carries what the notebook puts under names in `sys.modules`, and takes out of it, as a slot (slots.py).

`sys.modules["sklearn.externals.joblib"] = joblib` lets old code find a library, `sys.modules["heavy"] = MagicMock()`
lets it do without one, and `del sys.modules["mine"]` has it imported anew. Such an entry has no `__spec__` of its name.
Libraries make such entries, too (`os.path`): those under their own name, while they are imported or with objects of
their own. The import makes them in each process.

A new module that nothing says where to find can't be carried. Those are only named (plain_settings.py). `None` as an
entry is a row of its own (process_settings.py).
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast import _store
from holdfast.carry.patches import MISSING, Slot


class ModuleEntries:
    """The notebook's entries in this process."""

    def __init__(self) -> None:
        self._digest = 0  # of all modules, at the last look
        self._names: frozenset[str] = frozenset()
        self._put: dict[str, t.Any] = {}
        self._removed: set[str] = set()

    def slot(self) -> Slot:
        """Begin: what is there now isn't the notebook's."""
        self.look()
        self._put, self._removed = {}, set()
        return Slot("sys", self._read, self._write)

    def look(self) -> None:
        """Note what was put and removed since the last look."""
        digest = _store._modules_digest()
        if digest == self._digest:
            return
        names = frozenset(sys.modules)
        new = names - self._names
        imported = {name for name in new if "." not in name and _is_imported(name)}
        for name in new:
            if name.partition(".")[0] not in imported and _is_notebooks(name):
                self._put[name] = sys.modules[name]
        self._removed |= self._names - names
        self._digest, self._names = digest, names

    def _read(self) -> t.Any:
        self.look()
        self._removed -= self._names
        self._put = {name: sys.modules[name] for name in self._put if name in self._names}
        return (self._put, sorted(self._removed)) if self._put or self._removed else MISSING

    def _write(self, new: t.Any) -> None:
        put, removed = ({}, []) if new is MISSING else new
        for name in {*removed, *(self._put.keys() - put.keys())}:
            sys.modules.pop(name, None)
        sys.modules.update(put)
        self._put, self._removed = dict(put), set(removed)
        self._digest, self._names = _store._modules_digest(), frozenset(sys.modules)


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
    if one is None or name.startswith("_") or _is_imported(name):
        return False
    is_module = issubclass(type(one), types.ModuleType)
    if is_module and _spec_name(name) is None:
        return False
    home = vars(one).get("__name__") if is_module else type(one).__module__
    return str(home).partition(".")[0] != name.partition(".")[0]


module_entries = ModuleEntries()
