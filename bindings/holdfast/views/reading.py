"""Reads a window of a recorded trace: rows of calls, the table, paths, on the monitor's clock."""

from __future__ import annotations

import os
import re
import time
import typing as t
from array import array
from pathlib import Path

from holdfast.scorep import experiments

from .waiting import waits

if t.TYPE_CHECKING:
    from holdfast.pages import schema

SLICES = 100_000

_MARKED = re.compile(r"<multi-cell position (\d+)>")


class ViewError(Exception):
    """The trace or the view can't be shown. The text is one line for people."""


class LargeExportError(ViewError):
    """The file would be very large, and nobody has said that it may be."""


class Window(t.NamedTuple):
    """A part of a trace.

    Attributes
    ----------
    begin, end : float or None
        Seconds since the trace's begin; None for its own begin or end.
    """

    begin: float | None = None
    end: float | None = None


class Read(t.NamedTuple):
    """The data that was read of an archive, and its place in time.

    Attributes
    ----------
    found : dict
        What `_views.read` returns, with its columns as arrays.
    origin : int
        When the trace begins, in nanoseconds of the monitor's clock (``CLOCK_MONOTONIC``).
    begin, end : int
        The window, on the same clock.
    wall : float or None
        Seconds since 1970 at `begin`; None if the archive doesn't say.
    """

    found: schema.Archive
    origin: int  # when the trace begins, in ns of the monitor's clock
    begin: int
    end: int
    wall: float | None  # seconds since 1970 at begin


def archive_path(place: str | os.PathLike[str]) -> Path:
    """Find the anchor file of an archive.

    Parameters
    ----------
    place : str or os.PathLike
        The directory of an experiment, or the file itself.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ViewError
        There is none.
    """
    path = Path(place)
    experiments.await_trace(str(path if path.is_dir() else path.parent))
    if path.is_dir():
        anchor = path / "traces.otf2"
        if not anchor.is_file() and any(path.glob("profile.*")):
            raise ViewError(
                f"{path} has a profile but no trace; set SCOREP_ENABLE_TRACING=true to record one"
            )
        path = anchor
    if not path.is_file():
        raise ViewError(f"there is no trace {path}")
    return path


def reader() -> t.Any:
    """Give the extension that reads archives.

    Returns
    -------
    module
        `holdfast._views`.

    Raises
    ------
    ViewError
        This is built without it.
    """
    try:
        from holdfast import _views
    except ImportError as error:
        raise ViewError(f"traces can't be read, this is built without OTF2 ({error})") from error
    return _views


def _column(raw: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(raw)
    return numbers


def _columns(item: t.Mapping[str, t.Any]) -> t.Any:
    done = {
        name: _column(value) if isinstance(value, bytes) else value for name, value in item.items()
    }
    if "costs" in item:
        done["costs"] = _columns(item["costs"])
    return done


def _named(rows: list[schema.Row]) -> list[schema.Row]:
    """Add the name of the machine to each process, if there are several machines."""
    if len({row["host"] for row in rows}) < 2:
        return rows
    return [{**row, "process": f"{row['process']} on {row['host']}"} for row in rows]


def read(path: Path, window: Window, slices: int = SLICES) -> Read:
    """Read a window of an archive.

    Parameters
    ----------
    path : pathlib.Path
        The anchor file.
    window : Window
        The window.
    slices : int
        How many blocks all rows together may have; shorter calls are joined.

    Returns
    -------
    Read
        What the archive has.

    Raises
    ------
    ViewError
        The window is empty or behind the trace's end, or the archive can't be read.
    """
    if window.begin is not None and window.end is not None and window.end <= window.begin:
        raise ViewError(f"the range {window.begin:g}:{window.end:g} is empty")
    offset = time.time_ns() - time.monotonic_ns()
    archive = reader()
    try:
        length, realtime = archive.span(path)
        origin = max(realtime - offset, 0) if realtime else 0
        found = archive.read(path, begin=window.begin, end=window.end, origin=origin, slices=slices)
    except (ValueError, OSError) as error:
        raise ViewError(f"{path} can't be read: {error}") from error
    if window.begin is not None and window.begin * 1e9 > length:
        raise ViewError(f"the trace is {length / 1e9:.3f} s long; nothing is after that")
    first = origin + round((window.begin or 0) * 1e9)
    last = origin + (length if window.end is None else min(round(window.end * 1e9), length))
    wall = realtime / 1e9 + (window.begin or 0) if realtime else None
    for part in ("table", "paths"):
        found[part] = _columns(found[part])
    found["rows"] = _named([_columns(row) for row in found["rows"]])
    regions = found["regions"]
    _name_marked_cells(regions)
    known = zip(regions["waits"], regions["name"], strict=True)
    regions["waits"] = [waiting or waits(name) for waiting, name in known]
    return Read(found, origin, first, max(last, first + 1), wall)


def _name_marked_cells(regions: schema.Regions) -> None:
    """Give cells that multi-cell mode runs (kernel/commands/multicell.c) the names that the user
    knows."""
    for at, (name, file) in enumerate(zip(regions["name"], regions["file"], strict=True)):
        if name == "__main__:_holdfast_multicell":
            regions["name"][at], regions["file"][at] = "multi-cell mode: compiling, printing", ""
            regions["line"][at] = 0
        elif name.endswith(":<module>") and (marked := _MARKED.fullmatch(file)):
            regions["name"][at] = f"marked cell [{marked[1]}]"
