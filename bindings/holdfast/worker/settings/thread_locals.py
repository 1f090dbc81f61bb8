"""Carries what libraries keep in `threading.local` objects: settings of the thread that runs the cells.

`scipy.fft.set_workers(2)` and its like set an attribute of such an object, which is in a module of the
library, and which no function reads. In another process the thread has none of it. So all `threading.local`
objects of libraries' modules are looked at. Attributes that are plain values are carried (process_settings.py). Others
stay, since a library also keeps connections and caches there.
"""

from __future__ import annotations

import sys
import threading
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.carry.patches import is_plain

from .attributes import NewModules
from .memo import Memo, holders_in

_OURS = frozenset("IPython holdfast ipykernel jupyter_client tornado traitlets zmq".split())

Found = dict[str, dict[str, dict[str, t.Any]]]  # values by module, name there, and attribute


class ThreadLocals:
    """The `threading.local` objects of this process's libraries."""

    def __init__(self) -> None:
        self._modules = NewModules()
        self._places: list[tuple[str, str]] = []  # modules and names
        self._waiting = Waiting(self._put)
        self._read = Memo(self._read_spaces, lambda: self._places, self._parts)

    def read(self) -> Found:
        """Read what this thread has in them."""
        self.look()
        return self._waiting.values | self._read()

    def _parts(self) -> list[t.Any]:
        modules = {module: sys.modules.get(module) for module, _ in self._places}
        spaces = [_space(module, name) for module, name in self._places]
        return [*modules.values(), *(part for space in spaces for part in holders_in(space))]

    def _read_spaces(self) -> Found:
        found: Found = {}
        for module, name in self._places:
            held = {key: one for key, one in _space(module, name).items() if is_plain(one)}
            if held:
                found.setdefault(module, {})[name] = held
        return found

    def write(self, new: Found) -> None:
        """Have this thread have that, now or once the library is imported. An attribute that isn't
        there in the other process stays: the library may have made it for this thread."""
        self.look()
        for module, name in self._places:
            _fill(_space(module, name), new.get(module, {}).get(name, {}))
        for module in new.keys() - sys.modules.keys():
            self._waiting.set(module, new[module])

    def _put(self, module: str, values: dict[str, dict[str, t.Any]]) -> None:
        for name, wanted in values.items():
            _fill(_space(module, name), wanted)

    def look(self) -> None:
        """Find those of modules that have been imported since the last time."""
        found = [
            (name, attribute)
            for name, module in self._modules.installed()
            if name.partition(".")[0] not in _OURS
            for attribute, one in list(vars(module).items())
            if issubclass(type(one), threading.local)
        ]
        if found:  # another list: what was read from the last one is read again
            self._places = list(dict.fromkeys(self._places + found))


def _space(module: str, name: str) -> dict[str, t.Any]:
    """What this thread has in one; nothing if the object is gone."""
    one = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return vars(one) if isinstance(one, threading.local) else {}


def _fill(space: dict[str, t.Any], wanted: dict[str, t.Any]) -> None:
    """What is an object here, the library sets by its own means."""
    space.update({key: one for key, one in wanted.items() if is_plain(space.get(key))})


thread_locals = ThreadLocals()
