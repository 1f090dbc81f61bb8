"""Lines of functions that are shorter than a look at them: each sample has one."""

import pstats

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

PROGRAM = """
def between(a, b):
    return abs(a - b)
def route(t, i):
    return between(t[i], t[i + 1]) + between(t[i + 1], t[i + 2]) + between(t[i], t[i + 2])
def power(a):
    x = a + 1
    y = x * x * x + a * a - x // 3 + (a << 3) - (a >> 2) + x ** 3
    return y
def run(count):
    t = list(range(1000))
    for k in range(count):
        route(t, k % 900)
        power(k)
run(1_000_000)
"""
CALLS = """
def leaf(): pass
def calls(): leaf(), leaf(), leaf(), leaf()
for _ in range(600_000): calls()
"""


def test_samples_of_short_functions_have_lines(record_script, tmp_path):
    from holdfast.scorep import line_counts

    record_script(PROGRAM, "--lines", "--noinstrumenter")
    found = {code.name: code for code in line_counts.codes(tmp_path / "experiment")}
    short = [found[name] for name in ("between", "route", "power")]
    assert [code.calls for code in short] == [3_000_000, 1_000_000, 1_000_000]
    samples = sum(code.samples for code in short)
    assert samples > 50
    assert sum(code.unplaced for code in short) <= samples / 10
    # Line 8 is as long as all the others by far. But a look that comes late sees the line where the visit began.
    power = found["power"]
    assert power.lines[8].samples > 0.25 * power.samples
    assert all(code.samples for code in short)


def test_their_share_of_samples_is_that_of_their_events(python, tmp_path):
    """Both have a function from its enter to its leave; of a short one's time most is the recorder's."""
    from holdfast.scorep import line_counts

    (tmp_path / "script.py").write_text(CALLS)
    settings = {"SCOREP_ENABLE_PROFILING": "true", "SCOREP_ENABLE_TRACING": "false"}
    assert python("-m", "holdfast.scorep", "--lines", "script.py", **settings).returncode == 0
    profile = pstats.Stats(str(tmp_path / "experiment" / "profile.pstats")).stats
    by_events = {name.rpartition(":")[2]: times[2] for (_, _, name), times in profile.items()}
    codes = line_counts.codes(tmp_path / "experiment")
    by_samples = {code.name: code.samples for code in codes}
    of_events, of_samples = (
        own["leaf"] / (own["leaf"] + own["calls"]) for own in (by_events, by_samples)
    )
    assert of_samples > 0.5 * of_events  # a third, if the recorder's work is the caller's
