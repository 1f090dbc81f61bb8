"""The processes that wait for a cell: taken, replaced, and given up."""

import os
import time

import pytest

CELL = "%%execute_with_scorep\n"


def cells_below(template):
    """Pids of the template's children."""
    with open(f"/proc/{template}/task/{template}/children") as file:
        return [int(pid) for pid in file.read().split()]


def test_the_reserve_is_bounded_and_refilled(plain_kernel):
    kernel = plain_kernel
    template = int(kernel.run("import os; os.getppid()").result)
    wanted = 2 if os.cpu_count() > 1 else 1
    for _ in range(5):
        kernel.run(CELL + "1")
    deadline = time.monotonic() + 10
    while len(cells_below(template)) != 1 + wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(cells_below(template)) == 1 + wanted  # the home, and those that wait


@pytest.fixture
def lazy(tmp_path):
    """A file whose number says how many of the next cell workers never get ready."""
    path = tmp_path / "lazy"
    path.write_text("0")
    return path


def lazy_kernel(start_plain, lazy, number):
    lazy.write_text(str(number))
    return start_plain(env={"HOLDFAST_READY_SECONDS": "1", "PLAIN_WORKER_LAZY": str(lazy)})


def test_one_that_never_gets_ready_is_replaced(start_plain, lazy):
    kernel = lazy_kernel(start_plain, lazy, 2)
    outcome = kernel.run(CELL + "role", timeout=20)
    assert outcome.result == "'cell'"


def test_two_that_never_get_ready_are_an_error(start_plain, lazy):
    kernel = lazy_kernel(start_plain, lazy, 1000)
    outcome = kernel.run(CELL + "role", timeout=20)
    assert outcome.content["ename"] == "CellDied"
    assert "not ready within 1 seconds" in outcome.content["evalue"]
    assert kernel.run("role").result == "'home'"
    lazy.write_text("0")
    assert kernel.run(CELL + "role", timeout=20).result == "'cell'"
