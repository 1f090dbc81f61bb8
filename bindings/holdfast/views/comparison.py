"""Compares this run with the one before it: finds the functions of one in the other.

Two functions are the same if their names, files and lines are. But a cell that ran twice has two numbers. A function
that was edited and defined anew has another cell or line, and a function below an edit has another line. So the
remaining functions are matched by name and file, and all cells count as one file. If both runs have as many functions
of a name, these are matched in the order of their lines.
"""

from __future__ import annotations

import re
import time
import typing as t
from array import array
from collections import defaultdict

if t.TYPE_CHECKING:
    from holdfast.pages.schema import Previous, Regions

    from .traces import Trace

Key = tuple[str, str, int]  # name, file, line
_CELL = re.compile(r"In\[\d+\]")


def matched(mine: t.Iterable[Key], theirs: t.Iterable[Key]) -> dict[Key, Key]:
    """Find the functions of another run among those of this one.

    Parameters
    ----------
    mine, theirs : iterable of tuple
        Name, file and line of each function.

    Returns
    -------
    dict
        By the other run's function the one of this run that is the same. Those that this run doesn't
        have are missing.
    """
    left, others = list(dict.fromkeys(mine)), list(dict.fromkeys(theirs))
    found = {key: key for key in set(left).intersection(others)}
    for loose in (_without_cell, _without_line):
        taken = set(found.values())
        groups: defaultdict[t.Any, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
        for side, keys in enumerate((left, others)):
            for key in keys:
                if key not in (found, taken)[side == 0]:
                    groups[loose(key)][side].append(key)
        for own, other in groups.values():
            if len(own) == len(other):
                found |= zip(sorted(other, key=_place), sorted(own, key=_place), strict=True)
    return found


def _without_cell(key: Key) -> t.Any:
    name, file, line = key
    if not _CELL.fullmatch(file):
        return key
    return _CELL.sub("In[]", name) if name == f"cell {file}" else name, "In[]", line


def _without_line(key: Key) -> t.Any:
    return _without_cell(key)[:2]


def _place(key: Key) -> t.Any:
    return key[2], key[1], key[0]


def previous(now: Trace, before: Trace, regions: Regions) -> tuple[Previous, Regions]:
    """Make the table of the run before with the region numbers of this one.

    Parameters
    ----------
    now, before : Trace
        The two runs.
    regions : Regions
        The regions of `now`.

    Returns
    -------
    Previous
        The table of `before`.
    Regions
        The regions of `now`, then those that only `before` has.
    """
    names, files, lines, kinds, waits = (
        list(regions["name"]),
        list(regions["file"]),
        list(regions["line"]),
        list(regions["kind"]),
        list(regions["waits"]),
    )
    keys = zip(names, files, lines, strict=True)
    numbers = {key: number for number, key in enumerate(keys)}
    old, table = before.read().found["regions"], before.read().found["table"]
    theirs = [
        (old["name"][region], old["file"][region], old["line"][region])
        for region in table["region"]
    ]
    called = now.read().found["table"]["region"]
    same = matched([(names[at], files[at], lines[at]) for at in called], theirs)
    translated = array("q")
    for region, their in zip(table["region"], theirs, strict=True):
        key = same.get(their, their)
        if key not in numbers:
            numbers[key] = len(numbers)
            names.append(key[0])
            files.append(key[1])
            lines.append(key[2])
            kinds.append(old["kind"][region])
            waits.append(old["waits"][region])
        translated.append(numbers[key])
    previous: Previous = {
        "title": title(before),
        "seconds": seconds(before),
        "table": {**table, "region": translated},
    }
    made: Regions = {"name": names, "file": files, "line": lines, "kind": kinds, "waits": waits}
    return previous, made


def seconds(trace: Trace) -> float:
    """Return how long a run took.

    Parameters
    ----------
    trace : Trace
        The run.

    Returns
    -------
    float
        Seconds: of a cell as the kernel measured them, otherwise the length of the trace.
    """
    run_ms = trace.run["cost"].get("run_ms", 0) if trace.run is not None else 0
    done = trace.read()
    return run_ms / 1e3 or (done.end - done.begin) / 1e9


def title(before: Trace) -> str:
    """Return the name of a run, and when it was.

    Parameters
    ----------
    before : Trace
        The run.

    Returns
    -------
    str
        For example "cell In[5], 14:02:31".
    """
    if before.run is None:
        return before.title
    clock = time.strftime("%H:%M:%S", time.localtime(before.run["wall"]))
    return f"{before.title}, {clock}"
