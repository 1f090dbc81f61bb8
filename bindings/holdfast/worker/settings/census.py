"""Finds what a forked cell changed in its process and no commit carries, and names it.

The fork has all state on its way in. On the way back, the state before and after the cell is compared. That
is exact, since both states are those of one process. A message names what changed and isn't carried. Looked
at are things that a process can be asked for cheaply:

* settings of the interpreter, of the system and of libraries that are imported;
* IPython's hooks;
* what runs on beside the cell;
* all that the modules of the user's own hold;
* the public attributes of those modules that the notebook has a name for.

Finders and registrations that an import may have changed aren't reported after a cell that imported. What
lies inside of a library's objects or behind C code, and isn't in the table, is not seen.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import sys
import types
import typing as t

from holdfast.base.after_import import watch_imports
from holdfast.carry.patches import MISSING, is_plain
from holdfast.carry.restoring import is_imported_as
from holdfast.carry.snapshots import Snapshot

from .attributes import (
    is_atom,
    is_notebooks,
    is_own,
    is_public,
    look_into,
    named_modules,
    own_modules,
    steps_to,
    value_of,
)
from .differences import CARRIED_OTHERWISE
from .module_entries import module_entries
from .own_code import own_code
from .plain_settings import differs, plain_settings, read

_BARE = ("sys", "builtins")  # modules that libraries leave alone


class Census:
    """The state of this process before a cell.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Whose cell it is.
    code : str
        The cell, whose words may be modules.
    """

    def __init__(self, shell: t.Any, code: str):
        self._shell = shell
        # What a plain value can set comes back with the commit (plain_settings.py).
        self._rows = {
            name: read(row) for name, row in list(plain_settings.rows.items()) if row.write is None
        }
        self._own = {name: look_into(module) for name, module in own_modules().items()}
        self._others = {
            module.__name__: Snapshot(module)
            for module in named_modules(shell, code)
            if module.__name__ not in self._own
        }
        module_entries.changed()  # before it
        self._imported = set(sys.modules)
        self._reloads = dict(own_code.reloads)
        self._end_watch = watch_imports(is_own, self._arrived)
        self._handlers: list[str] = []
        self._register = atexit.register
        atexit.register = functools.partial(_register, self._register, self._handlers)

    def _arrived(self, module: t.Any) -> None:
        """A module of the user's own was imported just now."""
        if module.__name__ not in self._own:  # else it was loaded anew
            self._own[module.__name__] = look_into(module)

    def submodules(self) -> list[str]:
        """After it: the modules in packages of the notebook's that the main worker is to import, too."""
        return submodules(self._shell, sys.modules.keys() - self._imported)

    def changes(self) -> list[str]:
        """After it, when all is saved: what isn't."""
        if getattr(atexit.register, "func", None) is _register:
            atexit.register = self._register
        self._end_watch()
        imported = sys.modules.keys() != self._imported
        named = [
            name
            for name, row in list(plain_settings.rows.items())
            if row.write is None and differs(row, self._rows.get(name), read(row), imported)
        ]
        if self._handlers and "exit handlers" not in named:
            named.append("exit handlers")
        named += module_entries.changed()
        carried = set(self._shell.patches.keys())
        anew = own_code.loaded_since(self._reloads)
        for name, attribute in (*self._changed_in_own(), *self._changed_in_others()):
            value = value_of(sys.modules.get(name), attribute)
            key = f"{name}:{attribute}"
            if f"_{key}" in carried or key in CARRIED_OTHERWISE:
                continue
            if any(f"_{name}:{outer}" in carried for outer in steps_to(attribute)):
                continue  # it is of what was replaced, or has replaced it
            if isinstance(value, types.ModuleType):
                continue
            if not is_imported_as(sys.modules.get(name), name):
                continue  # another object stands there (module_entries.py)
            if name in anew and getattr(value, "__module__", None) == name:
                continue
            if name in self._own or name in _BARE or value is MISSING or _is_nobodys(value):
                named.append(f"{name}.{attribute}")
        return named

    def _changed_in_own(self) -> t.Iterator[tuple[str, str]]:
        for name, before in self._own.items():
            now = look_into(sys.modules.get(name))
            for attribute in sorted(before.keys() | now.keys()):
                if before.get(attribute, MISSING) != now.get(attribute, MISSING):
                    yield name, attribute

    def _changed_in_others(self) -> t.Iterator[tuple[str, str]]:
        """What their lists, dicts and sets hold is compared with how they were imported (differences.py)."""
        for name, before in self._others.items():
            module = sys.modules.get(name)
            if isinstance(module, types.ModuleType):
                for attribute, (was, now) in sorted(before.changes(module).items()):
                    is_as = is_atom(now) and type(now) is type(was) and repr(now) == repr(was)
                    if is_public(name, attribute) and not is_as:
                        yield name, attribute


def submodules(shell: t.Any, new: t.Collection[str]) -> list[str]:
    """The new modules in packages that the notebook has a name for."""
    if not new:
        return []
    named = {value.__name__ for value in shell.user_ns.values() if type(value) is types.ModuleType}
    return sorted(
        name for name in new if "._" not in name and name.partition(".")[0] in named - {name}
    )


def import_submodules(names: t.Iterable[str]) -> None:
    """In the main worker those whose package is imported."""
    for name in names:
        if name not in sys.modules and name.rpartition(".")[0] in sys.modules:
            with contextlib.suppress(Exception):  # code that needs it will see
                importlib.import_module(name)


def _is_nobodys(one: t.Any) -> bool:
    """Whether no library has made it, which may set its own attributes at any time."""
    module = getattr(one, "__module__", None)
    return (
        is_plain(one)
        or is_notebooks(one)
        or (module is None and type(one).__module__ == "builtins")
    )


def _register(
    register: t.Any, handlers: list[str], call: t.Any, /, *args: t.Any, **kw: t.Any
) -> t.Any:
    """atexit.register while a cell runs: a library's handler is one that its import registers."""
    if sys._getframe(1).f_globals.get("__name__") == "__main__":
        handlers.append(getattr(call, "__name__", repr(call)))
    return register(call, *args, **kw)
