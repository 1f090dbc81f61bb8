"""The cells that ran: as a table in a file, and as a table on the page.

The columns are JUmPER's, and three more: `execution_count`, `kind` (plain, instrumented,
isolated, multi) and `outcome` (ok, error, interrupted, died). Times are in seconds, of the
monotonic clock and of the day.
"""

from __future__ import annotations

import html
import time
import typing as t

from .arguments import CommandError
from .files import Columns
from .sampled import Cell

_NEEDED = ("cell_index", "raw_cell", "start_time", "end_time")


def table(cells: t.Sequence[Cell]) -> Columns:
    """Make a table of cells.

    Parameters
    ----------
    cells : sequence of Cell
        The cells. One that still runs has no end.

    Returns
    -------
    dict of str to list
        The columns. Times are in seconds.
    """
    columns: Columns = {
        "cell_index": [cell.index for cell in cells],
        "raw_cell": [cell.source for cell in cells],
        "start_time": [cell.begin_ns / 1e9 for cell in cells],
        "end_time": [None if cell.end_ns is None else cell.end_ns / 1e9 for cell in cells],
        "duration": [cell.duration for cell in cells],
        "wallclock_start_time": [cell.wall_begin for cell in cells],
        "wallclock_end_time": [_wall_end(cell) for cell in cells],
        "execution_count": [cell.number for cell in cells],
        "kind": [cell.kind for cell in cells],
        "outcome": [cell.outcome for cell in cells],
    }
    return columns


def _wall_end(cell: Cell) -> float | None:
    return None if cell.duration is None else cell.wall_begin + cell.duration


def check(columns: Columns, path: str) -> None:
    """Check that a table has cells.

    Parameters
    ----------
    columns : dict of str to list
        The table.
    path : str
        Its file, for the message.

    Raises
    ------
    CommandError
        A column is missing.
    """
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise CommandError(f"{path} has no cells: there is no column {', '.join(missing)}")


def cells(columns: Columns) -> list[Cell]:
    """Make cells of a table, ours or JUmPER's.

    Parameters
    ----------
    columns : dict of str to list
        The table.

    Returns
    -------
    list of Cell
        The cells that have an end.

    Raises
    ------
    ValueError
        A value isn't a number.
    """
    found = []
    for at, end in enumerate(columns["end_time"]):
        if end is None:
            continue
        begin_ns, end_ns = (round(float(time) * 1e9) for time in (columns["start_time"][at], end))
        found.append(
            Cell(
                index=int(columns["cell_index"][at]),
                number=int(_given(columns, "execution_count", at, 0)),
                source=str(columns["raw_cell"][at] or ""),
                source_cut=False,
                begin_ns=begin_ns,
                end_ns=end_ns,
                wall_begin=float(_given(columns, "wallclock_start_time", at, 0)),
                kind=str(_given(columns, "kind", at, "plain")),
                outcome=str(_given(columns, "outcome", at, "ok")),
                pids=[],
                begin=[],
                end=[],
                peak_bytes=0.0,
            )
        )
    return found


def _given(columns: Columns, name: str, at: int, usual: t.Any) -> t.Any:
    value = columns[name][at] if name in columns else None
    return usual if value is None else value


# ---- to look at

_HEAD = ("Cell index", "In", "Duration (s)", "Start Time", "End Time", "Kind", "Outcome", "Code")
_SHOWN_MOST = 60  # characters of a line in the plain text


def rows(cells: t.Sequence[Cell]) -> list[tuple[str, ...]]:
    """Return what is shown of each cell.

    Parameters
    ----------
    cells : sequence of Cell
        The cells.

    Returns
    -------
    list of tuple of str
        For each cell index, prompt, duration in seconds, begin, end, kind, outcome and code.
    """
    return [
        (
            str(cell.index),
            f"[{cell.number}]" if cell.number else "",
            _number(cell.duration),
            _clock(cell.wall_begin),
            _clock(_wall_end(cell)),
            cell.kind,
            cell.outcome,
            cell.source,
        )
        for cell in cells
    ]


def text(cells: t.Sequence[Cell]) -> str:
    """Format cells as plain text, with the first line of each.

    Parameters
    ----------
    cells : sequence of Cell
        The cells.

    Returns
    -------
    str
        A table.
    """
    from holdfast.base.tabular import align

    shown = [_HEAD, *((*row[:-1], _first_line(row[-1])) for row in rows(cells))]
    return "\n".join(align(shown, right=(0, 1, 2)))


def page(cells: t.Sequence[Cell]) -> str:
    """Format cells as HTML: a click on a heading sorts, the field above searches.

    Parameters
    ----------
    cells : sequence of Cell
        The cells.

    Returns
    -------
    str
        A table with its script.
    """
    head = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in _HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{_shown(value, at)}</td>" for at, value in enumerate(row)) + "</tr>"
        for row in rows(cells)
    )
    return (
        f'<div class="holdfast-cells" data-lm-suppress-shortcuts="true"><style>{_STYLE}</style>'
        '<input type="search" placeholder="Search" aria-label="Search">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<script>{_SCRIPT}</script></div>"
    )


def _shown(value: str, at: int) -> str:
    escaped = html.escape(value)
    return f"<pre>{escaped}</pre>" if at == len(_HEAD) - 1 else escaped


def _first_line(source: str) -> str:
    lines = source.strip().splitlines() or [""]
    first = lines[0] if len(lines[0]) <= _SHOWN_MOST else lines[0][: _SHOWN_MOST - 1] + "…"
    return first + (" …" if len(lines) > 1 else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _clock(value: float | None) -> str:
    return "" if value is None else time.strftime("%H:%M:%S", time.localtime(value))


_STYLE = """
.holdfast-cells input { margin-bottom: 4px; }
.holdfast-cells th, .holdfast-cells td { padding: 2px 8px; }
.holdfast-cells th { text-align: left !important; }
.holdfast-cells th button { all: unset; cursor: pointer; font-weight: bold; }
.holdfast-cells th button:focus-visible { outline: 2px solid; }
.holdfast-cells td { text-align: left !important; vertical-align: top; }
.holdfast-cells td:nth-child(-n+3) { text-align: right !important; }
.holdfast-cells pre { margin: 0; max-height: 8em; max-width: 60em; overflow: auto; white-space: pre; }
"""

# When a notebook inserts a script, the last one of the document is the one that runs.
_SCRIPT = """
(() => {
  const here = document.currentScript;
  const boxes = document.querySelectorAll(".holdfast-cells");
  const box = here ? here.closest(".holdfast-cells") : boxes[boxes.length - 1];
  if (!box) return;
  const body = box.querySelector("tbody");
  box.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const row of body.rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  box.querySelectorAll("th button").forEach((head, column) => {
    let sign = -1;
    head.addEventListener("click", () => {
      sign = -sign;
      const key = (row) => row.cells[column].textContent;
      const order = (one, other) =>
        key(one).localeCompare(key(other), undefined, { numeric: true });
      const sorted = [...body.rows].sort((one, other) => sign * order(one, other));
      body.append(...sorted);
    });
  });
})();
"""
