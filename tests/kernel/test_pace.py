"""What a plain cell costs, counted: system calls of the frontend for cells that were sent at once."""

import shutil
import subprocess

import pytest

CELLS = 200


def traced(kernel, path):
    """strace on all threads of the frontend, which writes a table of its system calls."""
    command = ["strace", "-f", "-c", "-o", str(path), "-p", str(kernel.manager.provisioner.pid)]
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


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_frontend_makes_few_system_calls_for_a_cell(kernel, tmp_path):
    kernel.run("pass")
    tracer = traced(kernel, tmp_path / "calls")
    sent = [kernel.client.execute("pass") for _ in range(CELLS)]
    assert [kernel.finish(one).status for one in sent] == ["ok"] * CELLS
    tracer.terminate()
    tracer.wait(60)
    calls = calls_of(tmp_path / "calls")
    assert calls["sendmsg"] >= CELLS  # each was sent to the worker
    # The loop turns more often for each cell where the processors are busy: each turn asks whether something
    # has come, and looks at the size of the session.
    turns = calls["poll"]
    assert sum(calls.values()) <= 60 * CELLS + 4 * turns, calls  # it was 146 a cell
    assert calls.get("newfstatat", 0) + calls.get("fstat", 0) <= turns, calls
    # Nothing is asked of the system once for each cell: what a cell used, its workers, its parent.
    for name in ("openat", "readlink", "kill", "getdents64", "ioctl"):
        assert calls.get(name, 0) <= 4 * CELLS, (name, calls)
    assert calls.get("readlink", 0) + calls.get("kill", 0) < CELLS / 2
