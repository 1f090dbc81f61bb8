"""Lets another process find modules that `sys.path` doesn't lead to, by the files that they were made from.

A module made by `importlib.util.spec_from_file_location`, as `%%cython` and readers of settings do, is in
`sys.modules` and nowhere on `sys.path`. So is a module whose directory was removed from the path. If a value
refers to such a module by its name, another process would not find it. So the files of all modules of the
user's own are carried, and the other process gets a finder for them. It is the last one in `sys.meta_path`, so it
is asked only for modules that no other finder has found.

A process finds none again that it had and took out of `sys.modules`: that would be found only where Python itself
finds it. Nor is a file found that is gone, unless its text was carried (own_code.py).

Only top-level modules are looked at: what is in a package is found through the package. A module that
replaced another one, or has another loader than Python's own, isn't reported.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import typing as t

from .attributes import own_modules
from .own_code import own_code

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
        self.files: Files = {}  # of modules that another process has, and that weren't here yet

    def capture(self) -> Files:
        """The file of each such module that is here, or that another process has."""
        found = {
            name: file
            for name, module in own_modules().items()
            if "." not in name and (file := _file(name, module)) is not None
        }
        self.files = {name: file for name, file in self.files.items() if name not in found}
        return self.files | found

    def apply(self, new: Files) -> None:
        """Find these from now on, but for those that are here."""
        self.files = {name: file for name, file in new.items() if name not in sys.modules}
        if self not in sys.meta_path:
            sys.meta_path.append(self)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: t.Any = None, target: t.Any = None) -> t.Any:
        """The last finder that `sys.meta_path` asks."""
        file = self.files.get(name)
        if file is None or not (os.path.isfile(file) or own_code.has_text(name, file)):
            return None
        return importlib.util.spec_from_file_location(name, file)


def _file(name: str, module: t.Any) -> str | None:
    """The file of a module, if Python's own loaders can load it from there by this name."""
    try:  # and not by the module's own `__getattribute__`, which may load it first
        spec = object.__getattribute__(module, "__spec__")
    except AttributeError:
        return None
    if type(getattr(spec, "loader", None)) not in _LOADERS or spec.name != name:
        return None
    return spec.origin if isinstance(spec.origin, str) else None


module_files = ModuleFiles()
