"""The monitor's samples, from any process.

In Holdfast's own kernel the frontend samples. In any other Python a small child process does. Both write to shared
memory, which this module reads without a message. There are messages only for starting and stopping, and for the begin
and end of cells, which the frontend knows itself.
"""

from __future__ import annotations

import bisect
import math
import os
import platform
import sys
import threading
import time
import typing as t

from .. import _monitor
from .sampled import (
    GIGABYTE,
    LEVELS,
    Cell,
    Edges,
    Figures,
    Resources,
    Samples,
    State,
    exact,
    of_rows,
)

_FOREVER = 2**63 - 1
_WEIGHED = ("memory_pss", "memory_uss")  # if the user asked for them


class MonitorError(RuntimeError):
    """The monitor can't do what it was asked for; the text is for the user."""


class Control(t.Protocol):
    """The process that samples: the requests that it answers.

    Attributes
    ----------
    counts_cells : bool
        Whether it knows when cells begin and end.
    """

    counts_cells: bool  # by itself

    def ask(self, action: str, **fields: t.Any) -> int | None:
        """Do what is asked.

        Parameters
        ----------
        action : {"open", "start", "stop", "begin", "end"}
            What to do.
        **fields : object
            The arguments of the action.

        Returns
        -------
        int or None
            A new descriptor of the samples after "open", otherwise None.

        Raises
        ------
        MonitorError
            It can't be done.
        """

    def close(self) -> None:
        """End the process, if it was made for this one."""


class Frontend:
    """The kernel's frontend, which samples for the whole notebook.

    Parameters
    ----------
    channel : Channel
        The control channel of this worker.

    Attributes
    ----------
    channel : Channel
        The same.
    """

    counts_cells = True

    def __init__(self, channel: t.Any):
        self.channel = channel

    def ask(self, action: str, **fields: t.Any) -> int | None:
        """Send a "monitor" frame, and wait for its answer.

        Parameters
        ----------
        action : str
            What to do.
        **fields : object
            The other fields of the frame.

        Returns
        -------
        int or None
            A new descriptor of the samples after "open", otherwise None.

        Raises
        ------
        MonitorError
            This isn't the main thread, or the frontend refuses.
        """
        if threading.current_thread() is not threading.main_thread():
            raise MonitorError("only the main thread may control the monitor")
        self.channel.send("monitor", action=action, **fields)
        answer = self.channel.wait_for("monitor")
        fd = self.channel.take_descriptors(answer)[0] if answer.get("found") else None
        if fd is None or answer.get("error"):
            raise MonitorError(answer.get("error") or "the monitor is gone")
        if action == "open":
            return fd
        os.close(fd)
        return None

    def close(self) -> None:
        """Do nothing: the frontend's monitor belongs to all workers."""


class Monitor:
    """Reads the samples, and sends requests to the process that samples.

    Parameters
    ----------
    control : Control
        The process that samples.

    Raises
    ------
    MonitorError
        It can't open its samples.
    """

    def __init__(self, control: Control):
        self._control = control
        fd = control.ask("open")
        assert fd is not None
        self._view = _monitor.View(fd)

    # ---- control

    @property
    def counts_cells(self) -> bool:
        """Whether cells are logged without `begin_cell` and `end_cell`.

        Returns
        -------
        bool
            True in Holdfast's kernel.
        """
        return self._control.counts_cells

    def start(self, interval: float | None = None, weigh: bool = False) -> None:
        """Start to sample, or change the interval.

        Parameters
        ----------
        interval : float, optional
            Seconds from one sample to the next, 0.001 to 3600. If it is left out: 1.
        weigh : bool
            Whether the level "process" has `memory_pss` and `memory_uss`, too: each page divided by the
            number of processes that have it, and pages of one process alone. They are read once a
            second at most, since that takes milliseconds for each gigabyte.

        Raises
        ------
        MonitorError
            The interval is out of range, or there is no sampler.
        """
        seconds = 1.0 if interval is None else float(interval)
        if not 0.001 <= seconds <= 3600:
            raise MonitorError("an interval is 0.001 to 3600 seconds")
        self._control.ask("start", interval_ns=round(seconds * 1e9), weigh=weigh)

    def stop(self) -> None:
        """Stop sampling. The samples stay.

        Raises
        ------
        MonitorError
            There is no sampler.
        """
        self._control.ask("stop")

    def close(self) -> None:
        """End the child process that samples, if there is one. Samples can still be read."""
        self._control.close()

    def begin_cell(self, source: str, number: int = 0) -> None:
        """Log that a cell begins. Nothing happens if the frontend logs cells.

        Parameters
        ----------
        source : str
            The cell's code.
        number : int
            Its execution count.
        """
        if not self.counts_cells:
            self._control.ask("begin", source=source, number=number)

    def end_cell(self, outcome: str = "ok") -> None:
        """Log that the cell has ended. Nothing happens if the frontend logs cells.

        Parameters
        ----------
        outcome : {"ok", "error", "interrupted"}
            How it ended.
        """
        if not self.counts_cells:
            self._control.ask("end", outcome=outcome)

    # ---- reading

    def state(self) -> State:
        """Return how the sampling goes.

        Returns
        -------
        State
            A dict of `running`; `interval` (seconds); `samples` and `missed` since the start; `cost_ns`,
            processor time of one sample in nanoseconds, `cost_share`, that of all as a part of the time
            since the start, and `level_cost_ns`, that of reading a level; `begin_ns`, `end_ns` (None while
            it runs) and `wall_begin` (seconds since 1970) of the sampling, None if it was never started;
            `levels`, of which there are samples; `pids` of the level "process".
        """
        raw = self._view.state()
        ever = raw["begin_ns"] > 0
        passed = (raw["end_ns"] or time.monotonic_ns()) - raw["begin_ns"]
        return {
            "running": raw["running"],
            "interval": raw["interval_ns"] / 1e9,
            "samples": raw["samples"],
            "missed": raw["missed"],
            "cost_ns": raw["cost_ns"] / max(raw["costed"], 1),
            "cost_share": raw["cost_ns"] / max(passed, 1) if ever else 0.0,
            "level_cost_ns": dict(zip(LEVELS, raw["level_costs"], strict=True)),
            "begin_ns": raw["begin_ns"] if ever else None,
            "end_ns": raw["end_ns"] or None,
            "wall_begin": raw["unix_ns"] / 1e9 if ever else None,
            "levels": self._levels(raw),
            "pids": raw["pids"],
        }

    def _levels(self, raw: _monitor._State) -> list[str]:
        return [level for i, level in enumerate(LEVELS) if raw["available"] >> i & 1]

    def resources(self) -> Resources:
        """Return what the machine has.

        Returns
        -------
        Resources
            A dict of `host`; `cores` that may be used (by affinity and quota) and `machine_cores`; `memory`
            and `memory_limit` in GB of 2**30 bytes, with `memory_limit_source`, in words;
            `memory_limits`, what the processes of each level may have, in GB; `slurm_job`,
            `slurm_limit` in GB (None if there is none) and `slurm_limit_source`; `gpus`, a list of `name`
            and `memory` in GB; `gpu_trouble`, the reason if there are none; `levels`.
        """
        facts = self._view.facts()
        job = facts["slurm_job"]
        return {
            "host": platform.node(),
            "cores": facts["cores"],
            "machine_cores": facts["machine_cores"],
            "memory": facts["memory_bytes"] / GIGABYTE,
            "memory_limit": facts["memory_limit_bytes"] / GIGABYTE,
            "memory_limit_source": facts["memory_limit_source"],
            "memory_limits": {level: self._limit(level) for level in LEVELS},
            "slurm_job": job or None,
            "slurm_limit": facts["slurm_limit_bytes"] / GIGABYTE or None,
            "slurm_limit_source": facts["slurm_limit_source"],
            "gpus": [
                {"name": gpu["name"], "memory": gpu["memory_bytes"] / GIGABYTE}
                for gpu in facts["gpus"]
            ],
            "gpu_trouble": facts["gpu_trouble"],
            "levels": self._levels(self._view.state()),
        }

    def cells(self) -> list[Cell]:
        """Return the cells that are kept (some thousand).

        Returns
        -------
        list of Cell
            The oldest first.
        """
        first, end = self._view.cells()
        found = []
        for index in range(first, end):
            try:
                raw = self._view.cell(index)
            except LookupError:  # dropped meanwhile
                continue
            found.append(_cell(raw))
        return found

    def samples(
        self, level: str = "process", begin_ns: int | None = None, end_ns: int | None = None
    ) -> Samples:
        """Return the samples of a level in a stretch of time.

        Parameters
        ----------
        level : {"process", "user", "system", "slurm"}
            The level.
        begin_ns, end_ns : int, optional
            The rows that end after `begin_ns` and begin before `end_ns`, in nanoseconds of the monotonic
            clock. If they are left out: all.

        Returns
        -------
        Samples
            The rows.

        Raises
        ------
        MonitorError
            There is no such level.
        """
        begin = -1 if begin_ns is None else begin_ns
        end = _FOREVER if end_ns is None else end_ns
        times, widths, columns = self._view.rows(_number(level), begin, end)
        columns = [one for one in columns if one[0] not in _WEIGHED or _is_known(one[2])]
        names = [name for name, *_ in columns]
        values, lows, highs = zip(*(arrays for _, _, *arrays in columns), strict=True)

        def by_name(arrays: t.Iterable[bytes | None]) -> dict[str, memoryview[float]]:
            pairs = zip(names, arrays, strict=True)
            return {name: memoryview(data).cast("d") for name, data in pairs if data is not None}

        return Samples(
            level=level,
            time=memoryview(times).cast("q"),
            width=memoryview(widths).cast("q"),
            columns=by_name(values),
            low=by_name(lows),
            high=by_name(highs),
            kinds={name: kind for name, kind, *_ in columns},
        )

    def summary(self, level: str, begin_ns: int, end_ns: int) -> dict[str, Figures]:
        """Compute the figures of each metric in a stretch of time.

        If the stretch begins with a cell and ends with one, means and totals are exact, by the readings
        at both edges, however coarse the samples are.

        Parameters
        ----------
        level : {"process", "user", "system", "slurm"}
            The level.
        begin_ns, end_ns : int
            The stretch, in nanoseconds of the monotonic clock.

        Returns
        -------
        dict of str to tuple
            Mean, least, greatest and total by metric. An amount's mean, least and greatest are per second,
            and its total is the amount; a gauge has no total, but `cpu_seconds` has nothing else.

        Raises
        ------
        MonitorError
            There is no such level.
        """
        samples = self.samples(level, begin_ns, end_ns)
        figures = {name: of_rows(samples, name, begin_ns, end_ns) for name in samples.columns}
        exact(figures, self._edges(_number(level), begin_ns, end_ns), self._cores(level))
        return {name: found for name, found in figures.items() if found is not None}

    def _is_machines(self, level: str) -> bool:
        """Whether a level has processes that may use the whole machine, also of other control
        groups."""
        if level not in ("user", "system"):
            return False
        columns = self._view.rows(_number("system"), 0, 0)[-1]
        return any(name == "cpu_util_0" for name, *_ in columns)  # a container has none

    def _cores(self, level: str) -> float:
        return self._view.facts()["machine_cores" if self._is_machines(level) else "cores"]

    def _limit(self, level: str) -> float:
        facts = self._view.facts()
        if self._is_machines(level):
            return facts["memory_bytes"] / GIGABYTE
        own = facts["slurm_limit_bytes"] if level == "slurm" else 0.0
        return (own or facts["memory_limit_bytes"]) / GIGABYTE

    def _edges(self, level: int, begin_ns: int, end_ns: int) -> Edges:
        """The readings at begin and end, and the peak between, as far as cells have them."""
        edges: Edges = {"begin": None, "end": None, "peak": 0.0}
        for cell in self._cells_between(begin_ns, end_ns):
            if cell.begin_ns == begin_ns:
                edges["begin"] = cell.begin[level]
            if cell.end_ns == end_ns:
                edges["end"] = cell.end[level]
            within = begin_ns <= cell.begin_ns and cell.end_ns and cell.end_ns <= end_ns
            if within and level == 0:
                edges["peak"] = max(edges["peak"], cell.peak_bytes)
        return edges

    def _cells_between(self, begin_ns: int, end_ns: int) -> t.Iterator[Cell]:
        """The cells that begin in a period. Binary search: a report calls this for each cell."""
        first, end = self._view.cells()
        numbers = range(first, end)
        for index in numbers[bisect.bisect_left(numbers, begin_ns, key=self._begin_of) :]:
            try:
                cell = _cell(self._view.cell(index))
            except LookupError:
                continue
            if cell.begin_ns > end_ns:
                return
            yield cell

    def _begin_of(self, index: int) -> int:
        try:
            return self._view.cell(index)["begin_ns"]
        except LookupError:  # dropped meanwhile: it is older than what is kept
            return -1


def _is_known(data: bytes) -> bool:
    return not all(map(math.isnan, memoryview(data).cast("d")))


def _number(level: str) -> int:
    try:
        return LEVELS.index(level)
    except ValueError:
        raise MonitorError(f"{level!r} isn't a level; there are {', '.join(LEVELS)}") from None


def _cell(raw: _monitor._Cell) -> Cell:
    return Cell(
        index=raw["index"],
        number=raw["number"],
        source=raw["source"],
        source_cut=raw["source_cut"],
        begin_ns=raw["begin_ns"],
        end_ns=raw["end_ns"] or None,
        wall_begin=raw["unix_ns"] / 1e9,
        kind=raw["kind"],
        outcome=raw["outcome"],
        pids=raw["pids"],
        begin=raw["begin"],
        end=raw["end"],
        peak_bytes=raw["peak_bytes"],
        begin_bytes=raw["begin_bytes"],
        end_bytes=raw["end_bytes"],
    )


_monitors: dict[int, Monitor] = {}  # by process, since a fork has its own


def connect() -> Monitor:
    """Return the monitor of this notebook, always the same one.

    Returns
    -------
    Monitor
        In a kernel other than ours it is made at the first call, with a child process that samples.

    Raises
    ------
    MonitorError
        There is no sampler.
    OSError
        The child process can't be started.
    """
    found = _monitors.get(os.getpid())
    if found is None:
        found = _monitors[os.getpid()] = Monitor(_control())
    return found


def _control() -> Control:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    channel = getattr(shell, "channel", None)
    if channel is not None:
        return Frontend(channel)
    from .child import Child

    return Child()
