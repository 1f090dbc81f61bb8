"""Makes arrays and tensors lie in the store's shared memory from the start ("born in the arena").

Our allocator stands behind NumPy's default handler (NEP 49), below the allocators of PyTorch, TensorFlow and
JAX, and in Arrow's default pool. Each is set once, when the library's import ends, and holds in every thread
and context.

Polars isn't reached: its allocator (jemalloc) is built in, takes memory from the system, and exports no
function. Its columns lie in the arena only if they were made from arrays of NumPy's or Arrow's.
"""

from __future__ import annotations

import os
import typing as t

from holdfast.base.after_import import call_once_imported

# Module -> the shared libraries of its that take memory by posix_memalign, each after those that
# may give back what it took.
_LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("libc10.so",),
    "tensorflow": ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2"),
    "jax": ("libjax_common.so", "xla_extension.so"),  # the latter up to jaxlib 0.6
}
# If TensorFlow uses oneDNN, it cuts blocks out of larger ones and keeps these for good: one tensor
# that is saved would take its neighbours along. With this it asks for each by itself, as it does
# elsewhere. It reads the setting at its first allocation, which a fork server never makes.
_EACH_BY_ITSELF = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
# "0": the libraries keep their own allocators, and their tensors are copied when they are saved.
_SWITCH = "HOLDFAST_LIBRARY_MEMORY"
# "0": all arrays and tensors lie in fresh memory of the process's own, as in a plain Python. The
# arena's memory is used again, which makes code that allocates faster than it is there.
_RECYCLE = "HOLDFAST_RECYCLE"


def be_born_in(session: t.Any) -> None:
    """Enable the store's allocator for each library, now or when it is there."""
    if session is None or os.environ.get(_RECYCLE) == "0":
        return

    def enable_numpy() -> None:
        from holdfast import _store

        _store.enable_numpy_allocator(session)

    def enable_arrow() -> None:
        from holdfast import _store

        _store.enable_arrow_pool(session)

    enable = {"numpy": enable_numpy, "pyarrow": enable_arrow}
    if os.environ.get(_SWITCH) != "0":
        for module in _LIBRARIES:
            enable[module] = _enabler(session, module)
    for module, call in enable.items():
        call_once_imported(module, call)


def _enabler(session: t.Any, module: str) -> t.Callable[[], None]:
    def enable() -> None:
        from holdfast import _store

        if module == "tensorflow":
            if os.environ.get(_EACH_BY_ITSELF, "1").lower() not in ("1", "true"):
                return  # the user's own choice
            os.putenv(_EACH_BY_ITSELF, "1")  # not in os.environ, which is the notebook's
        for library in _LIBRARIES[module]:
            _store.enable_library_allocator(session, library)

    return enable
