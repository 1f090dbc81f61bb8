"""Arrays and tensors that are born in the arena.

The allocator is put behind NumPy's default handler (NEP 49), below PyTorch's own allocator, and
into Arrow's default pool, once each, when the library's import ends. From then on it holds in
every thread and context.
"""

from __future__ import annotations

import sys
import typing as t

from .after_import import call_after_import


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
            call_after_import(module, enable)
