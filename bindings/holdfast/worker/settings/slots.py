"""Carries settings that are objects of the notebook: each is a *slot*, a name of the namespace (carry/patches.py).

A handler of a logger may be a variable, and so may decimal's context; a warnings filter has a class. As names
they are carried like variables: with what they share, by the codecs, and each fails alone. All of them are
bound in each cell. Slots of libraries are declared in holdfast/libraries.
"""

from __future__ import annotations

import sys
import typing as t
import warnings

from holdfast.carry import finalizers
from holdfast.carry.patches import MISSING, Slot
from holdfast.carry.snapshots import Snapshot
from holdfast.libraries import Registry

from . import dispatchers, exit_handlers
from .registry_additions import Additions
from .attributes import is_notebooks
from .exit_handlers import is_own
from .function_results import function_results
from .library_state import library_state
from .module_entries import module_entries
from .process_settings import as_shown_before

FINDERS = "how modules are found"
_OWN_SIGNALS = ("SIGINT", "SIGTERM", "SIGURG")
# Attributes whose names say that they are a library's own (Differences passes over these), and which
# functions for notebooks set: `warnings.catch_warnings(record=True)` that is left in a later cell.
WATCHED = ("_warnings:_showwarnmsg_impl",)


def slots(shell: t.Any) -> dict[str, Slot]:
    """The slots that only compare with what there is now. A fork inherits them."""
    return {
        "warnings.filters": _filters(),
        "sys.argv": _arguments(),
        "decimal.getcontext()": _decimal_context(shell),
        "what functions of own modules remember": function_results.slot(),
        "implementations of own functions (singledispatch)": dispatchers.of_own_modules.slot(),
        "implementations of libraries' functions (singledispatch)": dispatchers.of_libraries.slot(),
        **library_state.begin(shell),
    }


def own_slots(shell: t.Any, runs_exit_handlers: bool) -> dict[str, Slot]:
    """Those of one process alone: most stand in for functions. To be called once in a process."""
    if not runs_exit_handlers:
        exit_handlers.leave_out(shell.user_ns)
    abstract = _Abstract()
    finalizers.watch(lambda space: is_own(space, shell.user_ns))
    return {
        "finalizers (weakref.finalize)": Slot(
            "weakref",
            lambda: finalizers.at_work() or MISSING,
            lambda new: finalizers.put_to_work([] if new is MISSING else new),
        ),
        FINDERS: _finders(),  # a worker has some
        "entries of sys.modules": module_entries.slot(),
        "handlers of signals": _signals(),
        "registrations with abstract classes": Slot("abc", abstract.read, abstract.write),
        **library_state.begin_notebook(shell.user_ns),
    }


def _filters() -> Slot:
    before = Snapshot(warnings.filters)

    def read() -> t.Any:
        """Compared by identity: libraries that the fork server imported have set the same here as in the
        main worker, and what arrived from there is never as the process made it."""
        return MISSING if before.is_still(warnings.filters) else list(warnings.filters)

    def write(new: t.Any) -> None:
        with as_shown_before():
            warnings.filters[:] = before.values if new is MISSING else new  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]

    return Slot("warnings", read, write)


def _arguments() -> Slot:
    before = Snapshot(sys.argv)

    def read() -> t.Any:
        return MISSING if before.is_still(sys.argv) else list(sys.argv)

    def write(new: t.Any) -> None:
        sys.argv[:] = before.values if new is MISSING else new

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


# ---- the interpreter's


def _finders() -> Slot:
    finders = Additions(
        Registry(
            FINDERS,
            "sys",
            holders=lambda names: {"finders": sys.meta_path, "hooks": sys.path_hooks},
        )
    )
    finders.begin()
    return finders.slot()


def _signals() -> Slot:
    import _signal
    import signal

    own = {getattr(_signal, name, None) for name in _OWN_SIGNALS}
    numbers = [number for number in range(1, _signal.NSIG) if number not in own]
    begun = Snapshot({number: _signal.getsignal(number) for number in numbers})

    def read() -> t.Any:
        found = {number: _signal.getsignal(number) for number in numbers}
        if begun.is_still(found):
            return MISSING
        changed = {
            number: int(handler) if isinstance(handler, int) else handler
            for number, (was, handler) in begun.changes(found).items()
            if handler is not None and handler != was
        }
        return changed or MISSING

    def write(new: t.Any) -> None:
        wanted = {} if new is MISSING else new
        for number, before in begun.entries.items():
            handler = wanted.get(number, before)
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)

    return Slot("signal", read, write)


class _Abstract:
    """Classes that the user registers with others', or with a module's. The notebook's own abstract classes carry
    what is registered with them."""

    def __init__(self) -> None:
        self._pairs: list[tuple[t.Any, t.Any]] = []
        abc: t.Any = sys.modules["abc"]
        register = abc._abc_register  # what every abstract class calls

        def note(kind: t.Any, member: t.Any) -> t.Any:
            is_users = is_notebooks(member) or is_notebooks(kind)
            if is_users and kind.__module__ != "__main__" and (kind, member) not in self._pairs:
                self._pairs.append((kind, member))
            return register(kind, member)

        abc._abc_register = note

    def read(self) -> t.Any:
        return list(self._pairs) or MISSING

    def write(self, new: t.Any) -> None:
        for kind, member in [] if new is MISSING else new:
            kind.register(member)
