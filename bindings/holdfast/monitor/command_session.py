"""What the commands of one shell share: what is looked at, and how it is shown.

What is looked at is a *record*: the live monitor, or the session that was imported last, until
the next start. Both answer alike (`source.Monitor`, `archive.Imported`).
"""

from __future__ import annotations

import typing as t

from .arguments import CommandError
from .ranges import choose


class Wanted(t.TypedDict, total=False):
    """Whether a report follows each cell, of which level, and whether as text."""

    on: t.Required[bool]
    level: str
    text: bool


class Session:
    """What the commands of one shell share."""

    def __init__(self, shell: t.Any):
        self.shell = shell
        self.imported: t.Any = None  # archive.Imported
        # In other kernels: show a report after each cell, or no more.
        self.want_reports: t.Callable[[Wanted], None] | None = None
        self.script: tuple[int, str] | None = None  # the first cell of it, and its file

    @property
    def monitor(self) -> t.Any:
        """The live monitor; made when it is first asked for."""
        from . import source

        return source.connect()

    @property
    def record(self) -> t.Any:
        """What is looked at."""
        return self.monitor if self.imported is None else self.imported

    def ended(self, record: t.Any) -> list[t.Any]:
        """The cells that have ended: the one that asks isn't among them."""
        return [cell for cell in record.cells() if cell.end_ns is not None]

    def level(self, given: str | None) -> str:
        """A level that there is."""
        level, there = given or "process", self.record.state()["levels"]
        if level not in there:
            raise CommandError(f"there is no level {level} here; there are {', '.join(there)}")
        return level

    def chosen(self, given: str | None) -> list[t.Any]:
        """The cells of a range, all without one."""
        return choose(":" if given is None else given, self.ended(self.record))

    def report(self, record: t.Any, level: str, cells: t.Sequence[t.Any], as_text: bool) -> None:
        """Show a report."""
        from . import report

        made = report.make(record, level, cells)
        if as_text:
            print(report.text(made))
        else:
            self.show({"text/plain": report.text(made), "text/html": report.page(made)})

    def show(self, data: dict[str, str]) -> None:
        """Display something; in a terminal as plain text."""
        from IPython.display import display

        if set(self.shell.display_formatter.active_types) == {"text/plain"}:
            print(data["text/plain"])
        else:
            display(data, raw=True)

    def push(self, name: str, columns: dict[str, list[t.Any]]) -> None:
        """Bind a DataFrame."""
        try:
            import pandas
        except ImportError:
            raise CommandError("a DataFrame needs pandas; name a .csv or .json file") from None
        frame = pandas.DataFrame(columns)
        indexes = columns.get("cell_index", [""])
        if all(index is None or type(index) is int for index in indexes):
            frame["cell_index"] = frame["cell_index"].astype("Int64")
        self.shell.push({name: frame})
        print(f"{name} has {len(frame)} rows and {len(frame.columns)} columns")


_sessions: dict[int, Session] = {}


def session_of(shell: t.Any) -> Session:
    found = _sessions.get(id(shell))
    if found is None or found.shell is not shell:
        found = _sessions[id(shell)] = Session(shell)
    return found
