"""The stubs (.pyi) say what the extensions are: mypy's stubtest compares every name and signature."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[2]


def test_stubs_are_what_the_extensions_are(tmp_path):
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    # The stubs need nothing of the package, which imports IPython: ten seconds.
    settings["mypy"]["follow_imports"] = "skip"
    with open(tmp_path / "mypy.ini", "w") as file:
        settings.write(file)
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", tmp_path / "mypy.ini"]
    done = subprocess.run(
        [*command, *(f"holdfast.{name}" for name in ("_store", "_recorder", "_views", "_monitor"))],
        cwd=ROOT,
        env={**os.environ, "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
