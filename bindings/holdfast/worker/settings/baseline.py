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

from . import slots
from .differences import Differences
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
