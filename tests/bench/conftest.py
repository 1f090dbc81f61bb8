"""A kernelspec for the programs that start kernels."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        [sys.executable, "-m", "holdfast.install", "--prefix", prefix], check=True, timeout=60
    )
    return {**os.environ, "JUPYTER_PATH": str(prefix / "share" / "jupyter")}
