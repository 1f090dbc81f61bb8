"""bench/views.py on a small trace: each reader has its row."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("holdfast._views")
BENCH = Path(__file__).resolve().parents[2] / "bench/views.py"


def test_each_reader_has_a_row(tmp_path, environment):
    figures = tmp_path / "figures.json"
    command = [sys.executable, BENCH, "--calls", "2400", "--rounds", "1", "--json", figures]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    # main, and twenty times 20 or 21 of deep, one of middle and 100 of leaf: an enter and a leave each
    assert found["events"] == 2 * (1 + 20 * (20.5 + 1 + 100))
    rows = found["seconds and MiB"]
    wanted = {"read", "page", ".json", ".speedscope.json", ".pstats", ".callgrind", ".collapsed"}
    assert wanted | {"%trace, client"} <= rows.keys()
    for name in rows:
        assert name in done.stdout
        assert rows[name][0] > 0
