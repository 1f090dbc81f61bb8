"""Finds modules of the user's own that may look into the notebook.

A cell that calls a library can't change a variable that it doesn't pass to it. A module that lies beside the
notebook can: it may import `__main__`, or ask for a frame or the shell. The code of such a module is not
followed. Its source is searched for the words that it would need. Libraries (the standard library and
site-packages) are assumed to leave the notebook alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import opcode
import re
import sys
import types

from ..origin import is_library
from ..settings.attributes import NewModules

_LOOKS_OUT = re.compile(
    r"\b(?:_getframe|currentframe|get_ipython|get_referrers|get_objects|f_globals|user_ns)\b"
    r"|\b__main__\b(?!['\"]\s*:)"
)
_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+([^\W\d]\w*)", re.MULTILINE)
_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]
_EXTENDED_ARG = opcode.EXTENDED_ARG
_FILES_MAX = 200  # that one import is followed through


class OwnModules:
    """Those that were imported since this was made, a look at a time."""

    def __init__(self) -> None:
        self._modules = NewModules(knows_all=True)
        self.reason = ""

    def look(self) -> str:
        """Why any variable may be looked at by a module, or ""."""
        for name in self._modules.look():
            path = getattr(sys.modules.get(name), "__file__", None)
            source = _source_of(path)
            if source is not None and _LOOKS_OUT.search(source):
                self.reason = f"the module {name} may look at any variable"
        return self.reason


def imported_look_out(code: types.CodeType) -> str:
    """The same of modules that compiled code imports and that aren't imported yet."""
    work, seen = _roots_imported(code), set[str]()
    while work and len(seen) < _FILES_MAX:
        name = work.pop()
        if name in seen or name in sys.modules:
            continue
        seen.add(name)
        path = None
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            path = spec.origin if spec is not None else None
        source = _source_of(path)
        if source is None:
            continue
        if _LOOKS_OUT.search(source):
            return f"the module {name} may look at any variable"
        work.update(_IMPORTS.findall(source))
    return ""


def _roots_imported(code: types.CodeType) -> set[str]:
    """Top-level modules that this code itself imports; not relative ones."""
    found: set[str] = set()
    high = 0
    steps = code.co_code
    if _IMPORT_NAME not in steps[::2]:
        return found
    for operation, low in zip(steps[::2], steps[1::2], strict=True):
        argument = high | low
        high = argument << 8 if operation == _EXTENDED_ARG else 0
        if operation == _IMPORT_NAME:
            found.add(code.co_names[argument].partition(".")[0])
    return found - {""}


def _source_of(path: object) -> str | None:
    """A file's text, where it is Python and the user's own."""
    if not isinstance(path, str) or not path.endswith(".py") or is_library(path):
        return None
    try:
        with io.open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
