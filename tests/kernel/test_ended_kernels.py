"""A kernel that ends, in whatever way, leaves no process and no shared memory behind."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import effort
import pytest
from processes import state
from takeup import session_waits
from waiting import begun, until

CELL = "%%execute_with_scorep\n"
HOLDFAST = Path(sys.executable).with_name("holdfast")
STATE = "import numpy as np; a = np.arange(1 << 17)"


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def marked(marker):
    """Processes whose environment has the marker, zombies not counted."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environ = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in environ and state(entry) != "Z":
            found.append(int(entry))
    return found


def segments():
    return {
        entry for entry in os.listdir("/dev/shm") if entry.startswith(f"holdfast-{os.getuid()}-")
    }


def segment_of(pid):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[5]).name for line in lines if "/dev/shm/holdfast-" in line}


def collect(*words):
    return subprocess.run([HOLDFAST, "gc", *words], check=True, capture_output=True)


ENDS = ["restart", "shutdown", "kill", "kill while a cell runs"]


@pytest.mark.parametrize("what", effort.core(ENDS, ["shutdown", "kill while a cell runs"]))
def test_a_kernel_that_ends_leaves_nothing(start_kernel, what):
    marker = f"HOLDFAST_TEST_MARK={uuid.uuid4().hex}"
    kernel = start_kernel(env=dict([marker.split("=")]))
    ok(kernel, STATE)
    ok(kernel, CELL + "a[0] = 5")
    ok(kernel, "import subprocess; child = subprocess.Popen(['sleep', '0.2'])")
    # Standbys are forked anew after an import: for a moment there are fewer.
    until(lambda: len(set(marked(marker))) >= 4)
    before, ours, pid = set(marked(marker)), segment_of(kernel.pid), kernel.pid
    assert len(before) >= 4 and len(ours) == 1
    if what == "restart":
        kernel.client.stop_channels()
        kernel.manager.restart_kernel(now=False)
        kernel.__init__(kernel.manager)
        until(lambda: not before & set(marked(marker)))
        assert not ours & segments()
        assert ok(kernel, "'a' in globals()").result == "False"
    elif what == "shutdown":
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=False)
        until(lambda: not marked(marker))
        assert not ours & segments()
    else:
        if what != "kill":
            begun(kernel, CELL + "import time\nprint('go')\nwhile True: time.sleep(0.01)")
        with session_waits(alone=True):
            os.kill(pid, signal.SIGKILL)
            # The session waits for a kernel with the same connection file, and one process with it.
            until(lambda: len(marked(marker)) == 1, lambda: marked(marker))
            assert ours <= segments()
            collect()
            assert ours <= segments()
            until(lambda: collect("--kept") and not ours & segments())
        until(lambda: not marked(marker), lambda: marked(marker))


def test_garbage_collection_spares_the_living(kernel):
    ok(kernel, STATE)
    ok(kernel, CELL + "a[0] = 5")
    ours = segment_of(kernel.pid)
    collect()
    assert ours <= segments()
    assert ok(kernel, CELL + "int(a[0])").result == "5"
