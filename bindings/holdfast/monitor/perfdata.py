"""The samples of a level as a table, and a table as samples again.

A row is a sample. `time` is in seconds of the monotonic clock, as are `start_time` and `end_time` of the cell history.
`cell_index` is the cell in which the sample lies. It is empty between cells. The columns of I/O are totals since the
first sample, as JUmPER documents its own. JUmPER's files of version 0.2 and later have bytes per second under other
names. Both are read. Memory in MB and GB is in units of 2**20 and 2**30 bytes.
"""

from __future__ import annotations

import array
import itertools
import math
import typing as t

from .arguments import CommandError
from .files import Columns
from .sampled import MEGABYTE, Cell, Samples

_CALLS = ("io_read_count", "io_write_count", "io_read_mb", "io_write_mb")
AMOUNTS = (*_CALLS, "disk_read_mb", "disk_write_mb")
GAUGES = ("cpu_util", "memory", "memory_pss", "memory_uss", "gpu_util", "gpu_band", "gpu_mem")
_JUMPER_BYTES = {"io_read_mb": "io_read", "io_write_mb": "io_write"}


def table(samples: Samples, cells: t.Iterable[Cell]) -> Columns:
    """Make a table of samples.

    Parameters
    ----------
    samples : Samples
        The samples of a level.
    cells : iterable of Cell
        The cells, in order.

    Returns
    -------
    dict of str to list
        The columns. `time` is in seconds of the monotonic clock.
    """
    columns: Columns = {
        "time": [time / 1e9 for time in samples.time],
        "cell_index": cell_indexes(samples.time, cells),
    }
    for name in sorted(samples.columns, key=_rank):
        values: t.Iterable[float] = samples.columns[name]
        if samples.kinds[name] == "amount":
            values = itertools.accumulate(values)
        columns[name] = [None if math.isnan(value) else round(value, 6) for value in values]
    return columns


def _rank(name: str) -> tuple[int, str, int]:
    """Sorts memory and I/O before processors and GPUs, and the whole of a metric before its
    parts."""
    head, _, number = name.rpartition("_")
    part = int(number) if number.isdigit() else -1
    kind = head if part >= 0 else name
    order = (*GAUGES[:4], *AMOUNTS, *GAUGES[4:])
    return (order.index(kind) if kind in order else len(order), kind, part)


def cell_indexes(times: t.Iterable[int], cells: t.Iterable[Cell]) -> list[int | None]:
    """Find the cells that ran at some times.

    Parameters
    ----------
    times : iterable of int
        Nanoseconds of the monotonic clock, in order.
    cells : iterable of Cell
        The cells, in order.

    Returns
    -------
    list of int or None
        For each time the index of the cell that ran then, or None.
    """
    rest = iter([*cells])
    cell = next(rest, None)
    found: list[int | None] = []
    for time in times:
        while cell is not None and cell.end_ns is not None and cell.end_ns < time:
            cell = next(rest, None)
        inside = cell is not None and cell.begin_ns < time
        found.append(cell.index if inside and cell is not None else None)
    return found


def check(columns: Columns, path: str) -> None:
    """Check that a table has samples.

    Parameters
    ----------
    columns : dict of str to list
        The table.
    path : str
        Its file, for the message.

    Raises
    ------
    CommandError
        It has none.
    """
    if "time" not in columns:
        raise CommandError(f"{path} has no samples: the column time is missing")
    if not any(name.startswith(("cpu_util", "memory", "io_")) for name in columns):
        raise CommandError(f"{path} has no samples: none of its columns is a metric")


def samples(columns: Columns) -> Samples:
    """Make samples of a table, ours or JUmPER's.

    Columns that have no numbers are left out.

    Parameters
    ----------
    columns : dict of str to list
        The table.

    Returns
    -------
    Samples
        The samples, without a level.

    Raises
    ------
    ValueError
        A value isn't a number, or the times aren't in order.
    """
    times = [round(float(time) * 1e9) for time in columns["time"]]
    if any(later < time for time, later in itertools.pairwise(times)):
        raise ValueError("the samples are not in order")
    widths = columns.get("width")
    if widths is None:
        steps = [later - time for time, later in itertools.pairwise(times)]
        width = [steps[0] if steps else 0, *steps]
    else:
        width = [round(float(value) * 1e9) for value in widths]
    found: dict[str, list[float]] = {}
    for name in columns:
        if name in GAUGES or _is_part(name):
            found[name] = _numbers(columns[name], math.nan)
        elif name.endswith("_avg") and name[:-4] in GAUGES:
            found[name[:-4]] = _numbers(columns[name], math.nan)
    if "memory_usage_gb" in columns:  # JUmPER 0.1
        found["memory"] = _numbers(columns["memory_usage_gb"])
    _add_amounts(columns, width, found)
    return made(times, width, found)


def made(
    times: t.Sequence[int], width: t.Sequence[int], found: t.Mapping[str, t.Sequence[float]]
) -> Samples:
    """Make samples of columns of which the least and the greatest within a row aren't known.

    Parameters
    ----------
    times : sequence of int
        When each row ends, in nanoseconds.
    width : sequence of int
        For how many nanoseconds each row stands.
    found : mapping of str to sequence of float
        The values by metric.

    Returns
    -------
    Samples
        The samples, without a level.
    """

    def numbers(values: t.Iterable[float]) -> memoryview[float]:
        return memoryview(array.array("d", values)).cast("B").cast("d")

    rates = {
        name: numbers(rate(value, step) for value, step in zip(values, width, strict=True))
        for name, values in found.items()
        if name in AMOUNTS
    }
    return Samples(
        level="",
        time=memoryview(array.array("q", times)),
        width=memoryview(array.array("q", width)),
        columns={name: numbers(values) for name, values in found.items()},
        low=rates,
        high=rates,
        kinds={name: "amount" if name in AMOUNTS else "gauge" for name in found},
    )


def rate(amount: float, width: int) -> float:
    """Return an amount per second.

    Parameters
    ----------
    amount : float
        What came in that time.
    width : int
        The time, in nanoseconds.

    Returns
    -------
    float
        The amount per second; 0 if the time is 0.
    """
    return amount * 1e9 / width if width > 0 else 0.0


def _add_amounts(columns: Columns, width: list[int], found: dict[str, list[float]]) -> None:
    rates = "io_read" in columns
    for name in AMOUNTS:
        source = _JUMPER_BYTES.get(name, name) if rates else name
        if source not in columns:
            continue
        values = _numbers(columns[source])
        if rates:
            unit = MEGABYTE if name in _JUMPER_BYTES else 1
            found[name] = [
                value * step / 1e9 / unit for value, step in zip(values, width, strict=True)
            ]
        else:
            # JUmPER 0.1 counts from the start of the process, which isn't in the record.
            first = values[0] if values and "memory_usage_gb" in columns else 0.0
            before = [first, *values[:-1]]
            found[name] = [
                max(value - last, 0.0) for last, value in zip(before, values, strict=True)
            ]


def _is_part(name: str) -> bool:
    head, _, number = name.rpartition("_")
    return number.isdigit() and head in GAUGES


def _numbers(values: t.Iterable[t.Any], unknown: float = 0.0) -> list[float]:
    return [unknown if value is None else float(value) for value in values]
