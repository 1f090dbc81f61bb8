"""Samples: cells, the rows of a level, and the figures of a stretch of time.

Times are nanoseconds of the monotonic clock. Processor use is per cent of all cores that may be used. Memory is in GB of
2**30 bytes, data read and written in MB of 2**20. Memory is resident memory: the private pages of all processes together,
and of the pages of files and shared memory the largest share that one process has. `io_...` counts the bytes that
system calls moved, cached or not, and `disk_...` those that came from storage or went there.

Figures that are computed from rows are as exact as the rows at the ends of the period. If the period begins and ends
with a cell, the readings that were taken there replace them (`exact`).
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

LEVELS = ("process", "user", "system", "slurm")
GIGABYTE = 2.0**30
MEGABYTE = 2.0**20
# Columns that a reading has, too: the column, the key of the reading, and the size of the column's
# unit.
_AMOUNTS = (
    ("io_read_count", "io_read_count", 1.0),
    ("io_write_count", "io_write_count", 1.0),
    ("io_read_mb", "io_read_bytes", MEGABYTE),
    ("io_write_mb", "io_write_bytes", MEGABYTE),
    ("disk_read_mb", "disk_read_bytes", MEGABYTE),
    ("disk_write_mb", "disk_write_bytes", MEGABYTE),
)

# Columns that have a value at each moment: the column, and the key of the reading, which is in
# bytes.
_MOMENTS = (("memory", "memory_bytes"), ("memory_pss", "pss_bytes"), ("memory_uss", "uss_bytes"))

Figures = tuple[float | None, float | None, float | None, float | None]


class State(t.TypedDict, total=False):
    """How the sampling goes: see `source.Monitor.state`. An archive may lack a part."""

    running: bool
    interval: float
    samples: int
    missed: int
    cost_ns: float
    cost_share: float
    level_cost_ns: dict[str, float]
    begin_ns: int | None
    end_ns: int | None
    wall_begin: float | None
    levels: list[str]
    pids: list[int]


class Gpu(t.TypedDict):
    """A GPU; its memory in GB."""

    name: str
    memory: float


class Resources(t.TypedDict, total=False):
    """The machine's resources: see `source.Monitor.resources`. An archive may lack a part."""

    host: str
    cores: float
    machine_cores: int
    memory: float
    memory_limit: float
    memory_limit_source: str
    memory_limits: dict[str, float]
    slurm_job: str | None
    slurm_limit: float | None
    slurm_limit_source: str
    gpus: list[Gpu]
    gpu_trouble: str
    levels: list[str]


class Reading(t.TypedDict):
    """The use of a level at one moment.

    `memory_bytes` is what it used then; likewise `pss_bytes` and `uss_bytes`, NaN if it wasn't weighed.
    """

    time_ns: int
    cpu_seconds: float
    memory_bytes: float
    pss_bytes: float
    uss_bytes: float
    io_read_count: float
    io_write_count: float
    io_read_bytes: float
    io_write_bytes: float
    disk_read_bytes: float
    disk_write_bytes: float


class Edges(t.TypedDict):
    """The readings at both ends of a stretch, and the peak of memory between, in bytes."""

    begin: Reading | None
    end: Reading | None
    peak: float


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell that ran, or runs.

    Attributes
    ----------
    index : int
        Counted from 0 over all cells of the session.
    number : int
        Its execution count.
    source : str
        Its code.
    source_cut : bool
        Whether `source` is only the beginning.
    begin_ns, end_ns : int
        When its code began and ended, in nanoseconds of the monotonic clock; `end_ns` is None while it
        runs.
    wall_begin : float
        Seconds since 1970 at `begin_ns`.
    kind : {"plain", "instrumented", "isolated", "multi"}
        How it ran; "multi" is several marked cells, instrumented as one.
    outcome : {"running", "ok", "error", "interrupted", "died"}
        How it ended.
    pids : list of int
        The process that ran it, then others that counted; a few at most.
    begin, end : list of Reading or None
        What each level had used by then, in the order of `LEVELS`; see `Monitor.summary` for their
        differences.
    peak_bytes : float
        The most resident memory of its process while it ran, in bytes; 0 if that isn't known, since the
        process had more before.
    begin_bytes, end_bytes : float
        The resident memory of its process when its code began and ended, in bytes; 0 if that isn't
        known.
    """

    index: int
    number: int
    source: str
    source_cut: bool
    begin_ns: int
    end_ns: int | None
    wall_begin: float
    kind: str
    outcome: str
    pids: list[int]
    begin: list[Reading | None]
    end: list[Reading | None]
    peak_bytes: float
    begin_bytes: float = 0.0
    end_bytes: float = 0.0

    @property
    def duration(self) -> float | None:
        """How long the cell ran.

        Returns
        -------
        float or None
            Seconds; None while it runs.
        """
        return None if self.end_ns is None else (self.end_ns - self.begin_ns) / 1e9


@dataclasses.dataclass(frozen=True)
class Samples:
    """A level's rows, oldest first.

    Attributes
    ----------
    level : str
        The level, one of `LEVELS`, or "" for those of a file.
    time : memoryview of int64, shape (rows,)
        When each row ends, in nanoseconds of the monotonic clock.
    width : memoryview of int64, shape (rows,)
        A row stands for so many nanoseconds before `time`; 0 for the first after a
        start, of which only the memory means something.
    columns : dict of str to memoryview of float64, shape (rows,)
        By metric. A gauge's mean, or an amount's sum over the row's width; NaN if it wasn't known.
    low, high : dict of str to memoryview of float64, shape (rows,)
        The least and the greatest sample that a row stands for; of amounts per second. NaN if
        a row was too narrow for that.
    kinds : dict of str to {"gauge", "amount"}
        By metric.
    """

    level: str
    time: memoryview
    width: memoryview
    columns: dict[str, memoryview[float]]
    low: dict[str, memoryview[float]]
    high: dict[str, memoryview[float]]
    kinds: dict[str, str]

    def __len__(self) -> int:
        return len(self.time)


def of_rows(samples: Samples, name: str, begin_ns: int, end_ns: int) -> Figures | None:
    """Compute the figures of one metric in a stretch of time from its rows.

    A row that reaches over an edge counts by the part that is inside.

    Parameters
    ----------
    samples : Samples
        The rows that lie in the stretch.
    name : str
        The metric.
    begin_ns, end_ns : int
        The stretch, in nanoseconds of the monotonic clock.

    Returns
    -------
    tuple of float or None
        Mean, least, greatest and total; of an amount the first three are per second, and a gauge has no
        total. None if nothing is known.
    """
    amount = samples.kinds[name] == "amount"
    values = samples.columns[name]
    lows, highs = samples.low.get(name, values), samples.high.get(name, values)
    total = weight = plain = 0.0
    known = 0
    least, greatest = math.inf, -math.inf
    for i, (time_ns, width) in enumerate(zip(samples.time, samples.width, strict=True)):
        if math.isnan(values[i]):  # a GPU's, before the driver has answered
            continue
        known += 1
        inside = min(time_ns, end_ns) - max(time_ns - width, begin_ns)
        part = inside / width if width else 0.0
        if width:
            total += values[i] * (part if amount else inside)
            weight += inside
        plain += values[i]
        least, greatest = min(least, lows[i]), max(greatest, highs[i])  # NaN is passed over
    if not known:
        return None
    if amount:
        mean = total / weight * 1e9 if weight else 0.0
    else:
        mean = total / weight if weight else plain / known
    if least > greatest:
        least = greatest = mean
    return (mean, min(least, mean), max(greatest, mean), total if amount else None)


def exact(figures: dict[str, Figures | None], edges: Edges, cores: float) -> None:
    """Replace figures of rows by what the readings at both edges say.

    Parameters
    ----------
    figures : dict of str to tuple
        The figures of each metric, as `of_rows` returns them. They are changed.
    edges : Edges
        The readings. Nothing happens if one is missing.
    cores : float
        How many processors are all of them, for the use in per cent.
    """
    begin, end = edges["begin"], edges["end"]
    if begin is None or end is None:
        return
    seconds = (end["time_ns"] - begin["time_ns"]) / 1e9
    used = end["cpu_seconds"] - begin["cpu_seconds"]
    if seconds > 0:
        figures["cpu_util"] = _around(
            figures.get("cpu_util"), min(100.0, 100 * used / seconds / cores), None
        )
        for column, key, unit in _AMOUNTS:
            amount = (end[key] - begin[key]) / unit  # type: ignore[literal-required]
            figures[column] = _around(figures.get(column), amount / seconds, amount)
    figures["cpu_seconds"] = (None, None, None, used)
    for column, key in _MOMENTS:
        values = [edge[key] / GIGABYTE for edge in (begin, end)]  # type: ignore[literal-required]
        known = [value for value in values if not math.isnan(value)]
        if known:
            mean, least, greatest, _ = figures.get(column) or (
                sum(known) / len(known),
                *known[:1] * 3,
            )
            figures[column] = (mean, min(least, *known), max(greatest, *known), None)
    mean, least, greatest, _ = figures["memory"]
    figures["memory"] = (mean, least, max(greatest, edges["peak"] / GIGABYTE), None)


def _around(found: Figures | None, mean: float, total: float | None) -> Figures:
    least, greatest = (mean, mean) if found is None else t.cast(tuple, found[1:3])
    return (mean, min(least, mean), max(greatest, mean), total)
