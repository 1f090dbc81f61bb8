"""The commands ``%trace ls`` and ``%trace rm``: the recordings on the disk."""

from __future__ import annotations

import glob
import os
import time
import typing as t

from holdfast.base.tabular import align, count, size
from holdfast.scorep import experiments

from . import runs
from .traces import ViewError


class _Found(t.NamedTuple):
    """A recording: its cell, if this notebook has made it, its directory, its time, and remarks."""

    cell: str
    path: str
    wall: float
    named: bool


def _found() -> list[_Found]:
    """The recordings of this kernel, then those of others in the same folders. Both are sorted by
    time."""
    found = {}
    for run in runs.known():
        path = run["trace"]
        if path and experiments.is_recording(path):
            found[path] = _Found(
                f"In[{run['number']}]", path, run["wall"], not run.get("automatic", False)
            )
    for folder in {os.getcwd(), os.path.abspath(os.environ.get("HOLDFAST_TRACE_DIRECTORY", ""))}:
        for path in glob.glob(os.path.join(glob.escape(folder), "scorep-*")):
            if path not in found and experiments.is_automatic(path):
                if experiments.is_recording(path):
                    found[path] = _Found("", path, os.stat(path).st_mtime, False)
    return sorted(found.values(), key=lambda one: one.wall)


def listing() -> str:
    """List the recordings: this kernel's, and those of others in the folder where they are made.

    Returns
    -------
    str
        A table, the oldest first, and their sum.
    """
    found = _found()
    if not found:
        return "There is no trace."
    table, total = [("cell", "when", "size", "trace", "")], 0
    for one in found:
        bytes_ = experiments.size(one.path)
        total += bytes_
        table.append((one.cell, _when(one.wall), size(bytes_), _short(one.path), _remark(one)))
    most = experiments.limit()
    kept = "no limit is set (HOLDFAST_TRACE_LIMIT)"
    if most:
        kept = (
            f"of those that this kernel names it keeps {size(most)} and {experiments.MOST}"
            " (HOLDFAST_TRACE_LIMIT)"
        )
    lines = align(table, right=(2,))
    return "\n".join([*lines, f"{count(len(found), 'trace')}, {size(total)}; {kept}"])


def _remark(one: _Found) -> str:
    if experiments.is_busy(one.path):
        return "is being recorded"
    return "named by you" if one.named else ""


def _when(wall: float) -> str:
    form = "%H:%M:%S" if time.time() - wall < 86400 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(wall))


def _short(path: str) -> str:
    short = os.path.relpath(path)
    return path if short.startswith("..") else short


def remove(words: list[str]) -> str:
    """Remove recordings.

    Parameters
    ----------
    words : list of str
        Cells as for ``%trace``; directories, with ``*``; or "all": those that this kernel has named.

    Returns
    -------
    str
        What was removed, and what stays.

    Raises
    ------
    ViewError
        One of the words names no recording, or one that is being recorded. Then none is removed.
    """
    if not words:
        raise ViewError(
            "rm needs the traces: cells (5, 7-11), directories, or all of this kernel's (all)"
        )
    known = _found()
    chosen = dict.fromkeys(path for word in words for path in _chosen(word, known))
    for path in chosen:
        experiments.settle(path)
        if experiments.is_busy(path):
            raise ViewError(f"{_short(path)} is being recorded; nothing was removed")
    total, lines = 0, []
    for path in chosen:
        before = experiments.size(path)
        try:
            stay = experiments.remove(path)
        except OSError as error:
            lines.append(f"{_short(path)} can't be removed: {error.strerror}")
            continue
        total += before - experiments.size(path)
        if stay:
            lines.append(f"{_short(path)} stays, with {', '.join(stay)}")
    if words == ["all"]:
        lines += [f"{_short(one.path)} stays: you named it" for one in known if one.named]
    return "\n".join([f"{count(len(chosen), 'trace')} removed, {size(total)}", *lines])


def _chosen(word: str, known: list[_Found]) -> list[str]:
    if word == "all":
        return [one.path for one in known if one.cell and not one.named]
    if runs.is_set(word):
        return [one.path for one in known if one.cell in _cells(word, known)]
    path = os.path.abspath(os.path.expanduser(word))
    paths = [path] if os.path.lexists(path) else sorted(glob.glob(path))
    found = [one for one in paths if experiments.is_recording(one)]
    if not found:
        raise ViewError(f"{word} isn't a trace; %trace ls lists all. Nothing was removed")
    return found


def _cells(word: str, known: list[_Found]) -> set[str]:
    """The cells of a set such as 7-11 or 7,9. Raises ViewError if one of them has no trace."""
    there = {one.cell for one in known if one.cell}
    wanted: set[str] = set()
    for part in word.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        inside = {cell for cell in there if int(cell[3:-1]) in numbers}
        if not inside:
            raise ViewError(f"In[{part}] has no trace; %trace ls lists them. Nothing was removed")
        wanted |= inside
    return wanted
