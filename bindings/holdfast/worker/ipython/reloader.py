"""Finds IPython's `%autoreload` in this process, if the notebook has loaded it: is it on, and is it working now?"""

from __future__ import annotations

import sys
import typing as t

from IPython import get_ipython

EXTENSION = "IPython.extensions.autoreload"


def magics() -> t.Any:
    """The object with its magic commands."""
    shell = get_ipython() if EXTENSION in sys.modules else None
    return None if shell is None else shell.magics_manager.registry.get("AutoreloadMagics")


def reloader() -> t.Any:
    """The object of IPython's that looks at the files."""
    found = magics()
    return None if found is None else found._reloader


def is_on() -> bool:
    """Whether it looks before each cell."""
    found = reloader()
    return found is not None and found.enabled


def asks() -> bool:
    """Whether it is what imports something now."""
    frame: t.Any = sys._getframe(1) if EXTENSION in sys.modules else None
    while frame is not None and frame.f_globals.get("__name__") != EXTENSION:
        frame = frame.f_back
    return frame is not None


def texts_of(here: t.Any) -> dict[str, str]:
    """The texts of modules that it compares new files with; older versions of IPython compare nothing."""
    return here.deduper_reloader.source_by_modname if hasattr(here, "deduper_reloader") else {}
