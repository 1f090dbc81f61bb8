"""Each benchmark runs, in short, and what it counts is what the product promises.

The core runs each once, in the smallest size; the rest is in the long run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import effort
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
MIB = 1 << 20


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A kernelspec for the programs that start kernels."""
    prefix = tmp_path_factory.mktemp("prefix")
    command = [sys.executable, "-m", "holdfast.install", "--no-check", "--prefix", prefix]
    subprocess.run(command, check=True, timeout=60)
    return {**os.environ, "JUPYTER_PATH": str(prefix / "share" / "jupyter")}


def bench(program, *args, timeout=300, **options):
    """Run a benchmark, which is to succeed unless `check` is false."""
    command = [sys.executable, BENCH / program, *args]
    options = {"check": True, "capture_output": True, "text": True} | options
    return subprocess.run(command, timeout=timeout, **options)


def figures(path, program, *args, **options):
    """What a benchmark writes with --json, and what it prints."""
    done = bench(program, *args, "--json", path / "figures.json", **options)
    return json.loads((path / "figures.json").read_text()), done


@pytest.mark.parametrize(
    ("command", "complaint"),
    effort.core(
        [
            (["cell.py", "--rows", "nothing"], "no such row: nothing"),
            (["described.py", "--works", "nothing"], "no such work: nothing"),
            (["handover.py", "--systems", "nothing"], "no such system or work"),
            (["inside.py", "--cells", "nothing"], "no such cell: nothing"),
            (["kernel.py", "--rows", "nothing"], "no such row: nothing"),
            (["kernels.py", "--kernels", "nothing"], "no such kernel: nothing"),
            (["notebooks.py", "nothing.ipynb"], "no such notebook: nothing.ipynb"),
        ],
        lambda case: case[0][0] == "cell.py",
    ),
)
def test_what_is_unknown_is_a_clear_error(command, complaint):
    done = bench(*command, check=False, timeout=60)
    assert done.returncode == 2 and complaint in done.stderr


# ---- bench/cell and bench/handover ----------------------------------------------------------


def cells(path, environment, rows):
    arguments = ("cell.py", "--rows", rows, "--quick", "--repeat", "2")
    found, _ = figures(path, *arguments, env=environment)
    return {result["row"]: result["report"] for result in found["results"]}


def test_cells_map_and_do_not_copy(tmp_path, environment):
    element = cells(tmp_path, environment, "element")["element"]
    assert element["bytes_mapped"] == 16 * MIB
    assert element["bytes_copied"] < MIB


@pytest.mark.long
def test_cells_of_small_variables(tmp_path, environment):
    found = cells(tmp_path, environment, "empty,1000 variables")
    assert len(found) == 2
    assert found["empty"]["bytes_copied"] < 65536


def handed_over(path, systems, works):
    record, _ = figures(path, "handover.py", "--quick", "--systems", systems, "--works", works)
    results = record["results"]
    assert not any("error" in result for result in results)
    return {(result["system"], result["work"]): result["copied_bytes"] for result in results}


def test_an_array_born_in_the_arena_is_not_copied_as_by_a_peer(tmp_path):
    copied = handed_over(tmp_path, "holdfast,dill", "array 8 MiB")
    assert copied["holdfast, born in the arena", "array 8 MiB"] < 65536
    assert copied["dill", "array 8 MiB"] >= 16 * MIB  # out and in


@pytest.mark.long
def test_every_system_hands_over(tmp_path):
    copied = handed_over(tmp_path, "holdfast,dill,limit", "array 8 MiB,array 64 MiB,1000 small")
    assert 64 * MIB <= copied["holdfast, born elsewhere", "array 64 MiB"] < 65 * MIB
    for system in ("holdfast, born in the arena", "holdfast, born elsewhere", "dill"):
        assert (system, "1000 small") in copied


def test_tables_are_committed_with_their_description_and_without(tmp_path):
    for name in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(name)
    found, _ = figures(tmp_path, "described.py", "--quick", "--repeat", "1")
    assert len(found["results"]) == 5
    for result in found["results"]:
        assert result["without_ms"] > 0 and result["with_ms"] > 0
        assert result["larger_bytes"] >= 0


# ---- bench/kernel, bench/kernels and bench/notebooks ----------------------------------------

OURS_ALONE = {"instrumented no-op, warm", "instrumented no-op, cold"}
LIMITED = {"start to first cell done", "memory at rest", "pass", "1+1", "an error"}
LIMITED |= {"display of 10 MiB", "display of 64 MiB"}


@pytest.mark.parametrize("peers", effort.core([{"nothing"}, {"nothing", "python3"}], [{"nothing"}]))
def test_each_row_is_measured_for_each_kernel(tmp_path, environment, peers):
    found, done = figures(
        tmp_path, "kernel.py", "--quick", "--peers", ",".join(peers), env=environment
    )
    assert "not installed: nothing" in done.stderr
    results = found["results"]
    assert len(results) >= 18 and OURS_ALONE < set(results)
    for label, measured in results.items():
        wanted = {"holdfast"} | (set() if label in OURS_ALONE else peers - {"nothing"})
        assert set(measured) == wanted | ({"limit"} if label in LIMITED else set())
        for values in measured.values():
            assert all(0 < value < float("inf") for value in values), (label, measured)


PEERS = {"python", "ipykernel", "python 4K", "ipykernel 4K"}
WAYS = {"plain", "after privatizing", "instrumented"}


@pytest.mark.parametrize("kernels", effort.core(["loop", "add,sum"], ["loop"]))
def test_kernels_are_timed_every_way(tmp_path, environment, kernels):
    arguments = ("--kernels", kernels, "--quick", "--repeat", "1")
    found, _ = figures(tmp_path, "kernels.py", *arguments, env=environment)
    results = found["results"]
    assert [result["kernel"] for result in results] == kernels.split(",")
    for result in results:
        assert set(result["times_s"]) == PEERS | WAYS
        assert set(result["ratios"]) == {way + pages for way in WAYS for pages in ("", " 4K")}
        assert all(seconds > 0 for times in result["times_s"].values() for seconds in times)


@pytest.mark.parametrize("names", effort.core(["in place", "sort,merge"], ["in place"]))
def test_cells_are_timed_inside(tmp_path, environment, names):
    arguments = ("--cells", names, "--quick", "--repeat", "1")
    found, _ = figures(tmp_path, "inside.py", *arguments, env=environment)
    assert [result["cell"] for result in found["results"]] == names.split(",")
    for result in found["results"]:
        assert set(result["times"]) == {"ipykernel", "plain", "recorded"}
        for by in result["times"].values():
            for inside, processor, client, _ in by["at once"] + by["after a pause"]:
                assert 0 < inside < client and processor > 0
        assert len(result["ratios"]) == 6


CELLS = ["import json\nx = json.load(open('beside.json'))", "x.append(4)", "print(x)\nx[0]", "1/0"]


@pytest.mark.parametrize("ways", effort.core(["recorded", "plain,isolated"], ["recorded"]))
def test_a_notebook_runs_in_every_way(tmp_path, environment, ways):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "beside.json").write_text("[1, 2, 3]")
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (folder / "tiny.ipynb").write_text(json.dumps({"cells": cells}))
    arguments = (folder, "--runs", "1", "--diffs", "--ways", ways)
    found, done = figures(tmp_path, "notebooks.py", *arguments, env=environment)
    rows = found["rows"]
    assert [(row["way"], row["cells"]) for row in rows] == [(way, 4) for way in ways.split(",")]
    assert not any(row["differing"] for row in rows), done.stdout
    assert all(row["ipykernel_s"] > 0 and row["holdfast_s"] > 0 for row in rows)
    recorded = [cell for row in rows if row["way"] == "recorded" for cell in row["each"][:3]]
    assert all("events" in cell["cause"] for cell in recorded)
    assert all(word in done.stdout for word in ("tiny", rows[0]["way"], "bar"))


# ---- bench/plain_codec ----------------------------------------------------------------------


def test_every_system_gives_every_work_back(tmp_path):
    pytest.importorskip("numpy")
    found, _ = figures(tmp_path, "plain_codec.py", "--count", "100", "--repeat", "1")
    results = found["results"]
    works = {result["work"] for result in results}
    assert len(works) == 7
    assert {(work, "plain") for work in works} <= {(r["work"], r["system"]) for r in results}
    assert all(result["bytes"] > 0 for result in results)


# ---- bench/monitor, bench/monitor_truth and bench/views -------------------------------------


def test_samples_come_while_the_interpreter_is_held(tmp_path, environment):
    found, _ = figures(tmp_path, "monitor.py", "--quick", env=environment, timeout=100)
    asleep, held = found["jitter"]
    assert (asleep["load"], held["load"]) == ("sleeps", "holds the GIL")
    assert held["samples"] > 2  # a thread of the interpreter's takes none
    assert found["cost"]["sample_us"] > 0 < found["cost"]["psutil_us"]
    assert {"process", "system"} <= set(found["cost"]["levels"])


def reported_and_true(path, environment, *options):
    """The rows, once all but the durations, which are those of a busy machine, are within 5 percent."""
    args = ("--scale", "0.1", "--interval", "0.5", *options)
    found, _ = figures(path, "monitor_truth.py", *args, env=environment, timeout=100)
    rows = {row["row"]: row for row in found["rows"]}
    # Of a cell that does nothing; of what code has allocated by the time at which the frontend hears
    # that it began and reads the memory: the process itself reports processor time and I/O.
    # Beside others that was up to 7 MiB and 2.1 ms, and more where caches are cold. At full size that
    # is within the 5 %: of 1 GiB, 51 MiB.
    slack = {"cpu": 0.012, "memory": 9 * 2**20}
    for name, row in rows.items():
        true, reported = row["true"], row["reported"]
        for metric in ("cpu", "memory", "written"):
            if metric in true:
                near = pytest.approx(true[metric], rel=0.05, abs=slack.get(metric, 0))
                assert reported[metric] == near, (name, metric)
                assert metric != "cpu" or reported[metric] > 0.95 * true[metric], name
        assert reported["seconds"] >= true["seconds"]
    return rows


def test_what_is_reported_is_true(tmp_path, environment):
    rows = reported_and_true(tmp_path, environment, "--rows", "100 MB written,20 ms,died")
    assert list(rows) == ["100 MB written", "20 ms", "died"]


@pytest.mark.long
def test_reported_is_true_within_5_percent(tmp_path, environment):
    rows = reported_and_true(tmp_path, environment)
    assert len(rows) == 12
    # Of those that live on, some have to wait for a processor where nobody measures.
    living = [row for row in rows.values() if row["outcome"] != "died"]
    ratios = [row["reported"]["seconds"] / row["true"]["seconds"] for row in living]
    assert sum(ratio <= 1.05 for ratio in ratios) >= len(ratios) / 2, ratios


def test_each_reader_of_a_trace_has_a_row(tmp_path, environment):
    pytest.importorskip("holdfast._views")
    args = ("--calls", "2400", "--rounds", "1")
    found, done = figures(tmp_path, "views.py", *args, env=environment, timeout=120)
    # main, and twenty times 20 or 21 of deep, one of middle and 100 of leaf: an enter and a leave each
    assert found["events"] == 2 * (1 + 20 * (20.5 + 1 + 100))
    rows = found["seconds and MiB"]
    wanted = {"read", "page", ".json", ".speedscope.json", ".pstats", ".callgrind", ".collapsed"}
    assert wanted | {"%trace, client"} <= rows.keys()
    for name in rows:
        assert name in done.stdout
        assert rows[name][0] > 0


# ---- bench/census ---------------------------------------------------------------------------


def write_notebook(path, *cells):
    path.parent.mkdir(parents=True)
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": cells}))


def test_a_census_counts_notebooks_and_repositories(tmp_path):
    write_notebook(
        tmp_path / "one" / "a.ipynb",
        "%matplotlib inline\nimport numpy as np, zipfile",
        "np.seterr(all='raise')\narchive = zipfile.ZipFile('x.zip')",
        "archive.namelist()",
    )
    write_notebook(
        tmp_path / "two" / "b.ipynb",
        "from numpy import *\nfrom zipfile import ZipFile",
        "seterr(all='raise')\narchive = ZipFile('x.zip')\narchive.namelist()",
    )
    write_notebook(tmp_path / "two" / "more" / "c.ipynb", "class Node(dict):\n    def a(self): ...")
    expected = {
        "call numpy.seterr": (2, 2),
        "keep zipfile.ZipFile": (1, 1),
        "magic matplotlib": (1, 1),
        "base dict | import numpy": (3, 2),
        "call numpy.*": (2, 2),
        "def a": (1, 1),
        "text x\\.zip": (2, 2),
        "import pandas": (0, 0),
    }
    lines = bench("census.py", tmp_path, *expected, timeout=60).stdout.splitlines()
    assert lines[0] == "3 notebooks, 2 repositories"
    assert [tuple(map(int, line.split()[:2])) for line in lines[1:]] == list(expected.values())
