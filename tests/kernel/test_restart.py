"""The main worker is killed again and again: the frontend goes on, and so does the notebook.

What kills it from outside says nothing of the notebook. What ends by itself is given less to do.
"""

import re
import subprocess
import time
from pathlib import Path

import effort
import pytest
from jupyter_client.restarter import KernelRestarter
from processes import kill
from waiting import until

KILLS = 14 if effort.IS_LONG else 3
STATE = """
import os, time
class Slow:
    "Takes a while to be loaded."
    def __init__(self, value): self.value = value
    def __setstate__(self, state):
        time.sleep(0.05)
        vars(self).update(state)
numbers = list(range(1000))
slow = [Slow(number) for number in range(4)]
same = slow
"""
WHOLE = """
assert numbers == list(range(1000)) and [one.value for one in slow] == [0, 1, 2, 3], 'lost'
assert same is slow, 'two'
"""


def next_worker(kernel, known):
    """The process that is forked next; `known` are those before it, and it is added."""
    pid = until(lambda: kernel.workers() - known, "no worker", pause=0.0005).pop()
    known.add(pid)
    return pid


def attempt(kernel, code):
    """Run it until it ran: one that was sent to a worker that was killed fails."""
    for _ in range(20):
        outcome = kernel.run(code)
        if outcome.status == "ok" or outcome.content["ename"] != "CellDied":
            break
    return outcome


def cell(kernel, code):
    outcome = attempt(kernel, code)
    assert outcome.status == "ok", outcome.content
    return outcome


@pytest.mark.parametrize("delay", effort.core([0.0, 0.01, 0.04, 0.12, 0.25], [0.0, 0.04]))
def test_killed_while_it_starts(kernel, delay):
    """A time after each fork: right after it, while it binds, when it is ready."""
    frontend, pid = kernel.pid, int(kernel.run("import os; os.getpid()").result)
    kernel.run(STATE)
    kernel.settle()
    known = kernel.workers()
    for _ in range(KILLS):
        kill(pid)
        pid = next_worker(kernel, known)  # others are forked when a main worker is ready
        time.sleep(delay)
    kill(pid)
    # Killed at the same value each time, which is blamed in the end: that is not lost either.
    if attempt(kernel, "slow").content.get("ename") == "QuarantinedError":
        cell(kernel, "%holdfast retry slow same")
    cell(kernel, WHOLE)
    assert kernel.pid == frontend and kernel.manager.is_alive()


@pytest.mark.parametrize(
    "head", effort.core(["", "%%isolated\n", "%%execute_with_scorep\n"], ["%%isolated\n"])
)
def test_killed_around_commits(isolated_kernel, head):
    """At moments after a cell: while its changes are committed, or adopted, or nothing is done."""
    kernel, frontend = isolated_kernel, isolated_kernel.pid
    kernel.run(STATE + "steps = []")
    kernel.settle()
    done = 0
    for turn in range(KILLS):
        pid = int(cell(kernel, "os.getpid()").result)
        before = int(cell(kernel, "len(steps)").result)
        kernel.settle()  # short cells that follow each other have no fork and no commit
        sent = kernel.client.execute(head + f"steps.append({turn})")
        time.sleep(0.084 / KILLS * turn)
        kill(pid)
        done += kernel.finish(sent).status == "ok"
        cell(kernel, WHOLE)
        assert int(cell(kernel, "len(steps)").result) in (before, before + 1)
    assert kernel.pid == frontend
    if head == "%%isolated\n":  # its changes are committed with its reply
        assert int(cell(kernel, "len(steps)").result) >= done


def test_killed_with_all_others(kernel):
    frontend = kernel.pid
    kernel.run(STATE)
    kernel.settle()
    for _ in range(KILLS):
        cell(kernel, "1")
        for pid in (*kernel.workers(), kernel.fork_server()):
            kill(pid)
    cell(kernel, WHOLE)
    assert kernel.pid == frontend


@pytest.fixture
def start_with_startup(start_kernel, tmp_path):
    """A function that starts a kernel with a startup file of IPython's."""

    def start(code):
        place = tmp_path / "ipython" / "profile_default" / "startup"
        place.mkdir(parents=True)
        (place / "00.py").write_text(code)
        return start_kernel(env={"IPYTHONDIR": str(tmp_path / "ipython")})

    return start


ENDS = """
import os
from holdfast.worker import main_worker
def end(*arguments): os._exit(3)
if os.path.exists({flag!r}): {what}
"""


def test_what_ends_by_itself_gets_less_to_do(start_with_startup, tmp_path):
    flag = tmp_path / "flag"
    kernel = start_with_startup(ENDS.format(flag=str(flag), what="main_worker.state.apply = end"))
    kernel.run(STATE)
    kernel.settle()
    flag.touch()
    assert kernel.run("os._exit(1)").content["ename"] == "CellDied"
    outcome = kernel.run("numbers")
    while outcome.content["ename"] == "CellDied":  # it was sent to one that ended
        outcome = kernel.run("numbers")
    assert outcome.content["ename"] == "QuarantinedError" and "retry" in outcome.content["evalue"]
    outcome = kernel.run("%holdfast retry numbers slow os time")
    assert outcome.status == "ok", outcome.content
    cell(kernel, "assert numbers == list(range(1000)) and slow[3].value == 3")
    kernel.settle()
    flag.unlink()
    assert kernel.run("os._exit(1)").content["ename"] == "CellDied"
    cell(kernel, WHOLE)  # what nobody asked for was kept, too


def test_where_nothing_starts_the_session_is_kept(start_with_startup, start_kernel, tmp_path):
    flag, file = tmp_path / "flag", tmp_path / "kept"
    kernel = start_with_startup(ENDS.format(flag=str(flag), what="os._exit(3)"))
    kernel.run(STATE)
    kernel.settle()
    flag.touch()
    kernel.client.execute("os._exit(1)")
    until(lambda: not kernel.manager.is_alive())
    said = (tmp_path / "stderr").read_text().splitlines()[-1]
    text = ""
    while "holdfast save" not in text:  # the notebook's user reads it, too
        message = kernel.client.get_iopub_msg(timeout=60)
        text = message["content"].get("text", "")
    assert text.split("holdfast: ", 1)[1].strip() in said
    command = re.search("`(holdfast save holdfast-[^ ]*) FILE`", text)[1].split()
    tool = Path(kernel.manager.kernel_spec.argv[0]).with_name("holdfast")
    subprocess.run([tool, *command[1:], file], check=True, timeout=60)
    other = start_kernel()
    assert other.run(f"%holdfast load {file}").status == "ok"
    assert other.run(WHOLE).status == "ok"
    # Whoever repairs it and starts the kernel again goes on.
    KernelRestarter(kernel_manager=kernel.manager).poll()
    until(lambda: not kernel.manager.is_alive())
    flag.unlink()
    KernelRestarter(kernel_manager=kernel.manager).poll()
    kernel.client.stop_channels()
    kernel.client = type(kernel)(kernel.manager).client
    assert kernel.run(WHOLE).status == "ok"


def test_a_value_that_kills_is_found_out(lend):
    """By SIGKILL, which somebody else may have sent: so it takes some."""
    kernel = lend(HOLDFAST_TRIALS="0")
    kernel.run(STATE)
    kernel.run(
        "class Fatal:\n"
        "    def __setstate__(self, state): os.kill(os.getpid(), 9)\n"
        "fatal = Fatal()\nfatal.value = 1"
    )
    kernel.settle()
    assert kernel.run("os._exit(1)").content["ename"] == "CellDied"
    cell(kernel, WHOLE)
    outcome = kernel.run("fatal")
    assert outcome.content["ename"] == "QuarantinedError" and "del fatal" in str(outcome.content)
