"""Carries settings that are objects of the notebook: each is a *slot*, a name of the namespace (carry/patches.py).

A handler of a logger may be a variable, and so may decimal's context; a warnings filter has a class. As names
they are carried like variables: with what they share, by the codecs, and each fails alone. All of them are
bound in each cell. Slots of libraries are declared in holdfast/libraries.
"""

from __future__ import annotations

import logging
import sys
import typing as t
import warnings

from holdfast.carry import finalizers
from holdfast.carry.patches import MISSING, Slot

from . import exits, ipython_registries, loggers, pyplot, registries
from .dispatchers import dispatchers
from .exits import is_own
from .library_state import library_state
from .remembered import remembered
from .rows import as_shown_before
from .watched import Memo

# Attributes whose names say that they are a library's own (Differences passes over these), and which
# functions for notebooks set: `warnings.catch_warnings(record=True)` that is left in a later cell.
WATCHED = ("_warnings:_showwarnmsg_impl",)


def slots(shell: t.Any) -> dict[str, Slot]:
    """The slots that only compare with what there is now. A fork inherits them."""
    own = {name: list(logger.handlers) for name, logger in loggers.named()}
    return {
        "warnings.filters": _filters(),
        "sys.argv": _arguments(),
        "decimal.getcontext()": _decimal_context(shell),
        "handlers and filters of logging": Slot(
            "logging",
            Memo(lambda: _handlers(own), loggers.manager, loggers.objects),
            lambda new: _set_handlers(new, own),
        ),
        "what functions of own modules remember": remembered.slot(),
        "implementations of libraries' functions (singledispatch)": dispatchers.slot(),
        **registries.slots(),
        **ipython_registries.slots(shell),
        **pyplot.slots(),
        **library_state.begin(shell),
    }


def own_slots(shell: t.Any, runs_exit_handlers: bool) -> dict[str, Slot]:
    """Those of one process alone: most stand in for functions. To be called once in a process."""
    if not runs_exit_handlers:
        exits.leave_out(shell.user_ns)
    finalizers.watch(lambda space: is_own(space, shell.user_ns))
    return {
        "finalizers (weakref.finalize)": Slot(
            "weakref",
            lambda: finalizers.at_work() or MISSING,
            lambda new: finalizers.put_to_work([] if new is MISSING else new),
        ),
        **registries.own_slots(),
        **library_state.begin_notebook(shell.user_ns),
    }


def _filters() -> Slot:
    before = list(warnings.filters)

    def read() -> t.Any:
        """Compared by identity: libraries that the fork server imported have set the same here as in the
        main worker, and what arrived from there is never as the process made it."""
        now = list(warnings.filters)
        return MISSING if list(map(id, now)) == list(map(id, before)) else now

    def write(new: t.Any) -> None:
        with as_shown_before():
            warnings.filters[:] = before if new is MISSING else new  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]

    return Slot("warnings", read, write)


def _arguments() -> Slot:
    before = list(sys.argv)

    def read() -> t.Any:
        return MISSING if sys.argv == before else list(sys.argv)

    def write(new: t.Any) -> None:
        sys.argv[:] = before if new is MISSING else new

    return Slot("sys", read, write)


def _decimal_context(shell: t.Any) -> Slot:
    """The context of all cells, as new, is left out where only a library has imported decimal and no
    variable holds it."""
    given = "decimal" not in sys.modules  # else the fork server has imported it

    def read() -> t.Any:
        decimal = sys.modules["decimal"]
        if not hasattr(decimal, "getcontext"):  # it is being imported
            return MISSING
        context = decimal.getcontext()
        if given or repr(context) != repr(decimal.DefaultContext):
            return context
        return context if any(one is context for one in list(shell.user_ns.values())) else MISSING

    def write(new: t.Any) -> None:
        nonlocal given
        given = new is not MISSING
        import decimal

        decimal.setcontext(new if given else decimal.DefaultContext)

    return Slot("decimal", read, write)


# ---- logging


def _handlers(own: dict[str, list[logging.Handler]]) -> t.Any:
    """The handlers and filters of each logger that has other ones than the process gave it, which go
    by their places."""
    found: dict[str, t.Any] = {}
    for name, logger in loggers.named():
        before = own.get(name, [])
        if logger.handlers != before or logger.filters:
            handlers = [_place(handler, before) for handler in logger.handlers]
            found[name] = handlers, list(logger.filters)
    return found or MISSING


def _place(handler: logging.Handler, before: list[logging.Handler]) -> t.Any:
    return before.index(handler) if handler in before else handler


def _set_handlers(new: t.Any, own: dict[str, list[logging.Handler]]) -> None:
    new = {} if new is MISSING else new
    current = _handlers(own)
    for name in new.keys() | (current.keys() if current is not MISSING else ()):
        logger = loggers.find(name)
        before = own.get(name, [])
        handlers, filters = new.get(name, (before, []))
        logger.handlers[:] = [
            before[one] if isinstance(one, int) else one
            for one in handlers
            if not isinstance(one, int) or one < len(before)
        ]
        logger.filters[:] = filters
