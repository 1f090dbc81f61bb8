"""Several recordings beside several others: medians, ranges, and whether they differ at all.

One run says nothing about the noise: the next one of the same code takes another time. With several
runs on each side, a difference is called one only if the ranges don't overlap: if the slowest run of
one side is faster than the fastest of the other. Were both sides the same, all orders of the runs would
be equally likely, so that this happens by chance in 2 of C(n + m, n) cases (the extreme value of the
rank-sum test, Wilcoxon 1945); above 5 %, there are too few runs to say anything.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from holdfast.tabular import align, time

from . import comparison

if t.TYPE_CHECKING:
    from .schema import Repeated, Repeats, Spread
    from .traces import Trace

#: Above this a separation of the ranges is no statement.
CHANCE = 0.05
FASTER, SLOWER = "faster", "slower"
WITHIN, FEW = "within the noise", "too few runs"
NEW, GONE = "new", "gone"


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


_Key = tuple[str, str, int]


def _exclusive(traces: t.Sequence[Trace], last: Trace) -> dict[_Key, list[float]]:
    """By function the exclusive seconds of each run; 0 if it wasn't called."""
    found: dict[_Key, list[float]] = {}
    for at, trace in enumerate(traces):
        renamed = comparison.renamed(last, trace)
        for row in trace.table():
            key = renamed(row["name"]), renamed(row["file"]), row["line"]
            values = found.setdefault(key, [0.0] * len(traces))
            values[at] += row["exclusive"]
    return found


def compare(now: t.Sequence[Trace], before: t.Sequence[Trace]) -> Repeats:
    """Compare two sets of recordings.

    Parameters
    ----------
    now, before : sequence of Trace
        The recordings, at least one each. The names are those of the last of `now`.

    Returns
    -------
    dict
        The part "repeats" of web/schema/views.json; the largest change of a median first.

    Raises
    ------
    ViewError
        An archive can't be read.
    """
    last = now[-1]
    ours, theirs = _exclusive(now, last), _exclusive(before, last)
    rows: list[Repeated] = []
    for key in ours | theirs:
        mine = ours.get(key, [0.0] * len(now))
        other = theirs.get(key, [0.0] * len(before))
        name, file, line = key
        rows.append(
            {
                "name": name,
                "file": file,
                "line": line,
                "now": spread(mine),
                "before": spread(other),
                "outcome": outcome(mine, other),
            }
        )
    rows.sort(key=lambda row: -abs(row["now"]["median"] - row["before"]["median"]))
    totals = [comparison.seconds(one) for one in now], [comparison.seconds(one) for one in before]
    return {
        "runs": [len(now), len(before)],
        "titles": [_titles(now), _titles(before)],
        "statement": statement(*totals),
        "seconds": [spread(totals[0]), spread(totals[1])],
        "functions": rows,
    }


def _titles(traces: t.Sequence[Trace]) -> str:
    if len(traces) == 1:
        return traces[0].title
    return f"{traces[0].title} to {traces[-1].title}"


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


#: Of a comparison with a single run.
UNKNOWN = (
    "The noise is unknown, since one side is a single run: so this says neither faster nor slower. "
    "Run the code several times, and compare sets: %trace 7-11 2-6 --view compare."
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
    table: list[tuple[str, ...]] = [
        ("function", "own s", "low", "high", "before", "low", "high", "change", "")
    ]
    for row in found["functions"][:rows]:
        now, before = row["now"], row["before"]
        numbers = [
            f"{one[part]:.6f}" for one in (now, before) for part in ("median", "low", "high")
        ]
        change = f"{now['median'] - before['median']:+.6f}"
        table.append((row["name"], *numbers, change, row["outcome"]))
    left = len(found["functions"]) - (len(table) - 1)
    more = [f"and {left} more"] if left > 0 else []
    head = f"{found['titles'][0]}, compared with {found['titles'][1]}: {found['statement']}"
    return "\n".join([head, *align(table, right=range(1, 8)), *more])
