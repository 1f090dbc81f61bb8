"""The recorded cells of a report: where their traces are, their longest functions, their views."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .running import CellCost, Execution

if TYPE_CHECKING:
    from holdfast.pages.schema import Function, Run, View


FUNCTIONS = 10
#: Blocks of one cell's timeline: a tenth of what a notebook gets, since a page has many cells.
_SLICES = 10_000


@dataclass
class Recorded:
    """The parts that are shown of a recorded cell.

    Attributes
    ----------
    archive : pathlib.Path
        The anchor file of its trace.
    functions : list of dict
        The longest functions by their own time; see `Trace.table`.
    others : int
        How many more there are.
    still, output : str
        Its view as `page.parts` makes it; both empty if there is none.
    trouble : str
        Why the trace can't be read, or "".
    is_kept : bool
        Whether the trace is still there.
    """

    archive: Path
    functions: list[Function] = field(default_factory=list)
    others: int = 0
    still: str = ""
    output: str = ""
    trouble: str = ""
    is_kept: bool = True


def trace_archive(cost: CellCost, directory: Path) -> Path | None:
    """Return the OTF2 archive of a recorded cell.

    Parameters
    ----------
    cost : CellCost
        What was measured of the cell.
    directory : pathlib.Path
        The directory in which the notebook ran.

    Returns
    -------
    pathlib.Path or None
        The anchor file, or None if the cell has no trace.
    """
    named = cost.kernel.get("trace")
    if not named:
        return None
    path = directory / named
    return path / "traces.otf2" if path.is_dir() else path


def trace_lines(archive: Path, count: int) -> list[str]:
    """Print the beginning of an archive with ``otf2-print``.

    Parameters
    ----------
    archive : pathlib.Path
        The anchor file, ``traces.otf2``.
    count : int
        How many lines are returned at most.

    Returns
    -------
    list of str
        The first lines.

    Raises
    ------
    FileNotFoundError
        There is no otf2-print.
    subprocess.CalledProcessError
        It can't read the archive.
    """
    program = shutil.which("otf2-print")
    if program is None:
        raise FileNotFoundError("otf2-print (on Debian in the package otf2-tools)")
    done = subprocess.run([program, str(archive)], check=True, text=True, capture_output=True)
    return done.stdout.splitlines()[:count]


def read(done: Execution, known: dict[int, Recorded] | None = None) -> dict[int, Recorded]:
    """Read the traces of an execution.

    A trace that was written into the directory of an earlier one has replaced it: the earlier cell gets
    this as its trouble, and not the other's figures.

    Parameters
    ----------
    done : Execution
        What was measured.
    known : dict of int to Recorded, optional
        What was read of it before.

    Returns
    -------
    dict of int to Recorded
        By the number of the cell, of those that were recorded.
    """
    archives = {
        cost.number: archive
        for cost in done.costs
        if (archive := trace_archive(cost, done.directory)) is not None
    }
    last = {archive: number for number, archive in archives.items()}
    sources = {cost.count: cost.source for cost in done.costs if cost.count is not None}
    found = {}
    for cost in done.costs:
        if cost.number not in archives:
            continue
        archive = archives[cost.number]
        before = (known or {}).get(cost.number)
        if last[archive] != cost.number:
            why = f"cell {last[archive]} was recorded into the same place"
            found[cost.number] = Recorded(archive, trouble=why)
        elif before is not None and not before.trouble:
            found[cost.number] = before
        else:
            found[cost.number] = Recorded(archive)
            _fill(found[cost.number], cost, done, sources)
    return found


def keep_within(most_bytes: int, done: Execution, recorded: dict[int, Recorded]) -> None:
    """Remove traces that were read, the largest first, until all others together are small enough.

    A trace stays if a person named its place, or put something into it.

    Parameters
    ----------
    most_bytes : int
        How large they may be together; 0: there is no limit.
    done : Execution
        What was measured.
    recorded : dict of int to Recorded
        What was read of it. What is removed is noted there.
    """
    from holdfast.scorep import experiments

    bytes_ = {
        str(found.archive.parent): cost.bytes_trace
        for cost in done.costs
        if (found := recorded.get(cost.number)) is not None
        and found.is_kept
        and experiments.is_automatic(str(found.archive.parent))
    }
    total = sum(bytes_.values())
    for directory in sorted(bytes_, key=bytes_.__getitem__, reverse=True):
        if not most_bytes or total <= most_bytes:
            break
        if not experiments.others(directory):
            experiments.remove(directory)
            total -= bytes_[directory]
    for found in recorded.values():
        found.is_kept = found.is_kept and found.archive.parent.exists()


def _fill(found: Recorded, cost: CellCost, done: Execution, sources: dict[int, str]) -> None:
    from holdfast.pages import page
    from holdfast.views.traces import Trace, ViewError

    try:
        trace = Trace(
            found.archive,
            run=_run(cost, found.archive),
            sources=sources,
            record=done.record,
            slices=_SLICES,
        )
        table = trace.table()
        found.functions, found.others = table[:FUNCTIONS], len(table) - FUNCTIONS
        found.still, found.output = page.parts(trace.data())
    except ViewError as error:
        found.trouble = str(error)


def _run(cost: CellCost, archive: Path) -> Run | None:
    """The monitor's samples for the cell's views; none for a cell that the monitor doesn't know."""
    cell = cost.monitored
    if cell is None or cell.end_ns is None or cost.count is None:
        return None
    return {
        "number": cost.count,
        "code": cost.source,
        "trace": str(archive),
        "outcome": cell.outcome,
        "multicell": cell.kind == "multi",
        "begin_ns": cell.begin_ns,
        "end_ns": cell.end_ns,
        "wall": cell.wall_begin,
        "cost": cost.kernel,
    }


def overview(done: Execution) -> View | None:
    """Return what the monitor sampled over the whole run.

    Parameters
    ----------
    done : Execution
        What was measured.

    Returns
    -------
    dict or None
        The data of a view; None if the monitor didn't run.
    """
    from holdfast.monitor import plot
    from holdfast.monitor.arguments import CommandError
    from holdfast.views.traces import TRACKS

    cells = [cost.monitored for cost in done.costs if cost.monitored is not None]
    if done.record is None or not cells:
        return None
    try:
        return plot.data(done.record, "process", cells, plot.metrics(TRACKS))
    except (CommandError, LookupError):
        return None  # there are no samples
