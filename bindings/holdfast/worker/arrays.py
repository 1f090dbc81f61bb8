"""Arrays and tensors that are born in the arena.

The allocator is put behind NumPy's default handler (NEP 49), below PyTorch's own allocator, and
into Arrow's default pool, once each, when the library's import ends: by a finder that steps aside afterwards, since any
cell may be the first to import it. From then on it holds in every thread and context.

A recording leaves this module's functions out, but shows what runs below them, since that is
the import of NumPy (see holdfast.scorep). So nothing but finders may be called here.
"""

from __future__ import annotations

import importlib.abc
import sys
import typing as t


def be_born_in(session: t.Any) -> None:
    """Enable the store's allocator for each library, now or when it is there."""
    if session is None:
        return

    def enable_numpy() -> None:
        from holdfast import _store

        _store.enable_numpy_allocator(session)

    def enable_torch() -> None:
        from holdfast import _store

        _store.enable_library_allocator(session, "libc10.so")

    def enable_arrow() -> None:
        from holdfast import _store

        _store.enable_arrow_pool(session)

    for module, enable in (
        ("numpy", enable_numpy),
        ("torch", enable_torch),
        ("pyarrow", enable_arrow),
    ):
        if module in sys.modules:
            enable()
        else:
            sys.meta_path.insert(0, _AfterImport(module, enable))


class _AfterImport(importlib.abc.MetaPathFinder):
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
