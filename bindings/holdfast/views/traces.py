"""A trace as it is shown: an archive, the cell that wrote it, and a window of time.

`holdfast._views` reads the archive, once for each window. The result has the form of web/schema/views.json. Its times
are those of the monitor's clock (CLOCK_MONOTONIC), so that samples can be drawn beside the trace. An archive has the
time of day of its begin. It is converted to the monitor's clock by the present difference of both clocks.
"""

from __future__ import annotations

import os
import re
import typing as t
import warnings
from pathlib import Path

from . import comparison, exports, kernel, repeats, sources
from .reading import SLICES, Read, ViewError, Window, archive_path, read
from .reading import LargeExportError  # noqa: F401 - for who exports

if t.TYPE_CHECKING:
    from holdfast.pages import schema

VIEWS = ("timeline", "flame", "callers", "table", "source", "compare")
#: Other names of the views.
ALIASES = {"sandwich": "callers"}
#: The metrics above the timeline, by their names in `%perfmonitor_plot --metrics`. More would leave it no room.
TRACKS = ("cpu", "memory", "io_read", "io_write", "gpu_util", "gpu_mem")
#: The recorder's own flushes are mentioned if they take at least this part of the time.
_FLUSHES_MATTER = 0.02

_CELL = re.compile(r"In\[(\d+)\]")


def _fit(done: Read, window: Window) -> tuple[int, int]:
    """The begin and end of the axis: the first and the last call, unless a window is given. If the
    first call is close to the begin of the trace, the axis begins at 0."""
    rows = [row for row in done.found["rows"] if row["begin"]]
    begin, end = done.begin, done.end
    if rows and window.begin is None:
        begin = min(row["begin"][0] for row in rows)
    if rows and window.end is None:
        last = max(
            start + length
            for row in rows
            for start, length in zip(row["begin"], row["duration"], strict=True)
        )
        end = max(last, begin + 1)
    if begin - done.begin < (end - done.begin) / 50:
        begin = done.begin
    return begin, end


class Trace:
    """One trace, to be shown. A notebook shows it as the view.

    Parameters
    ----------
    place : str or os.PathLike
        The directory of an experiment, or its anchor file.
    run : dict, optional
        What the kernel knows of the cell; see `runs.Run`.
    before : Trace, optional
        What it is compared with.
    sources : mapping of int to str, optional
        The text of cells, by number.
    record : Monitor or Imported, optional
        What was sampled meanwhile. If it is left out: what the monitor of this notebook has.
    slices : int
        How many blocks all rows together may have; shorter calls are joined.

    Attributes
    ----------
    path : pathlib.Path
        The archive's anchor file.
    run : dict or None
        What the kernel knows of the cell; None for a trace of another program.
    before : Trace or None
        What it is compared with.
    sets : tuple of list of Trace, or None
        The runs of which this is the last one, and those that they are compared with, or none; if there are several.
    shown : str
        The view that is shown first.
    window : Window
        The part that is shown.

    Raises
    ------
    ViewError
        There is no trace in this place.
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        *,
        run: schema.Run | None = None,
        before: Trace | None = None,
        sources: t.Mapping[int, str] | None = None,
        record: t.Any = None,
        slices: int = SLICES,
    ):
        self.path = archive_path(place)
        self.run = run
        self.before = before
        self.sets: tuple[list[Trace], list[Trace]] | None = None
        self.doubts: list[str] = []  # doubts whether the user means to compare these runs
        self.shown = "timeline"
        self.window = Window()
        self._sources = sources or {}
        self._record, self._slices = record, slices
        self._read: Read | None = None

    def view(self, view: str, window: Window | None = None) -> Trace:
        """Choose what is shown.

        Parameters
        ----------
        view : {"timeline", "flame", "callers", "table", "source", "compare"}
            What is shown first; "sandwich" is another name of "callers".
        window : Window, optional
            The part that is shown. If it is left out, it stays as it is.

        Returns
        -------
        Trace
            The trace itself.

        Raises
        ------
        ViewError
            There is no such view, nothing to compare with, or the archive can't be read.
        """
        view = ALIASES.get(view, view)
        if view not in VIEWS:
            raise ViewError(f"there is no view {view}; there are {', '.join(VIEWS)}")
        if view == "compare" and self.sets is None:
            self.comparison()
        if view == "source" and self.source() is None:
            why = f"{self.title} has no function of a cell or of a module of your own"
            raise ViewError(why if self.table() else f"{self.title}: {self.emptiness()}")
        self.shown = view
        if window is not None and window != self.window:
            self.window, self._read = window, None
        self.read()  # read it here, so that an error is reported
        return self

    def read(self) -> Read:
        """Read the archive, once for a window.

        Returns
        -------
        Read
            What the archive has in the window.

        Raises
        ------
        ViewError
            The archive can't be read.
        """
        if self._read is None:
            self._read = read(self.path, self.window, self._slices)
        return self._read

    @property
    def title(self) -> str:
        """The trace's name for people.

        Returns
        -------
        str
            For example "cell In[5]", or the directory.
        """
        if self.run is None:
            return str(self.path.parent)
        what = "multi-cell run" if self.run.get("multicell") else "cell"
        return f"{what} In[{self.run['number']}]"

    def table(self) -> list[schema.Function]:
        """Return what each function took.

        Returns
        -------
        list of dict
            For each function `name`, `file`, `line`, `visits`, and `inclusive` and `exclusive` seconds; the
            longest exclusive time first.

        Raises
        ------
        ViewError
            The archive can't be read.
        """
        found = self.read().found
        rows = _rows(found["regions"], found["table"])
        return sorted(rows.values(), key=lambda row: -row["exclusive"])

    def comparison(self) -> list[schema.Compared]:
        """Return what each function took, and what it took in the run before.

        Returns
        -------
        list of dict
            As `table`, with `before` (`visits`, `inclusive` and `exclusive`, all 0 for a new function) and
            `change`, the difference of the exclusive seconds; the largest change first.

        Raises
        ------
        ViewError
            There is no run before, or an archive can't be read.
        """
        if self.before is None:
            raise ViewError(f"{self.title} has no run before it to be compared with")
        found = self.read().found
        previous, regions = comparison.previous(self, self.before, found["regions"])
        now, then = _rows(regions, found["table"]), _rows(regions, previous["table"])
        made: list[schema.Compared] = []
        for region in now | then:
            row = now.get(region) or {**then[region], **_NOTHING}
            before = then.get(region, _NOTHING)
            earlier: schema.Took = {
                "visits": before["visits"],
                "inclusive": before["inclusive"],
                "exclusive": before["exclusive"],
            }
            change = row["exclusive"] - earlier["exclusive"]
            made.append({**row, "before": earlier, "change": change})
        return sorted(made, key=lambda row: -abs(row["change"]))

    def repeats(self) -> schema.Repeats:
        """Compare the sets of runs, or this run with the one before: what differs beyond the noise.

        Returns
        -------
        dict
            The part "repeats" of web/schema/views.json.

        Raises
        ------
        ViewError
            There is no run before, or an archive can't be read.
        """
        if self.sets is not None:
            return repeats.compare(*self.sets)
        if self.before is None:
            raise ViewError(f"{self.title} has no run before it to be compared with")
        return repeats.compare([self], [self.before])

    def source(self) -> schema.Source | None:
        """Return what the lines and functions of the user's own code took.

        Returns
        -------
        dict or None
            The part "source" of web/schema/views.json. Its `kind` is "sampled" if lines were sampled, of the whole
            recording; otherwise "calls", of the window. None if there is no code of the user's own.

        Raises
        ------
        ViewError
            The archive can't be read.
        """
        done = self.read()
        cells = dict(self._sources)
        if self.run is not None and self.run["code"]:
            cells[self.run["number"]] = self.run["code"]
        where = sources.Where(cells, done.wall)
        try:
            found = sources.sampled(self.path.parent, where)
        except OSError as error:
            raise ViewError(f"the lines in {self.path.parent} can't be read: {error}") from error
        return found or sources.called(done.found["regions"], done.found["table"], where)

    def data(self) -> schema.View:
        """Return the data of the view.

        Returns
        -------
        dict
            What web/schema/views.json describes. Times are in nanoseconds of the monitor's clock.

        Raises
        ------
        ViewError
            The archive can't be read.
        """
        done = self.read()
        found = done.found
        begin, end = _fit(done, self.window)
        regions, previous = found["regions"], None
        if self.before is not None:
            previous, regions = comparison.previous(self, self.before, regions)
        cells = [_cell_of(file) for file in regions["file"]]
        data: schema.View = {
            "title": self._heading(),
            "origin": done.origin,
            "begin": begin,
            "end": end,
            "facts": self._facts(),
            "notes": [*self.doubts, *self._notes()],
            "regions": {**regions, "cell": cells},
            "locations": found["rows"],
            "paths": [{"name": "all threads", **found["paths"]}],
            "table": found["table"],
            "cells": self._cells(set(cells) - {0}),
        }
        data["detail"] = kernel.detail(self.path)
        if (source := self.source()) is not None:
            data["source"] = source
        if tracks := self._tracks(begin, end):
            data["tracks"] = tracks
        if done.wall is not None:
            data["wall"] = done.wall + (begin - done.begin) / 1e9
        if previous is not None:
            data["previous"] = previous
            data["seconds"] = comparison.seconds(self)
        if previous is not None or self.sets is not None:
            data["repeats"] = self.repeats()
        return data

    def _heading(self) -> str:
        """The title of the view: that of the run, and the sets that it compares."""
        sets = [repeats.titles(one) for one in self.sets or () if one]
        if not self.sets or max(map(len, self.sets)) == 1:
            return self.title
        return f"{', compared with '.join(sets)}; shown beside: {self.title}"

    def _cells(self, numbers: set[int]) -> list[schema.Cell]:
        """The run, and the texts of the cells whose lines are shown."""
        cells: list[schema.Cell] = []
        if self.run is not None:
            own = self.run
            cells.append(
                {
                    "index": own["number"],
                    "begin": own["begin_ns"],
                    "end": own["end_ns"],
                    "kind": "multi" if own.get("multicell") else "instrumented",
                    "outcome": own["outcome"],
                    "source": self._sources.get(own["number"], own["code"]),
                }
            )
            numbers = numbers - {own["number"]}
        for number in sorted(numbers):
            if number in self._sources:
                cells.append(
                    {"index": number, "begin": 0, "end": 0, "source": self._sources[number]}
                )
        return cells

    def _tracks(self, begin: int, end: int) -> list[schema.Track]:
        """The monitor's samples at that time. None for the trace of another notebook."""
        if self.run is None:
            return []
        from holdfast.monitor import plot, source

        try:
            record = source.connect() if self._record is None else self._record
            samples = record.samples("process", begin, end)
        except (OSError, RuntimeError, LookupError, ValueError):
            return []  # there is no monitor
        drawn = plot.tracks(samples, plot.metrics(TRACKS), begin, end)
        return [track for track in drawn if not track.get("hidden")]

    def _facts(self) -> list[tuple[str, str]]:
        found = self.read().found
        calls = sum(row["calls"] for row in found["rows"])
        known = exports.facts(self.run) if self.run is not None else []
        return [*known, ("calls", f"{calls:,}")]

    def _notes(self) -> list[str]:
        rows = self.read().found["rows"]
        notes = [f"Trace: {self.path.parent}"]
        if pixel := max((row["pixel"] for row in rows), default=0):
            notes.append(
                f"Calls below {exports.time(pixel / 1e6)} are joined; zooming in shows each while the "
                "kernel lives, %trace --range A:B at any time."
            )
        own = {row["name"]: row["exclusive"] for row in self.table()}
        if own.get(repeats.FLUSH, 0.0) >= _FLUSHES_MATTER * sum(own.values()):
            notes.append(
                f"{repeats.FLUSH}: the recorder's memory was full, and was written to the disk meanwhile. "
                "SCOREP_TOTAL_MEMORY gives it more."
            )
        if not own:
            notes.append(self.emptiness())
        if hidden := sum(row["hidden"] for row in rows):
            notes.append(f"{hidden:,} calls lie too deep to be drawn.")
        return notes

    def emptiness(self) -> str:
        """Say why a trace may have no call.

        Returns
        -------
        str
            A sentence.
        """
        if self.window != Window():
            return "No call is in this range."
        return (
            "No call was recorded. With --noinstrumenter (%%scorep_python_binding_arguments) only regions of"
            " scorep.user are; a filter (SCOREP_FILTERING_FILE) leaves functions out."
        )

    def export(self, target: str | os.PathLike[str], *, large: bool = False) -> Path:
        """Write the trace as a file of another program.

        The end of the name chooses the format: ``.speedscope.json`` (speedscope), ``.json`` (Chrome's trace
        events, which Perfetto opens), ``.callgrind`` or ``callgrind.out.*`` (KCachegrind), ``.pstats`` or
        ``.prof`` (pstats, SnakeViz), ``.collapsed`` or ``.folded`` (flamegraph.pl), ``.cubex`` (Cube),
        ``.html`` (this view), ``.svg`` (a still picture).

        Parameters
        ----------
        target : str or os.PathLike
            The file. It is complete, or it isn't there.
        large : bool
            Whether it may take more than 100 MiB, by an estimate.

        Returns
        -------
        pathlib.Path
            Its absolute path.

        Raises
        ------
        LargeExportError
            It would take more, and `large` is false.
        ViewError
            The end of the name isn't known, or the file can't be written.
        """
        path = exports.write(self, Path(target), large)
        if text := exports.too_deep(self, Path(target)):
            warnings.warn(text, stacklevel=2)
        return path

    def _repr_mimebundle_(self, include: t.Any = None, exclude: t.Any = None) -> dict[str, str]:
        from holdfast.pages import page
        from holdfast.views import texts

        made = page.bundle(self.data(), self.shown)
        return made | {"text/plain": f"{made['text/plain']}\n{texts.of(self)}"}


_NOTHING: schema.Took = {"visits": 0, "inclusive": 0.0, "exclusive": 0.0}


def _rows(regions: schema.Regions, table: schema.Table) -> dict[int, schema.Function]:
    """The rows of a table, in seconds, by the number of their region."""
    return {
        region: {
            "name": regions["name"][region],
            "file": regions["file"][region],
            "line": regions["line"][region],
            "visits": table["visits"][i],
            "inclusive": table["inclusive"][i] / 1e9,
            "exclusive": table["exclusive"][i] / 1e9,
        }
        for i, region in enumerate(table["region"])
    }


def _cell_of(file: str) -> int:
    match = _CELL.fullmatch(file)
    return int(match[1]) if match else 0
