"""Lets another process find modules that `sys.path` doesn't lead to, by the files that they were made from.

A module made by `importlib.util.spec_from_file_location`, as `%%cython` and readers of settings do, is in
`sys.modules` and nowhere on `sys.path`. So is a module whose directory was removed from the path. If a value
refers to such a module by its name, another process would not find it. There a finder behind all others is
asked, and so meets only names that no other finder knows.

Only top-level modules are looked at: what is in a package is found through the package. A module that
replaced another one, or has another loader than Python's own, isn't reported.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
import os
import sys
import typing as t

Files = dict[str, str]

_LOADERS = (
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
)


def working_directory() -> str:
    """The directory of this process; '' if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


class ModuleFiles:
    """This process's: what is known, and the finder for it."""

    def __init__(self) -> None:
        self.files: Files = {}
        self._places: set[str] = set()
        self._where: t.Any = None  # of the last look: what `_places` were made of,
        self._count, self._last = 0, ""  # how many modules there were, the latest

    def capture(self) -> Files:
        """The file of each such module. Those that were there at the last look aren't looked at."""
        for name in self._new():
            file = _file(name)
            if file is not None and not self._leads_to(name, file):
                self.files[name] = file
        return dict(self.files)

    def apply(self, new: Files) -> None:
        """Find these from now on."""
        self.files.update(new)
        if self not in sys.meta_path:
            sys.meta_path.append(self)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: t.Any = None, target: t.Any = None) -> t.Any:
        """The last finder that `sys.meta_path` asks."""
        file = self.files.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)

    def _new(self) -> list[str]:
        """The names to look at: those that came last; or all, if modules were removed or a directory is no
        longer looked into."""
        directory = working_directory()
        where = directory, tuple(sys.path)
        count = len(sys.modules) - self._count
        names = list(itertools.islice(reversed(sys.modules), max(count, 0) + 1))
        everything = count < 0 or names[-1] != self._last
        if where != self._where:
            entries = [entry for entry in sys.path if isinstance(entry, str)]
            places = {os.path.normpath(os.path.join(directory, one)) for one in entries}
            everything = everything or not self._places <= places
            self._places = places
        if everything:
            names = list(sys.modules)
        self._where, self._count = where, len(sys.modules)
        self._last = next(reversed(sys.modules))
        return [name for name in names if "." not in name]

    def _leads_to(self, name: str, file: str) -> bool:
        directory, base = os.path.split(file)
        stem = base.partition(".")[0]
        if stem == "__init__":
            directory, stem = os.path.split(directory)
        return stem == name and directory in self._places


def _file(name: str) -> str | None:
    """The file of the module of this name, if Python's own loaders can load it from there."""
    try:  # and not by the module's own `__getattribute__`, which may load it first
        spec = object.__getattribute__(sys.modules.get(name), "__spec__")
    except AttributeError:
        return None
    if type(getattr(spec, "loader", None)) not in _LOADERS or spec.name != name:
        return None
    return spec.origin if isinstance(spec.origin, str) else None


module_files = ModuleFiles()
