"""Reduces samples to what a plot can show: rows that are narrower than a pixel are joined.

A plot contains the samples of every level, and a notebook keeps the plot. So a level has no more rows than a page has
columns. It has fewer if each row has many numbers (a machine with many cores). Rows are joined as the monitor joins
its own (monitor/series.c): amounts are added, gauges are averaged by width, and the least and the greatest values are
kept. Rows of different cells aren't joined: a cell of milliseconds in a session of hours has a row of its own.
"""

from __future__ import annotations

import array
import bisect
import itertools
import math
import typing as t

from .sampled import Cell, Samples

_ROWS = 1000  # about as many as a page has columns
_NUMBERS = 40_000  # of all columns together
_FEWEST = 200
_CELLS = 300  # the newest: more have no room of their own


def pixel(samples: Samples, span_ns: int) -> int:
    """Return the width below which a plot joins rows.

    Parameters
    ----------
    samples : Samples
        The rows.
    span_ns : int
        Nanoseconds that the plot shows.

    Returns
    -------
    int
        Nanoseconds.
    """
    rows = min(_ROWS, _NUMBERS // max(len(samples.columns), 1))
    return span_ns // max(rows, _FEWEST)


def joined(samples: Samples, pixel_ns: int, cells: t.Sequence[Cell] = ()) -> Samples:
    """Join rows so that they are about as wide as a pixel.

    Parameters
    ----------
    samples : Samples
        The rows.
    pixel_ns : int
        The width, in nanoseconds.
    cells : sequence of Cell
        Their edges stay edges of rows.

    Returns
    -------
    Samples
        The same if all rows are wider.
    """
    groups = list(_groups(samples, pixel_ns, _edges(cells)))
    if len(groups) == len(samples):
        return samples
    widths = samples.width

    def mean(values: t.Sequence[float], first: int, end: int) -> float:
        known = [(values[i], widths[i]) for i in range(first, end) if not math.isnan(values[i])]
        weight = sum(width for _, width in known)
        if weight:
            return sum(value * width for value, width in known) / weight
        return known[0][0] if known else math.nan

    def total(values: t.Sequence[float], first: int, end: int) -> float:
        return sum(values[first:end])

    def made(values: t.Sequence[float], join: t.Callable[..., float]) -> memoryview[float]:
        return memoryview(array.array("d", [join(values, *group) for group in groups]))

    whole = {name for name in samples.columns if not name[-1:].isdigit()}
    ranged = {name for name in whole if name in samples.low or samples.kinds[name] == "gauge"}
    lows, highs = ({**samples.columns, **given} for given in (samples.low, samples.high))
    return Samples(
        level=samples.level,
        time=memoryview(array.array("q", [samples.time[end - 1] for _, end in groups])),
        width=memoryview(array.array("q", [sum(widths[first:end]) for first, end in groups])),
        columns={
            name: made(values, total if samples.kinds[name] == "amount" else mean)
            for name, values in samples.columns.items()
        },
        low={name: made(lows[name], _least) for name in ranged},
        high={name: made(highs[name], _greatest) for name in ranged},
        kinds=samples.kinds,
    )


def _least(values: t.Sequence[float], first: int, end: int) -> float:
    return min(itertools.filterfalse(math.isnan, values[first:end]), default=math.nan)


def _greatest(values: t.Sequence[float], first: int, end: int) -> float:
    return max(itertools.filterfalse(math.isnan, values[first:end]), default=math.nan)


def _edges(cells: t.Sequence[Cell]) -> list[int]:
    """The times at which cells begin and end, in their order."""
    newest = cells[-_CELLS:]
    ends = (cell.end_ns for cell in newest if cell.end_ns is not None)
    return sorted({*(cell.begin_ns for cell in newest), *ends})


def _groups(samples: Samples, pixel_ns: int, edges: list[int]) -> t.Iterator[tuple[int, int]]:
    """The rows that become one: the first, and the one after the last."""
    first, room, edge = 0, 0, -1
    for i, (time, width) in enumerate(zip(samples.time, samples.width, strict=True)):
        behind = bisect.bisect_left(edges, time)
        if i > first and (width > room or behind != edge or not width):
            yield first, i
            first = i
        if i == first:
            room, edge = pixel_ns, behind
        room -= width
    if len(samples):
        yield first, len(samples)
