"""Answers a page that zooms into a trace: the kernel reads the archive again for that window.

A page has a trace in the resolution of a screen. If the user zooms in further, or selects a range, the page
asks the kernel that showed the trace. For each question it opens a comm
(https://jupyter-client.readthedocs.io/en/stable/messaging.html#custom-messages) with the target `TARGET`. The
kernel sends the answer, and the page closes the comm. So nothing is kept between two questions, and a page
that was restored works with any later kernel of the same name that has shown a trace. The kernel doesn't
close the comm. All clients would get that message, and JupyterLab reports a comm that it hasn't opened in the
browser's console.

A page of JupyterLab or Notebook reaches its server with the user's own session. So it needs only the id that
the kernel has there. Jupyter's server puts this id into the name of the connection file.
"""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

from .reading import ViewError, Window, archive_path, read

if t.TYPE_CHECKING:
    from holdfast.pages import schema

TARGET = "holdfast.views"
MOST_SLICES = 100_000
_FILE = re.compile(r"kernel-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")


def detail(path: Path) -> schema.Detail:
    """Say where a page gets more of a trace, and be ready for it.

    Parameters
    ----------
    path : pathlib.Path
        The archive's anchor file.

    Returns
    -------
    dict
        `trace`, the file, and `kernel`, if this process is a kernel of a Jupyter server's.
    """
    found: schema.Detail = {"trace": str(path.absolute())}
    from holdfast.scorep import (
        experiments,  # it loads the recorder, which is loaded already here
    )

    experiments.shown.add(str(path.absolute().parent))
    name = _FILE.fullmatch(os.path.basename(os.environ.get("HOLDFAST_CONNECTION_FILE", "")))
    if name and _listen():
        found["kernel"] = name[1]
    return found


def _listen() -> bool:
    """Register the target. False if this process has no comms."""
    try:
        from comm import get_comm_manager

        get_comm_manager().register_target(TARGET, _opened)
    except (ImportError, AttributeError, NotImplementedError):
        return False
    return True


def _opened(comm: t.Any, message: t.Mapping[str, t.Any]) -> None:
    comm.send(answer(message["content"]["data"]))


def answer(question: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Answer a page's question.

    Parameters
    ----------
    question : mapping
        `trace`, the archive's anchor file; `begin` and `end`, in seconds since the trace's begin;
        `slices`, how many blocks are wanted at most.

    Returns
    -------
    dict of str to str
        `data`, as an output has it: regions, locations, paths and the table of the window, whose times
        are in nanoseconds since the trace's begin. Or `error`, a line for people.
    """
    from holdfast.pages import columns

    try:
        window = Window(float(question["begin"]), float(question["end"]))
        slices = min(int(question.get("slices", MOST_SLICES)), MOST_SLICES)
        done = read(archive_path(str(question["trace"])), window, slices)
    except (ViewError, KeyError, TypeError, ValueError) as error:
        return {"error": str(error) or type(error).__name__}
    found = done.found
    part: schema.Shown = {
        "origin": done.origin,
        "begin": done.begin,
        "end": done.end,
        "regions": found["regions"],
        "locations": found["rows"],
        "paths": [{"name": "all threads", **found["paths"]}],
        "table": found["table"],
    }
    return {"data": columns.text(columns.pack(part))}
