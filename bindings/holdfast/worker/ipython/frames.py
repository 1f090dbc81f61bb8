"""Chooses which of IPython's functions a recording shows: only those that lead to the program's own.

A magic is IPython's code around a cell's. `%%time` parses, transforms and compiles before the code runs, and
formats after it: five thousand events beside ten of the program's. So IPython is left out, as its users leave
it out with Score-P.

* IPython's frames that call the program's code (a hook of a display, a magic of another package) are hidden;
  what is below them is shown.
* Frames that only work for IPython are hidden with all that they call.

Code of the cell that such a hidden frame runs is found by its file: these files count as cells, and a cell's
code is shown wherever it is called from.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import typing as t

_PACKAGES = ("IPython", "ipykernel", "traitlets")
# Hidden with what they call, below IPython.
_WORK_FOR_THEMSELVES = (
    "core/magics/",
    "core/builtin_trap.py",
    "core/inputtransformer2.py",
    "core/magic_arguments.py",
    "utils/",
)
# By this %prun comes to the code that it runs.
_LEADS_TO_CODE = "cProfile"
# The file names that magics give to the code that they compile.
_OF_MAGICS = ("<timed exec>", "<timed eval>", "<magic-timeit>")


class Rules(t.Protocol):
    """The functions that are needed of a recorder: see holdfast._recorder."""

    def exclude(self, prefix: str, /, *, callees: bool = False) -> None: ...

    def show_file(self, filename: str, shown: str, /) -> None: ...


@functools.cache
def leave_out(recorder: Rules) -> None:
    """Give the recorder these rules, once in a process. A fork inherits them."""
    for package in _PACKAGES:
        recorder.exclude(os.path.join(_directory(package), ""))
    for path in _WORK_FOR_THEMSELVES:
        recorder.exclude(os.path.join(_directory("IPython"), path), callees=True)
    show(recorder, _file(_LEADS_TO_CODE))


def show(recorder: Rules, file: str) -> None:
    """Show this file's code wherever it is called from, under its own name."""
    recorder.show_file(file, "".join(list(file)))  # another object than its code has


def name_cell(recorder: Rules, shown: str) -> None:
    """Code that magics compile from now on is this cell's."""
    for name in _OF_MAGICS:
        recorder.show_file(name, shown)


def _file(module: str) -> str:
    found = importlib.util.find_spec(module)
    return (found and found.origin) or ""


def _directory(package: str) -> str:
    return os.path.dirname(_file(package))
