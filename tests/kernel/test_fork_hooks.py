"""Hooks of os.register_at_fork: they run in the forks, and in the notebook's process where it forks to
run a cell; never there for a fork that sleeps."""

import re

import effort
import pytest

HOOKS = """
import os, threading
log, lock = [], threading.Lock()
os.register_at_fork(
    before=lambda: log.append("before"),
    after_in_parent=lambda: log.append("parent"),
    after_in_child=lambda: log.append("child"),
)
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
"""
SEEN = "(log, lock.locked())"
DIE = "import os; os.kill(os.getpid(), 9)"
# As h5py is: a library whose hooks take a lock.
LIBRARY = """
import os, threading
lock = threading.Lock()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
"""


# A kernel says it at its start, of those that other tests have killed beside this one.
OF_OTHERS = re.compile(r"^holdfast-kernel: removed \d+ sessions? that dead kernels left\n", re.M)


@pytest.fixture
def said(tmp_path):
    """A function: what the kernel's processes have printed of themselves beside the notebook."""
    yield lambda: OF_OTHERS.sub("", (tmp_path / "stderr").read_text())


def ok(kernel, code):
    """A cell that does what it shall, and prints nothing on stderr."""
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    assert outcome.stream("stderr") == "", outcome.stream("stderr")
    return outcome


def test_hooks_of_the_notebook(start_kernel, said):
    kernel = start_kernel()
    ok(kernel, HOOKS)
    # In-process: the sleeping fork isn't noticed.
    for head in ("%%execute_with_scorep --run=in-process\n", "%%isolated --run=in-process\n", ""):
        assert ok(kernel, head + SEEN).result == "([], False)"
    # The fork wakes.
    assert kernel.run("%%isolated --run=in-process\n" + DIE).status == "error"
    assert ok(kernel, SEEN).result == "(['before', 'child'], False)"
    ok(kernel, "log.clear()")
    # Forked: as os.fork().
    outcome = ok(kernel, "%%execute_with_scorep --run=forked\n" + SEEN)
    assert outcome.cost["run"] == "forked"
    assert outcome.result == "(['before', 'child'], False)"
    ok(kernel, "lock.locked()")
    assert ok(kernel, "%%isolated --run=isolated\n1").result == "1"
    assert said() == ""


def test_a_line_of_the_history_that_waits_to_be_written(start_kernel, said):
    """IPython's hook ends the thread that writes it, which waits for a lock that a fork of ours holds."""
    kernel = start_kernel(env={"HOLDFAST_RUN": "forked"})
    for number in range(3):
        ok(kernel, f"x = {number}")
        assert ok(kernel, "%%execute_with_scorep\nx").result == str(number)
    assert said() == ""


@pytest.mark.parametrize(
    "run", effort.core(["in-process", "forked", "isolated"], ["in-process", "forked"])
)
def test_hooks_of_a_library(start_kernel, said, tmp_path, run):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "locking.py").write_text(LIBRARY)
    kernel = start_kernel(env={"HOLDFAST_RUN": run, "PYTHONPATH": str(tmp_path / "site-packages")})
    for _ in range(2):
        outcome = ok(kernel, "%%execute_with_scorep\nimport locking\nlocking.lock.locked()")
        assert outcome.result == "False" and outcome.cost["run"] == run
    assert ok(kernel, "locking.lock.locked()").result == "False"
    assert said() == ""
