"""Carries those settings that a function can read and another one can set (the table in rows.py).

A clean process begins with none of the notebook's settings. Both processes are forks of the same one, which
runs no user code. So a setting that differs from how this process began was set by the notebook. A row with a
plain value is set in the other process. Of any other row the next cell in a clean process reports the name,
once.

If a module is imported later, its rows begin when its import ends. In a process that hasn't imported it, a
row waits for that, and is carried on as it came.
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast import libraries
from holdfast.base.after_import import Waiting

from .. import notices
from . import exits
from .attributes import new_modules
from .own_code import own_code
from .row import Row
from .rows import ROWS, differs, read

_KEPT = frozenset(("exit handlers",))  # they run where they are: exits.py
_STAYS = "the notebook's own process alone has that"


class Asked:
    """This process's answers."""

    def __init__(self) -> None:
        self.load: t.Callable[[str], object] = lambda package: (
            None
        )  # the file about a package (library_state.py)
        self.is_idle = False  # no cell waits for the commit
        self._fresh: dict[str, t.Any] = {}
        self._last: dict[str, t.Any] = {}  # of costly rows
        self._waiting = Waiting(self._set, lambda name: ROWS[name].module if name in ROWS else "")
        self._count = 0  # of modules, when they were looked at last
        self._modules: set[str] = set()  # which weren't imported when the process began

    def begin(self, shell: t.Any) -> None:
        """Nothing of the notebook's has run."""
        self._fresh = {name: read(row) for name, row in ROWS.items() if not row.is_drawn}
        self._count = len(sys.modules)
        self._modules = {row.module for row in ROWS.values()} - sys.modules.keys()

    def add(self, name: str, row: Row) -> None:
        """Ask for this, too, which a library's file declares."""
        ROWS[name] = row
        if is_imported(row.module):
            self._fresh[name] = self._first(name, row)
        else:
            self._modules.add(row.module)

    def _first(self, name: str, row: Row) -> t.Any:
        """How it is before the notebook's code; if it can't be read, it is left out from now on."""
        try:
            found = row.read()
            return None if row.is_drawn else found
        except Exception as error:  # a library of another version
            libraries.unusable[name] = f"{type(error).__name__}: {error}"
            del ROWS[name]
            return None

    def begin_in_fork(self, shell: t.Any) -> None:
        """Begin as `begin` does, in a fork of a process that began and has imported nothing since."""
        own = {name: row for name, row in ROWS.items() if row.of_process}
        self._fresh |= {name: read(row) for name, row in own.items()}

    def awaits(self, module: str) -> bool:
        """Whether something is asked of a module that isn't imported yet."""
        return module in self._modules

    def imported(self, module: str, shell: t.Any) -> None:
        """Read the rows of a module that was imported just now; nobody has used it yet."""
        self._modules.discard(module)
        for name, row in list(ROWS.items()):
            if row.module == module:
                self._fresh[name] = self._first(name, row)

    def capture(self, shell: t.Any) -> dict[str, t.Any]:
        """The state that differs from how the process began, by row."""
        found = dict(self._waiting.values)
        for name, row in ROWS.items():
            if row.write is not None:
                now = self._now(name, row)
                if now is not None and now != self._fresh_of(name):
                    found[name] = now
        return found

    def apply(self, new: dict[str, t.Any], old: dict[str, t.Any] | None, shell: t.Any) -> None:
        """Set what differs between two captures; what isn't in the new one is as the process began."""
        before = old or {}
        for name in new.keys() - ROWS.keys():
            self.load(name.partition(":")[0])
        for name in [name for name in ROWS if name in new or name in before]:
            value = new[name] if name in new else self._fresh_of(name)
            if value is not None and value != before.get(name):
                self._waiting.set(name, value)

    def _now(self, name: str, row: Row) -> t.Any:
        if not row.is_costly:
            return read(row)
        if not self.is_idle:
            self._last[name] = read(row)
        return self._last.get(name)

    def staying(self, shell: t.Any) -> dict[str, str]:
        """The state that differs and that no plain value can set, with the reason why a clean
        process doesn't have it."""
        found = {f"the module {name}": _STAYS for name in self.made()} | own_code.lost()
        for name, row in ROWS.items():
            if row.write is None and name not in _KEPT:
                if differs(row, self._fresh.get(name), self._now(name, row), imported=True):
                    found[name] = _STAYS
        return found

    def made(self) -> list[str]:
        """Modules that code has made since the last call, and no file: another process can't import them."""
        new = new_modules(self._count)
        self._count = len(sys.modules)
        return sorted(filter(_is_made, new))

    def look(self, shell: t.Any) -> dict[str, t.Any]:
        """Note, before a cell in a clean process, what can only be reported."""
        rows = {name: row for name, row in ROWS.items() if row.write is None}
        return {name: read(row) for name, row in rows.items() if name not in _KEPT}

    def changed(self, before: dict[str, t.Any], imported: bool, shell: t.Any) -> list[str]:
        """Name what differs from `look` after the cell; `imported`: the cell has imported modules."""
        found = [
            name
            for name, was in before.items()
            if differs(ROWS[name], was, read(ROWS[name]), imported)
        ]
        found += ["exit handlers"] if exits.left_out else []
        return found + [f"the module {name}" for name in self.made()]

    def _fresh_of(self, name: str) -> t.Any:
        known = self._fresh.get(name)
        return ROWS[name].fresh if known is None else known

    def _set(self, name: str, value: t.Any) -> None:
        if read(ROWS[name]) == value:
            return
        try:
            ROWS[name].write(value)  # type: ignore[misc]
        except Exception as error:  # what one can't have costs the cell no other
            notices.not_carried_over(name, error)


def is_imported(name: str) -> bool:
    """Whether its import has ended."""
    module = sys.modules.get(name)
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )


def _is_made(name: str) -> bool:
    """Whether the notebook has made this module, and not a library."""
    module = sys.modules[name]
    if "." in name or name.startswith("_") or type(module) is not types.ModuleType:
        return False
    return vars(module).get("__spec__") is None


asked = Asked()
