"""Whose threads would be missing in a fork: what is in memory is read when something has changed."""

import subprocess
import sys

import pytest

pytest.importorskip("numpy")

# In a process of its own: the tests' one may have threads of any library.
PROGRAM = """
import mmap, os
import numpy as np
from holdfast.worker import rollback

reads = []

class Maps(rollback._Maps):
    def __init__(self):
        reads.append(1)
        super().__init__()

rollback._Maps = Maps
np.ones((200, 200)) @ np.ones((200, 200))  # its library's threads are there
if len(os.listdir("/proc/self/task")) < 2:
    raise SystemExit("no threads")
threads = rollback.Threads()
print(threads.obstacle(), len(reads))
print(threads.obstacle(), len(reads))
rollback._DEVICES = ("/dev/zero",)
print(threads.obstacle(), len(reads))
with open("/dev/zero", "r+b") as device, mmap.mmap(device.fileno(), 4096):
    print("/dev/zero" in threads.obstacle(), len(reads))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_memory_is_read_again_for_new_threads_and_devices():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    if "no threads" in done.stderr:
        pytest.skip("NumPy has no threads here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [" 1", " 1", " 1", "True 2"]


WRITERS = """
import ctypes, os
import numpy as np
from holdfast.worker import rollback

threads = rollback.Threads()
np.ones((200, 200)) @ np.ones((200, 200))
while not threads.are_pools():  # for as long as a new pool spins
    pass
np.ones((200, 200)) @ np.ones((200, 200))
print(threads.are_pools())
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, libc.sleep, ctypes.c_void_p(1000)) == 0
print(threads.are_pools(), threads.are_pools())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_a_thread_that_python_does_not_know_may_write():
    """One of C code's own may do so at any time, also between two steps of a privatize (privatize.c)."""
    done = subprocess.run(
        [sys.executable, "-c", WRITERS], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True", "False False"]
