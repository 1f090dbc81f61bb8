"""The views as text: for a console, for a file, and for people who don't read pictures."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from holdfast.base.tabular import align

from . import repeats, sources
from .comparison import seconds, title

if t.TYPE_CHECKING:
    from holdfast.pages.schema import Function

    from .traces import Trace

HEAD = ("function", "calls", "total s", "own s", "")
#: Branches of the tree below this share of the whole aren't shown.
_SHARE = 0.005


def of(trace: Trace) -> str:
    """Format the view of a trace as text.

    Parameters
    ----------
    trace : Trace
        The trace; `shown` chooses the view. A timeline is shown as its longest functions.

    Returns
    -------
    str
        The text. If there is nothing in the trace, it says why that may be.
    """
    if not trace.table():
        return f"{trace.title}: {trace.emptiness()}"
    return _TEXTS.get(trace.shown, longest)(trace)


def longest(trace: Trace, rows: int = 20) -> str:
    """Format the longest functions as text.

    Parameters
    ----------
    trace : Trace
        The trace.
    rows : int
        How many functions are shown at most.

    Returns
    -------
    str
        A table, by exclusive time.
    """
    table = trace.table()
    lines: list[tuple[str, ...]] = [HEAD]
    for row in table[:rows]:
        seconds = (f"{row['inclusive']:.6f}", f"{row['exclusive']:.6f}")
        lines.append((row["name"], f"{row['visits']:,}", *seconds, _place(row)))
    return _lines(trace.title, lines, len(table))


def compared(trace: Trace, rows: int = 20) -> str:
    """Format the functions whose exclusive time changed most since the run before.

    Parameters
    ----------
    trace : Trace
        The trace, with `before`.
    rows : int
        How many functions are shown at most.

    Returns
    -------
    str
        A table, by the change.
    """
    if trace.sets is not None and max(map(len, trace.sets)) > 1:
        return repeats.text(trace.repeats(), rows)
    table = trace.comparison()
    lines = [("function", "calls", "before", "own s", "before", "change", "")]
    for row in table[:rows]:
        before = row["before"]
        calls = (f"{row['visits']:,}", f"{before['visits']:,}")
        own = (f"{row['exclusive']:.6f}", f"{before['exclusive']:.6f}", f"{row['change']:+.6f}")
        lines.append((row["name"], *calls, *own, _place(row)))
    then = f"{seconds(trace.before):.3f} s in {title(trace.before)}"
    head = f"{trace.title}: {seconds(trace):.3f} s, {then}"
    return f"{_lines(head, lines, len(table))}\n{repeats.UNKNOWN}"


def source(trace: Trace) -> str:
    """Format what lines and functions took, beside the code.

    Parameters
    ----------
    trace : Trace
        The trace.

    Returns
    -------
    str
        A table for each file of the user's own.
    """
    found = trace.source()
    return sources.text(trace.title, found) if found else trace.title


def tree(trace: Trace, rows: int = 60) -> str:
    """Format the tree of calls.

    Parameters
    ----------
    trace : Trace
        The trace.
    rows : int
        How many branches are shown at most.

    Returns
    -------
    str
        A table; each function stands below the one that called it.
    """
    nodes = _nodes(trace)
    least = _SHARE * sum(node.total for node in nodes if node.parent is None)
    lines: list[tuple[str, ...]] = [HEAD]
    hidden = 0
    for node in nodes:
        if node.total < least or len(lines) > rows:
            hidden += 1
            continue
        lines.append(
            ("  " * node.depth + node.name, f"{node.calls:,}", *_times(node.total, node.own), "")
        )
    return _lines(trace.title, lines, len(lines) - 1 + hidden)


def callers(trace: Trace, rows: int = 10) -> str:
    """Format who calls the longest functions.

    Parameters
    ----------
    trace : Trace
        The trace.
    rows : int
        How many functions are shown at most.

    Returns
    -------
    str
        A table: below each function its callers, with the calls and times that they are the reason of.
    """
    table = trace.table()
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0.0, 0.0])
    )
    for node in _nodes(trace):
        if node.parent is not None:
            sums = found[node.name][node.parent]
            for at, value in enumerate((node.calls, node.total, node.own)):
                sums[at] += value
    lines: list[tuple[str, ...]] = [HEAD]
    for row in table[:rows]:
        times = _times(row["inclusive"], row["exclusive"])
        lines.append((row["name"], f"{row['visits']:,}", *times, _place(row)))
        above = sorted(found[row["name"]].items(), key=lambda pair: -pair[1][2])
        for name, (calls, total, own) in above:
            lines.append((f"  from {name}", f"{int(calls):,}", *_times(total, own), ""))
    shown = len(lines) - 1
    return _lines(trace.title, lines, shown + max(0, len(table) - rows))


class _Node(t.NamedTuple):
    """A path of calls; times are in seconds."""

    name: str
    parent: str | None
    depth: int
    calls: int
    total: float
    own: float


def _nodes(trace: Trace) -> list[_Node]:
    """The tree of all calls, in preorder."""
    found = trace.read().found
    paths, names = found["paths"], found["regions"]["name"]
    own = list(paths["inclusive"])
    parents: list[int | None] = []
    above: list[int] = []
    for at, depth in enumerate(paths["depth"]):
        del above[depth:]
        parents.append(above[-1] if above else None)
        if above:
            own[above[-1]] -= paths["inclusive"][at]
        above.append(at)
    return [
        _Node(
            names[paths["region"][at]],
            None if parent is None else names[paths["region"][parent]],
            paths["depth"][at],
            paths["visits"][at],
            paths["inclusive"][at] / 1e9,
            own[at] / 1e9,
        )
        for at, parent in enumerate(parents)
    ]


_TEXTS = {"compare": compared, "source": source, "flame": tree, "callers": callers}


def _times(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:.6f}" for value in values)


def _place(row: Function) -> str:
    return f"{row['file']}:{row['line']}" if row["line"] else str(row["file"])


def _lines(head: str, table: t.Sequence[tuple[str, ...]], count: int) -> str:
    """The table as text. All columns are numbers, except the first and the last one."""
    left = count - (len(table) - 1)
    more = [f"and {left} more"] if left > 0 else []
    return "\n".join([head, *align(table, right=range(1, len(table[0]) - 1)), *more])
