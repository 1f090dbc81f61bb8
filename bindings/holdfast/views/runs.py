"""The recorded cells that ran in this notebook, and how a user names them.

The frontend reports each run to the main worker (kernel/session/runs.c), and the shell keeps the report as text. This
module reads the text when it is needed.
"""

from __future__ import annotations

import json
import os
import re
import typing as t
from pathlib import Path

from . import repeats
from .traces import Trace, ViewError, archive_path

if t.TYPE_CHECKING:
    from holdfast.pages.schema import Run

_SET = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")

Which = t.Union[int, str, "os.PathLike[str]", None]


def _shell() -> t.Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def known() -> list[Run]:
    """Return the recorded cells that ran in this notebook.

    Returns
    -------
    list of dict
        What the kernel knows of each, the oldest first.
    """
    return [json.loads(text) for text in getattr(_shell(), "runs", ())]


def sources() -> dict[int, str]:
    """Return the text of the notebook's cells.

    Returns
    -------
    dict of int to str
        By the number of the cell.
    """
    history = getattr(_shell(), "history_manager", None)
    inputs = getattr(history, "input_hist_raw", ())
    return {number: text for number, text in enumerate(inputs) if number and text}


def find(which: Which = None, before: Which = None) -> Trace:
    """Find the trace of a cell, or the one in a directory.

    Parameters
    ----------
    which : int, str or os.PathLike, optional
        As for `holdfast.views.trace`.
    before : int, str or os.PathLike, optional
        What to compare with. If it is left out: for a cell the last run before it with the same code.

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    ViewError
        There is no such trace.
    """
    if not _is_cell(which):
        other = find(before) if before is not None else None
        return Trace(t.cast(str, which), before=other, sources=sources())
    runs = known()
    at = _position(runs, which)
    texts = sources()
    other = find(before) if before is not None else _before(runs, at, texts)
    return Trace(runs[at]["trace"], run=runs[at], before=other, sources=texts)


def several(which: str) -> list[Trace]:
    """Find the traces of repeated runs.

    Parameters
    ----------
    which : str
        Numbers of cells, such as ``7-11`` or ``7,9``; or directories, with commas.

    Returns
    -------
    list of Trace
        One or more, in this order.

    Raises
    ------
    ViewError
        One of them isn't there, or they are cells of different code.
    """
    found = [trace for one in _split(which) for trace in _all_of(one)]
    codes = {_plain(trace.run["code"]) for trace in found if trace.run is not None}
    if len(codes) > 1:
        raise ViewError(f"{which} are cells of different code, not repeated runs of one cell")
    return found


def each(which: str) -> list[Trace]:
    """Find the traces of cells: of one that was repeated its last run.

    Parameters
    ----------
    which : str
        As for `several`.

    Returns
    -------
    list of Trace
        One or more, in this order.

    Raises
    ------
    ViewError
        One of them isn't there.
    """
    return [find(one) for one in _split(which)]


def _all_of(which: str) -> list[Trace]:
    """The runs of the cell with this number; several if it was repeated. Or the trace of a
    directory."""
    last = find(which)
    if last.run is None:
        return [last]
    same = [run for run in known() if run["number"] == last.run["number"]]
    texts = sources()
    return [Trace(run["trace"], run=run, sources=texts) for run in same[:-1] if _is_there(run)] + [
        last
    ]


def _is_there(run: Run) -> bool:
    return bool(run["trace"]) and os.path.lexists(run["trace"])


def is_set(which: str) -> bool:
    """Return whether a word means cells.

    Parameters
    ----------
    which : str
        The word.

    Returns
    -------
    bool
        Whether it is like ``7``, ``7-11`` or ``7,9``.
    """
    return _SET.fullmatch(which) is not None


def _split(which: str) -> list[str]:
    if not is_set(which):
        return [which] if os.path.exists(which) else which.split(",")
    numbers = []
    for part in which.split(","):
        first, _, last = part.partition("-")
        known_runs = {run["number"] for run in known()}
        if not last:
            numbers.append(first)
            continue
        inside = sorted(n for n in known_runs if int(first) <= n <= int(last))
        if not inside:
            raise ViewError(f"no recorded cell of In[{first}] to In[{last}] ran")
        numbers += [str(number) for number in inside]
    return numbers


def compared(now: str, before: str) -> Trace:
    """Find two sets of runs to be compared.

    Parameters
    ----------
    now, before : str
        As for `several`.

    Returns
    -------
    Trace
        The last of `now`, with its sets.

    Raises
    ------
    ViewError
        See `several`; or a run is in both.
    """
    ours, theirs = several(now), several(before)
    both = {trace.path for trace in ours} & {trace.path for trace in theirs}
    if both:
        twice = next(trace for trace in ours if trace.path in both)
        raise ViewError(f"{twice.title} is on both sides of the comparison")
    trace = ours[-1]
    trace.before, trace.sets = theirs[-1], (ours, theirs)
    trace.doubts = _doubts(ours, theirs)
    return trace


def _doubts(now: list[Trace], before: list[Trace]) -> list[str]:
    """Why these may not be the runs that the user means. Runs of other notebooks aren't known
    here."""
    lines = [
        f"{trace.title} {_ENDINGS[trace.run['outcome']]}: its time says little"
        for trace in (*now, *before)
        if trace.run is not None and trace.run["outcome"] in _ENDINGS
    ]
    mine, other = now[-1], before[-1]
    if mine.run is None or other.run is None:
        return lines
    if mine.run["number"] < other.run["number"]:
        lines.append(f"{other.title}, given as the one before, ran after {mine.title}: NOW BEFORE")
    ours, theirs = (
        {line.strip() for line in _plain(trace.run["code"]).split("\n")} - {""}
        for trace in (mine, other)
        if trace.run is not None
    )
    if ours != theirs:
        names = [{row["name"] for row in trace.table()} for trace in (mine, other)]
        shared = {name for name in names[0] & names[1] if not name.startswith("cell In[")}
        if not (ours & theirs or shared - {repeats.FLUSH}):
            lines.append(
                f"{mine.title} and {other.title} have neither a line nor a function in common. Are these"
                " the cells that you mean?"
            )
    return lines


_ENDINGS = {"error": "failed", "died": "died"}


def repeated(which: str | None = None) -> Trace:
    """Find a set of runs, to be shown with its medians and ranges.

    Parameters
    ----------
    which : str, optional
        As for `several`. If it is left out: the last recorded cell.

    Returns
    -------
    Trace
        The last of them, with its sets, of which the second is empty. Of a single run: what `find` returns.

    Raises
    ------
    ViewError
        See `several`.
    """
    ran = known()
    if which is None and not ran:
        return find()  # it says that there is none
    found = several(str(ran[-1]["number"]) if which is None else which)
    if len(found) > 1:
        found[-1].before, found[-1].sets = None, (found, [])
    return found[-1]


def _plain(code: str) -> str:
    """The code without the magics and comments at its top, which say how it runs."""
    lines = code.split("\n")
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith(("#", "%%"))):
        del lines[0]
    return "\n".join(lines).rstrip()


def _is_cell(which: Which) -> bool:
    return which is None or isinstance(which, int) or str(which).isdigit()


def _position(runs: list[Run], which: Which) -> int:
    """The place of the last run with this number, or of the last run."""
    if not runs:
        raise ViewError(
            "no recorded cell has run yet; %%execute_with_scorep in a cell's first line records it"
        )
    places = [i for i, run in enumerate(runs) if which is None or str(run["number"]) == str(which)]
    if not places:
        ran = dict.fromkeys(str(run["number"]) for run in runs)  # --repeat has several of one
        numbers = ", ".join([*ran][-12:])
        raise ViewError(f"In[{which}] isn't a recorded cell that ran; those that did: {numbers}")
    at = places[-1]
    if not runs[at]["trace"]:
        raise ViewError(f"In[{runs[at]['number']}] {runs[at]['outcome']} and left no trace")
    for later in runs[at + 1 :]:
        if later["trace"] == runs[at]["trace"]:
            raise ViewError(
                f"the trace of In[{runs[at]['number']}] is gone: In[{later['number']}] "
                f"was recorded into the same directory, {later['trace']}"
            )
    if not os.path.lexists(runs[at]["trace"]):
        if "\ufffd" in runs[at]["trace"]:
            raise ViewError(
                f"{runs[at]['trace']} isn't UTF-8: %trace ls lists what is in the current directory, and"
                " %trace DIRECTORY shows it"
            )
        raise ViewError(
            f"the trace of In[{runs[at]['number']}] is gone: {runs[at]['trace']} was removed or moved;"
            " %trace ls lists what there is"
        )
    return at


def _before(runs: list[Run], at: int, texts: dict[int, str]) -> Trace | None:
    """The last run of the same code whose trace is still there."""
    taken = {"", *(run["trace"] for run in runs[at:])}
    code = _plain(runs[at]["code"])
    for run in reversed(runs[:at]):
        if (
            run["number"] != runs[at]["number"]
            and code
            and code == _plain(run["code"])
            and run["trace"] not in taken
        ):
            try:
                return Trace(archive_path(Path(run["trace"])), run=run, sources=texts)
            except ViewError:
                pass
        taken.add(run["trace"])
    return None
