"""bench/plain_codec on small values: it runs, and every system gives every work back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
PROGRAM = Path(__file__).resolve().parents[2] / "bench/plain_codec.py"


def test_every_work_and_system(tmp_path):
    target = tmp_path / "record.json"
    command = [sys.executable, PROGRAM, "--count", "100", "--repeat", "1", "--json", target]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    results = json.loads(target.read_text())["results"]
    works = {result["work"] for result in results}
    assert len(works) == 7
    assert {(work, "plain") for work in works} <= {(r["work"], r["system"]) for r in results}
    assert all(result["bytes"] > 0 for result in results)
