"""Arrays that are born in the arena.

NumPy's allocator handler (NEP 49) belongs to a context, and NumPy may be imported by any cell. So
it is enabled when NumPy's import ends, by a finder that steps aside afterwards, and again for
each request, since a handler that was set in one cell's context isn't there in the next.
Threads that user code starts have contexts of their own and use malloc; what they make is
copied into the store by the commit.

A recording leaves this module's functions out, but shows what runs below them, since that is
the import of NumPy (see holdfast.scorep). So nothing but finders may be called here.
"""

from __future__ import annotations

import importlib.abc
import sys
import typing as t


class Arena:
    """Enables the store's allocator for NumPy, now or when NumPy is there."""

    def __init__(self, session: t.Any):
        self._session = session
        if session is not None and "numpy" not in sys.modules:
            sys.meta_path.insert(0, _AfterImport("numpy", self.enable))

    def enable(self) -> None:
        """Enable in this context, if NumPy is imported."""
        if self._session is None or "numpy" not in sys.modules:
            return
        from holdfast import _store

        _store.enable_numpy_allocator(self._session)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported, then is gone."""

    def __init__(self, module: str, call: t.Callable[[], None]):
        self._module = module
        self._call = call

    def find_spec(self, name, path=None, target=None):
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self._call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
