"""A function that is called once a module has been imported, whoever imports it.

By a finder that steps aside afterwards: any cell may be the first to import a library. A
recording leaves this module's functions out, but shows what runs below them, since that is
the import (see holdfast.scorep). So nothing but finders may be here.
"""

from __future__ import annotations

import sys
import typing as t


def call_after_import(module: str, call: t.Callable[[], None]) -> None:
    """Call a function once, when the import of a module that isn't there yet has ended."""
    sys.meta_path.insert(0, _AfterImport(module, call))


class _AfterImport:
    """Calls a function once a module has been imported, then is gone."""

    def __init__(self, module: str, call: t.Callable[[], None]):
        self._module = module
        self._call = call

    def find_spec(self, name, path=None, target=None):
        if name != self._module or self not in sys.meta_path:
            return None
        spec = None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        if not hasattr(getattr(spec, "loader", None), "exec_module"):
            return spec
        spec.loader = _Loader(self, spec.loader)
        return spec


class _Loader:
    """A module's own loader, which calls what waits for it afterwards, and has its place again."""

    def __init__(self, waits: _AfterImport, loader: t.Any):
        self._waits, self._loader = waits, loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        first = self._waits in sys.meta_path
        if first:  # not before: somebody may only look for the module
            sys.meta_path.remove(self._waits)
        self._loader.exec_module(module)
        if first:
            self._waits._call()
