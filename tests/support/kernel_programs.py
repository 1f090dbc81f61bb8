"""Kernels in C, compiled as a stranger would, with the headers and the shared libraries of a build."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("worker", "kernel", "shm_store")


def compiled(source, target, *libraries, warns=True):
    """The path of the program."""
    build = os.environ.get("HOLDFAST_BUILD")
    if not build or not Path(build, "worker/libholdfast-worker.so").exists():
        pytest.skip("no shared library was built")
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    command = ["cc", "-std=gnu11", "-g"]
    command += ["-Wall", "-Wextra", "-Wpedantic", "-Werror"] if warns else []
    command += [f"-I{ROOT}/{room}/include" for room in ROOMS] + [str(ROOT / source)]
    command += [f"{flag}{build}/{room}" for room in ROOMS for flag in ("-L", "-Wl,-rpath,")]
    command += [f"-lholdfast-{room}" for room in ROOMS[:2]] + ["-lholdfast", "-pthread", *libraries]
    subprocess.run([*command, "-o", str(target)], check=True, timeout=120)
    return target


def spec(program):
    """A kernelspec for it."""
    return {
        "argv": [str(program), "{connection_file}"],
        "display_name": "A kernel",
        "language": "none",
        "interrupt_mode": "message",
    }


def for_python(program, directory):
    """What holdfast-kernel can start as its Python, so that its commands meet this program's workers."""
    script = directory / "worker-for-python"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -m ]; then shift 2; exec "{program}" --worker "$@"; fi\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


@contextlib.contextmanager
def saved(kernel):
    """Wait until what a cell changes is saved, which is done when nobody asks for a moment."""
    from holdfast._store import Session

    with Session.open(kernel.segment().name) as session:
        generation = session.generation
        yield
        while session.generation == generation:
            time.sleep(0.01)
