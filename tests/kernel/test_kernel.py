"""The frontend's loop and its end: nothing is left behind, whoever ends it."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import psutil
import pytest
from processes import name, state
from waiting import asleep, complete, until


def children(pid):
    """All processes below `pid`."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(pids):
    return [pid for pid in pids if state(pid) != "Z"]


def is_reaper(pid):
    return name(pid) == "holdfast-reaper"


def segment_of(pid):
    """Names of the shared memory that a process maps."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {line.split()[-1] for line in maps.splitlines() if "/dev/shm/holdfast" in line}


def wait_gone(pids):
    until(lambda: not alive(pids), lambda: alive(pids))


@pytest.mark.parametrize("how", ["message", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_no_process_and_no_segment_is_left(start_plain, how):
    kernel = start_plain(env={"HOLDFAST_KEEP_SECONDS": "60"})  # its reaper looks often
    kernel.run("%%execute_with_scorep\n1")
    complete(kernel)
    below, pid = children(kernel.pid), kernel.pid
    segments = segment_of(pid)
    reaper = {one for one in below if is_reaper(one)}
    assert len(below) >= 4 and segments and len(reaper) == 1
    if how == "message":
        assert kernel.control("shutdown_request", {"restart": False})["content"]["status"] == "ok"
    else:
        os.kill(pid, getattr(signal, how))
    wait_gone({pid, *below} - (reaper if how == "SIGKILL" else set()))
    if how == "SIGKILL":  # the next kernel may take it up, but not one without that file
        assert all(os.path.exists(segment) for segment in segments)
        os.unlink(kernel.manager.connection_file)
        wait_gone(reaper)
    assert not [segment for segment in segments if os.path.exists(segment)]


def test_shutdown_during_a_cell(plain_kernel):
    kernel = plain_kernel
    below = children(kernel.pid)
    asleep(kernel, "import time; print('go'); time.sleep(100)")
    reply = kernel.control("shutdown_request", {"restart": True})
    assert reply["content"] == {"status": "ok", "restart": True}
    wait_gone([kernel.pid, *below])


def test_a_dead_parent_ends_the_kernel(start_kernel, plain_kernel):
    sleeper = subprocess.Popen(["sleep", "100"])
    spec = plain_kernel.manager.kernel_spec.argv
    kernel = start_kernel(python=spec[spec.index("--python") + 1])
    # jupyter_client sets JPY_PARENT_PID itself: so a kernel started by hand.
    path = Path(kernel.manager.connection_file).with_name("by-hand.json")
    path.write_text(json.dumps({"key": "k", "kernel_name": "by-hand"}))
    argv = [spec[0], "-f", str(path), *spec[3:]]
    hand = subprocess.Popen(argv, env={**os.environ, "JPY_PARENT_PID": str(sleeper.pid)})
    until(lambda: '"hb_port"' in path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ports = json.loads(path.read_text())
    assert all(ports[name + "_port"] > 0 for name in ("shell", "iopub", "stdin", "control", "hb"))
    assert ports["kernel_name"] == "by-hand"
    below = children(hand.pid)
    sleeper.kill()
    sleeper.wait()
    assert hand.wait(timeout=60) == 0
    wait_gone(below)


def test_restart(plain_kernel):
    kernel = plain_kernel
    assert kernel.run("x = 1").content["execution_count"] == 1
    kernel.client.stop_channels()
    kernel.manager.restart_kernel(now=False)
    kernel.__init__(kernel.manager)
    outcome = kernel.run("'x' in globals()")
    assert outcome.result == "False" and outcome.content["execution_count"] == 1
