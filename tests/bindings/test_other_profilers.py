"""Beside a recording with --c-functions, which needs the interpreter's profile function, a program
may set its own: it is said."""

import sys

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")
WARNING = "another profiler"


def warnings(trace):
    return trace.done.stderr.count(WARNING)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(
            "with cProfile.Profile(): work()",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="uses sys.monitoring"),
        ),
        "sys.setprofile(lambda *event: None); work(); sys.setprofile(None)",
        "threading.Thread(target=inside).start()",
    ],
)
def test_one_that_takes_its_place(record_script, profile):
    trace = record_script(
        f"""
        import cProfile, sys, threading
        def work(): pass
        def inside():
            sys.setprofile(lambda *event: None); work()
        work()
        {profile}
        work()
        """,
        "--c-functions",
    )
    assert warnings(trace) == 1
    assert "Without --c-functions both see all calls" in trace.done.stderr
    assert trace.calls()[1] == "__main__:work"


@pytest.mark.parametrize("options", [[], ["--c-functions"]])
def test_no_warning_without_one(record_script, options):
    """Switching is no replacement, and without --c-functions both work."""
    trace = record_script(
        """
        import sys, threading
        from scorep import instrumenter
        def work(): pass
        thread = threading.Thread(target=work); thread.start(); thread.join()
        with instrumenter.disable():
            sys.setprofile(lambda *event: None); sys.setprofile(None)
        work()
        """
        + ("sys.setprofile(lambda *event: None); work()\n" if not options else ""),
        *options,
    )
    assert not warnings(trace)
    assert trace.calls(prefix="__main__:work") == ["__main__:work"] * (3 - len(options))
