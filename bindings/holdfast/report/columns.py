"""The columns of a cell, with their meanings: one table, for the text and for the page."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from holdfast.base import tabular

from .running import CellCost


class Column(NamedTuple):
    """A column of the table of cells.

    Attributes
    ----------
    head : str
        What stands above it.
    meaning : str
        What it means: a sentence without its full stop.
    text : callable
        The text for a `CellCost`.
    value : callable or None
        The number by which it is sorted; None for a column of texts.
    """

    head: str
    meaning: str
    text: Callable[[CellCost], str]
    value: Callable[[CellCost], float | None] | None = None


def show_bytes(count: float | None) -> str:
    """Format a number of bytes.

    Parameters
    ----------
    count : float or None
        Bytes, or None if they aren't known.

    Returns
    -------
    str
        For example "12 B", "3.4 MiB", or "-".
    """
    return "-" if count is None else tabular.size(count)


def show_ms(value: float | None) -> str:
    """Format a time.

    Parameters
    ----------
    value : float or None
        Milliseconds, or None if they aren't known.

    Returns
    -------
    str
        For example "12.3", or "-".
    """
    return "-" if value is None else f"{value:.1f}"


def _times(head: str, meaning: str, value: Callable[[CellCost], float | None]) -> Column:
    return Column(head, meaning, lambda cost: show_ms(value(cost)), value)


def _bytes(head: str, meaning: str, value: Callable[[CellCost], float | None]) -> Column:
    return Column(head, meaning, lambda cost: show_bytes(value(cost)), value)


def recording_ms(cost: CellCost) -> float | None:
    """Return what recording a cell cost.

    Parameters
    ----------
    cost : CellCost
        The cell.

    Returns
    -------
    float or None
        Milliseconds; None if it wasn't recorded, or if it wasn't measured.
    """
    return cost.kernel.get("recorder_ms") or None


#: The columns, in their order.
COLUMNS = (
    Column("", "the cell's place among the notebook's code cells", lambda cost: str(cost.number)),
    Column("cell", "its first line", lambda cost: cost.title[:32]),
    Column(
        "kind",
        "instrumented: it was recorded, and has a trace; isolated: it ran in a process of its own",
        lambda cost: cost.kind,
    ),
    Column(
        "ran",
        "which process ran it: plain and in-process: the notebook's own; forked: a fork of that;"
        " isolated: a clean one",
        lambda cost: cost.run,
    ),
    Column("ended", "ok, error, or died: it ended its process", lambda cost: cost.status),
    _times(
        "ms",
        "wall time, from the request to the end of the outputs, measured by the client",
        lambda cost: cost.ms,
    ),
    _times(
        "cpu ms",
        "processor time of the cell's code: all threads, and the processes it started",
        lambda cost: cost.cpu_ms,
    ),
    _bytes(
        "peak",
        "the most resident memory of the process that ran it; for a plain cell the most that was seen at"
        " its begin, at its end and in samples, or the process's peak if the cell has raised it",
        lambda cost: cost.bytes_peak,
    ),
    _times(
        "rec ms",
        "the part of the cell's time that recording took, estimated from the cost of an event on this"
        " machine; - if nothing was recorded or it wasn't measured",
        recording_ms,
    ),
    _times(
        "in ms",
        "the hand-over to the cell, before its code began",
        lambda cost: cost.kernel.get("hand_over_in_ms"),
    ),
    _times(
        "out ms",
        "the hand-over back, after its code had ended, with the writing of its trace",
        lambda cost: cost.kernel.get("hand_over_out_ms"),
    ),
    _bytes(
        "mapped",
        "memory that the cell's process mapped without a copy",
        lambda cost: cost.kernel.get("bytes_mapped"),
    ),
    _bytes(
        "copied",
        "memory that was copied into the store, before the cell and after it",
        lambda cost: cost.kernel.get("bytes_copied"),
    ),
)


def longest_first(costs: Iterable[CellCost]) -> list[CellCost]:
    """Sort cells by their time.

    Parameters
    ----------
    costs : iterable of CellCost
        The cells.

    Returns
    -------
    list of CellCost
        The longest first.
    """
    return sorted(costs, key=lambda cost: -cost.ms)


def format_table(costs: Iterable[CellCost]) -> str:
    """Format the costs as a table, the longest first.

    Parameters
    ----------
    costs : iterable of CellCost
        What `run_notebook` returned.

    Returns
    -------
    str
        Two lines of head and one line for each cell.
    """
    rows = [tuple(column.head for column in COLUMNS)]
    rows += [tuple(column.text(cost) for column in COLUMNS) for cost in longest_first(costs)]
    left = [at for at, column in enumerate(COLUMNS) if at and column.value is None]
    return align(rows, left)


def meanings() -> str:
    """Say what the columns mean.

    Returns
    -------
    str
        A line for each column that has a head.
    """
    named = [column for column in COLUMNS if column.head]
    width = max(len(column.head) for column in named)
    return "\n".join(f"{column.head:{width}}  {column.meaning}" for column in named)


def align(rows: Sequence[Sequence[str]], left: Container[int] = ()) -> str:
    """Format rows of texts in aligned columns.

    Parameters
    ----------
    rows : sequence of sequence of str
        The rows, of equal length. The first is the head.
    left : container of int
        The indexes of the columns that are flush left; the others are flush right.

    Returns
    -------
    str
        One line for each row, and a line below the head.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [column for column in range(len(widths)) if column not in left]
    head, *lines = tabular.align(rows, right)
    return "\n".join([head, "  ".join("-" * width for width in widths), *lines])
