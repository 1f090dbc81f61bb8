"""Exported files in the programs that they are for: what those read is what was recorded.

speedscope, which runs in a browser, is in tests/browser/test_readers.py. Perfetto's program isn't: it is on
neither npm nor PyPI (the package `perfetto` there fetches it from a server of its own), and Debian's Chromium
is built without chrome://tracing. Cube's own tools
are in no registry either; pycubexr is another's reader of their format. KCachegrind (in Debian) shows what it
reads in a window only.
"""

import pstats
import re
import shutil
import subprocess

import pytest
from recorded_program import record_in

pytest.importorskip("holdfast._views")
from holdfast.views.traces import Trace  # noqa: E402

from test_views import CALLS, PROGRAM  # noqa: E402


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of one thread, since pycubexr takes one root only."""
    program = PROGRAM.replace("record(threads)", "record(main)")
    return Trace(record_in(tmp_path_factory.mktemp("readers"), program).path)


@pytest.fixture(scope="module")
def seconds(trace):
    """Own and inclusive time by function."""
    return {
        row["name"].partition(":")[2]: (row["exclusive"], row["inclusive"])
        for row in trace.table()
        if row["name"].startswith("__main__:")
    }


def test_callgrind_annotate_counts_calls_and_times(trace, seconds, tmp_path):
    program = shutil.which("callgrind_annotate")
    if program is None:
        pytest.skip("no callgrind_annotate (on Debian in the package valgrind)")
    file = trace.export(tmp_path / "callgrind.out.1")
    options = ["--threshold=100", "--show-percs=no", "--tree=calling", "--auto=no"]
    done = subprocess.run([program, *options, file], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    own = {}
    calls = dict.fromkeys(CALLS, 0)
    for number, kind, name, times in re.findall(
        r"^ *([\d,]+) +([*>])? *\S*?__main__:(\S+)(?: \((\d+)x\))?", done.stdout, re.M
    ):
        if kind == ">":
            calls[name] = calls.get(name, 0) + int(times)
        elif kind == "*":
            own[name] = int(number.replace(",", "")) / 1e9
    for name, count in CALLS.items():
        if name != "main":  # nobody calls it
            assert calls[name] == count, name
        assert own[name] == pytest.approx(seconds[name][0], abs=1e-8), name


def test_pycubexr_reads_visits_and_times(trace, seconds, tmp_path):
    pycubexr = pytest.importorskip("pycubexr")
    visits, times = dict.fromkeys(CALLS, 0), dict.fromkeys(CALLS, 0.0)
    with pycubexr.CubexParser(trace.export(tmp_path / "x.cubex")) as cube:
        assert [place.name for place in cube.get_locations()] == ["MainThread"]
        for metric, found in (("visits", visits), ("time", times)):
            values = cube.get_metric_values(cube.get_metric_by_name(metric))
            for path in cube.all_cnodes():
                name = path.region.name.removeprefix("__main__:")
                if name in found:
                    exclusive = metric == "time"
                    found[name] += sum(values.cnode_values(path, convert_to_exclusive=exclusive))
    assert visits == dict(CALLS)
    for name, value in times.items():
        assert value == pytest.approx(seconds[name][0], abs=1e-8), name


def test_snakeviz_reads_the_tree(trace, seconds, tmp_path):
    snakeviz = pytest.importorskip("snakeviz.stats")
    stats = pstats.Stats(str(trace.export(tmp_path / "x.pstats")))
    rows = {
        row[-2].rpartition("__main__:")[2].rstrip(")"): row for row in snakeviz.table_rows(stats)
    }
    for name, count in CALLS.items():
        calls, own = rows[name][0], rows[name][1]
        assert int(str(calls[0]).partition("/")[0]) == count, name
        assert float(own) == pytest.approx(seconds[name][0], rel=1e-3), name
    tree = {
        function.rpartition("__main__:")[2].rstrip(")"): told
        for function, told in snakeviz.json_stats(stats).items()
    }
    called = [one for one in tree["main"]["children"] if one.endswith("__main__:middle)")]
    assert tree["main"]["children"][called[0]][0] == 200
