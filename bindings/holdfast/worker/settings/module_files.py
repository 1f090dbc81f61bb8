"""Lets another process find modules that `sys.path` doesn't lead to, by the files that they were made from.

A module made by `importlib.util.spec_from_file_location`, as `%%cython` and readers of settings do, is in
`sys.modules` and nowhere on `sys.path`. So is a module whose directory was removed from the path. If a value
refers to such a module by its name, another process would not find it. So the files of all modules of the
user's own are carried. There a finder behind all others has them, and so meets only names that no other
finder knows.

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

    def capture(self) -> Files:
        """The file of each such module that is or was here."""
        for name, module in own_modules().items():
            if "." not in name and (file := _file(name, module)) is not None:
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
