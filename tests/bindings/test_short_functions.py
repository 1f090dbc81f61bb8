"""Lines of functions that are shorter than a look at them: each sample has one."""

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
run(300_000)
"""


def test_samples_of_short_functions_have_lines(record_script, tmp_path):
    from holdfast.scorep import line_counts

    record_script(PROGRAM, "--lines", "--noinstrumenter")
    found = {code.name: code for code in line_counts.codes(tmp_path / "experiment")}
    short = [found[name] for name in ("between", "route", "power")]
    assert [code.calls for code in short] == [900_000, 300_000, 300_000]
    samples = sum(code.samples for code in short)
    assert samples > 50
    assert sum(code.unplaced for code in short) <= samples / 10
    # Line 8 is as long as all the others by far. But a look that comes late sees the line where the visit began.
    power = found["power"]
    assert power.lines[8].samples > 0.25 * power.samples
    assert all(code.samples for code in short)
