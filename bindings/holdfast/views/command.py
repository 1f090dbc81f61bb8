"""The line magic %trace.

A mistake in the request is one line on stderr, and the session goes on.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import typing as t
import warnings

from holdfast.tabular import align

from . import repeats, runs, sources
from .comparison import seconds, title
from .traces import ALIASES, VIEWS, Trace, ViewError, Window

if t.TYPE_CHECKING:
    from .schema import Function

USAGE = """%trace [CELL ...] [options]     the trace of a cell; of the last recorded one if none is named
  CELL                  a cell's number, or an experiment's directory; 7-11 or 7,9 are several runs,
                        whose medians and ranges --view compare shows, alone or beside those of
                        a second set
  --view VIEW           timeline, flame, callers (or sandwich), table, source or compare
  --range BEGIN:END     only this part, in seconds since the trace's begin
  --text                the longest functions as text; with --view compare what changed most,
                        with --view source time beside the code
  --export FILE         a file of another program, by its name's end: .json (Perfetto),
                        .speedscope.json, .callgrind, .pstats, .collapsed, .cubex, .html, .svg
  --yes                 write it also if it takes more than 100 MiB
  --summary on|off      the line below each recorded cell"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> t.NoReturn:
        raise ViewError(message)


def _parser() -> _Parser:
    parser = _Parser(prog="%trace", add_help=False, allow_abbrev=False)
    parser.add_argument("cells", nargs="*")
    parser.add_argument("--view", default="timeline", choices=(*VIEWS, *ALIASES))
    parser.add_argument("--range", type=_range, default=Window())
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--export", action="append", default=[])
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--summary", choices=("on", "off"))
    parser.add_argument("--help", "-h", action="store_true")
    return parser


def _range(text: str) -> Window:
    begin, colon, end = text.partition(":")
    try:
        window = Window(float(begin) if begin else None, float(end) if end else None)
    except ValueError:
        colon = ""
    if not colon or any(edge is not None and not 0 <= edge < 1e9 for edge in window):
        raise argparse.ArgumentTypeError(f"{text!r} is no range like 0.5:1.25, :1 or 2:")
    return window


def run(line: str, display: t.Callable[..., t.Any]) -> None:
    """Do what a line of ``%trace`` asks for. An error is one line on stderr.

    Parameters
    ----------
    line : str
        The words after ``%trace``.
    display : callable
        IPython's `display`.
    """
    try:
        options = _parser().parse_args(shlex.split(line))
        _obey(options, display)
    except (ViewError, ValueError) as error:
        print(f"%trace: {error}", file=sys.stderr)


def _obey(options: argparse.Namespace, display: t.Callable[..., t.Any]) -> None:
    if options.help:
        print(USAGE)
        return
    if options.summary:
        os.environ["HOLDFAST_SUMMARY"] = options.summary
        if not (options.cells or options.export or options.text):
            return
    names = options.cells or [None]
    if options.view == "compare" and options.range != Window():
        raise ViewError("--view compare is of whole recordings; --range can't be used with it")
    if len(names) == 2 and options.view == "compare":
        found = [runs.compared(*options.cells)]
    elif len(options.cells) == 1 and options.view == "compare":
        found = [runs.repeated(*options.cells)]
    elif options.cells and options.view != "compare":
        found = [trace for name in options.cells for trace in runs.several(name)]
    else:
        found = [runs.find(name) for name in names]
    if options.export and len(found) > 1:
        raise ViewError("--export takes one cell")
    for trace in found:
        trace.view(options.view, options.range)
        if options.text:
            print(_TEXTS.get(options.view, text)(trace))
        for target in options.export:
            with warnings.catch_warnings(record=True) as said:
                path = trace.export(os.path.expanduser(target), large=options.yes)
            print(f"{trace.title}: {path}")
            for one in said:
                print(one.message, file=sys.stderr)
        if not options.text and not options.export:
            display(trace._repr_mimebundle_(), raw=True)


def text(trace: Trace, rows: int = 20) -> str:
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
    lines = [("function", "calls", "total s", "own s", "")]
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


_TEXTS = {"compare": compared, "source": source}


def _place(row: Function) -> str:
    return f"{row['file']}:{row['line']}" if row["line"] else str(row["file"])


def _lines(head: str, table: t.Sequence[tuple[str, ...]], count: int) -> str:
    """The table as text; all columns but the first and the last are numbers."""
    left = count - (len(table) - 1)
    more = [f"and {left} more"] if left > 0 else []
    return "\n".join([head, *align(table, right=range(1, len(table[0]) - 1)), *more])
