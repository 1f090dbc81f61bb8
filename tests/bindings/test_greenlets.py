"""A thread's greenlets: each function has the time in which it runs, and its own callers."""

import pytest
from trace_reader import AVAILABLE

pytest.importorskip("greenlet")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

TWO = """
from greenlet import greenlet, getcurrent
def work(): pass
def short():
    work(); second.switch(); work()
def long():
    work(); first.switch(); work()
def main():
    global first, second
    first, second = greenlet(short), greenlet(long)
    first.switch()
    second.switch()
"""
NESTED = "main(short(work())long(work())short(work())long(work()))"


def test_one_that_ends_first(record_script):
    trace = record_script(TWO + "main()\n")
    assert trace.nested() == f"<module>({NESTED})"


def test_on_other_threads(record_script):
    """The library is there before one of them is met, and after the other one."""
    trace = record_script(
        """
        import threading
        begun, loaded = threading.Event(), threading.Event()
        def early():
            begun.set(); loaded.wait(); main()
        def late():
            main()
        thread = threading.Thread(target=early); thread.start(); begun.wait()
        """
        + "".join("        " + line + "\n" for line in TWO.splitlines())
        + """
        loaded.set(); thread.join()
        thread = threading.Thread(target=late); thread.start(); thread.join()
        """
    )
    others = [location for location in trace.locations if location]
    assert [trace.nested(one) for one in others] == [
        f"early({NESTED})",
        f"late({NESTED})",
    ]


def test_regions_of_the_user(record_script):
    trace = record_script(
        """
        from scorep import user
        from greenlet import greenlet
        def one():
            with user.region("one"):
                other.switch()
        def two():
            with user.region("two"):
                first.switch()
        first, other = greenlet(one), greenlet(two)
        with user.region("all"):
            first.switch()
        """
    )
    assert trace.calls(prefix="user:") == [
        "user:all",
        "user:one",
        "user:two",
        "user:one",
    ]


@pytest.mark.parametrize("option", ["--verbose", "--c-functions"])
def test_events_are_off_for_a_while(record_script, option):
    """Functions that return meanwhile are left where their greenlet goes on."""
    trace = record_script(
        """
        from scorep import instrumenter
        from greenlet import getcurrent, greenlet
        thread = getcurrent()
        def inner():
            thread.switch()
        def outer():
            inner()
            thread.switch()
            work()
        def work(): pass
        one = greenlet(outer)
        one.switch()
        with instrumenter.disable():
            one.switch()
        work()
        one.switch()
        """,
        option,
    )
    assert trace.nested() == "<module>(outer(inner())outer(inner())work()outer(work()))"


def test_a_trace_function_of_the_program(record_script):
    trace = record_script(
        TWO
        + """
import greenlet as library
seen = []
library.settrace(lambda event, both: seen.append(event))
import holdfast.scorep
holdfast.scorep.close()
holdfast.scorep.register()
main()
print(len(seen))
""",
        SCOREP_EXPERIMENT_DIRECTORY="experiment",
    )
    assert trace.done.stdout == "6\n"


def test_c_functions(record_script):
    trace = record_script(TWO + "main()\n", "--c-functions")
    assert trace.nested().replace("(", "").count("short") == 2
    assert trace.calls(prefix="greenlet.greenlet:switch") == ["greenlet.greenlet:switch"] * 6


def test_lines(record_script, tmp_path):
    """The figures of a function that goes on when another one has ended."""
    from holdfast.scorep import line_counts

    record_script(
        """
        import time
        from greenlet import greenlet
        def spin():
            end = time.thread_time() + 0.1
            while time.thread_time() < end: pass
        def short():
            second.switch()
        def long():
            first.switch()
            spin()
        first, second = greenlet(short), greenlet(long)
        first.switch()
        second.switch()
        """,
        "--lines",
    )
    found = {code.name: code for code in line_counts.codes(tmp_path / "experiment")}
    assert found["long"].calls == 1
    # A caller may return while a sample is taken.
    assert found["long"].inclusive_samples >= found["spin"].inclusive_samples - 1 > 5
    assert found["<module>"].inclusive_samples >= found["long"].inclusive_samples - 1
