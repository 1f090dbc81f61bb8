"""The state that the monitor's commands of one shell share: what they look at, and how it is shown.

The commands look at a *record*. It is the live monitor, or the session that was imported last until the monitor is
started again. Both have the same methods (`source.Monitor`, `archive.Imported`).
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
    """The state that the commands of one shell share.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.

    Attributes
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The same.
    imported : Imported or None
        The session that was imported, until the next start.
    want_reports : callable or None
        In kernels other than ours: called with a `Wanted`.
    script : tuple of int and str or None
        The first cell of the script, and its file.
    """

    def __init__(self, shell: t.Any):
        self.shell = shell
        self.imported: t.Any = None  # archive.Imported
        # In other kernels: show a report after each cell, or no more.
        self.want_reports: t.Callable[[Wanted], None] | None = None
        self.script: tuple[int, str] | None = None  # the first cell of it, and its file

    @property
    def monitor(self) -> t.Any:
        """The live monitor; made when it is first asked for.

        Returns
        -------
        Monitor
            That of the notebook.
        """
        from . import source

        return source.connect()

    @property
    def record(self) -> t.Any:
        """The record that the commands look at.

        Returns
        -------
        Monitor or Imported
            The imported session if there is one.
        """
        return self.monitor if self.imported is None else self.imported

    def ended(self, record: t.Any) -> list[t.Any]:
        """Return the cells that have ended. The one that asks isn't among them.

        Parameters
        ----------
        record : Monitor or Imported
            What to look at.

        Returns
        -------
        list of Cell
            The oldest first.
        """
        return [cell for cell in record.cells() if cell.end_ns is not None]

    def level(self, given: str | None) -> str:
        """Check that there are samples of a level.

        Parameters
        ----------
        given : str or None
            The level; None for "process".

        Returns
        -------
        str
            The level.

        Raises
        ------
        CommandError
            There are none.
        """
        level, there = given or "process", self.record.state()["levels"]
        if level not in there:
            raise CommandError(f"there is no level {level} here; there are {', '.join(there)}")
        return level

    def chosen(self, given: str | None) -> list[t.Any]:
        """Return the cells of a range.

        Parameters
        ----------
        given : str or None
            The range; None for all.

        Returns
        -------
        list of Cell
            The cells, in order.

        Raises
        ------
        CommandError
            There is no such range.
        """
        return choose(":" if given is None else given, self.ended(self.record))

    def report(self, record: t.Any, level: str, cells: t.Sequence[t.Any], as_text: bool) -> None:
        """Show a report.

        Parameters
        ----------
        record : Monitor or Imported
            What to look at.
        level : str
            The level.
        cells : sequence of Cell
            The cells.
        as_text : bool
            Whether it is printed, not displayed.
        """
        from . import report

        made = report.make(record, level, cells)
        if as_text:
            print(report.text(made))
        else:
            self.show({"text/plain": report.text(made), "text/html": report.page(made)})

    def show(self, data: dict[str, str]) -> None:
        """Display something; in a terminal as plain text.

        Parameters
        ----------
        data : dict of str to str
            By MIME type.
        """
        from IPython.display import display

        if set(self.shell.display_formatter.active_types) == {"text/plain"}:
            print(data["text/plain"])
        else:
            display(data, raw=True)

    def push(self, name: str, columns: dict[str, list[t.Any]]) -> None:
        """Bind a DataFrame in the notebook.

        Parameters
        ----------
        name : str
            The variable.
        columns : dict of str to list
            Its columns.

        Raises
        ------
        CommandError
            There is no pandas.
        """
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
    """Return what the commands of a shell share.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.

    Returns
    -------
    Session
        Always the same for a shell.
    """
    found = _sessions.get(id(shell))
    if found is None or found.shell is not shell:
        found = _sessions[id(shell)] = Session(shell)
    return found
