"""bench/kernels runs its kernels every way, and gives the ratios that it promises."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
PEERS = {"python", "ipykernel", "python 4K", "ipykernel 4K"}
WAYS = {"plain", "after privatizing", "instrumented"}


def test_kernels_are_timed_every_way(tmp_path, environment):
    path = tmp_path / "kernels.json"
    command = [sys.executable, BENCH / "kernels.py", "--kernels", "add,loop", "--quick"]
    subprocess.run(
        [*command, "--repeat", "2", "--json", path], check=True, env=environment, timeout=300
    )
    results = json.loads(path.read_text())["results"]
    assert [result["kernel"] for result in results] == ["add", "loop"]
    for result in results:
        assert set(result["times_s"]) == PEERS | WAYS
        assert set(result["ratios"]) == {way + pages for way in WAYS for pages in ("", " 4K")}
        assert all(seconds > 0 for times in result["times_s"].values() for seconds in times)


def test_an_unknown_kernel_is_a_clear_error():
    command = [sys.executable, BENCH / "kernels.py", "--kernels", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no such kernel: nothing" in done.stderr
