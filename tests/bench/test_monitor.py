"""bench/monitor runs, and counts samples while C code holds the interpreter."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_samples_come_while_the_interpreter_is_held(tmp_path, environment):
    path = tmp_path / "monitor.json"
    command = [sys.executable, BENCH / "monitor.py", "--quick", "--json", path]
    subprocess.run(command, check=True, env=environment, timeout=100)
    found = json.loads(path.read_text())
    asleep, held = found["jitter"]
    assert (asleep["load"], held["load"]) == ("sleeps", "holds the GIL")
    assert held["samples"] >= held["wanted"] / 4  # a thread of the interpreter's takes none
    assert 0 < found["cost"]["sample_us"] < found["cost"]["psutil_us"]
    assert {"process", "system"} <= set(found["cost"]["levels"])
