"""The frontend is killed, and Jupyter starts it anew: the notebook goes on with what was committed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import effort
import pytest
from jupyter_client.restarter import KernelRestarter
from processes import state
from takeup import killed, session_waits
from waiting import begun, until

STATE = """
import os
class Own:
    pass
numbers, own = list(range(10)), Own()
same, own.value = numbers, 4
array = __import__("numpy").arange(100_000.)
"""
WHOLE = "assert sum(numbers) == 45 and same is numbers and own.value == 4 and array[-1] == 99999"


def sessions():
    """The objects in shared memory that are sessions."""
    return {path.name for path in Path("/dev/shm").glob(f"holdfast-{os.getuid()}-*")}


def session_of(kernel):
    """The object that the frontend has mapped."""
    return until(
        lambda: {
            Path(line.split()[-1]).name
            for line in Path(f"/proc/{kernel.pid}/maps").read_text().splitlines()
            if "/dev/shm/holdfast-" in line
        }
    ).pop()


def reapers(name="holdfast-reaper"):
    found = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name and state(int(path.parent.name)) != "Z":
                found.add(int(path.parent.name))
        except OSError:
            pass
    return found


def reapers_of(kernel):
    children = Path(f"/proc/{kernel.pid}/task/{kernel.pid}/children").read_text().split()
    return set(map(int, children)) & reapers()


def reaper_of(kernel):
    return reapers_of(kernel).pop()


@pytest.fixture
def kernel(start_kernel):
    """A kernel whose reaper looks ten times a second."""
    return start_kernel(env={"HOLDFAST_KEEP_SECONDS": "60"})


def test_the_notebook_goes_on(kernel):
    kernel.run(STATE)
    kernel.run("numbers")
    kernel.settle()
    name = session_of(kernel)
    for turn in range(2):
        reaper = reaper_of(kernel)
        killed(kernel)
        outcome = kernel.run(WHOLE)
        assert outcome.status == "ok", outcome.content
        assert outcome.stream("stderr").startswith("holdfast: the kernel's process was killed")
        assert "without what" not in outcome.stream("stderr")
        assert outcome.content["execution_count"] == 3 + turn
        assert kernel.run("1", store_history=False).stream("stderr") == ""  # once
        assert session_of(kernel) == name
        until(lambda: reaper not in reapers())  # it is dismissed
        assert reaper_of(kernel) != reaper
        kernel.settle()
    outcome = kernel.run("%%execute_with_scorep\nnumbers.append(10)")
    assert outcome.status == "ok", outcome.content
    assert kernel.run("sum(same)").result == "55"
    assert kernel.run("Out[2] is not None, In[1][:9]").result == "(True, 'import os')"


def test_what_ran_since_the_commit_is_reported(kernel):
    kernel.run(STATE)
    kernel.settle()
    begun(kernel, "for number in numbers: pass\nprint('begins', flush=True)\ninput()")
    killed(kernel)
    outcome = kernel.run(WHOLE)
    assert "cell [2] was running" in outcome.stream("stderr")
    assert outcome.status == "ok" and outcome.content["execution_count"] == 3


def test_it_goes_on_in_the_middle_of_things(kernel):
    """Killed at any moment of cells and commits: what was settled is there."""
    kernel.run(STATE)
    kernel.settle()
    for turn in range(8 if effort.IS_LONG else 3):
        kernel.run("steps = []" if turn == 0 else f"steps = list(range({turn}))")
        kernel.settle()
        kernel.client.execute(
            ("%%isolated\n" if turn % 2 else "") + "array += 1; array -= 1; later = 1"
        )
        until(lambda: True, pause=0.01 * turn)
        killed(kernel)
        outcome = kernel.run(WHOLE + f"\nassert len(steps) == {turn}")
        assert outcome.status == "ok", outcome.content


ENDS = ["restart", "terminate", "shutdown request", "exit()"]


@pytest.mark.parametrize("end", effort.core(ENDS, ["restart", "exit()"]))
def test_an_orderly_end_clears_it(kernel, end):
    kernel.run(STATE)
    kernel.settle()
    name, reaper = session_of(kernel), reaper_of(kernel)
    if end == "restart":
        kernel.manager.restart_kernel(now=False)
    else:
        if end == "terminate":
            os.kill(kernel.pid, signal.SIGTERM)
        elif end == "exit()":
            kernel.run("exit()")
        else:
            kernel.control("shutdown_request", {"restart": False})
        until(lambda: not kernel.manager.is_alive())
        KernelRestarter(kernel_manager=kernel.manager).poll()
    assert name not in sessions() and reaper not in reapers()
    kernel.client.stop_channels()
    kernel.client = type(kernel)(kernel.manager).client
    outcome = kernel.run("numbers")
    assert outcome.content["ename"] == "NameError" and outcome.stream("stderr") == ""
    assert outcome.content["execution_count"] == 1


def test_another_file_and_another_key_take_nothing_up(start_kernel, tmp_path):
    env = {"HOLDFAST_KEEP_SECONDS": "60"}
    kernel, other = start_kernel(env=env), start_kernel(env=env)
    kernel.run(STATE)
    kernel.settle()
    name = session_of(kernel)
    with session_waits():
        os.kill(kernel.pid, signal.SIGKILL)
        killed(other)  # a kernel starts, and leaves the session alone
        assert other.run("numbers").content["ename"] == "NameError"
        assert name in sessions()
        manager = kernel.manager
        key, manager.session.key = manager.session.key, b"another"
        info = json.loads(Path(manager.connection_file).read_text())
        Path(manager.connection_file).write_text(json.dumps(info | {"key": "another"}))
        until(lambda: not manager.is_alive())
        manager.start_kernel()
        kernel.client.stop_channels()
        kernel.client = type(kernel)(manager).client
        assert kernel.run("numbers").content["ename"] == "NameError"
        kernel.control("shutdown_request", {"restart": False})
        until(lambda: not manager.is_alive())
        manager.session.key = key
        Path(manager.connection_file).write_text(json.dumps(info))
        manager.start_kernel()
        kernel.client.stop_channels()
        kernel.client = type(kernel)(manager).client
        assert kernel.run(WHOLE).status == "ok"


@pytest.mark.parametrize("seconds", ["0", "0.3"])
def test_nobody_comes(start_kernel, seconds):
    kernel = start_kernel(env={"HOLDFAST_KEEP_SECONDS": seconds})
    kernel.run(STATE)
    name, reaper = session_of(kernel), reaper_of(kernel)
    os.kill(kernel.pid, signal.SIGKILL)
    until(lambda: name not in sessions())
    until(lambda: reaper not in reapers())


def test_the_server_has_given_it_up(kernel):
    kernel.run(STATE)
    name, reaper = session_of(kernel), reaper_of(kernel)
    with session_waits():
        kernel.manager.shutdown_kernel(now=True)  # SIGKILL, and the connection file is removed
        assert name in sessions()
    until(lambda: name not in sessions())
    until(lambda: reaper not in reapers())


def test_the_reaper_is_small_and_holds_nothing(kernel):
    kernel.run("1")
    reaper = reaper_of(kernel)
    places = {os.readlink(path) for path in Path(f"/proc/{reaper}/fd").iterdir()}
    assert {place for place in places if not place.startswith("socket:")} == {"/dev/null"}
    assert len(list(Path(f"/proc/{reaper}/fd").iterdir())) == 4
    assert Path(f"/proc/{reaper}/cmdline").read_bytes().rstrip(b"\0") == b"holdfast-reaper"
    assert os.getsid(reaper) == reaper and os.readlink(f"/proc/{reaper}/cwd") == "/"
    rollup = Path(f"/proc/{reaper}/smaps_rollup").read_text()
    private = [line for line in rollup.splitlines() if line.startswith("Private_Dirty")]
    assert int(private[0].split()[1]) < 1024  # KiB


@pytest.mark.skipif(sys.platform != "linux", reason="the frontend waits for all children")
def test_a_reaper_that_is_killed_is_replaced(kernel):
    kernel.run(STATE)
    kernel.settle()
    for _ in range(2):
        reaper = reaper_of(kernel)
        os.kill(reaper, signal.SIGKILL)
        until(lambda: reapers_of(kernel) - {reaper})
    name, reaper = session_of(kernel), reaper_of(kernel)
    assert {path.name for path in Path(f"/proc/{reaper}/fd").iterdir()} <= set("0123456789")
    assert kernel.run(WHOLE).status == "ok"
    with session_waits():
        os.kill(kernel.pid, signal.SIGKILL)
        until(lambda: not kernel.manager.is_alive())
        assert name in sessions() and reaper in reapers()
    os.unlink(kernel.manager.connection_file)
    until(lambda: name not in sessions() and reaper not in reapers())


def test_lists_show_it(kernel):
    tool = str(Path(kernel.manager.kernel_spec.argv[0]).with_name("holdfast"))

    def say(*words):
        done = subprocess.run(
            [tool, *words], capture_output=True, text=True, timeout=60, check=True
        )
        return [line for line in done.stdout.splitlines() if name in line]

    kernel.run(STATE)
    kernel.settle()
    name = session_of(kernel)
    assert "waits" not in say("ls")[0]
    with session_waits(alone=True):
        os.kill(kernel.pid, signal.SIGKILL)
        until(lambda: "waits" in say("ls")[0])
        assert say("gc") == [] and name in sessions()
        until(lambda: say("gc", "--kept") and name not in sessions())
