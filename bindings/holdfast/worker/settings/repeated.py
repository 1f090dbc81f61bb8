"""Calls by which a notebook sets up a library, made again in another process: slots of the namespace (kept.py).

`hv.extension("bokeh")`, `tqdm.pandas()` and `rich.pretty.install()` change classes, renderers and
formatters in many places, and what they put there can't be carried. So the calls are noted, with
their arguments, and made again where the notebook goes on, in their order for each library. The
notebook has seen their output already.

A call is noted if the notebook's code leads to it, and it has come back: what it calls itself isn't. A function is added to the table here: below the package that has to be imported, before it is
called again; a later call has to count more than the ones before.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import typing as t

from IPython import get_ipython
from IPython.utils.capture import capture_output

from holdfast._after_import import call_after_import
from holdfast._patches import MISSING, Slot

from .exits import is_own, is_same

# By package: module, and name there. A class that is called like a function has `__call__`.
_NOTED = {
    "holoviews": (
        ("holoviews.ipython", "notebook_extension.__call__"),
        ("holoviews.util", "output.__call__"),
        ("holoviews.util", "opts.defaults"),
    ),
    "hvplot": (("hvplot.utilities", "hvplot_extension.__call__"),),
    "pandas": (
        ("pandas.plotting", "register_matplotlib_converters"),
        ("pandas.plotting", "deregister_matplotlib_converters"),
    ),
    "panel": (("panel.config", "panel_extension.__call__"),),
    "rich": (("rich.pretty", "install"), ("rich.traceback", "install")),
    "sympy": (("sympy", "init_printing"), ("sympy.interactive.printing", "init_printing")),
    "tqdm": (("tqdm.std", "tqdm.pandas"),),
}
# These show what they are given, unless that is text.
_SETS_BY_TEXT = frozenset(("output.__call__",))

Call = tuple[tuple[str, str], tuple, dict[str, t.Any]]  # what was called, arguments, named ones


def slots(namespace: dict[str, t.Any]) -> dict[str, Slot]:
    """Those of this process. To be called once in a process."""
    found = {}
    for package, functions in _NOTED.items():
        calls = _Calls(package, namespace)
        found[f"the setup of {package}"] = calls.slot()
        for where in functions:
            install = functools.partial(calls.install, where)
            if where[0] in sys.modules:
                install()
            else:
                call_after_import(where[0], install)
    return found


class _Calls:
    """The notebook's calls of some functions of a package."""

    going_on = False  # of any package: one calls another

    def __init__(self, package: str, namespace: dict[str, t.Any]):
        self._package = package
        self._namespace = namespace
        self._made: list[Call] = []

    def slot(self) -> Slot:
        """The calls that the namespace knows."""
        return Slot(self._package, lambda: list(self._made) or MISSING, self._write)

    def install(self, where: tuple[str, str]) -> None:
        """Stand in for a function, if this version of the library has it."""
        holder = importlib.import_module(where[0])
        *steps, name = where[1].split(".")
        for step in steps:
            holder = vars(holder).get(step)  # type: ignore[assignment]
        original = None if holder is None else vars(holder).get(name)
        if original is None:
            return
        function = getattr(original, "__func__", original)
        stand_in: t.Any = self._stand_in(where, function)
        if function is not original:
            stand_in = type(original)(stand_in)
        if isinstance(holder, types.ModuleType):
            setattr(holder, name, stand_in)
        else:
            type.__setattr__(holder, name, stand_in)

    def _stand_in(self, where: tuple[str, str], function: t.Any) -> t.Any:
        @functools.wraps(function)
        def stand_in(*args: t.Any, **kwargs: t.Any) -> t.Any:
            if _Calls.going_on or not self._is_notebooks(sys._getframe(1)):
                return function(*args, **kwargs)
            _Calls.going_on = True
            try:
                result = function(*args, **kwargs)
            finally:
                _Calls.going_on = False
            self._note((where, args[1:] if where[1].endswith("__call__") else args, kwargs))
            return result

        return stand_in

    def _is_notebooks(self, frame: t.Any) -> bool:
        """Whether the notebook's code leads to a call, also by an import of a library's: another process may
        have imported that where IPython isn't there yet, which the fork server does."""
        while frame is not None:
            space = frame.f_globals
            if is_own(space, self._namespace):
                return frame.f_code.co_name != "<module>" or space is self._namespace
            frame = frame.f_back
        return False

    def _note(self, call: Call) -> None:
        where, args, _ = call
        if where[1] not in _SETS_BY_TEXT or all(isinstance(one, str) for one in args):
            self._made.append(call)

    def _write(self, new: t.Any) -> None:
        wanted = [] if new is MISSING else list(new)
        kept = 0
        while kept < min(len(wanted), len(self._made)) and _is_same(wanted[kept], self._made[kept]):
            kept += 1
        _Calls.going_on = True
        try:
            # Libraries ask for `get_ipython`, which is there while a cell runs.
            with get_ipython().builtin_trap, capture_output():
                for call in wanted[kept:]:
                    _make(*call)
        finally:
            _Calls.going_on = False
        self._made = wanted


def _is_same(one: Call, other: Call) -> bool:
    return one[0] == other[0] and is_same((None, *one[1:]), (None, *other[1:]))


def _make(where: tuple[str, str], args: tuple, kwargs: dict[str, t.Any]) -> None:
    called: t.Any = importlib.import_module(where[0])
    *steps, name = where[1].split(".")
    for step in steps:
        called = getattr(called, step)
    if name == "__call__":
        called(*args, **kwargs)
    elif steps:
        getattr(args[0], name)(*args[1:], **kwargs)  # of a class, which may be another one's
    else:
        getattr(called, name)(*args, **kwargs)
