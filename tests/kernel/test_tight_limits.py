"""Kernels in tight places: a small or read-only /dev/shm, few open files, small files, no home directory."""

import ctypes
import os
import resource

import effort
import pytest

pytestmark = pytest.mark.fresh
NEW_MOUNTS, PRIVATE, READ_ONLY = 0x20000, (1 << 18) | 0x4000, 1


def mount_shared_memory(flags, options):
    """In the kernel's process: a /dev/shm of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(NEW_MOUNTS)
        or libc.mount(b"none", b"/", None, PRIVATE, None)
        or libc.mount(b"none", b"/dev/shm", b"tmpfs", flags, options)
    ):
        raise OSError(ctypes.get_errno(), "no mounts")


def limit(kind, number):
    resource.setrlimit(kind, (number, number))


PLACES = {
    "small /dev/shm": (lambda: mount_shared_memory(0, b"size=16m"), {}),
    "read-only /dev/shm": (lambda: mount_shared_memory(READ_ONLY, b"size=16m"), {}),
    "64 open files": (lambda: limit(resource.RLIMIT_NOFILE, 64), {}),
    "no home": (None, {"HOME": "/nonexistent/home"}),
    "a home that is read-only": (None, {"HOME": "/proc"}),
}


@pytest.mark.parametrize(
    "place", effort.core(PLACES, ["small /dev/shm", "64 open files", "no home"])
)
def test_a_notebook_works_in(start_kernel, place):
    before, env = PLACES[place]
    if "shm" in place and os.geteuid() != 0:
        pytest.skip("mounts are root's")
    kernel = start_kernel(before=before, env=env)
    kernel.run("import numpy as np; a = np.ones(3_000_000); x = 1")
    kernel.run("%%execute_with_scorep\nx += 1")
    kernel.run("%%execute_with_scorep --run=isolated\nb = a + x")
    assert kernel.run("x, float(b.sum())").result == "(2, 9000000.0)"


def test_files_that_may_not_be_large_cost_no_variable(start_kernel):
    """SIGXFSZ had ended the kernel without a word."""
    kernel = start_kernel(before=lambda: limit(resource.RLIMIT_FSIZE, 1 << 20))
    kernel.run("import numpy as np; a = np.ones(3_000_000)")
    refused = kernel.run("%%execute_with_scorep --run=isolated\nb = a").reply["content"]
    assert "File too large" in refused["evalue"]
    assert kernel.run("float(a.sum())").result == "3000000.0"


def test_too_few_open_files_are_named(start_kernel, tmp_path):
    with pytest.raises(RuntimeError, match="died"):
        start_kernel(before=lambda: limit(resource.RLIMIT_NOFILE, 32))
    assert "ulimit -n" in (tmp_path / "stderr").read_text()


TAKES_ALL = """kept = []
while True:
    kept.append(bytearray(1 << 20))
"""


@pytest.mark.parametrize("head", ["", "%%execute_with_scorep\n"])
def test_a_cell_that_takes_all_memory_has_an_error(start_kernel, head):
    """Nothing was left for its reply, and so the notebook's process had ended."""
    kernel = start_kernel(before=lambda: limit(resource.RLIMIT_AS, 1200 << 20))
    kernel.run("x = 5")
    assert kernel.run(head + TAKES_ALL).content["ename"] == "MemoryError"
    assert kernel.run("y = x").status == "ok"
    kernel.run("kept = None")
    assert kernel.run("x + y").result == "10"
    assert kernel.run(TAKES_ALL).content["ename"] == "MemoryError"
