"""IPython's `%autoreload`: carries what it is set to, and which files it has loaded.

It looks at the files of modules before each cell, in each process. It loads those that have become newer than
the times that it knows. So these times are carried: if another process has loaded a newer file than this one,
this one looks, too. So are the texts with which it compares a new file, to change only the functions that
differ.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import typing as t

from IPython.utils.capture import capture_output

from ..settings.attributes import own_modules
from ..settings.own_code import own_code
from .reloader import magics, reloader, texts_of

_OPTIONS = "enabled check_all autoload_obj hide_errors modules skip_modules".split()
_ARGUMENTS, _FILES = "arguments", "files"
_REPORTS = {"print": " -p", "info": " -l", "pl": " -p -l"}  # by the function that reports a loading


class File(t.NamedTuple):
    """What `%autoreload` knows of a module's file."""

    time: float  # of the newest that it has looked at
    text: str | None
    has_failed: bool  # whether that one couldn't be loaded


_first_times: dict[str, float] = {}  # of files, when it first knew a module in this process


def read() -> dict[str, t.Any] | None:
    """Read its settings, and the times and texts of files that it has loaded anew, or has to. None while its module is
    imported, but not loaded as an extension."""
    found, here = magics(), reloader()
    if here is None:
        return None
    own, known, texts = own_modules(), here.modules_mtimes, texts_of(here)
    # It learns of a module at the end of the cell that imports it: here that may have been an adoption.
    found.loaded_modules.update(own)
    files = {}
    for name in own:
        written = _written(here, name)
        first = _first_times.setdefault(name, known.setdefault(name, written))
        if name not in texts and (text := own_code.text(name)) is not None:
            texts[name] = text
        if known[name] != first or known[name] != written:
            has_failed = here.failed.get(_path(here, name)) == known[name]
            files[name] = tuple(File(known[name], texts.get(name), has_failed))
    options = {name: copy.deepcopy(getattr(here, name)) for name in _OPTIONS if hasattr(here, name)}
    return {**options, _ARGUMENTS: _arguments(here), _FILES: files}


def write(new: dict[str, t.Any]) -> None:
    """Be as another process."""
    here = reloader()
    files = {name: File(*parts) for name, parts in new[_FILES].items()}
    known, texts = here.modules_mtimes, texts_of(here)
    for name, file in files.items():
        # Here it may have been loaded just now, from the text that it had there.
        if name not in sys.modules or file.time <= known.setdefault(name, _written(here, name)):
            known[name] = _first_times[name] = file.time
            texts.pop(name, None)
            if file.text is not None:
                texts[name] = file.text
            if file.has_failed:
                here.failed[_path(here, name)] = file.time
    if here.enabled and any(known.get(name, file.time) < file.time for name, file in files.items()):
        with capture_output():  # the user has seen it in the cell
            here.check()
    if new[_ARGUMENTS] != _arguments(here):
        magics().autoreload("off" + new[_ARGUMENTS])
    for name in new.keys() - {_ARGUMENTS, _FILES}:
        setattr(here, name, new[name])


def _arguments(here: t.Any) -> str:
    """Those of the magic command that are in no option."""
    compares = getattr(getattr(here, "deduper_reloader", None), "enabled", True)
    return _REPORTS.get(here._report.__name__, "") + ("" if compares else " --full")


def _path(here: t.Any, name: str) -> str:
    """The path of a module's file."""
    return here.filename_and_mtime(sys.modules[name])[0]


def _written(here: t.Any, name: str) -> float:
    """When a module's file was."""
    return here.filename_and_mtime(sys.modules[name])[1] or 0


def note_imported() -> None:
    """What was bound has imported modules, and the next cell may change their files."""
    if reloader() is not None:
        with contextlib.suppress(Exception):  # as with each row: of another version
            read()
