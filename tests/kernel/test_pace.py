"""What a plain cell costs, counted: system calls of the frontend and of the main worker, and calls of
Python functions in the main worker, for cells that were sent at once."""

import shutil
import subprocess

import pytest

CELLS = 200


def traced(path, *target):
    """strace on a process, which writes a table of its system calls."""
    command = ["strace", "-c", "-o", str(path), *target]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    if "attached" not in tracer.stderr.readline():
        tracer.wait()
        pytest.skip("no process may be traced here")
    return tracer


def calls_of(path):
    rows = (line.split() for line in path.read_text().splitlines())
    found = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}
    found.pop("total", None)
    return found


def calls_in_cells(kernel, path, *target):
    """The system calls while CELLS plain cells run one after the other."""
    tracer = traced(path, *target)
    sent = [kernel.client.execute("pass") for _ in range(CELLS)]
    assert [kernel.finish(one).status for one in sent] == ["ok"] * CELLS
    tracer.terminate()
    tracer.wait(60)
    return calls_of(path)


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@needs_strace
def test_the_frontend_makes_few_system_calls_for_a_cell(kernel, tmp_path):
    kernel.run("pass")
    pid = str(kernel.manager.provisioner.pid)
    calls = calls_in_cells(kernel, tmp_path / "calls", "-f", "-p", pid)
    assert calls["sendmsg"] >= CELLS  # each was sent to the worker
    # The loop turns more often for each cell where the processors are busy: each turn asks whether something
    # has come.
    turns = calls["poll"]
    assert sum(calls.values()) <= 30 * CELLS + 4 * turns, calls  # it was 146 a cell
    # Nothing is asked of the system once for each cell: what a cell used, its workers, its parent, the
    # size of the session.
    for name in ("openat", "readlink", "kill", "getdents64", "ioctl", "newfstatat", "fstat"):
        assert calls.get(name, 0) <= 4 * CELLS, (name, calls)
    assert calls.get("readlink", 0) + calls.get("kill", 0) < CELLS / 2


@needs_strace
def test_the_main_worker_makes_few_system_calls_for_a_cell(kernel, tmp_path):
    pid = kernel.run("import os; os.getpid()").result
    calls = calls_in_cells(kernel, tmp_path / "calls", "-p", pid)  # not of its forks
    most = {
        **{name: 1 for name in ("recvmsg", "poll", "rt_sigaction", "rt_sigprocmask")},
        **{"epoll_wait": 2, "sendmsg": 2, "waitid": 3, "getrusage": 4},
        **{"ioctl": 0, "clock_gettime": 0},
    }
    for name, count in most.items():  # a fork that is made meanwhile makes a few, too
        assert calls.get(name, 0) <= (count + 0.5) * CELLS, (name, calls)


COUNT = """
import os, sys
called, counts, ours = 0, [], os.sep + "holdfast" + os.sep
def count(frame, event, argument):
    global called
    if event == "call":
        files = (frame.f_code.co_filename, frame.f_back.f_code.co_filename)
        called += any(ours in file for file in files)
sys.setprofile(count)
"""


def test_the_main_worker_calls_few_functions_for_a_cell(kernel):
    kernel.run("pass")
    kernel.run(COUNT)
    for _ in range(10):
        kernel.run("counts.append(called)")
    least = "min(after - before for before, after in zip(counts, counts[1:]))"
    # Of functions that are ours, or that they call: it was 188 a cell. A commit may be among others.
    assert int(kernel.run(f"sys.setprofile(None); {least}").result) < 160
