"""Turns samples into a plot: tracks over time, with the cells behind them, drawn by holdfast.views.

A plot has all levels that were sampled, and all metrics, so that the page of a saved notebook can show them. `--level`
and `--metrics` choose what it shows at first.

A sample is drawn at its end. The first sample of a period is also drawn at its begin. So a cell of 20 ms, which has one
sample, is a line and not a point.
"""

from __future__ import annotations

import dataclasses
import typing as t

from . import coarse, perfdata, ranges
from .arguments import CommandError
from .sampled import Cell, Samples, State

if t.TYPE_CHECKING:
    from holdfast.pages import schema


@dataclasses.dataclass(frozen=True)
class Track:
    """One plot: the metrics that share a unit.

    Attributes
    ----------
    name, unit : str
        What is shown beside it.
    metrics : dict of str to str
        The name of the line, by metric.
    high : float or None
        The upper end of its axis; None for that of the values.
    parts : str
        What a part of it is called ("core", "GPU"), or "" if it has none.
    """

    name: str
    unit: str
    metrics: dict[str, str]  # metric: the name of its line
    high: float | None = None
    parts: str = ""  # the name of its parts, if it has any: core, GPU


# The system counts all I/O of a process, and so the trace that a recorder writes.
_OURS = ", recorders' included"
_TRACKS = (
    Track("CPU", "%", {"cpu_util": "all"}, high=100, parts="core"),
    Track("Memory", "GB", {"memory": "used", "memory_pss": "PSS", "memory_uss": "USS"}),
    Track(f"I/O{_OURS}", "MB/s", {"io_read_mb": "read", "io_write_mb": "written"}),
    Track(f"Storage{_OURS}", "MB/s", {"disk_read_mb": "read", "disk_write_mb": "written"}),
    Track(f"I/O operations{_OURS}", "1/s", {"io_read_count": "reads", "io_write_count": "writes"}),
    Track("GPU", "%", {"gpu_util": "all"}, high=100, parts="GPU"),
    Track("GPU bandwidth", "%", {"gpu_band": "all"}, high=100, parts="GPU"),
    Track("GPU memory", "GB", {"gpu_mem": "used"}, parts="GPU"),
)
_ALL = [metric for track in _TRACKS for metric in track.metrics]
_GPU = [name for name in _ALL if name.startswith("gpu_")]
_IO = [name for name in _ALL if name.startswith("io_")]

# The names that --metrics takes: our names, and those of JUmPER's plots.
KEYS = {
    **{name: [name] for name in _ALL},
    "cpu": ["cpu_util"],
    "cpu_summary": ["cpu_util"],
    "cpu_all": ["cpu_util"],
    "mem": ["memory", "memory_pss", "memory_uss"],
    "io": _IO,
    "io_read": ["io_read_mb"],
    "io_write": ["io_write_mb"],
    "gpu": _GPU,
    "gpu_all": _GPU,
    "gpu_util_summary": ["gpu_util"],
    "gpu_band_summary": ["gpu_band"],
    "gpu_mem_summary": ["gpu_mem"],
}


def metrics(given: t.Sequence[str] | None) -> list[str]:
    """Find the metrics that words name.

    Parameters
    ----------
    given : sequence of str or None
        Keys of `KEYS`, also several with commas between them. None for all metrics.

    Returns
    -------
    list of str
        The metrics.

    Raises
    ------
    CommandError
        A word isn't known, or there is none.
    """
    if given is None:
        return _ALL
    found: dict[str, None] = {}
    for key in ",".join(given).split(","):
        if not key:
            continue
        if key not in KEYS:
            raise CommandError(f"there is no metric {key}; there are {', '.join(KEYS)}")
        found.update(dict.fromkeys(KEYS[key]))
    if not found:
        raise CommandError("--metrics needs a name")
    return list(found)


def data(
    record: t.Any, level: str, cells: t.Sequence[Cell], wanted: t.Sequence[str]
) -> schema.View:
    """Make the data of a plot of some cells.

    Parameters
    ----------
    record : Monitor or Imported
        The live monitor, or an imported session.
    level : str
        The level that is shown at first.
    cells : sequence of Cell
        The cells, in order; at least one.
    wanted : sequence of str
        The metrics that are shown at first.

    Returns
    -------
    dict
        What `holdfast.pages.page.bundle` takes: see web/schema/views.json.

    Raises
    ------
    CommandError
        There are no samples of these cells, or the level has none of the metrics.
    """
    begin = cells[0].begin_ns
    end = max(cell.end_ns or cell.begin_ns for cell in cells)
    state = record.state()
    found = {name: record.samples(name, begin, end) for name in state["levels"]}
    samples = found[level]
    if not len(samples):
        raise CommandError(
            "there are no samples of that: start the monitor with %perfmonitor_start"
        )
    if not any(metric in samples.columns for metric in wanted):
        raise CommandError(f"the level {level} has none of {', '.join(wanted)}")
    begin = max(begin, samples.time[0] - samples.width[0])
    cells = [cell for cell in cells if (cell.end_ns or begin) >= begin]
    drawn = []
    for one in found.values():
        rows = coarse.joined(one, coarse.pixel(one, end - begin), cells)
        drawn += tracks(rows, wanted, begin, end)
    return {
        "title": f"Performance of {ranges.names(cells)}",
        "level": level,
        "begin": begin,
        "end": max(end, begin + 1),
        "wall": cells[0].wall_begin + (begin - cells[0].begin_ns) / 1e9,
        "facts": [("duration", f"{(end - begin) / 1e9:.2f} s"), *_facts(state)],
        "cells": [described(cell) for cell in cells],
        "tracks": drawn,
    }


def _facts(state: State) -> list[tuple[str, str]]:
    facts = []
    if state.get("interval"):
        facts.append(("a sample every", f"{state['interval']:g} s"))
    if state.get("missed"):
        facts.append(("missed", str(state["missed"])))
    return facts


def described(cell: Cell) -> schema.Cell:
    """Describe a cell for the views.

    Parameters
    ----------
    cell : Cell
        The cell.

    Returns
    -------
    dict
        Its `index` is the number in its prompt.
    """
    return {
        "index": cell.number,
        "begin": cell.begin_ns,
        "end": cell.end_ns,
        "kind": cell.kind,
        "outcome": cell.outcome,
        "source": cell.source,
    }


def tracks(
    samples: Samples, wanted: t.Sequence[str], begin: int | None = None, end: int | None = None
) -> list[schema.Track]:
    """Make the tracks of a level.

    Metrics that aren't wanted are hidden: a whole track, or a line of one.

    Parameters
    ----------
    samples : Samples
        The samples of a level.
    wanted : sequence of str
        The metrics that are shown at first.
    begin : int, optional
        If the first sample is later than this, in nanoseconds, its values stand here, too.
    end : int, optional
        No time is later than this, in nanoseconds.

    Returns
    -------
    list of dict
        The tracks: see web/schema/views.json.
    """
    times = [time if end is None else min(time, end) for time in samples.time]
    if not times:
        return []
    lead = begin is not None and begin < times[0]
    if lead:
        times = [begin, *times]
    drawn: list[schema.Track] = []
    for track in _TRACKS:
        series = []
        shows = any(metric in wanted for metric in track.metrics)
        for metric, name in track.metrics.items():
            if metric in samples.columns:
                hides = shows and metric not in wanted
                series.append(_series(samples, metric, name, lead, hides))
                if track.parts:
                    series += _parts(samples, metric, track.parts, lead)
        if series:
            made: schema.Track = {"name": track.name, "time": times, "series": series}
            made |= {"level": samples.level, "unit": track.unit, "low": 0}
            if track.high is not None:
                made["high"] = track.high
            if not shows:
                made["hidden"] = True
            drawn.append(made)
    return drawn


def _parts(samples: Samples, metric: str, called: str, lead: bool) -> list[schema.Series]:
    """The lines of single processors or GPUs. They are drawn if the user asks for them."""
    found = []
    number = 0
    while f"{metric}_{number}" in samples.columns:
        found.append(_series(samples, f"{metric}_{number}", f"{called} {number}", lead, True))
        number += 1
    return found if number > 1 else []


def _series(samples: Samples, metric: str, name: str, lead: bool, hides: bool) -> schema.Series:
    values = list(samples.columns[metric])
    if samples.kinds[metric] == "amount":
        pairs = zip(values, samples.width, strict=True)
        values = [perfdata.rate(value, width) for value, width in pairs]
    first = 1 if lead else 0  # how many times the first value is drawn
    made: schema.Series = {"name": name, "values": values[:first] + values}
    if hides:
        made["hidden"] = True
    if metric in samples.low:
        low, high = list(samples.low[metric]), list(samples.high[metric])
        if not low == values == high:  # else there is no band: a row is one sample
            made |= {"min": low[:first] + low, "max": high[:first] + high}
    return made
