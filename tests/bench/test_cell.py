"""bench/cell runs its rows, and what its cells report is what the store promises."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
MIB = 1 << 20


def test_cells_map_and_do_not_copy(tmp_path, environment):
    path = tmp_path / "cell.json"
    rows = "empty,element,1000 variables"
    command = [sys.executable, BENCH / "cell.py", "--rows", rows, "--quick", "--repeat", "3"]
    subprocess.run([*command, "--json", path], check=True, env=environment, timeout=300)
    results = {result["row"]: result for result in json.loads(path.read_text())["results"]}
    assert len(results) == 3
    element = results["element"]["report"]
    assert element["bytes_mapped"] == 16 * MIB
    assert element["bytes_copied"] < MIB
    assert results["empty"]["report"]["bytes_copied"] < 65536


def test_an_unknown_row_is_a_clear_error():
    command = [sys.executable, BENCH / "cell.py", "--rows", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no such row: nothing" in done.stderr
