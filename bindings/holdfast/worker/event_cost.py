"""Measures what it costs to record an event, on this machine.

A process that waits for a cell calls an empty function some thousand times from Python and from C, one that
calls itself, and generators, with and without a recording. Then all forks of the fork server know what an
event of each costs. The log takes new pages of its file now and then, which is a quarter of the cost, and
the same for all events. One measurement is enough. If no process had time before the first recorded cell ends, that cell's
process measures then. Under Score-P nothing is measured, since a process records only once there.

The recording needs a directory, and a process that waits may be killed at any moment. So it holds a lock of
the directory, which ends with it. It removes directories that nobody has locked.
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

if t.TYPE_CHECKING:
    from holdfast import _recorder

_CALLS = 1600  # a multiple of _DEPTH
_ROUNDS = 2
_TURNS = 9  # with and without a recording
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

def made(count):
    for number in range(count):
        yield number

def step(calls):
    for _ in range(calls // DEPTH):
        for _ in made(DEPTH - 1):
            pass

def make(calls):
    for _ in range(calls):
        for _ in made(0):
            pass

class Made:
    def __init__(self, value):
        pass

def called(calls):
    for made in same, Made:
        for _ in map(made, range(calls // 2)):
            pass

def mean(work, rounds, calls, clock):
    work(calls)
    started = clock()
    for _ in range(rounds):
        work(calls)
    return (clock() - started) / rounds

def each(works, *measured):
    return [mean(work, *measured) for work in works]

def once(functions, clock):
    started = clock()
    for function in functions:
        function(0)
    return clock() - started
""",
    "what an event costs",
    "exec",
)
# Functions that are called for the first time, with a file's name as long as a library's.
_FUNCTIONS = 200
_FILE = os.path.join(os.path.dirname(os.__file__), "what", "a_function_costs.py")


class Counted(t.NamedTuple):
    """What takes time in a recording, or what one of each takes."""

    flat: float = 0  # events, but for those of other kinds
    nested: float = 0  # events of deep calls
    steps: float = 0  # events of generators
    made: float = 0  # generators
    from_c: float = 0  # calls that C code made
    functions: float = 0  # that were met
    line_calls: float = 0  # that the sampler of lines noticed

    @classmethod
    def of(cls, result: _recorder._Result) -> Counted:
        """What a recording has counted, but for lines."""
        others = result["nested"] + result["steps"] + 2 * result["from_c"]
        return cls(
            result["events"] - others,
            result["nested"],
            result["steps"],
            result["made"],
            result["from_c"],
            max(result["regions"] - 1, 0),  # one is the cell
        )


_COSTS = struct.Struct("7d")  # in this order


class EventCost:
    """Seconds that recording takes; of a fork server and its forks.

    There are four kinds of events. On Python 3.11 each recorded call takes some of the C stack, so those
    of a deep recursion cost up to twice as much as others. The interpreter goes through C for each step
    of a generator anyway, and for a function that C code calls (`sorted(key=...)`, `__lt__`), so these cost
    less; to make a generator takes its time instead. And each function takes its time when a recording meets
    it first: a cell that calls hundreds of a library's a few times pays most for that.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _COSTS.size)

    @property
    def known(self) -> bool:
        """Whether somebody has measured it."""
        return _COSTS.unpack_from(self._shared)[0] > 0

    def of(self, counted: Counted) -> float:
        """Seconds that all this took."""
        costs = _COSTS.unpack_from(self._shared)
        return sum(count * cost for count, cost in zip(counted, costs, strict=True))

    def measure(self, recorder: t.Any) -> None:
        """In a process that waits: a recording of nothing, in a directory of its own."""
        probe: dict[str, t.Any] = {"DEPTH": _DEPTH}
        exec(_PROBE, probe)  # noqa: S102
        works = [probe[name] for name in ("flat", "deep", "step", "make", "called")]
        functions = _new_functions()
        known = probe["once"](functions, time.thread_time)
        settings = {name: os.environ.pop(name) for name in _measurement_settings()}
        try:
            with _scratch_directory() as directory:
                recorder.open(directory, tracing=True, profiling=False)
                try:
                    turns = _turns(probe["each"], works, lambda: _recorded(recorder))
                    with _recorded(recorder):
                        met = probe["once"](functions, time.thread_time)
                        by_lines = _turns_by_lines(recorder, directory, probe["each"], works[:1])
                finally:
                    counted = recorder.close()
        finally:
            os.environ.update(settings)
        if counted["events"] >= 10 * _CALLS * (_ROUNDS + 1) * _TURNS:
            taken = _with_pages(turns) + _middle(by_lines)
            flat, nested, step, made, from_c, line_call = (each / _CALLS for each in taken)
            costs = (
                flat / 2,
                nested / 2,
                step / 2,
                made - step,  # one for each, which has a step
                from_c,
                (met - known) / _FUNCTIONS - flat,
                line_call,
            )
            _COSTS.pack_into(self._shared, 0, *(max(cost, 1e-12) for cost in costs))


def _turns(
    each: t.Any, works: list[t.Any], within: t.Callable[[], t.ContextManager[None]]
) -> list[list[float]]:
    """Seconds by which each of the works is longer within something, some times."""
    measured = (works, _ROUNDS, _CALLS, time.thread_time)
    turns = []
    for _ in range(_TURNS):
        without = each(*measured)
        with within():
            turns.append([a - b for a, b in zip(each(*measured), without, strict=True)])
    return turns


def _turns_by_lines(
    recorder: t.Any, directory: str, each: t.Any, works: list[t.Any]
) -> list[list[float]]:
    """The same while lines are sampled, too; 0 where they can't be."""
    with contextlib.suppress(OSError, RuntimeError):
        return _turns(each, works, lambda: _with_lines(recorder, directory))
    return [[0.0] * len(works)]


def _middle(turns: list[list[float]]) -> list[float]:
    """Of each work the middle one: what else runs on the processor slows single ones down."""
    return [sorted(of_one)[len(turns) // 2] for of_one in zip(*turns, strict=True)]


def _with_pages(turns: list[list[float]]) -> list[float]:
    """The same, and for each work its part of the pages that only some of the turns have paid for. A turn
    that took much longer than the others has waited for somebody else."""
    middle = _middle(turns)
    usual = sorted(map(sum, turns))[:-1]
    pages = sum(usual) / len(usual) - sum(middle)
    return [seconds + pages / len(middle) for seconds in middle]


@contextlib.contextmanager
def _recorded(recorder: t.Any) -> t.Iterator[None]:
    recorder.enable()
    try:
        yield
    finally:
        recorder.disable()


@contextlib.contextmanager
def _with_lines(recorder: t.Any, directory: str) -> t.Iterator[None]:
    """The sampler's thread counts for itself."""
    path = os.path.join(directory, "lines")
    recorder.lines_begin(path, ())
    try:
        yield
    finally:
        recorder.lines_end()
        os.unlink(path)


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
    """The settings of the notebook's recordings, which the measurement doesn't use."""
    return [name for name in os.environ if name.startswith("SCOREP_")]


event_cost = EventCost()
