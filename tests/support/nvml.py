"""NVIDIA's library, pretended: two GPUs, used by 50 and 51 %, for machines that have none."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "monitor/pretended_nvml.c"


def pretended_nvml(place):
    """Make the library in this directory, for HOLDFAST_NVML; its path. Skips the test without a compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler for the pretended library")
    library = place / "libnvidia-ml.so"
    subprocess.run(["cc", "-shared", "-fPIC", SOURCE, "-o", library], check=True)
    return str(library)
