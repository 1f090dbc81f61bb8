"""A cell worker: a fresh process for one recorded (or isolated) cell.

It waits with its shell ready, runs the one cell that it is sent (isolated.py), and replies. After that it waits
until the frontend has closed its end, so that the reply can't be lost. Then it drops what wasn't carried, runs
the exit handlers of libraries for a limited time, and leaves by _exit. What was carried lives on in the main
worker, so no `__del__` of it runs here.
"""

from __future__ import annotations

import atexit
import sys
import typing as t

from holdfast.carry import device_lease, handles

from .computing import computing
from .ipython.application import CELL_CONFIG
from .isolated import Isolated
from .preallocation import preallocation
from .prefault import prefault
from .process import end_own_children, end_own_trackers, leave
from .requests import Worker

if t.TYPE_CHECKING:
    from .reports import Report

_WHILE_SECONDS = 0.1  # without a cell: there is time
_PATIENCE_SECONDS = 0.005  # until one looks again whether a cell's code runs; longer each time
_LEASE_SECONDS = 9.0  # the frontend waits for ten before it ends this process


class Cell(Worker):
    """One cell, then the end."""

    config = CELL_CONFIG

    def prepare(self) -> None:
        self.has_cell = False
        self._handlers = atexit._ncallbacks()
        self.modules = len(sys.modules)
        self._patience = _PATIENCE_SECONDS
        handles.table.fetch = self._fetch_handle
        device_lease.leases.durable = False
        from holdfast.commands import magics

        magics.register(self.shell, self)
        self.shell.ends_with_cell = True
        with self.shell.builtin_trap:
            self.shell.health.begin()
        self.absent.has_errors_elsewhere = True
        self.way = Isolated(self)
        self.last_run = "{}"
        self.last_report: Report = {}

    def _begin(self) -> None:
        super()._begin()
        self.loop.call_soon(self._copy_ahead)

    def _copy_ahead(self) -> None:
        """While nobody asks: have the pages that every cell writes (prefault.py), and know what
        an event costs (event_cost.py). Not while a cell's code runs elsewhere."""
        if self.has_cell:
            return
        if computing.is_going_on():
            self.loop.call_later(self._patience, self._copy_ahead)
            self._patience = min(2 * self._patience, 0.25)
            return
        self._patience = _PATIENCE_SECONDS
        if prefault.copy_some():
            self.loop.call_soon(self._copy_ahead)
        else:
            self.way.recording.measure()
            self.loop.call_later(_WHILE_SECONDS, self._meet_libraries)

    def _meet_libraries(self) -> None:
        if not self.has_cell:
            prefault.meet_libraries()
            self._prefill()

    def _prefill(self) -> None:
        """While nobody asks: see to it that there is memory for what a cell makes (preallocation.py)."""
        if self.has_cell or self.session is None:
            return
        if computing.is_going_on():
            preallocation.prefill_no_more(self.session)
            self.loop.call_later(_WHILE_SECONDS, self._prefill)
            return
        pause = preallocation.prefill_some(self.session)
        if pause is not None:
            self.loop.call_later(pause, self._prefill)

    def _fetch_handle(self, number: int) -> int | None:
        """The descriptor of a file that the main worker has open."""
        self.channel.send("want_handle", handle=number)
        answer = self.channel.wait_for("handle")
        return self.channel.take_descriptors(answer)[0] if answer.get("found") else None

    def closed(self) -> None:
        prefault.learn(self.way.faults)
        device_lease.leases.wait_for_return(_LEASE_SECONDS)
        # Exit handlers and threads that were left running may write to what is published.
        may_write = atexit._ncallbacks() > self._handlers or len(sys._current_frames()) > 1
        if self.session is not None and may_write:
            self.session.privatize()
        self._let_go_of_names()
        end_own_children()
        end_own_trackers()
        leave()

    def _let_go_of_names(self) -> None:
        """Drop the names: they hold what wasn't carried, too, which ends with this process (shell.py)."""
        self.names = None
        if self.absent.skipped is not None:
            self.absent.skipped.close()
