"""Carries those settings that a function can read and another one can set (the table in process_settings.py).

A clean process begins with none of the notebook's settings. Both processes are forks of the same one, which
runs no user code. So a setting that differs from how this process began was set by the notebook. A row with a
plain value is set in the other process. Of any other row the next cell in a clean process reports the name,
once.

If a module is imported later, its rows begin when its import ends. In a process that hasn't imported it, a
row waits for that, and is carried on as it came.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast import libraries
from holdfast.base.after_import import Waiting

from .. import notices
from . import exit_handlers
from .module_entries import module_entries
from .own_code import own_code

EXIT_HANDLERS = "exit handlers"
_STAYS = "the notebook's own process alone has that"


class Row(t.NamedTuple):
    """A part of the state.

    `read` gives what can be compared; with `write` it is a plain value, which that sets. Both are called only where
    `module` is imported, and `read` first at the end of its import: if that is a part of the import of a package,
    `read` must import nothing, or `module` is the package. Before the import it is `fresh`; None: nobody knows.
    Processes begin with different values of what `is_drawn`. A row with `late` is set right before a cell, if `module`
    is imported by then or `late(code)` is true.
    Rows `of_process` are those that a fork may have otherwise than its parent, or others set from outside.
    """

    module: str
    read: t.Callable[[], t.Any]
    write: t.Callable[[t.Any], object] | None = None
    fresh: t.Any = None
    by_imports: bool = False  # an import changes it, and nobody knows how
    grows: bool = False  # only what is more than before counts
    of_process: bool = False
    is_drawn: bool = False
    is_costly: bool = False  # at a commit that no cell waits for the last answer counts
    late: t.Callable[[str], bool] | None = None


class PlainSettings:
    """Those of this process."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        # The file about a package (library_state.py).
        self.load: t.Callable[[str], object] = lambda package: None
        self.is_idle = False  # no cell waits for the commit
        self._fresh: dict[str, t.Any] = {}
        self._last: dict[str, t.Any] = {}  # of costly rows
        self._waiting = Waiting(
            self._set, lambda name: self.rows[name].module if name in self.rows else ""
        )
        self._late: dict[str, t.Any] = {}  # values that wait for the next cell, or for a later one
        self._modules: set[str] = set()  # which weren't imported when the process began

    def begin(self, shell: t.Any) -> None:
        """Nothing of the notebook's has run."""
        self._fresh = {name: read(row) for name, row in self.rows.items() if not row.is_drawn}
        module_entries.made()  # those that are there now aren't the notebook's
        self._modules = {row.module for row in self.rows.values()} - sys.modules.keys()

    def add(self, name: str, row: Row) -> None:
        """Ask for this, too, which a library's file declares."""
        self.rows[name] = row
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
            del self.rows[name]
            return None

    def begin_in_fork(self, shell: t.Any) -> None:
        """Begin as `begin` does, in a fork of a process that began and has imported nothing since."""
        own = {name: row for name, row in self.rows.items() if row.of_process}
        self._fresh |= {name: read(row) for name, row in own.items()}

    def awaits(self, module: str) -> bool:
        """Whether something is asked of a module that isn't imported yet."""
        return module in self._modules

    def imported(self, module: str, shell: t.Any) -> None:
        """Read the rows of a module that was imported just now; nobody has used it yet."""
        self._modules.discard(module)
        for name, row in list(self.rows.items()):
            if row.module == module:
                self._fresh[name] = self._first(name, row)

    def capture(self, shell: t.Any) -> dict[str, t.Any]:
        """The state that differs from how the process began, by row."""
        found = self._late | self._waiting.values
        for name, row in list(self.rows.items()):
            if row.write is not None:
                now = self._now(name, row)
                if now is not None and now != self._fresh_of(name):
                    found[name] = now
        return found

    def apply(self, new: dict[str, t.Any], old: dict[str, t.Any] | None, shell: t.Any) -> None:
        """Set what differs between two captures; what isn't in the new one is as the process began."""
        before = old or {}
        for name in new.keys() - self.rows.keys():
            self.load(name.partition(":")[0])
        for name in [name for name in self.rows if name in new or name in before]:
            value = new[name] if name in new else self._fresh_of(name)
            if value is None or value == before.get(name):
                continue
            value = _merged(value, before.get(name), read(self.rows[name]))
            self._late.pop(name, None)
            if self.rows[name].late is not None and self.rows[name].module not in sys.modules:
                self._late[name] = value
            else:
                self._waiting.set(name, value)

    def settle(self, code: str = "") -> None:
        """Set the rest before a cell of this code, where what was bound has imported the module or the cell needs it."""
        for name, value in list(self._late.items()):
            row = self.rows[name]
            if row.module in sys.modules or (row.late is not None and row.late(code)):
                del self._late[name]
                self._set(name, value)

    def _now(self, name: str, row: Row) -> t.Any:
        if not row.is_costly:
            return read(row)
        if not self.is_idle:
            self._last[name] = read(row)
        return self._last.get(name)

    def staying(self, shell: t.Any) -> dict[str, str]:
        """The state that differs and that no plain value can set, with the reason why a clean
        process doesn't have it."""
        found = dict.fromkeys(module_entries.made(), _STAYS) | own_code.lost()
        for name, row in list(self.rows.items()):
            if row.write is None:
                if differs(row, self._fresh.get(name), self._now(name, row), imported=True):
                    found[name] = _STAYS
        return found

    def look(self, shell: t.Any) -> dict[str, t.Any]:
        """Note, before a cell in a process of its own, what can only be reported."""
        rows = list(self.rows.items())
        return {name: read(row) for name, row in rows if row.write is None}

    def changed(self, before: dict[str, t.Any], imported: bool, shell: t.Any) -> list[str]:
        """Name what differs from `look` after the cell; `imported`: the cell has imported modules."""
        found = [
            name
            for name, row in list(self.rows.items())
            if row.write is None and differs(row, before.get(name), read(row), imported)
        ]
        found += [EXIT_HANDLERS] if exit_handlers.left_out else []
        return found + module_entries.changed()

    def _fresh_of(self, name: str) -> t.Any:
        known = self._fresh.get(name)
        return self.rows[name].fresh if known is None else known

    def _set(self, name: str, value: t.Any) -> None:
        if read(self.rows[name]) == value:
            return
        try:
            self.rows[name].write(value)  # type: ignore[misc]
        except Exception as error:  # what one can't have costs the cell no other
            notices.not_carried_over(name, error)


def _merged(value: t.Any, before: t.Any, now: t.Any) -> t.Any:
    """Of a dict only the keys that differ are set: others may have been set here since `before` was captured."""
    if not type(value) is type(before) is type(now) is dict or before == now:
        return value
    changed = {key: one for key, one in value.items() if key not in before or before[key] != one}
    gone = before.keys() - value.keys()
    return {key: one for key, one in now.items() if key not in gone} | changed


def differs(row: Row, before: t.Any, now: t.Any, imported: bool) -> bool:
    """Whether the cell between two readings has changed it; `imported`: it has imported modules."""
    if now is None or (imported and row.by_imports):
        return False
    if before is None:  # the cell has imported it
        return now != row.fresh if row.fresh is not None else row.write is not None
    return now > before if row.grows else now != before


def read(row: Row) -> t.Any:
    """None if nobody can have changed it."""
    if row.module not in sys.modules:
        return None
    try:
        found = row.read()
    except Exception:  # a library of another version, or one that is being imported
        return None
    return found


def is_imported(name: str) -> bool:
    """Whether its import has ended."""
    module = sys.modules.get(name)
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )


plain_settings = PlainSettings()
