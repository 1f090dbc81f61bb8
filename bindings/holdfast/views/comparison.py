"""This run beside the one before it: the same functions, found again by what they are called.

Two functions are the same if name, file and line are. A cell that ran twice has two numbers and the
same text: so `In[5]` here and `In[3]` there count as one name, in files
and in the name of its region.
"""

from __future__ import annotations

import time
import typing as t
from array import array

if t.TYPE_CHECKING:
    from .schema import Previous, Regions
    from .traces import Trace


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
    translate = renamed(now, before)
    translated = array("q")
    for region in table["region"]:
        key = translate(old["name"][region]), translate(old["file"][region]), old["line"][region]
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


def renamed(now: Trace, before: Trace) -> t.Callable[[str], str]:
    """Return what translates a name or file of another run to this one's.

    Parameters
    ----------
    now, before : Trace
        The two runs.

    Returns
    -------
    callable
        From str to str: a cell of the same code has the number of `now`.
    """
    if now.run is None or before.run is None or now.run["code"] != before.run["code"]:
        return lambda text: text
    mine, theirs = f"In[{now.run['number']}]", f"In[{before.run['number']}]"
    return lambda text: text.replace(theirs, mine) if text in (theirs, f"cell {theirs}") else text


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
