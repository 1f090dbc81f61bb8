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
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            first = self in sys.meta_path
            if first:  # not before: somebody may only look for the module
                sys.meta_path.remove(self)
            load(module)
            if first:
                self._call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
