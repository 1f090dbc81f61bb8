"""bench/handover runs, and what it counts is what the store promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MIB = 1 << 20


def run(program, *args, **environment):
    subprocess.run(
        [sys.executable, BENCH / program, *args],
        check=True,
        env={**os.environ, **environment},
        timeout=300,
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("handover") / "result.json"
    run("handover.py", "--quick", "--systems", "holdfast,dill,limit", "--json", str(path))
    record = json.loads(path.read_text())
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


def test_an_unknown_system_is_a_clear_error():
    done = subprocess.run(
        [sys.executable, BENCH / "handover.py", "--systems", "nothing"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "no such system or work" in done.stderr
