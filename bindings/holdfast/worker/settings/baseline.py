"""Notes the state of a process before the notebook's code runs in it, as the base of all later comparisons.

To look at all of it takes milliseconds, and writes reference counts in hundreds of the fork server's pages,
which a fork then copies. So the fork server looks, each time after it has imported something, and its forks
inherit the notes. A fork looks again only at what it may have differently from its parent: the rows of a
process (process_settings.py), `sys`, whose streams a worker replaces, finders of modules, and handlers of signals
(slots.py). It looks at everything if a module was imported or a start-up file of the user's ran since.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast.base.after_import import watch_imports
from holdfast.carry.patches import Patches

from . import dispatchers, slots
from .attributes import is_own
from .differences import Differences
from .function_results import function_results
from .library_state import library_state
from .own_code import own_code
from .plain_settings import plain_settings


class Baseline:
    """The state of one process as it begins. The rows are in `plain_settings`."""

    def __init__(self, shell: t.Any):
        self.modules = len(sys.modules)
        self.slots = slots.slots(shell)
        self.differences = Differences(shell.user_ns)
        plain_settings.begin(shell)


_ahead: Baseline | None = None


def look_ahead(shell: t.Any) -> None:
    """Look in the fork server, for the forks to come."""
    global _ahead
    _ahead = Baseline(shell)
    if not is_known():  # the first look at a library imports our file about it
        _ahead = Baseline(shell)


def is_known() -> bool:
    """Whether nothing was imported since the last look."""
    return _ahead is not None and _ahead.modules == len(sys.modules)


def begin(shell: t.Any, is_as_built: bool) -> Baseline:
    """In a worker, before the notebook's code runs; `is_as_built`: the fork server built its shell, and
    no code of the user's has run in it."""
    if _ahead is None or not is_as_built or not is_known():
        return Baseline(shell)
    _ahead.differences.begin_in_fork()
    plain_settings.begin_in_fork(shell)
    return _ahead


def follow(shell: t.Any, is_as_built: bool, runs_exit_handlers: bool) -> None:
    """In a worker: note the state of this process before the notebook's code runs in it; for modules, once
    they are imported. `runs_exit_handlers`: the notebook's own, when this process ends."""
    shell.own_hidden = frozenset(shell.user_ns_hidden)
    known = begin(shell, is_as_built)
    differences = known.differences
    own = known.slots | slots.own_slots(shell, runs_exit_handlers)
    own["what own modules have computed"] = differences.slot()
    shell.patches = Patches(shell.user_ns, own, differences)
    shell.patches.watch(slots.WATCHED)
    library_state.follow(shell.patches)

    def imported(module: t.Any) -> None:
        if plain_settings.awaits(module.__name__):
            plain_settings.imported(module.__name__, shell)
        library_state.imported(module.__name__)
        if is_own(module.__spec__):
            own_code.imported(module)
            differences.imported(module)
            function_results.imported(module)
            dispatchers.of_own_modules.meet(module.__name__, dispatchers.in_own_module(module))

    def is_wanted(spec: t.Any) -> bool:
        name = spec.name
        own_code.prepare(spec)
        return library_state.awaits(name) or plain_settings.awaits(name) or is_own(spec)

    watch_imports(is_wanted, imported)
