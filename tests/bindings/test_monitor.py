"""Reading the monitor's samples: what isn't a monitor, unknown levels, figures of given rows."""

import json
import math
import os
import subprocess
import sys

import pytest
from holdfast import _monitor
from holdfast.monitor import sampled, source


def view(values, kind="gauge", width=1_000_000_000):
    """Samples of one metric, a second each."""
    count = len(values)

    def column(numbers, code):
        return memoryview(bytearray(8 * count)).cast(code) if not count else _cast(numbers, code)

    doubles = column(values, "d")
    return sampled.Samples(
        level="process",
        time=column([width * (i + 1) for i in range(count)], "q"),
        width=column([width] * count, "q"),
        columns={"metric": doubles},
        low={"metric": doubles},
        high={"metric": doubles},
        kinds={"metric": kind},
    )


def _cast(numbers, code):
    import array

    return memoryview(array.array(code, numbers))


def test_what_is_no_monitor(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    with pytest.raises(RuntimeError, match="isn't a monitor"):
        _monitor.View(os.open(path, os.O_RDONLY))
    path.write_bytes(b"")
    with pytest.raises(RuntimeError, match="too short"):
        _monitor.View(os.open(path, os.O_RDONLY))
    with pytest.raises(RuntimeError):
        _monitor.View(-1)


@pytest.mark.parametrize(
    "kind, begin, end, expected",
    [
        ("gauge", 0, 4, (2.5, 1, 4, None)),
        ("amount", 0, 4, (2.5, 1, 4, 10)),
        ("amount", 0.5, 2, (2.5 / 1.5, 1, 2, 2.5)),
    ],
)
def test_figures_of_rows(kind, begin, end, expected):
    samples = view([1.0, 2.0, 3.0, 4.0][: int(end)], kind)
    found = sampled.of_rows(samples, "metric", int(begin * 1e9), int(end * 1e9))
    assert found == pytest.approx(expected)


def test_no_rows():
    assert sampled.of_rows(view([]), "metric", 0, 10) is None


def test_unknown_level():
    with pytest.raises(source.MonitorError, match="'nobody' isn't a level"):
        source._number("nobody")


CHILD = """
import json, os, subprocess, sys, time
from holdfast.monitor import sampled, source
m = source.connect()
assert not m.counts_cells and source.connect() is m
m.start(0.01)
m.begin_cell("burn", 4)
t = time.process_time()
sum(range(20_000_000))  # one call, which holds the interpreter
used = time.process_time() - t
m.end_cell("error")
m.begin_cell("sleep")
time.sleep(0.05)
m.end_cell()
m.stop()
children = subprocess.run(["ps", "-o", "comm=", "--ppid", str(os.getpid())], capture_output=True)
cells, state = m.cells(), m.state()
figures = [m.summary("process", c.begin_ns, c.end_ns) for c in cells]
rows = len(m.samples("process", cells[0].begin_ns, cells[0].end_ns))
m.close()
try:
    m.start(1)
    message = ""
except source.MonitorError as error:
    message = str(error)
print(json.dumps({
    "used": used, "figures": figures, "state": state, "rows": rows, "message": message,
    "cells": [[c.source, c.number, c.outcome, c.duration, c.pids[0]] for c in cells],
    "pid": os.getpid(), "children": children.stdout.decode(),
}))
"""


def test_the_child_process():
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(done.stdout)
    burn, sleep = found["cells"]
    assert burn[:3] == ["burn", 4, "error"] and sleep[:3] == ["sleep", 0, "ok"]
    assert burn[4] == found["pid"]
    assert 0.05 <= sleep[3] < 30  # seconds; how much more is the machine's affair
    first, second = found["figures"]
    assert first["cpu_seconds"][3] == pytest.approx(found["used"], rel=0.05, abs=0.005)
    assert second["cpu_seconds"][3] < 0.02
    assert found["rows"] > 2  # while the interpreter was held
    assert "holdfast-monito" in found["children"]
    assert found["state"]["pids"] == [found["pid"]]  # it doesn't count itself
    assert {"process", "user", "system"} <= set(found["state"]["levels"])
    assert "has ended" in found["message"]


def test_figures_of_a_cell_have_what_was_weighed_at_its_edges():
    """Also if samples came between its end and the reading of that, or if none of them was weighed."""
    common = {"time_ns": 0, "cpu_seconds": 0.0, "memory_bytes": 2.0**30}
    common |= {key: 0.0 for _, key, _ in sampled._AMOUNTS}
    begin = common | {"pss_bytes": 3 * 2.0**28, "uss_bytes": math.nan}
    end = common | {"time_ns": 10, "pss_bytes": 2.0**28, "uss_bytes": math.nan}
    figures = {"memory": None, "memory_pss": (0.5, 0.5, 0.5, None), "memory_uss": None}
    sampled.exact(figures, {"begin": begin, "end": end, "peak": 0.0}, 1)
    assert figures["memory_pss"] == (0.5, 0.25, 0.75, None)
    assert figures["memory"] == (1, 1, 1, None) and figures["memory_uss"] is None
