"""Writes a trace as a file for another program, and the costs of a run as pairs of texts.

The end of a file's name chooses the program. All formats but the view itself are written by `holdfast._views`,
directly from the archive. A file is complete or doesn't exist: it is written under another name first.
"""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from holdfast.base.tabular import size, time

from .reading import LargeExportError, ViewError, reader

if t.TYPE_CHECKING:
    from holdfast.pages import schema

    from .traces import Trace

#: The ends of file names and their formats. A longer end stands before a shorter one.
SUFFIXES = {
    ".speedscope.json": "speedscope",
    ".collapsed": "collapsed",
    ".folded": "collapsed",
    ".callgrind": "callgrind",
    ".pstats": "pstats",
    ".prof": "pstats",
    ".cubex": "cubex",
    ".json": "chrome",
    ".html": "html",
    ".svg": "svg",
}


#: A file that may become larger is written only if the user asks for it.
LARGE_BYTES = 100 << 20
#: How many levels of calls readers show. tests/browser/test_readers.py and tests/bindings/test_perfetto.py try it.
#: speedscope's importer recurses: in a fresh Chromium it opened 3,600 levels each time, 3,900 once of four times.
_LEVELS = {"chrome": 512, "speedscope": 3500}


def _format(target: Path) -> str:
    name = target.name.lower()
    if name.startswith("callgrind.out"):
        return "callgrind"
    for suffix, form in SUFFIXES.items():
        if name.endswith(suffix):
            return form

    known = ", ".join(SUFFIXES)
    raise ViewError(f"the ending of the name sets the format of {target}; known are {known}")


def estimate(trace: Trace, target: Path) -> int | None:
    """Estimate how large the file of a trace becomes, from its calls and the lengths of their names.

    Parameters
    ----------
    trace : Trace
        The trace.
    target : pathlib.Path
        The file; the end of its name chooses the format.

    Returns
    -------
    int or None
        Bytes. None for a format whose files don't grow with the number of calls.

    Raises
    ------
    ViewError
        The end of the name isn't known, or the archive can't be read.
    """
    form = _format(target)
    if form not in ("chrome", "speedscope"):
        return None
    found = trace.read().found
    table, names = found["table"], found["regions"]["name"]
    length_ns = max(found["length"], 1)
    whole = 0.0
    for region, visits, inclusive in zip(
        table["region"], table["visits"], table["inclusive"], strict=True
    ):
        if form == "chrome":
            event = len('{"ph":"X","name":,"pid":1,"tid":1,"ts":.000,"dur":.000},\n')
            event += len(json.dumps(names[region], ensure_ascii=False).encode("utf-8", "replace"))
            event += _digits(length_ns // 1000) + _digits(inclusive // max(visits, 1) // 1000)
        else:
            event = 2 * len('{"type":"O","frame":,"at":},\n')
            event += 2 * (_digits(region) + _digits(length_ns))
        whole += visits * event
    return round(whole)


def _digits(number: int) -> int:
    return len(str(int(number)))


def too_deep(trace: Trace, target: Path) -> str | None:
    """Say what the reader of a file can't show of a trace with deep calls.

    Parameters
    ----------
    trace : Trace
        The trace.
    target : pathlib.Path
        The file; the end of its name chooses the format.

    Returns
    -------
    str or None
        One sentence. None if all can be shown.

    Raises
    ------
    ViewError
        The end of the name isn't known, or the archive can't be read.
    """
    form = _format(target)
    found = trace.read().found
    deepest = max((row["levels"] for row in found["rows"]), default=0)
    most = _LEVELS.get(form)
    if most is None or deepest <= most:
        return None
    shown = {
        "chrome": f"Perfetto shows {most:,}, and draws what lies deeper into its first row",
        "speedscope": f"speedscope fails to open more than some {most:,}",
    }
    return (
        f"{target}: the trace has {deepest:,} levels of calls. {shown[form]}: --range or a filter makes "
        "a smaller trace, .cubex and .pstats have all calls"
    )


def _check_size(trace: Trace, target: Path) -> None:
    """Raise LargeExportError if the file may become a large one."""

    try:
        bytes_ = estimate(trace, target)
    except ViewError:
        return  # writing says what is wrong
    if bytes_ is not None and bytes_ > LARGE_BYTES:
        calls = sum(trace.read().found["table"]["visits"])
        raise LargeExportError(
            f"{target} would take about {size(bytes_)}, for {calls:,} calls; --yes (large=True) writes"
            " it all the same, --range BEGIN:END only a part"
        )


def write(trace: Trace, target: Path, large: bool = False) -> Path:
    """Write a trace as a file of another program.

    Parameters
    ----------
    trace : Trace
        The trace.
    target : pathlib.Path
        The file; the end of its name chooses the format, see `SUFFIXES`.
    large : bool
        Whether it may take more than `LARGE_BYTES`.

    Returns
    -------
    pathlib.Path
        Its absolute path.

    Raises
    ------
    LargeExportError
        It would take more.
    ViewError
        The end of the name isn't known, or the file can't be written.
    """

    form = _format(target)
    if not large:
        _check_size(trace, target)
    part = target.with_name(target.name + ".part")
    begin, end = trace.window
    try:
        if form in ("html", "svg"):
            part.write_text(_view(trace, form), "utf-8")
        else:
            reader().write(trace.path, part, form, begin=begin, end=end)
        os.replace(part, target)
    except (OSError, ValueError) as error:
        part.unlink(missing_ok=True)
        said = getattr(error, "strerror", None) or str(error)
        raise ViewError(f"{target} can't be written: {said}") from error
    return target.absolute()


def _view(trace: Trace, form: str) -> str:
    from holdfast.pages import page

    bundle = page.bundle(trace.data(), trace.shown)
    if form == "svg":
        return bundle["image/svg+xml"]
    return f'<!DOCTYPE html>\n<meta charset="utf-8">\n{bundle["text/html"]}\n'


def facts(run: schema.Run) -> list[tuple[str, str]]:
    """Return what the line below a cell says.

    Parameters
    ----------
    run : Run
        What the kernel knows of the cell.

    Returns
    -------
    list of tuple of str
        Names and values; fewer if less is known.
    """
    cost = run.get("cost") or {}
    if "run_ms" not in cost:
        took = (run["end_ns"] - run["begin_ns"]) / 1e6
        return [("ended", run["outcome"]), ("after", time(took))]
    pairs = [("wall time", time(cost["run_ms"]))]
    if cost.get("cpu_ms") and cost["run_ms"]:
        pairs.append(("cores", f"{cost['cpu_ms'] / cost['run_ms']:.1f}"))
    if cost.get("bytes_peak"):
        grown = cost.get("bytes_grown", 0)
        sign = "-" if grown < 0 else "+"
        pairs.append(("memory", f"{size(cost['bytes_peak'])} ({sign}{size(abs(grown))})"))
    if cost.get("bytes_read") or cost.get("bytes_written"):
        pairs.append(("read", size(cost.get("bytes_read", 0))))
        pairs.append(("wrote", size(cost.get("bytes_written", 0))))
    pairs.append(("events", f"{cost.get('events', 0) + cost.get('events_others', 0):,}"))
    if cost.get("recorder_ms"):
        share = 100 * cost["recorder_ms"] / cost["run_ms"] if cost["run_ms"] else 0
        pairs.append(("recording", f"{time(cost['recorder_ms'])} ({share:.1f} %)"))
    elif cost.get("events"):
        pairs.append(("recording", "not measured"))
    pairs.append(("in", time(cost.get("hand_over_in_ms", 0))))
    pairs.append(("out", time(cost.get("hand_over_out_ms", 0))))
    if run["outcome"] != "ok":
        pairs.append(("ended", run["outcome"]))
    return pairs
