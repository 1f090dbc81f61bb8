"""The state's way to a cell worker and back, and what may come between."""

import os
import signal
import time
from pathlib import Path

import effort
import pytest
from waiting import at_rest, until

CELL = "%%execute_with_scorep --run=isolated\n"
IN_PROCESS = "%%execute_with_scorep --run=in-process\n"
FORKED = "%%execute_with_scorep --run=forked\n"
HEADS = ["", CELL, IN_PROCESS, FORKED]
SLEEP = "import time\nfor _ in range(10_000): time.sleep(0.01)"


def interrupt(kernel, way):
    if way == "signal":
        os.kill(kernel.pid, signal.SIGINT)
    else:
        kernel.client.control_channel.send(kernel.client.session.msg("interrupt_request", {}))


@pytest.mark.parametrize("head", HEADS, ids=["plain", "isolated", "in-process", "forked"])
def test_no_interrupt_is_lost(kernel, head):
    kernel.run("before = 1")
    for turn in range(0, 16, 1 if effort.IS_LONG else 5):
        sent = kernel.client.execute(head + SLEEP)
        busy = kernel.client.get_iopub_msg(timeout=60)
        while busy["parent_header"].get("msg_id") != sent:
            busy = kernel.client.get_iopub_msg(timeout=60)
        time.sleep(0.002 * turn)  # commit, binding, or the cell's own code
        interrupt(kernel, "signal" if turn % 2 else "message")
        outcome = kernel.finish(sent)
        assert outcome.content["ename"] == "KeyboardInterrupt"
        assert "went on for" not in outcome.content["evalue"]  # it was not ended
        assert outcome.types.count("error") == 1
    assert kernel.run("before").result == "1"


def test_an_interrupt_before_the_start_runs_nothing(start_plain, tmp_path):
    """The only process that could run the cell never gets ready."""
    lazy = tmp_path / "lazy"
    lazy.write_text("1000")
    kernel = start_plain(env={"PLAIN_WORKER_LAZY": str(lazy)})
    sent = kernel.client.execute(CELL + "open('ran', 'w')")
    at_rest(lambda: [kernel.pid])  # it waits for that process
    interrupt(kernel, "message")
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
    assert not (tmp_path / "ran").exists()
    lazy.write_text("0")
    assert kernel.run("role").result == "'main'"


def test_an_interrupt_of_nothing_hits_nothing(kernel):
    for code in ("1", CELL + "1"):
        assert kernel.control("interrupt_request")["content"]["status"] == "ok"
        at_rest(kernel.workers)
        assert kernel.run(code).result == "1"


def test_the_state_survives_the_main_worker(kernel):
    kernel.run(
        "import math, numpy as np\nimport os\nx = np.arange(5.0)\ny = x[1:]\n"
        "def f(a): return math.sqrt(a) + x.sum()\nclass C:\n    v = 3\nc = C()"
    )
    kernel.run(CELL + "x[0] = 10\nz = {'k': [1, 2]}")
    kernel.settle()
    outcome = kernel.run("os.kill(os.getpid(), 9)")
    assert outcome.content["ename"] == "CellDied"
    assert kernel.run("x.tolist(), float(f(4.0)), c.v, z").result == (
        "([10.0, 1.0, 2.0, 3.0, 4.0], 22.0, 3, {'k': [1, 2]})"
    )
    assert kernel.run("x[1] = 7; float(y[0])").result == "7.0"
    assert kernel.run(CELL + "float(f(4.0)) + z['k'][1] + c.v").result == "33.0"


def test_exit_ends_the_kernel(kernel):
    outcome = kernel.run("exit()")
    assert outcome.content["payload"] == [{"source": "ask_exit", "keepkernel": False}]
    assert kernel.manager.provisioner.process.wait(timeout=60) == 0


def test_exit_may_keep_the_kernel(kernel):
    outcome = kernel.run("kept = 1; exit(keep_kernel=True)")
    assert outcome.content["payload"] == [{"source": "ask_exit", "keepkernel": True}]
    at_rest(lambda: [kernel.pid])
    assert kernel.run("kept").result == "1"


@pytest.mark.fresh  # Python shows a warning once
def test_sys_exit_is_an_error_with_a_hint(kernel):
    outcome = kernel.run("import sys; sys.exit(2)")
    file, line, said = outcome.stream("stderr").split(":", 2)
    assert file.endswith("IPython/core/interactiveshell.py")
    assert said.startswith(" UserWarning: To exit: use 'exit', 'quit', or Ctrl-D.")
    assert "To exit" in Path(file).read_text().splitlines()[int(line) - 1]
    for head in HEADS:
        outcome = kernel.run(head + "sys.exit(2)")
        assert outcome.content["ename"] == "SystemExit" and outcome.content["evalue"] == "2"
        assert kernel.run(head + "1").result == "1"


FULL = "'NoSpaceError: putting x: shared memory is full'"


@pytest.mark.parametrize(("trouble", "helps"), [(FULL, True), ("'ValueError: x'", False)])
def test_what_cannot_be_saved_is_a_commit_error(plain_kernel, trouble, helps):
    kernel = plain_kernel
    outcome = kernel.run(CELL + f"report['error'] = {trouble}")
    said = outcome.content["evalue"]
    assert outcome.content["ename"] == "CommitError" and outcome.types.count("error") == 1
    assert "the notebook's variables are as they were before it" in said
    assert eval(trouble) in said and ("del what is not needed" in said) is helps
    assert "out/trace" in outcome.stream()  # the recording is there all the same

    kernel.run(f"report['error'] = {trouble}")
    outcome = kernel.run(CELL + "role")
    said = outcome.content["evalue"]
    assert outcome.content["ename"] == "CommitError" and "the cell did not run" in said
    assert eval(trouble) in said and ("del what is not needed" in said) is helps
    kernel.run("report.clear()")
    assert kernel.run(CELL + "role").result == "'cell'"


@pytest.mark.fresh
def test_a_cell_that_is_faster_than_the_main_worker(kernel):
    """The main worker hears late that its commit was published: the cell's waits until it has."""
    kernel.run("""
import numpy as np, time
from holdfast.worker.main_worker import MainWorker
published = MainWorker.op_published
def late(self, frame):
    time.sleep(0.3)
    published(self, frame)
MainWorker.op_published = late
array, kept = np.zeros(100_000), [1]
same = id(kept)
""")
    outcome = kernel.run(CELL + "array[0] = 1\nprint('ran')")
    assert (outcome.status, outcome.stream()[:3]) == ("ok", "ran")
    outcome = kernel.run("array[0] += 1; float(array[0]), id(kept) == same")
    assert outcome.result == "(2.0, True)" and outcome.stream("stderr") == ""
    assert kernel.run(CELL + "float(array[0])").result == "2.0"


def test_what_runs_after_the_cell_changes_nothing_that_is_published(isolated_kernel):
    isolated_kernel.run("import numpy as np\na = np.zeros(1 << 18)")
    code = (
        "import atexit, json, os, threading\na = np.ones(1 << 18)\n"
        "go = threading.Event()\ndef spoil(): a[:] = 7\n"
        "def later(go=go):\n    go.wait()\n    spoil()\n"
        "thread = threading.Thread(target=later, daemon=True); thread.start()\n"
        # A library's handlers run in this process, the last one first: the thread writes meanwhile.
        "json.put = atexit.register, spoil, thread.join, go.set\n"
        "exec('for one in put[1:]: put[0](one)\\ndel put, one', vars(json))\n"
        "del go, thread; os.getpid()"
    )
    pid = isolated_kernel.run("%%execute_with_scorep\n" + code).result
    assert isolated_kernel.run("float(a.min()), float(a.max())").result == "(1.0, 1.0)"
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert isolated_kernel.run("float(a.min()), float(a.max())").result == "(1.0, 1.0)"


# The main worker waits before it says that it holds what it committed, until a file is there.
HOLD_BACK = (
    "import gc, os, time\n"
    "(main,) = [one for one in gc.get_objects() if type(one).__name__ == 'MainWorker']\n"
    "def op_published(frame):\n"
    "    while not os.path.exists('go'): time.sleep(0.01)\n"
    "    type(main).op_published(main, frame)\n"
    "main.op_published = op_published; value = 1"
)
BEGIN = CELL + "import os\nwith open('begun', 'a') as file: file.write(f'{os.getpid()}\\n')\n"


def cell_of_held_back(kernel, place, code):
    """Send a cell whose main worker holds back; its id, and its process once that has begun it."""
    assert kernel.run(HOLD_BACK).status == "ok"
    sent = kernel.client.execute(BEGIN + code)
    begun = place / "begun"
    pid = int(until(lambda: begun.exists() and begun.read_text()))
    return sent, pid


def end_of_held_back(kernel, place, sent, pid):
    """The cell's outcome, after its process is gone and the frontend has heard of it."""
    until(lambda: not Path(f"/proc/{pid}").exists())
    for _ in range(3):  # each is a turn of the frontend's loop, or more
        kernel.control("kernel_info_request")
    (place / "go").touch()
    return kernel.finish(sent)


@pytest.mark.fresh
def test_a_cell_that_dies_before_the_main_worker_has_settled_runs_once(kernel, tmp_path):
    sent, pid = cell_of_held_back(kernel, tmp_path, "os.kill(os.getpid(), 9)")
    outcome = end_of_held_back(kernel, tmp_path, sent, pid)
    assert outcome.content["ename"] == "CellDied"
    assert (tmp_path / "begun").read_text() == f"{pid}\n"
    assert kernel.run("value").result == "1"


@pytest.mark.fresh
def test_an_outcome_counts_though_its_process_dies_before_it_is_read(kernel, tmp_path):
    sent, pid = cell_of_held_back(kernel, tmp_path, "value += 1")
    at_rest(lambda: [pid])  # it has sent all, and waits for the end of its channel
    os.kill(pid, signal.SIGKILL)
    outcome = end_of_held_back(kernel, tmp_path, sent, pid)
    assert outcome.status == "ok", outcome.content
    assert (tmp_path / "begun").read_text() == f"{pid}\n"
    assert kernel.run("value").result == "2"
