"""bench/kernel gives each of its rows, for each kernel that is installed."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "bench" / "kernel.py"
OURS_ALONE = {"instrumented no-op, warm", "instrumented no-op, cold"}
LIMITED = {"start to first cell done", "memory at rest", "pass", "1+1", "an error"}
LIMITED |= {"display of 10 MiB", "display of 64 MiB"}


def test_each_row_is_measured(tmp_path, environment):
    path = tmp_path / "kernel.json"
    command = [sys.executable, PROGRAM, "--quick", "--peers", "python3,nothing", "--json", path]
    done = subprocess.run(
        command, check=True, env=environment, timeout=300, capture_output=True, text=True
    )
    assert "not installed: nothing" in done.stderr
    results = json.loads(path.read_text())["results"]
    assert len(results) >= 18 and OURS_ALONE < set(results)
    for label, measured in results.items():
        wanted = {"holdfast"} if label in OURS_ALONE else {"holdfast", "python3"}
        assert set(measured) == wanted | ({"limit"} if label in LIMITED else set())
        assert all(0 < value < float("inf") for values in measured.values() for value in values)


def test_an_unknown_row_is_a_clear_error():
    command = [sys.executable, PROGRAM, "--rows", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no such row: nothing" in done.stderr
