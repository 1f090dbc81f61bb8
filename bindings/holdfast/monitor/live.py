"""A plot that grows while cells run.

A thread of the notebook's process takes the new samples from the sampler's shared memory. It sends them to the plot in
the page, through an output of its own that shows nothing. It runs no code of the user's, and is marked so for
privatizing and recording (base/user_threads.py). It ends with the monitor. It also ends when no cell has run for as
long a time as the plot shows. Then the output becomes a plot of the last window, which a saved notebook keeps.
"""

from __future__ import annotations

import threading
import time
import typing as t
import uuid

from . import coarse, plot
from .arguments import CommandError
from .sampled import Cell

if t.TYPE_CHECKING:
    from holdfast.pages import schema

INTERVAL, WINDOW = 2.0, 120.0  # seconds


class Live(threading.Thread):
    """A thread that draws one plot again and again.

    Parameters
    ----------
    monitor : Monitor
        The live monitor.
    level : str
        The level that is shown at first.
    wanted : sequence of str
        The metrics that are shown at first.
    interval : float
        Seconds between two updates.
    window : float
        Seconds that the plot shows.
    """

    runs_user_code = False  # see holdfast.base.user_threads

    def __init__(
        self, monitor: t.Any, level: str, wanted: t.Sequence[str], interval: float, window: float
    ):
        super().__init__(name="holdfast-live-plot", daemon=True)
        self.monitor, self.level, self.wanted = monitor, level, wanted
        self.interval, self.window_ns = interval, round(window * 1e9)
        self.key = "live-" + uuid.uuid4().hex[:12]
        self.ended = threading.Event()
        self._shown: t.Any = None  # display handles: of the plot, and of what adds to it
        self._adds: t.Any = None
        self._begin = 0  # ns, of the plot
        self._seen: dict[str, int] = {}  # by level: the newest sample in it

    def begin(self) -> None:
        """Show the samples so far, and start the thread."""
        from IPython.display import display

        from holdfast.pages import page

        times = self.monitor.samples(self.level).time
        newest = times[-1] if len(times) else time.monotonic_ns()
        self._begin = max(newest - self.window_ns, times[0] - 1 if len(times) else 0)
        self._shown = display(
            page.live(self._data(self._begin), self.key), raw=True, display_id=True
        )
        self._adds = display({"text/plain": ""}, raw=True, display_id=True)
        self.start()

    def run(self) -> None:
        """Until nothing moves any more."""
        from holdfast.pages import page

        while not self.ended.wait(self.interval) and self._goes_on():
            more = self._data()
            if more["tracks"]:
                self._adds.update(
                    {"text/html": page.append(more, self.key, self._begin), "text/plain": ""},
                    raw=True,
                )
        begin = max(self._begin, self._newest() - self.window_ns)
        self._shown.update(page.bundle(self._data(begin)), raw=True)
        self._adds.update({"text/plain": ""}, raw=True)

    def _goes_on(self) -> bool:
        cells = self.monitor.cells()
        at_rest = cells and cells[-1].end_ns is not None
        return self.monitor.state()["running"] and not (
            at_rest and self._newest() - cells[-1].end_ns > self.window_ns
        )

    def _newest(self) -> int:
        return self._seen.get(self.level, self._begin)

    def _data(self, begin: int | None = None) -> schema.View:
        """The samples after a time, or the new ones, and the cells that ran since."""
        since = self._newest() if begin is None else begin
        tracks = []
        for level in self.monitor.state()["levels"]:
            after = self._seen.get(level, self._begin) if begin is None else begin
            samples = self.monitor.samples(level, after)
            if len(samples):
                self._seen[level] = samples.time[-1]
                pixel = coarse.pixel(samples, self.window_ns)
                tracks += plot.tracks(coarse.joined(samples, pixel), self.wanted)
        end = max(self._newest(), since + 1)
        cells = [plot.described(cell) for cell in self.monitor.cells() if _since(cell, since)]
        return {
            "title": "Performance, live",
            "level": self.level,
            "begin": since,
            "end": end,
            "window": self.window_ns,
            "facts": [],
            "cells": cells,
            "tracks": tracks,
        }


def _since(cell: Cell, begin: int) -> bool:
    return cell.end_ns is None or cell.end_ns > begin


_running: Live | None = None


def begin(
    shell: t.Any,
    monitor: t.Any,
    level: str,
    wanted: t.Sequence[str],
    interval: float = INTERVAL,
    window: float = WINDOW,
) -> None:
    """Show a live plot. One that was there before ends.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    monitor : Monitor
        The live monitor.
    level : str
        The level that is shown at first.
    wanted : sequence of str
        The metrics that are shown at first.
    interval : float
        Seconds between two updates.
    window : float
        Seconds that the plot shows.

    Raises
    ------
    CommandError
        The shell's process ends with the cell, or the shell is a terminal.
    """
    global _running
    if getattr(shell, "ends_with_cell", False):
        raise CommandError("a live plot needs a plain cell: this one's process ends with it")
    if set(shell.display_formatter.active_types) == {"text/plain"}:
        raise CommandError("a live plot needs a notebook")
    if _running is not None:
        _running.ended.set()
    _running = Live(monitor, level, wanted, interval, window)
    _running.begin()
