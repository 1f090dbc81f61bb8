"""Finds what a forked cell changed in its process and no commit carries, and names it.

The fork has all state on its way in. On the way back, the state before and after the cell is compared. That
is exact, since both states are those of one process. A message names what changed and isn't carried:

* what only a row of plain_settings.py knows: child processes, timers, what runs on beside the cell;
* exit handlers, and modules that the cell has made;
* attributes of `sys` and `builtins`, and iterators and the like that became attributes of modules which the
  notebook or the cell's code has a name for.

What else modules hold is compared by differences.py: a value that can't be carried is named as a variable is.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import re
import sys
import types
import typing as t

from holdfast.carry.patches import MISSING
from holdfast.carry.snapshots import Snapshot

from . import exit_handlers
from .attributes import is_public
from .differences import BARE, CARRIED_OTHERWISE
from .module_entries import module_entries
from .plain_settings import EXIT_HANDLERS, plain_settings

_WORD = re.compile(r"[^\W\d][\w.]*")


class Census:
    """The state of this process before a cell.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Whose cell it is.
    code : str
        The cell.
    """

    def __init__(self, shell: t.Any, code: str):
        self._shell = shell
        self._imported = set(sys.modules)
        module_entries.changed()  # before it
        exit_handlers.leave_out(shell.user_ns, knows_all=True)
        self._handlers = atexit._ncallbacks()
        self._modules = {
            module.__name__: (module, Snapshot(module))
            for module in _named(shell, code)
            if module.__name__ != "__main__" and sys.modules.get(module.__name__) is module
        }
        self._rows = plain_settings.look(shell)

    def submodules(self) -> list[str]:
        """After it: the modules in packages of the notebook's that the main worker is to import, too."""
        return submodules(self._shell, sys.modules.keys() - self._imported)

    def changes(self) -> list[str]:
        """After it, when all is saved: what isn't."""
        imported = sys.modules.keys() != self._imported
        named = plain_settings.changed(self._rows, imported, self._shell)
        if not imported and atexit._ncallbacks() != self._handlers and EXIT_HANDLERS not in named:
            named.append(EXIT_HANDLERS)
        return named + list(self._changed_in_modules())

    def _changed_in_modules(self) -> t.Iterator[str]:
        carried = set(self._shell.patches.keys())
        for name, (module, before) in self._modules.items():
            if sys.modules.get(name) is not module:
                continue  # module_entries.py
            for attribute, (_, now) in sorted(before.changes(module).items()):
                key = f"{name}:{attribute}"
                if f"_{key}" in carried or key in CARRIED_OTHERWISE:
                    continue
                if is_public(name, attribute) and not isinstance(now, types.ModuleType):
                    if name in BARE or _is_iterator(now):
                        yield f"{name}.{attribute}"


def _named(shell: t.Any, code: str) -> t.Iterator[types.ModuleType]:
    """`sys` and `builtins`, the modules that the notebook has a name for, those whose names are in the cell's code, and
    what the code may import from these (`from xml import dom`)."""
    words = set(_WORD.findall(code))
    for one in (*map(sys.modules.get, {*BARE, *words}), *shell.user_ns.values()):
        if type(one) is types.ModuleType:
            yield one
            inner = map(vars(one).get, words)
            yield from (value for value in inner if type(value) is types.ModuleType)


def _is_iterator(one: t.Any) -> bool:
    """Whether it is of a type of the interpreter's that nothing shows the maker of."""
    return (
        one is not MISSING
        and getattr(one, "__module__", None) is None
        and type(one).__module__ == "builtins"
    )


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
