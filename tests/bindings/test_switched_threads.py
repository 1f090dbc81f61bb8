"""``scorep.instrumenter.enable`` and ``disable`` concern the thread that runs them."""

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

# `steps` alternates between two threads: each does its part when it is its turn.
BOTH = """
import threading
from scorep import instrumenter
turn = threading.Barrier(2)
def work(): pass
"""


@pytest.mark.parametrize("options", [[], ["--c-functions"]])
def test_off_in_a_helper(record_script, options):
    trace = record_script(
        BOTH
        + """
def helper():
    with instrumenter.disable():
        turn.wait(); turn.wait()
        work()
    work(); work()
thread = threading.Thread(target=helper)
thread.start()
turn.wait()
work(); work(); work()
turn.wait()
thread.join()
""",
        *options,
    )
    assert [len(trace.calls(one, "__main__:work")) for one in sorted(trace.locations)] == [3, 2]


@pytest.mark.parametrize("options", [[], ["--c-functions"]])
def test_off_in_the_main_thread(record_script, options):
    """Not even if the helper began before there was a recording of functions."""
    trace = record_script(
        BOTH
        + """
def helper():
    turn.wait()
    work(); work()
    turn.wait()
    work()
thread = threading.Thread(target=helper)
thread.start()
with instrumenter.disable():
    turn.wait()
    work(); work(); work()
    turn.wait()
work()
thread.join()
""",
        *options,
    )
    assert [len(trace.calls(one, "__main__:work")) for one in sorted(trace.locations)] == [1, 3]


@pytest.mark.parametrize("options", [[], ["--c-functions"]])
def test_the_others_stay_off(record_script, options):
    """A thread that leaves its block switches nobody else on, and one that is on is so alone."""
    trace = record_script(
        BOTH
        + """
def helper():
    turn.wait()
    with instrumenter.enable():
        work(); turn.wait(); turn.wait()
        with instrumenter.disable(): work()
        work()
    work()
    turn.wait()
thread = threading.Thread(target=helper)
thread.start()
turn.wait(); turn.wait()
work()
turn.wait(); turn.wait()
work()
thread.join()
""",
        "--noinstrumenter",
        *options,
    )
    assert trace.calls(prefix="__main__:work") == ["__main__:work"] * 2
    assert list(trace.locations.values())[-1] == "Thread-1 (helper)"


def test_threads_that_are_started_meanwhile(record_script):
    """As the Score-P bindings have it: a block around a pool is one around its threads."""
    trace = record_script(
        BOTH
        + """
def run(*targets):
    threads = [threading.Thread(target=one, name=one.__name__) for one in targets]
    for one in threads: one.start()
    for one in threads: one.join()
def on(): work()
def off(): work()
def idle(): turn.wait()
waits = threading.Thread(target=idle); waits.start()
with instrumenter.enable():
    run(on)
    with instrumenter.disable():
        run(off)
run(off)
turn.wait(); waits.join()
""",
        "--noinstrumenter",
    )
    assert trace.calls(prefix="__main__:work") == ["__main__:work"]
    assert "on" in trace.locations.values() and "off" not in trace.locations.values()


def test_register_switches_all(record_script):
    trace = record_script(
        BOTH
        + """
def helper():
    with instrumenter.disable():
        turn.wait(); turn.wait()
        work()
        turn.wait(); turn.wait()
        work()
    work()
thread = threading.Thread(target=helper)
thread.start()
turn.wait()
instrumenter.register()
turn.wait(); turn.wait()
instrumenter.unregister()
turn.wait()
work()
thread.join()
""",
    )
    assert [len(trace.calls(one, "__main__:work")) for one in sorted(trace.locations)] == [0, 2]


def test_functions_that_return_while_a_thread_is_off(record_script):
    trace = record_script(
        BOTH
        + """
block = instrumenter.disable()
def begin():
    work()
    block.__enter__()
def helper():
    begin()
    work()
    block.__exit__(None, None, None)
    work()
thread = threading.Thread(target=helper)
thread.start(); thread.join()
""",
    )
    helper = max(trace.locations)
    assert trace.nested(helper) == "helper(begin(work())work())"
