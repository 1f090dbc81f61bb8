"""Compares several recordings with several others: medians, ranges, and whether they differ.

One run says nothing about the noise: the next run of the same code takes another time. With several runs on each side,
a difference is reported only if the ranges don't overlap: the slowest run of one side is faster than the fastest of
the other. If both sides were the same, all orders of the runs would be equally likely. Then this happens by chance in
2 of C(n + m, n) cases (the extreme value of the rank-sum test, Wilcoxon 1945). If this chance is above 5 %, there are
too few runs for a statement.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from holdfast.base.tabular import align, time

from . import comparison
from .comparison import Key

if t.TYPE_CHECKING:
    from holdfast.pages.schema import Repeated, Repeats, Spread

    from .traces import Trace

#: If the chance is higher, separate ranges mean nothing.
CHANCE = 0.05
FASTER, SLOWER = "faster", "slower"
WITHIN, FEW = "within the noise", "too few runs"
NEW, GONE = "new", "gone"
#: The name of `FLUSH`, the region in which the recorder writes full buffers to a file. It is no work of the program,
#: so it counts as neither faster nor slower.
RECORDER, FLUSH = "the recorder's own", "BUFFER FLUSH"


def chance(now: int, before: int) -> float:
    """Return how likely ranges are apart by chance.

    Parameters
    ----------
    now, before : int
        The numbers of runs.

    Returns
    -------
    float
        From 0 to 1.
    """
    return min(1.0, 2 / math.comb(now + before, now))


def outcome(now: t.Sequence[float], before: t.Sequence[float]) -> str:
    """Say whether a difference exceeds the noise.

    Parameters
    ----------
    now, before : sequence of float
        What the runs took.

    Returns
    -------
    str
        One of the words above.
    """
    if not before or not any(before):
        return NEW
    if not now or not any(now):
        return GONE
    if max(now) < min(before):
        word = FASTER
    elif min(now) > max(before):
        word = SLOWER
    else:
        word = WITHIN
    return FEW if chance(len(now), len(before)) > CHANCE else word


def spread(values: t.Sequence[float]) -> Spread:
    """Return the median and the range.

    Parameters
    ----------
    values : sequence of float
        Seconds, of at least one run.

    Returns
    -------
    dict
        `median`, `low` and `high`.
    """
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def _exclusive(traces: t.Sequence[Trace], known: t.Iterable[Key]) -> dict[Key, list[float]]:
    """By function: the exclusive seconds of each run, 0 if it wasn't called. The names are those of
    `known`."""
    found: dict[Key, list[float]] = {}
    for at, trace in enumerate(traces):
        rows = {(row["name"], row["file"], row["line"]): row["exclusive"] for row in trace.table()}
        same = comparison.matched([*known, *found], rows)
        for key, seconds in rows.items():
            found.setdefault(same.get(key, key), [0.0] * len(traces))[at] += seconds
    return found


def compare(now: t.Sequence[Trace], before: t.Sequence[Trace]) -> Repeats:
    """Compare two sets of recordings.

    Parameters
    ----------
    now, before : sequence of Trace
        The recordings. The names are those of the last of `now`. Without any in `before` the medians and ranges
        are those of `now` alone.

    Returns
    -------
    dict
        The part "repeats" of web/schema/views.json; the largest change of a median first.

    Raises
    ------
    ViewError
        An archive can't be read.
    """
    names = [(row["name"], row["file"], row["line"]) for row in now[-1].table()]
    ours = _exclusive(now, names)
    theirs = _exclusive(before, [*names, *ours])
    rows: list[Repeated] = []
    for key in ours | theirs:
        mine = ours.get(key, [0.0] * len(now))
        row: Repeated = {"name": key[0], "file": key[1], "line": key[2], "now": spread(mine)}
        if before:
            other = theirs.get(key, [0.0] * len(before))
            row["before"] = spread(other)
            row["outcome"] = RECORDER if key[0] == FLUSH else outcome(mine, other)
        rows.append(row)
    rows.sort(key=lambda row: -abs(row["now"]["median"] - _median_before(row)))
    sets = [one for one in (now, before) if one]
    totals = [[comparison.seconds(trace) for trace in one] for one in sets]
    return {
        "runs": [len(one) for one in sets],
        "titles": [titles(one) for one in sets],
        "statement": statement(*totals) if before else f"{_said(totals[0])}.",
        "seconds": [spread(one) for one in totals],
        "functions": rows,
    }


def _median_before(row: Repeated) -> float:
    return row["before"]["median"] if "before" in row else 0.0


def titles(traces: t.Sequence[Trace]) -> str:
    """Return the name of several runs.

    Parameters
    ----------
    traces : sequence of Trace
        At least one.

    Returns
    -------
    str
        For example "cells In[7] to In[11]".
    """
    first, last = traces[0].title, traces[-1].title
    if len(traces) == 1:
        return first
    if first == last and len({trace.title for trace in traces}) == 1:
        return f"{len(traces)} runs of {first}"
    if first.startswith("cell ") and last.startswith("cell "):
        first, last = f"cells {first[5:]}", last[5:]
    return f"{first} to {last}"


def statement(now: t.Sequence[float], before: t.Sequence[float]) -> str:
    """Say in a sentence how two sets of runs differ.

    Parameters
    ----------
    now, before : sequence of float
        What the runs took, in seconds.

    Returns
    -------
    str
        "faster" or "slower" is in it only if the difference exceeds the noise.
    """
    times = f"{_said(now)} now, {_said(before)} before"
    if len(now) == 1 or len(before) == 1:
        return f"{times}. {UNKNOWN}"
    word = outcome(now, before)
    if word == FEW:
        return f"{times}. Too few runs to call this a difference; 4 each are enough."
    if word in (FASTER, SLOWER):
        change = 100 * (statistics.median(now) / statistics.median(before) - 1)
        cases = math.comb(len(now) + len(before), len(now)) // 2
        apart = f"the ranges don't overlap, which chance does once in {cases:,} cases"
        return f"{times}. {word.capitalize()}: {change:+.1f} %; {apart}."
    return f"{times}. The ranges overlap: no difference beyond the noise."


#: The remark of a comparison with a single run.
UNKNOWN = (
    "The noise is unknown, since one side is a single run: so this says neither faster nor slower. "
    "%%execute_with_scorep --repeat 5 records five runs of a cell; two such sets are compared by "
    "%trace NOW BEFORE --view compare, each with the number of such a cell."
)


def _said(values: t.Sequence[float]) -> str:
    one = spread(values)
    if len(values) == 1:
        return f"{time(1e3 * one['median'])} (1 run)"
    low, high = time(1e3 * one["low"]), time(1e3 * one["high"])
    return f"{time(1e3 * one['median'])} ({low} to {high}, {len(values)} runs)"


def text(found: Repeats, rows: int = 20) -> str:
    """Format what `compare` found.

    Parameters
    ----------
    found : dict
        What it returned.
    rows : int
        How many functions are shown at most.

    Returns
    -------
    str
        The statement and a table.
    """
    compared = len(found["runs"]) > 1
    table: list[tuple[str, ...]] = [
        ("function", "own s", "low", "high", "before", "low", "high", "change", "")
        if compared
        else ("function", "own s", "low", "high", "")
    ]
    for row in found["functions"][:rows]:
        now = row["now"]
        if "before" not in row:
            table.append((row["name"], *_numbers(now), _place(row)))
            continue
        before = row["before"]
        change = f"{now['median'] - before['median']:+.6f}"
        table.append((row["name"], *_numbers(now), *_numbers(before), change, row["outcome"]))
    left = len(found["functions"]) - (len(table) - 1)
    more = [f"and {left} more"] if left > 0 else []
    head = f", compared with {found['titles'][1]}" if compared else ""
    head = f"{found['titles'][0]}{head}: {found['statement']}"
    return "\n".join([head, *align(table, right=range(1, len(table[0]) - 1)), *more])


def _numbers(one: Spread) -> list[str]:
    return [f"{value:.6f}" for value in (one["median"], one["low"], one["high"])]


def _place(row: Repeated) -> str:
    return f"{row['file']}:{row['line']}" if row["line"] else row["file"]
