"""Says which modules are libraries, and which are the user's own: by where their files lie."""

from __future__ import annotations

import functools
import os
import site
import sys

# Also where it isn't in site-packages, but in a checkout.
_HOLDFAST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.lru_cache(maxsize=4)
def _import_roots(search: tuple[str, ...]) -> tuple[str, ...]:
    """The directories of libraries, by `sys.path` as it is: each of hundreds of modules is asked
    about. `sysconfig` knows them as well, but imports 1,000 settings to say so."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    roots = {
        os.path.dirname(os.__file__),
        os.path.join(sys.base_exec_prefix, sys.platlibdir, version),
        *site.getsitepackages(),
        _HOLDFAST,
    }
    roots.update(path for path in search if path.endswith(("site-packages", "dist-packages")))
    return tuple(os.path.realpath(root) + os.sep for root in roots)


def is_library(path: str) -> bool:
    """Whether a module's file is of the standard library, of site-packages or of Holdfast."""
    directory, name = os.path.split(path)
    if os.path.isabs(path):
        path = os.path.join(_real_directory(directory), name)
        real = os.path.realpath(path) if os.path.islink(path) else path
    else:
        real = os.path.realpath(path)
    return real.startswith(
        _import_roots(tuple(entry for entry in sys.path if isinstance(entry, str)))
    )


@functools.lru_cache(maxsize=4096)
def _real_directory(path: str) -> str:
    """Without links: hundreds of modules lie in few directories, each of eight steps or so."""
    return os.path.realpath(path)
