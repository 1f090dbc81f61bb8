"""What it costs to record an event.

It is measured, not assumed: a process that waits for a cell calls an empty function some thousand
times, and one that calls itself, with and without a recording; what an event of each costs is then
known to all forks of the fork server. The mean counts, not the best: the log takes new pages of its
file all the time, which is a quarter of what an event costs. Once is enough: it is the same code on the same machine. If no
process had time for it before the first recorded cell ends, that cell's does it then. Under Score-P
nothing is measured, since a process records only once there.

The recording needs a directory, and a process that waits may be killed at any moment. So it holds a
lock of the directory, which ends with it, and removes those that nobody holds any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import shutil
import struct
import tempfile
import time
import types
import typing as t

_CALLS = 3000
_ROUNDS = 12
_DEPTH = 200  # of calls that call each other
_SCRATCH = "holdfast-event-cost-"  # how the names of the directories begin


# Neither a file of this package's nor called by one: those are never recorded.
_PROBE = compile(
    """
def same(value):
    return value

def nested(depth):
    if depth:
        nested(depth - 1)

def flat(calls):
    for number in range(calls):
        same(number)

def deep(calls):
    for _ in range(calls // DEPTH):
        nested(DEPTH - 1)

def mean(work, rounds, calls, clock):
    work(calls)
    started = clock()
    for _ in range(rounds):
        work(calls)
    return (clock() - started) / rounds

def both(*measured):
    return [mean(work, *measured) for work in (flat, deep)]

def once(functions, clock):
    started = clock()
    for function in functions:
        function(0)
    return clock() - started
""",
    "<what an event costs>",
    "exec",
)
# Functions that are called for the first time, with a file's name as long as a library's.
_FUNCTIONS = 200
_FILE = os.path.join(os.path.dirname(os.__file__), "what", "a_function_costs.py")


_COSTS = struct.Struct("ddd")  # of an event, of a nested one, of a function


class EventCost:
    """Seconds that recording takes; of a fork server and its forks.

    There are two kinds of events. On Python 3.11 each recorded call takes some of the C stack, so those
    of a deep recursion cost up to twice as much as others. And each function takes its time when a
    recording meets it first: a cell that calls hundreds of a library's a few times pays most for that.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _COSTS.size)

    @property
    def known(self) -> bool:
        """Whether somebody has measured it."""
        return _COSTS.unpack_from(self._shared)[0] > 0

    def of(self, events: int, nested: int, functions: int) -> float:
        """Seconds that so many events took, of which some are nested ones, of so many functions."""
        flat_cost, nested_cost, function_cost = _COSTS.unpack_from(self._shared)
        events_cost = (events - nested) * flat_cost + nested * nested_cost
        return events_cost + functions * function_cost

    def measure(self, recorder: t.Any) -> None:
        """In a process that waits: a recording of nothing, in a directory of its own."""
        probe: dict[str, t.Any] = {"DEPTH": _DEPTH}
        exec(_PROBE, probe)  # noqa: S102
        measured = (_ROUNDS, _CALLS, time.thread_time)
        plain = probe["both"](*measured)
        functions = _new_functions()
        known = probe["once"](functions, time.thread_time)
        settings = {name: os.environ.pop(name) for name in _measurement_settings()}
        try:
            with _scratch_directory() as directory:
                recorder.open(directory, tracing=True, profiling=False)
                try:
                    recorder.enable()
                    recorded = probe["both"](*measured)
                    met = probe["once"](functions, time.thread_time)
                finally:
                    recorder.disable()
                    counted = recorder.close()
        finally:
            os.environ.update(settings)
        if counted["events"] >= 4 * _CALLS * (_ROUNDS + 1):
            costs = [max(a - b, 0) / (2 * _CALLS) for a, b in zip(recorded, plain, strict=True)]
            costs.append((met - known) / _FUNCTIONS - 2 * costs[0])
            _COSTS.pack_into(self._shared, 0, *(max(cost, 1e-12) for cost in costs))


@contextlib.contextmanager
def _scratch_directory() -> t.Iterator[str]:
    """A directory for the time of a measurement."""
    _remove_scratch_of_killed()
    directory = tempfile.mkdtemp(prefix=_SCRATCH)
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(held)


def _remove_scratch_of_killed() -> None:
    """One that was made this moment may not be locked yet, and goes, too: its measurement fails, and
    is made again later."""
    with os.scandir(tempfile.gettempdir()) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(_SCRATCH)]
    for path in paths:
        with contextlib.suppress(OSError):  # somebody else's, or gone
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(held)


def _new_functions() -> list[t.Any]:
    """Compiled here: at import it would be 200 functions' time of each start."""
    names: dict[str, t.Any] = {"__name__": "some.module"}
    source = "".join(f"def some_function_{n}(value): pass\n" for n in range(_FUNCTIONS))
    exec(compile(source, _FILE, "exec"), names)  # noqa: S102
    return [one for one in names.values() if isinstance(one, types.FunctionType)]


def _measurement_settings() -> list[str]:
    """Those of the notebook's recordings, which this is none of."""
    return [name for name in os.environ if name.startswith("SCOREP_")]


event_cost = EventCost()
