"""The line magic %trace.

A wrong request is answered by one line on stderr, and the cell goes on.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import typing as t
import warnings

from . import kept, runs, texts
from .traces import ALIASES, VIEWS, ViewError, Window

USAGE = """%trace [CELL ...] [options]     the trace of a cell; of the last recorded one if none is named
  CELL                  a cell's number, or an experiment's directory; 7-11 or 7,9 are several. The
                        medians and ranges of several runs, or of one cell's (--repeat), are shown
                        by --view compare, alone or beside those of a second set
  --view VIEW           timeline, flame, callers (or sandwich), table, source or compare
  --range BEGIN:END     only this part, in seconds since the trace's begin
  --text                the view as text: the longest functions; with --view flame the tree of calls,
                        with callers who calls them, with source time beside the code, with compare
                        what changed most
  --export FILE         a file of another program, by its name's end: .json (Perfetto),
                        .speedscope.json, .callgrind, .pstats, .collapsed, .cubex, .html, .svg
  --yes                 write it also if it takes more than 100 MiB
  --summary on|off      the line below each recorded cell
%trace ls                       the traces that there are: of which cell, when, how large
%trace rm CELL|DIRECTORY ...    remove traces; %trace rm all: those that this kernel has named"""


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
        raise argparse.ArgumentTypeError(f"{text!r} isn't a range like 0.5:1.25, :1 or 2:")
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
        words = shlex.split(line)
        if words == ["ls"]:
            print(kept.listing())
        elif words[:1] == ["ls"]:
            raise ViewError(f"ls takes nothing behind it: {words[1]}")
        elif words[:1] == ["rm"]:
            print(kept.remove(words[1:]))
        else:
            _obey(_parser().parse_args(words), display)
    except (ViewError, ValueError, OSError) as error:
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
    elif len(options.cells) < 2 and options.view == "compare":
        found = [runs.repeated(*options.cells)]
    elif options.cells and options.view != "compare":
        found = [trace for name in options.cells for trace in runs.each(name)]
    else:
        found = [runs.find(name) for name in names]
    if options.export and len(found) > 1:
        raise ViewError("--export takes one cell")
    for trace in found:
        trace.view(options.view, options.range)
        for doubt in trace.doubts:
            print(f"%trace: {doubt}", file=sys.stderr)
        if options.text:
            print(texts.of(trace))
        for target in options.export:
            with warnings.catch_warnings(record=True) as said:
                path = trace.export(os.path.expanduser(target), large=options.yes)
            print(f"{trace.title}: {path}")
            for one in said:
                print(one.message, file=sys.stderr)
        if not options.text and not options.export:
            display(trace._repr_mimebundle_(), raw=True)
