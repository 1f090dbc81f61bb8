"""Measures what it costs to record an event, on this machine.

A process that waits for a cell runs small works with and without a recording, each with one kind of call
more than those before it: what it takes beyond the known kinds is what this kind costs. So no
kind needs a rule of its own: the recorder counts how many there were, in a work and in a cell. Then all
forks of the fork server know it. One measurement is enough: it is kept for a day in a file, which the user's
other kernels read. If nobody has measured before the first recorded cell ends, that cell's process does. A
recording of C functions uses another hook, and has costs of its own, which are measured at the end of the
first such cell. Under Score-P nothing is measured, since a process records only once there.

What is rare and long isn't estimated: the recorder measures the processor time that it takes for the log's
next pages and for a thread's first event.

The recording needs a directory, and a process that waits may be killed at any moment. So it holds a lock of
the directory, which ends with it. It removes directories that nobody has locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import shutil
import struct
import sys
import tempfile
import time
import types
import typing as t

if t.TYPE_CHECKING:
    from holdfast import _recorder

_CALLS = 1500  # a multiple of all depths
_TURNS = 5  # with and without a recording
_LOOKS = 5  # at each work, at different times
_SCRATCH = "holdfast-event-cost-"  # how the names of the directories begin
_KEPT_SECONDS = 86_400


# Neither a file of this package's nor called by one: those are never recorded.
_PROBE = compile(
    """
def same(value):
    return value

def nested(depth):
    if depth:
        nested(depth - 1)

def made(count):
    for number in range(count):
        yield number

def raises(depth):
    if depth:
        raises(depth - 1)
    raise ValueError

def below(depth):
    for _ in map(below, (depth - 1,) if depth else ()):
        pass

class Made:
    def __init__(self, value):
        pass

def flat(calls):
    for number in range(calls):
        same(number)

def depth_30(calls):
    for _ in range(calls // 30):
        nested(29)

def depth_300(calls):
    for _ in range(calls // 300):
        nested(299)

def step(calls):
    for _ in range(calls // 100):
        for _ in made(99):
            pass

def make(calls):
    for _ in range(calls):
        for _ in made(0):
            pass

def called(calls):
    for made in same, Made:
        for _ in map(made, range(calls // 2)):
            pass

def called_below(calls):
    for _ in range(calls // 150):
        below(149)

def end(calls):
    for _ in range(calls // 5):
        try:
            raises(4)
        except ValueError:
            pass

def call_c(calls):
    for number in range(calls):
        abs(number)

def call_method(calls):
    text = ""
    for _ in range(calls):
        text.strip()

def timed(work, calls, clock):
    started = clock()
    work(calls)
    return clock() - started

def once(functions, clock):
    started = clock()
    for function in functions:
        function(0)
    return clock() - started
""",
    "what an event costs",
    "exec",
)
# Each has one kind more than those before it (fields of Counted).
_WORKS = {
    "flat": "flat",
    "nested": "depth_30",
    "deep": "depth_300",
    "steps": "step",
    "made": "make",
    "from_c": "called",
    "deep_from_c": "called_below",
    "raised": "end",
    "of_c": "call_c",
    "bound": "call_method",
}
# Functions that are called for the first time, with a file's name as long as a library's.
_FUNCTIONS = 200
_FILE = os.path.join(os.path.dirname(os.__file__), "what", "a_function_costs.py")


class Counted(t.NamedTuple):
    """What takes time in a recording, or what one of each takes. An event is flat, nested, deep or a step;
    of the others is counted what makes an event cost more than that, or less."""

    flat: float = 0
    nested: float = 0  # some calls below each other
    deep: float = 0  # many
    steps: float = 0  # of generators
    made: float = 0  # generators
    from_c: float = 0  # calls that C code made
    deep_from_c: float = 0  # of them, those below each other
    raised: float = 0  # calls that an exception ended
    of_c: float = 0  # calls of C functions
    bound: float = 0  # of them, methods that the interpreter bound for the hook
    functions: float = 0  # that were met
    line_calls: float = 0  # that the sampler of lines noticed
    own_seconds: float = 0  # that the recorder has measured

    @classmethod
    def of(cls, result: _recorder._Result) -> Counted:
        """What a recording has counted, but for lines."""
        kinds = result["kinds"]
        others = kinds["nested"] + kinds["deep"] + kinds["steps"]
        return cls(
            flat=result["events"] - others,
            functions=max(result["regions"] - 1, 0),  # one is the cell
            own_seconds=result["own_seconds"],
            **kinds,
        )


_COSTS = struct.Struct(f"{len(Counted._fields)}d")  # in this order


class EventCost:
    """Seconds that recording takes; of a fork server and its forks.

    On Python 3.11 each recorded call takes some of the C stack, so those of a deep recursion cost up to
    twice as much as others. The interpreter goes through C for each step of a generator anyway, and for a
    function that C code calls (`sorted(key=...)`, `__lt__`), so these cost less; to make a generator takes
    its time instead. From 3.12 on a call that an exception ends costs more. A method of a C type is
    bound only to be shown to the hook of C functions. And each function takes its time when a
    recording meets it first: a cell that calls hundreds of a library's a few times pays most for
    that.
    """

    def __init__(self, c_calls: bool = False, kept_as: str = "") -> None:
        self._c_calls = c_calls
        self._kept_as = kept_as  # the end of the file's name
        self._shared = mmap.mmap(-1, _COSTS.size)

    @property
    def known(self) -> bool:
        """Whether somebody has measured it."""
        return self._is_set() or self._read()

    def _is_set(self) -> bool:
        return bool(_COSTS.unpack_from(self._shared)[0] > 0)

    def _path(self) -> str:
        return os.path.join(tempfile.gettempdir(), f"holdfast-{os.getuid()}-{self._kept_as}.json")

    def _read(self) -> bool:
        """Take what another kernel of this user has measured. A file that isn't what `_keep` writes is
        passed over."""
        if not self._kept_as:
            return False
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError, struct.error):
            with open(os.open(self._path(), os.O_RDONLY | os.O_NOFOLLOW)) as file:
                found = os.fstat(file.fileno())
                kept = json.load(file)
            is_new = 0 <= time.time() - found.st_mtime < _KEPT_SECONDS
            if found.st_uid == os.getuid() and is_new and kept[0] == _measured_with():
                _COSTS.pack_into(self._shared, 0, *kept[1])
        return self._is_set()

    def _keep(self) -> None:
        if not self._kept_as:
            return
        with contextlib.suppress(OSError):
            made, path = tempfile.mkstemp(prefix="holdfast-")
            try:
                with open(made, "w") as file:
                    json.dump([_measured_with(), _COSTS.unpack_from(self._shared)], file)
                os.replace(path, self._path())
            except OSError:
                os.unlink(path)

    def of(self, counted: Counted) -> float:
        """Seconds that all this took."""
        return max(_sum(counted, Counted(*_COSTS.unpack_from(self._shared))), 0.0)

    def measure(self, recorder: t.Any) -> None:
        """In a process that waits: recordings of nothing, in a directory of their own."""
        probe: dict[str, t.Any] = {}
        exec(_PROBE, probe)  # noqa: S102
        costs = Counted(own_seconds=1)
        settings = {name: os.environ.pop(name) for name in _measurement_settings()}
        try:
            with _scratch_directory() as directory:
                looks: dict[str, list[tuple[Counted, float]]] = {kind: [] for kind in _WORKS}
                for look in range(_LOOKS):
                    for kind, work in _WORKS.items():
                        place = os.path.join(directory, f"{work}-{look}")
                        looks[kind].append(_run(recorder, place, self._c_calls, probe, work))
                for kind, ran in looks.items():
                    middle = sorted(ran, key=_seconds)[_LOOKS // 2]
                    costs = costs._replace(**{kind: _cost(kind, *middle, costs)})
                costs = costs._replace(**self._others(recorder, directory, probe, costs))
        finally:
            os.environ.update(settings)
        if costs.flat > 0:
            _COSTS.pack_into(self._shared, 0, *costs)
            self._keep()

    def _others(
        self, recorder: t.Any, directory: str, probe: dict[str, t.Any], costs: Counted
    ) -> dict[str, float]:
        functions = _new_functions()
        known = probe["once"](functions, time.thread_time)
        recorder.open(f"{directory}/others", tracing=True, profiling=False, c_calls=self._c_calls)
        try:
            with _recorded(recorder):
                met = probe["once"](functions, time.thread_time)
                line_calls = _line_calls(recorder, directory, probe)
        finally:
            recorder.close()
        each = (met - known) / _FUNCTIONS - 2 * costs.flat
        return {"functions": max(each, 0.0), "line_calls": max(line_calls, 0.0)}


def _measured_with() -> list[t.Any]:
    """What the costs depend on: the machine since its start, the interpreter, the recorder, this file."""
    from holdfast import _recorder

    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    stamps = [os.stat(one).st_mtime_ns for one in (_recorder.__file__, __file__)]
    return [boot, sys.version, sys.executable, *stamps]


def _sum(counted: Counted, costs: Counted) -> float:
    return sum(count * cost for count, cost in zip(counted, costs, strict=True))


def _cost(kind: str, counted: Counted, seconds: float, costs: Counted) -> float:
    """What one of this kind takes, if something took these seconds and the costs of all others are known."""
    count = getattr(counted, kind)
    return (seconds - _sum(counted._replace(**{kind: 0}), costs)) / count if count else 0.0


def _run(
    recorder: t.Any, place: str, c_calls: bool, probe: dict[str, t.Any], work: str
) -> tuple[Counted, float]:
    """What one of the works has in a recording, and the seconds by which it is longer. What the
    recorder measures itself is neither in the one nor in the other, since only few turns have it."""
    recorder.open(place, tracing=True, profiling=False, c_calls=c_calls)
    try:
        with _recorded(recorder):
            probe[work](_CALLS)
        seconds = _longer(probe, work, lambda: _recorded(recorder))
    finally:
        counted = Counted.of(recorder.close())
    if not counted.flat:
        raise RuntimeError("events were lost")
    once = Counted(*(count / (_TURNS + 1) for count in counted))
    return once._replace(functions=0, own_seconds=0), seconds


def _seconds(ran: tuple[Counted, float]) -> float:
    return ran[1]


def _longer(
    probe: dict[str, t.Any], work: str, within: t.Callable[[], t.ContextManager[None]]
) -> float:
    """Seconds by which the work is longer within something."""
    alone, inside = [], []
    for _ in range(_TURNS):
        alone.append(probe["timed"](probe[work], _CALLS, time.thread_time))
        with within():
            inside.append(probe["timed"](probe[work], _CALLS, time.thread_time))
    return _usual(inside) - _usual(alone)


def _usual(seconds: list[float]) -> float:
    """What else runs on the processor makes some of them longer, and none shorter."""
    return sorted(seconds)[len(seconds) // 3]


def _line_calls(recorder: t.Any, directory: str, probe: dict[str, t.Any]) -> float:
    """What a call takes more while lines are sampled, too; 0 where they can't be."""
    with contextlib.suppress(OSError, RuntimeError):
        return _longer(probe, "flat", lambda: _with_lines(recorder, directory)) / _CALLS
    return 0.0


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
    made = tempfile.mkdtemp(prefix="holdfast-")
    held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    directory = os.path.join(os.path.dirname(made), _SCRATCH + os.path.basename(made)[9:])
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.rename(made, directory)  # not before: others remove what isn't locked
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(held)


def _remove_scratch_of_killed() -> None:
    """Nobody holds their locks any more."""
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


event_cost = EventCost(kept_as="event-cost")
c_event_cost = EventCost(c_calls=True, kept_as="event-cost-c")
