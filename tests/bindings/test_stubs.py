"""The stubs (.pyi) say what the extensions are: mypy's stubtest compares every name and signature."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[2]


def test_stubs_are_what_the_extensions_are(tmp_path):
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", "setup.cfg"]
    done = subprocess.run(
        [*command, "holdfast._store", "holdfast._recorder"],
        cwd=ROOT,
        env={**os.environ, "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
