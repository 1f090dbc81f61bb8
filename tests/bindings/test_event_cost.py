"""What recording an event costs, and the directory in which that is measured (worker/event_cost.py)."""

import os
import signal
import subprocess
import sys

import pytest

MEASURE = """
from holdfast import _recorder
from holdfast.worker.event_cost import Counted, event_cost
event_cost.measure(_recorder)
kinds = "flat", "nested", "steps", "from_c", "functions"
print(all(event_cost.of(Counted(**{kind: 1000})) > 1e-9 for kind in kinds))
"""
# It waits in the middle of a measurement until its input ends.
WAITS = """
import sys
class Recorder:
    def open(self, directory, **settings):
        open(directory + "/log-0", "w").close()
        print(directory, flush=True)
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
class Made:
    def __init__(self): pass
ordered, pattern, numbers = Ordered(), re.compile('a'), (n for n in (1, 2))
def run():
    CODE
run()
_recorder.open(sys.argv[1], tracing=True, profiling=False)
HOOKS
run()
next(numbers)
_recorder.disable()
counted = Counted.of(_recorder.close())
print(counted.flat, counted.steps, counted.from_c)
"""
HOOKS = "_recorder.enable()", "_recorder.lines_begin(sys.argv[1] + '/lines', ())"


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
    assert os.listdir(directory) == ["log-0"]
    (tmp_path / "holdfast-event-cost-file").touch()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(tmp_path) == ["holdfast-event-cost-file"]


def test_another_process_keeps_its_own(start):
    waits = start(WAITS)
    directory = waits.stdout.readline().strip()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(directory) == ["log-0"]
    waits.communicate()
    assert waits.returncode == 1 and not os.path.exists(directory)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="they cost the same there")
@pytest.mark.parametrize("called", [*FROM_C, *FROM_PYTHON])
def test_calls_by_c_code_are_a_kind_of_their_own(start, called):
    """Without a recording they go through C as well. Beside them `run` is called, and a generator."""
    code = (FROM_C | FROM_PYTHON)[called]
    from_c = (called in FROM_C) * (1 if called == "a recursion" else 2)
    printed = start(COUNTS.replace("CODE", code).replace("HOOKS", HOOKS[0])).communicate()[0]
    assert printed.split() == [str(2 * (3 - from_c)), "2", str(from_c)]


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
    assert printed.split() == [str(2 * (3 - from_c)), "2", str(from_c)]
