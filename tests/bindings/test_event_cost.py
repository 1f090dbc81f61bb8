"""What recording an event costs, and the directory in which that is measured (worker/event_cost.py)."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import typing

import pytest
from holdfast.worker import event_cost

MEASURE = """
from holdfast import _recorder
from holdfast.worker.event_cost import Counted, EventCost
event_cost = EventCost()
event_cost.measure(_recorder)
kinds = "flat", "nested", "deep", "steps", "functions"
print(all(event_cost.of(Counted(**{kind: 1000})) > 1e-9 for kind in kinds))
"""
# It waits in the middle of a measurement until its input ends.
WAITS = """
import os, sys
class Recorder:
    def open(self, directory, **settings):
        os.mkdir(directory)
        print(os.path.dirname(directory), flush=True)
        sys.stdin.read()
        raise OSError("that was all")
from holdfast.worker.event_cost import event_cost
event_cost.measure(Recorder())
"""

# Code that calls two functions of its own; C code does so in the first ones.
FROM_C = {
    "sorted": "sorted([2, 1], key=one)",
    "map": "list(map(one, (1, 2)))",
    "reduce": "functools.reduce(both, (1, 2, 3))",
    "re.sub": "pattern.sub(one, 'aa')",
    "comparisons": "ordered < 1, ordered == 1",
    "a missing key": "missing[1], missing[2]",
    "a property, a format": "f'{ordered.value}{ordered}'",
    "initializers": "Made(), Made()",
    "unpacked arguments": "one(*('',)), one(**{'value': ''})",
    "a recursion": "again(1)",
}
FROM_PYTHON = {
    "by position and name": "one(1), one(value=2)",
    "methods": "ordered.method(), ordered.method()",
    "one in the other": "two()",
    "comprehensions": "[i for i in ()], {i for i in ()}",
    "a subscript": "ordered[1], ordered[2]",
}
COUNTS = """
import functools, re, sys
from holdfast import _recorder
from holdfast.worker.event_cost import Counted
def one(value): return ''
def both(a, b): pass
def two(): one(1)
def again(n):
    if n: list(map(again, [n - 1]))
class Ordered:
    def __lt__(self, other): return True
    def __eq__(self, other): return True
    def __format__(self, how): return ''
    @property
    def value(self): return ''
    def method(self): pass
    def __getitem__(self, i): pass
class Missing(dict):
    def __missing__(self, key): pass
class Made:
    def __init__(self): pass
missing = Missing()
ordered, pattern, numbers = Ordered(), re.compile('a'), (n for n in (1, 2))
def run():
    CODE
for _ in range(20): run()  # until the interpreter has specialized it
_recorder.open(sys.argv[1], tracing=True, profiling=False)
HOOKS
run()
next(numbers)
_recorder.disable()
counted = Counted.of(_recorder.close())
print(counted.flat, counted.steps, counted.from_c, counted.raised)
"""
HOOKS = "_recorder.enable()", "_recorder.lines_begin(sys.argv[1] + '/lines', ())"


# How many events of each kind some code has, with those of the function around it.
KINDS = {
    "again(0), again(0)": {"flat": 6},
    "below(20)": {"flat": 16, "nested": 28},  # 22 enters, 22 leaves
    "below(99)": {"flat": 16, "nested": 112, "deep": 74},
    "list(numbers_to(20))": {"flat": 2, "steps": 42},
    "sum(walk(20))": {"flat": 1, "nested": 1, "steps": 504},  # the leave is the 22nd in a row
    "caught(1)": {"flat": 6, "raised": 1},
    "caught(30)": {"flat": 16, "nested": 48, "raised": 30},
}
C_KINDS = {
    "abs(1), len(()), 'a'.strip()": (3, 1),
    "[].append(1), {}.get(1), [].sort(key=None)": (3, 3),
    "strip = 'a'.strip; strip(), strip()": (2, 0),
    "dict.fromkeys(()), str.maketrans({}), sys.getsizeof(1)": (3, 0),
    "again(1)": (0, 0),
    "caught(1)": (0, 0),
    "list(map(abs, (1, 2)))": (0, 0),
}
COUNTS_KINDS = """
import json, sys
from holdfast import _recorder
from holdfast.worker.event_cost import Counted
def again(n):
    if n: again(n - 1)
def below(n):
    if n: below(n - 1)
def numbers_to(n):
    for i in range(n): yield i
def walk(n):
    yield n
    if n: yield from walk(n - 1)
def fails(n):
    if n > 1: fails(n - 1)
    raise ValueError
def caught(n):
    try: fails(n)
    except ValueError: pass
def run():
    CODE
run()
_recorder.open(sys.argv[1], tracing=True, profiling=False, c_calls=C_CALLS)
_recorder.enable()
run()
_recorder.disable()
print(json.dumps(Counted.of(_recorder.close())._asdict()))
"""


@pytest.fixture
def start(tmp_path):
    """A process in which some code runs, whose temporary files lie in the test's directory."""
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "recorded")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_is_known_and_nothing_is_left(start, tmp_path):
    assert start(MEASURE).communicate()[0] == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(start, tmp_path):
    killed = start(WAITS)
    directory = killed.stdout.readline().strip()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert os.listdir(directory) == ["flat-0"]
    (tmp_path / "holdfast-event-cost-file").touch()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(tmp_path) == ["holdfast-event-cost-file"]


def test_another_process_keeps_its_own(start):
    waits = start(WAITS)
    directory = waits.stdout.readline().strip()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(directory) == ["flat-0"]
    waits.communicate()
    assert waits.returncode == 1 and not os.path.exists(directory)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="they cost the same there")
@pytest.mark.parametrize("called", [*FROM_C, *FROM_PYTHON])
def test_calls_by_c_code_are_a_kind_of_their_own(start, called):
    """Without a recording they go through C as well. Beside them `run` is called, and a generator."""
    code = (FROM_C | FROM_PYTHON)[called]
    from_c = (called in FROM_C) * (1 if called == "a recursion" else 2)
    printed = start(COUNTS.replace("CODE", code).replace("HOOKS", HOOKS[0])).communicate()[0]
    assert printed.split() == ["6", "2", str(from_c), "0"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="they cost the same there")
@pytest.mark.parametrize("called", [*FROM_C, *FROM_PYTHON])
def test_calls_by_c_code_beside_c_functions(start, called):
    """The functions of C have events, too; which those are is another test. Under this hook C code
    calls what a subscript does."""
    code = (FROM_C | FROM_PYTHON)[called]
    from_c = (called in (*FROM_C, "a subscript")) * (1 if called == "a recursion" else 2)
    program = COUNTS.replace("CODE", code).replace("HOOKS", HOOKS[0])
    program = program.replace("profiling=False", "profiling=False, c_calls=True")
    assert start(program).communicate()[0].split()[2] == str(from_c)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="they cost the same there")
@pytest.mark.parametrize("hooks", [HOOKS, HOOKS[::-1]], ids=["over", "under"])
@pytest.mark.parametrize("called", ["map", "methods"])
def test_the_hook_of_lines_may_lie_there(start, called, hooks):
    code = (FROM_C | FROM_PYTHON)[called]
    program = COUNTS.replace("CODE", code).replace("HOOKS", "\n".join(hooks))
    started = start(program)
    printed, from_c = started.communicate()[0], 2 * (called in FROM_C)
    if not printed:
        pytest.skip("lines can't be sampled here")
    assert printed.split() == ["6", "2", str(from_c), "0"]


@pytest.mark.parametrize("code", KINDS)
def test_kinds_of_events(start, code):
    program = COUNTS_KINDS.replace("CODE", code).replace("C_CALLS", "False")
    counted = json.loads(start(program).communicate()[0])
    wanted = dict.fromkeys(("flat", "nested", "deep", "steps", "raised", "of_c"), 0) | KINDS[code]
    assert {kind: counted[kind] for kind in wanted} == wanted


@pytest.mark.parametrize("code", C_KINDS)
def test_kinds_of_events_with_c_functions(start, code):
    program = COUNTS_KINDS.replace("CODE", code).replace("C_CALLS", "True")
    counted = json.loads(start(program).communicate()[0])
    raised = int(code == "caught(1)")
    if sys.version_info[:2] == (3, 12):
        counted["raised"] = raised  # its profile hook says that None is returned
    of_c, bound = C_KINDS[code]
    assert (counted["of_c"], counted["bound"], counted["raised"]) == (of_c, bound, raised)


class Invented:
    """A recorder whose events take what a kind of them costs, without a clock: `timed` asks it."""

    costs = event_cost.Counted(10, 20, 40, 15, 7, -2, -9, 5, 3, 4, functions=50)
    works: typing.ClassVar = {
        "flat": {"flat": 2},
        "depth_30": {"flat": 0.5, "nested": 1.5},
        "depth_300": {"flat": 0.1, "nested": 0.4, "deep": 1.5},
        "step": {"flat": 0.02, "steps": 2},
        "make": {"steps": 2, "made": 1},
        "called": {"flat": 2, "from_c": 1},
        "called_below": {"flat": 0.2, "nested": 1, "deep": 0.8, "from_c": 0.1, "deep_from_c": 0.9},
        "end": {"flat": 2, "raised": 1},
        "call_c": {"flat": 2, "of_c": 1},
        "call_method": {"flat": 2, "of_c": 1, "bound": 1},
    }


@pytest.fixture
def invented(monkeypatch):
    def run(recorder, place, c_calls, probe, work):
        counted = event_cost.Counted(**Invented.works[work])
        return counted, event_cost._sum(counted, Invented.costs)

    monkeypatch.setattr(event_cost, "_run", run)
    monkeypatch.setattr(event_cost.EventCost, "_others", lambda *_: {"functions": 50})


def test_a_kind_costs_what_the_others_leave(invented):
    """The seconds of a work are those of all its kinds: each is found, in their order, whatever the mixture."""
    cost = event_cost.EventCost()
    cost.measure(None)
    for kind in event_cost.Counted._fields:
        if kind not in ("line_calls", "own_seconds"):
            counted = event_cost.Counted(**{"flat": 1000, kind: 1000})
            assert cost.of(counted) == pytest.approx(event_cost._sum(counted, Invented.costs)), kind
    assert cost.of(event_cost.Counted(own_seconds=3)) == 3


@pytest.fixture
def kept(invented, monkeypatch, tmp_path):
    """The file in which one kernel has kept its costs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    event_cost.EventCost(kept_as="cost").measure(None)
    assert not event_cost.EventCost(kept_as="cost of c").known
    (path,) = tmp_path.iterdir()
    return path


def test_another_kernel_knows_the_costs(kept):
    cost = event_cost.EventCost(kept_as="cost")
    assert cost.known and cost.of(event_cost.Counted(flat=3, deep=1)) == 3 * 10 + 40


def change(path):
    measured_with, costs = json.loads(path.read_text())
    path.write_text(json.dumps([["another boot", *measured_with[1:]], costs]))


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [
        change,
        link,
        lambda path: os.utime(path, (0, 0)),
        lambda path: path.write_text("[[], [1, 2"),
        lambda path: path.write_text(json.dumps([json.loads(path.read_text())[0], [1, 2]])),
        lambda path: path.write_text("{}"),
    ],
    ids=["another machine", "a link", "old", "cut off", "too few", "another form"],
)
def test_a_file_that_does_not_hold_is_passed_over_and_written_anew(kept, spoil):
    spoil(kept)
    cost = event_cost.EventCost(kept_as="cost")
    assert not cost.known
    cost.measure(None)
    assert event_cost.EventCost(kept_as="cost").known


def test_nothing_is_left_where_it_cannot_be_kept(kept):
    """Another user has taken the name, say."""
    kept.unlink()
    kept.mkdir()
    cost = event_cost.EventCost(kept_as="cost")
    cost.measure(None)
    assert cost.known and list(kept.parent.iterdir()) == [kept]


def test_a_kind_that_this_python_does_not_have_costs_nothing(monkeypatch):
    monkeypatch.setattr(
        event_cost,
        "_run",
        lambda *given: (event_cost.Counted(flat=2), 5e-8 if given[-1] == "flat" else 9e-8),
    )
    monkeypatch.setattr(event_cost.EventCost, "_others", lambda *_: {})
    cost = event_cost.EventCost()
    cost.measure(None)
    assert cost.of(event_cost.Counted(flat=10, from_c=5, raised=5)) == pytest.approx(25e-8)


def test_turns_that_others_made_longer_do_not_count():
    """A third of the turns is undisturbed, or nothing is."""
    assert event_cost._usual([9, 1, 8, 1, 7, 2, 90, 1, 30]) == 2


def test_threads_and_pages_are_measured_not_estimated(start):
    """A thread's first event, and the log's next pages, have processor time of their own."""
    program = (
        "import sys, threading\nfrom holdfast import _recorder\ndef f(): pass\n"
        "seen = []\n"
        "for threads, calls in (0, 1), (8, 1), (0, 200_000):\n"
        "    _recorder.open(sys.argv[1] + str(len(seen)), tracing=True, profiling=False)\n"
        "    _recorder.enable()\n"
        "    for _ in range(threads):\n"
        "        thread = threading.Thread(target=f); thread.start(); thread.join()\n"
        "    for _ in range(calls): f()\n"
        "    _recorder.disable()\n"
        "    seen.append(_recorder.close()['own_seconds'])\n"
        "print(seen[0] == 0, seen[1] > 0, seen[2] > 0)\n"
    )
    assert start(program).communicate()[0] == "True True True\n"
