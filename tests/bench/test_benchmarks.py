"""Each benchmark runs, in short, and what it counts is what the product promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
MIB = 1 << 20


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A kernelspec for the programs that start kernels."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        [sys.executable, "-m", "holdfast.install", "--prefix", prefix], check=True, timeout=60
    )
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
    [
        (["cell.py", "--rows", "nothing"], "no such row: nothing"),
        (["handover.py", "--systems", "nothing"], "no such system or work"),
        (["kernel.py", "--rows", "nothing"], "no such row: nothing"),
        (["kernels.py", "--kernels", "nothing"], "no such kernel: nothing"),
        (["notebooks.py", "nothing.ipynb"], "no such notebook: nothing.ipynb"),
    ],
)
def test_what_is_unknown_is_a_clear_error(command, complaint):
    done = bench(*command, check=False, timeout=60)
    assert done.returncode == 2 and complaint in done.stderr


# ---- bench/cell and bench/handover ----------------------------------------------------------


def test_cells_map_and_do_not_copy(tmp_path, environment):
    rows = "empty,element,1000 variables"
    found, _ = figures(
        tmp_path, "cell.py", "--rows", rows, "--quick", "--repeat", "3", env=environment
    )
    results = {result["row"]: result for result in found["results"]}
    assert len(results) == 3
    element = results["element"]["report"]
    assert element["bytes_mapped"] == 16 * MIB
    assert element["bytes_copied"] < MIB
    assert results["empty"]["report"]["bytes_copied"] < 65536


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("handover")
    record, _ = figures(path, "handover.py", "--quick", "--systems", "holdfast,dill,limit")
    return {(result["system"], result["work"]): result for result in record["results"]}


def test_an_array_born_in_the_arena_is_not_copied(quick):
    for size in ("8 MiB", "64 MiB"):
        result = quick["holdfast, born in the arena", f"array {size}"]
        assert result["copied_bytes"] < 65536


def test_an_array_born_elsewhere_is_copied_once(quick):
    copied = quick["holdfast, born elsewhere", "array 64 MiB"]["copied_bytes"]
    assert 64 * MIB <= copied < 65 * MIB


def test_the_peer_copies_out_and_in(quick):
    assert quick["dill", "array 64 MiB"]["copied_bytes"] >= 128 * MIB


def test_small_variables_arrive_by_every_way(quick):
    for system in ("holdfast, born in the arena", "holdfast, born elsewhere", "dill"):
        assert "error" not in quick[system, "1000 small"]


# ---- bench/kernel, bench/kernels and bench/notebooks ----------------------------------------

OURS_ALONE = {"instrumented no-op, warm", "instrumented no-op, cold"}
LIMITED = {"start to first cell done", "memory at rest", "pass", "1+1", "an error"}
LIMITED |= {"display of 10 MiB", "display of 64 MiB"}


def test_each_row_is_measured_for_each_kernel(tmp_path, environment):
    found, done = figures(
        tmp_path, "kernel.py", "--quick", "--peers", "python3,nothing", env=environment
    )
    assert "not installed: nothing" in done.stderr
    results = found["results"]
    assert len(results) >= 18 and OURS_ALONE < set(results)
    for label, measured in results.items():
        wanted = {"holdfast"} if label in OURS_ALONE else {"holdfast", "python3"}
        assert set(measured) == wanted | ({"limit"} if label in LIMITED else set())
        for values in measured.values():
            assert all(0 < value < float("inf") for value in values), (label, measured)


PEERS = {"python", "ipykernel", "python 4K", "ipykernel 4K"}
WAYS = {"plain", "after privatizing", "instrumented"}


def test_kernels_are_timed_every_way(tmp_path, environment):
    found, _ = figures(
        tmp_path, "kernels.py", "--kernels", "add,loop", "--quick", "--repeat", "2", env=environment
    )
    results = found["results"]
    assert [result["kernel"] for result in results] == ["add", "loop"]
    for result in results:
        assert set(result["times_s"]) == PEERS | WAYS
        assert set(result["ratios"]) == {way + pages for way in WAYS for pages in ("", " 4K")}
        assert all(seconds > 0 for times in result["times_s"].values() for seconds in times)


CELLS = ["import json\nx = json.load(open('beside.json'))", "x.append(4)", "print(x)\nx[0]", "1/0"]


def test_a_notebook_runs_in_every_way(tmp_path, environment):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "beside.json").write_text("[1, 2, 3]")
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (folder / "tiny.ipynb").write_text(json.dumps({"cells": cells}))
    found, done = figures(
        tmp_path, "notebooks.py", folder, "--runs", "1", "--diffs", env=environment
    )
    rows = found["rows"]
    assert [(row["way"], row["cells"]) for row in rows] == [
        ("plain", 4),
        ("isolated", 4),
        ("recorded", 4),
    ]
    assert not any(row["differing"] for row in rows), done.stdout
    assert all(row["ipykernel_s"] > 0 and row["holdfast_s"] > 0 for row in rows)
    assert all("events" in cell["cause"] for cell in rows[2]["each"][:3])
    assert all(word in done.stdout for word in ("tiny", "recorded", "bar"))


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
    assert held["samples"] >= held["wanted"] / 4  # a thread of the interpreter's takes none
    assert 0 < found["cost"]["sample_us"] < found["cost"]["psutil_us"]
    assert {"process", "system"} <= set(found["cost"]["levels"])


def test_reported_is_true_within_5_percent(tmp_path, environment):
    args = ("--scale", "0.1", "--interval", "0.5")
    found, _ = figures(tmp_path, "monitor_truth.py", *args, env=environment, timeout=100)
    rows = {row["row"]: row for row in found["rows"]}
    assert len(rows) == 12
    # Of a cell that does nothing; of what code has allocated by the time at which the frontend hears
    # that it began and reads the memory: the process itself reports processor time and I/O.
    # Beside others that was up to 7 MiB and 2.1 ms. At full size that is within the 5 %: of 1 GiB,
    # 51 MiB.
    slack = {"cpu": 0.004, "memory": 9 * 2**20}
    for name, row in rows.items():
        true, reported = row["true"], row["reported"]
        for metric in ("cpu", "memory", "written"):
            if metric in true:
                near = pytest.approx(true[metric], rel=0.05, abs=slack.get(metric, 0))
                assert reported[metric] == near, name
        assert reported["seconds"] >= true["seconds"]
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
