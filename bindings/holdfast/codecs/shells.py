"""The codec of IPython's shell: each process has its own.

`ip = get_ipython()` is a line of many notebooks, and the shell refers to everything else.
"""

from __future__ import annotations

import typing as t

from IPython import get_ipython

from . import Codec, register


class _Shells(Codec):
    types = ("IPython.core.interactiveshell.InteractiveShell",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return (get_ipython, ()) if value is get_ipython() else NotImplemented


register(_Shells())
