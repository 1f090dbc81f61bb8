"""Each way of running a cell, once, in a few seconds: what `.ci/run versions` runs on other interpreters.

Needs pytest, pytest-timeout, hypothesis and NumPy besides the package.
"""

import json
import subprocess
import sys

import pytest

RECORDED = "%%execute_with_scorep --run={}\n"
NOTEBOOK = """
import os, threading
import numpy as np
def work(n): return sum(range(n))
class Point:
    def __init__(self, x): self.x = x
    def __reduce__(self): return Point, (self.x,)  # tried in a child before it is saved
numbers = [1]; alias = numbers; array = np.arange(100_000); view = array[:5]; point = Point(3)
steps = (n for n in range(9)); next(steps)
"""
HOOKS = """
log, lock = [], threading.Lock()
def note(what):
    log.append(what)
os.register_at_fork(
    before=lambda: note("before"),
    after_in_parent=lambda: note("parent"),
    after_in_child=lambda: note("child"),
)
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
"""


@pytest.fixture
def notebook(shared_kernel):
    """The kernel with these variables, and a function that runs a cell which is to go well."""

    def run(code, stderr=""):
        outcome = shared_kernel.run(code)
        assert outcome.status == "ok", (code, outcome.content)
        assert outcome.stream("stderr") == stderr
        return outcome

    run(NOTEBOOK)
    shared_kernel.ok = run
    return shared_kernel


def test_the_interpreter_is_this_one(notebook):
    assert notebook.ok("import sys; sys.version").result == repr(sys.version)


@pytest.mark.parametrize("run", ["in-process", "forked", "isolated"])
def test_a_recorded_cell(notebook, run):
    cell = "numbers.append(work(10)); view[0] = 7; print(len(numbers)); os.getpid()"
    main = notebook.ok("os.getpid()").result
    outcome = notebook.ok(RECORDED.format(run) + cell)
    assert outcome.stream().startswith("2\n") and outcome.cost["run"] == run
    assert (outcome.result == main) == (run == "in-process")
    assert outcome.cost["events"] > 0
    found = notebook.ok("numbers, alias is numbers, int(array[0]), view.base is array, point.x")
    assert found.result == "([1, 45], True, 7, True, 3)"
    if run != "isolated":  # such a cell has no generator
        assert notebook.ok("next(steps)").result == "1"
    assert "work" in notebook.ok("%trace --text").stream()


def test_a_sleeping_fork_wakes(notebook):
    main = notebook.ok("os.getpid()").result
    outcome = notebook.run(
        RECORDED.format("in-process") + "numbers.append(2); os.kill(os.getpid(), 9)"
    )
    assert outcome.status == "error" and outcome.content["ename"] == "CellDied"
    assert "as they were before the cell" in outcome.content["evalue"]
    found = notebook.ok("numbers, alias is numbers, next(steps), os.getpid() == " + main)
    assert found.result == "([1], True, 1, False)"
    assert (
        notebook.ok(RECORDED.format("isolated") + "numbers.append(3); numbers").result == "[1, 3]"
    )


def test_hooks_for_forks(notebook):
    """None runs in the notebook's process for a fork that sleeps, or for a child that tries a value."""
    seen = "log, lock.locked()"
    notebook.ok(HOOKS)
    for run in ("in-process", "isolated"):
        notebook.ok(f"%%isolated --run={run}\n1")
        notebook.settle()
    assert notebook.ok(seen).result == "([], False)"
    in_fork = "(['before', 'child'], False)"
    assert notebook.ok("%%isolated --run=forked\n" + seen).result == in_fork
    notebook.ok("log.clear()")
    notebook.run("%%isolated --run=in-process\nos.kill(os.getpid(), 9)")
    assert notebook.ok(seen).result == in_fork


def test_an_error_is_shown_and_an_interrupt_reaches_the_cell(notebook):
    outcome = notebook.run(RECORDED.format("in-process") + "work('a')")
    assert outcome.content["ename"] == "TypeError"
    notebook.client.execute("print('on'); threading.Event().wait()")
    while notebook.client.get_iopub_msg(timeout=60)["content"].get("text") != "on\n":
        pass
    notebook.manager.interrupt_kernel()
    assert notebook.client.get_shell_msg(timeout=60)["content"]["ename"] == "KeyboardInterrupt"


def test_a_trace_is_exported(notebook, tmp_path):
    notebook.ok(RECORDED.format("in-process") + "for _ in range(70): work(3)")
    notebook.ok("%trace --export trace.json\n%trace --export trace.html")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["name"] == "__main__:work" for event in events) == 70
    assert "holdfast-views" in (tmp_path / "trace.html").read_text()


def test_a_program_is_recorded(tmp_path):
    (tmp_path / "program.py").write_text(
        "def work(): pass\nfor _ in range(30): work()\nprint('done')"
    )
    command = [sys.executable, "-m", "holdfast.scorep", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert list(tmp_path.glob("scorep-*/traces.otf2"))
