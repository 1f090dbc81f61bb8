"""The views of samples and traces in the notebook: where the time of a cell went.

`%trace` shows them in a notebook. These functions are for programs::

    from holdfast import views
    views.trace()                             # the last recorded cell, shown by its result
    views.trace(5, view="flame")
    views.trace("scorep-20240101_1200_1/")    # any OTF2 archive, whoever wrote it
    views.trace(5).export("cell.speedscope.json")
"""

from __future__ import annotations

import os
import typing as t

if t.TYPE_CHECKING:
    from .traces import Trace

__all__ = ["trace"]


def trace(
    which: int | str | os.PathLike[str] | None = None,
    *,
    view: str = "timeline",
    begin: float | None = None,
    end: float | None = None,
    before: int | str | os.PathLike[str] | None = None,
) -> Trace:
    """Find the trace of a cell, or the one in a directory.

    Parameters
    ----------
    which : int, str or os.PathLike, optional
        A cell's number, the directory of an experiment, or its ``traces.otf2``. If it is left out: the
        last recorded cell of this notebook.
    view : {"timeline", "flame", "callers", "table", "source", "compare"}
        What is shown first; "sandwich" is another name of "callers".
    begin, end : float, optional
        A window, in seconds since the trace's begin.
    before : int, str or os.PathLike, optional
        What to compare with. If it is left out: for a cell the last run before it with the same code. If this
        or `which` names several runs, such as ``"7-11"``, the two sets are compared.

    Returns
    -------
    Trace
        The trace. A notebook shows it as the view.

    Raises
    ------
    ViewError
        There is no such trace, or it can't be read.
    """
    from . import runs, traces

    window = traces.Window(begin, end)
    if before is not None and which is not None:
        return runs.compared(os.fspath(_text(which)), os.fspath(_text(before))).view(view, window)
    if before is None and view == "compare" and (which is None or isinstance(which, int)):
        return runs.repeated(None if which is None else str(which)).view(view, window)
    return runs.find(which, before).view(view, window)


def _text(which: int | str | os.PathLike[str]) -> str | os.PathLike[str]:
    return str(which) if isinstance(which, int) else which
