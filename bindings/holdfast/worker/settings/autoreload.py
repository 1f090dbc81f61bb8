"""IPython's `%autoreload`: what it is set to, and which files it has loaded.

It looks at the files of modules before each cell, in each process, and loads those that have become
newer than the times that it knows. So these times are carried: where another process has loaded a
newer file than this one, this one looks, too.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import typing as t

from IPython import get_ipython
from IPython.utils.capture import capture_output

from .attributes import own_modules

EXTENSION = "IPython.extensions.autoreload"
_OPTIONS = "enabled check_all autoload_obj hide_errors modules skip_modules".split()
_TIMES = "modules_mtimes"

_first_times: dict[str, float] = {}  # of files, when it first knew a module in this process


def reloader() -> t.Any:
    """IPython's, if the notebook has loaded the extension."""
    magics = _magics()
    return None if magics is None else magics._reloader


def _magics() -> t.Any:
    shell = get_ipython() if EXTENSION in sys.modules else None
    return None if shell is None else shell.magics_manager.registry.get("AutoreloadMagics")


def is_on() -> bool:
    """Whether it looks before each cell."""
    found = reloader()
    return found is not None and found.enabled


def asks() -> bool:
    """Whether it is what imports something now."""
    frame: t.Any = sys._getframe(1) if EXTENSION in sys.modules else None
    while frame is not None and frame.f_globals.get("__name__") != EXTENSION:
        frame = frame.f_back
    return frame is not None


def read() -> dict[str, t.Any]:
    """Its settings, and the times of files that it has loaded anew, or has to."""
    magics = _magics()
    own, known = own_modules(), magics._reloader.modules_mtimes
    # It learns of a module at the end of the cell that imports it: here that may have been an adoption.
    magics.loaded_modules.update(own)
    times = {}
    for name, module in own.items():
        written = magics._reloader.filename_and_mtime(module)[1]
        first = _first_times.setdefault(name, known.setdefault(name, written or 0))
        if known[name] != first or known[name] != written:
            times[name] = known[name]
    options = [name for name in _OPTIONS if hasattr(magics._reloader, name)]
    found = {name: copy.deepcopy(getattr(magics._reloader, name)) for name in options}
    return {**found, _TIMES: times}


def write(new: dict[str, t.Any]) -> None:
    """Be as another process."""
    here = reloader()
    times, known = new[_TIMES], here.modules_mtimes
    for name, time in times.items():
        if name not in sys.modules:
            known[name] = _first_times[name] = time
    if here.enabled and any(known.get(name, time) < time for name, time in times.items()):
        with capture_output():  # the user has seen it in the cell
            here.check()
    for name in new.keys() - {_TIMES}:
        setattr(here, name, new[name])


def note_imported() -> None:
    """What was bound has imported modules, and the next cell may change their files."""
    if reloader() is not None:
        with contextlib.suppress(Exception):  # as with each row: of another version
            read()
