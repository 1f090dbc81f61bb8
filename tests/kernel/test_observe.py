"""The monitor in our own kernel: kinds and outcomes of cells. Whether the figures are right is in
tests/bench/test_benchmarks.py."""

import json

import pytest

LAST = """
import json
from holdfast.monitor import source
m = source.connect()
c = [c for c in m.cells() if c.end_ns][-1]
s = m.summary("process", c.begin_ns, c.end_ns)
print(json.dumps([c.kind, c.outcome, c.number, c.source, c.duration, c.pids, m.resources()["cores"], s]))
"""


def test_kinds_and_outcomes(kernel):
    def observed(code):
        kernel.run(code)
        keys = ("kind", "outcome", "number", "source", "duration", "pids", "cores", "summary")
        return dict(zip(keys, json.loads(kernel.run(LAST).stream()), strict=True))

    found = observed("import time\ntime.sleep(0.02)")  # which was not sampled
    assert (found["kind"], found["outcome"]) == ("plain", "ok")
    assert found["source"] == "import time\ntime.sleep(0.02)"
    assert 0.02 <= found["duration"]
    found = observed("with open('w', 'wb', 0) as f:\n    for i in range(100): f.write(b'x')")
    assert found["summary"]["io_write_count"][3] == pytest.approx(100, rel=0.2)
    assert observed("1/0")["outcome"] == "error"
    assert observed("def f(:")["outcome"] == "error"  # no code of it ran
    assert observed("get_ipython().showtraceback()\ntime.sleep(0.02)")["duration"] >= 0.02
    found = observed("%%isolated\nimport os\nos.kill(os.getpid(), 9)")
    assert (found["kind"], found["outcome"]) == ("isolated", "died")
    found = observed("%%execute_with_scorep --run=isolated\nx = 1")
    assert (found["kind"], found["outcome"]) == ("instrumented", "ok")
