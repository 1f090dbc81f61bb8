"""Large libraries that a module of tests is about, imported when its tests run.

Every process of the test runner collects all modules, and few run their tests: importing
TensorFlow and JAX in each takes some ten seconds of processor time, nbformat three.
"""

import importlib
import importlib.util
from pathlib import Path

import pytest


class _Later:
    """Stands for a module, which the first public attribute that is asked of it imports."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):  # pytest looks at whatever a module of tests has
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def needed(name):
    """As pytest.importorskip: without the library, the module of tests is skipped."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:  # that of a part imports the whole
        pytest.skip(f"{name} is not installed", allow_module_level=True)
    if name == "tensorflow" and importlib.util.find_spec("triton"):
        # Of PyTorch with GPUs: imported in a process that has TensorFlow, it crashes.
        importlib.import_module("triton._C.libtriton")
    return _Later(name)


def a_gpu_is_needed():
    """Skips the test where PyTorch has no GPU. It is imported only where there may be one."""
    there = Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()
    if not there or not importlib.import_module("torch").cuda.is_available():
        pytest.skip("PyTorch has no GPU here")
