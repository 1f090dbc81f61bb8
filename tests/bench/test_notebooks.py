"""bench/notebooks runs a notebook in every way, and finds that its outputs agree."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "notebooks.py"
CELLS = ["import json\nx = json.load(open('beside.json'))", "x.append(4)", "print(x)\nx[0]", "1/0"]


def test_a_notebook_runs_in_every_way(tmp_path, environment):
    folder, path = tmp_path / "notebooks", tmp_path / "rows.json"
    folder.mkdir()
    (folder / "beside.json").write_text("[1, 2, 3]")
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (folder / "tiny.ipynb").write_text(json.dumps({"cells": cells}))
    command = [sys.executable, BENCH, folder, "--runs", "1", "--diffs", "--json", path]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, timeout=300
    )
    rows = json.loads(path.read_text())["rows"]
    assert [(row["way"], row["cells"]) for row in rows] == [
        ("plain", 4),
        ("isolated", 4),
        ("recorded", 4),
    ]
    assert not any(row["differing"] for row in rows), done.stdout
    assert all(row["ipykernel_s"] > 0 and row["holdfast_s"] > 0 for row in rows)
    assert all("events" in cell["cause"] for cell in rows[2]["each"][:3])
    assert all(word in done.stdout for word in ("tiny", "recorded", "bar"))


def test_a_missing_notebook_is_a_clear_error():
    command = [sys.executable, BENCH, "nothing.ipynb"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no such notebook: nothing.ipynb" in done.stderr
