"""Whose threads would be missing in a fork: what is in memory is read when something has changed."""

import subprocess
import sys

import pytest

pytest.importorskip("numpy")

# In a process of its own: the tests' one may have threads of any library.
PROGRAM = """
import mmap, os
import numpy as np
from holdfast.worker import native_threads

reads = []

class Maps(native_threads._Maps):
    def __init__(self):
        reads.append(1)
        super().__init__()

native_threads._Maps = Maps
np.ones((200, 200)) @ np.ones((200, 200))  # its library's threads are there
if len(os.listdir("/proc/self/task")) < 2:
    raise SystemExit("no threads")
threads = native_threads.Threads()
print(threads.obstacle(), len(reads))
print(threads.obstacle(), len(reads))
native_threads._DEVICES = ("/dev/zero",)
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
from holdfast.worker import native_threads

threads = native_threads.Threads()
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


PATIENCE = """
import ctypes, os, threading, time
from holdfast.worker import native_threads

class Maps:
    "Sees no stack at the first looks, as of a thread that runs."

    def __init__(self, blind):
        self.blind = blind

    def owner(self, task):
        self.blind -= 1
        return "" if self.blind >= 0 else "/lib/libopenblas.so"

def new_thread(function):
    known = set(os.listdir("/proc/self/task"))
    thread = ctypes.c_ulong()
    assert ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, function, None) == 0
    while not (new := set(os.listdir("/proc/self/task")) - known):
        pass
    return int(new.pop())

libc = ctypes.CDLL(None)
starved = new_thread(libc.pause)  # which uses no processor
threads = native_threads.Threads()
threads._find_owners({starved}, Maps(250), 1000)  # 0.5 s at least
print(threads._owners[starved])

@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def work(_):
    while True:
        pass

working = new_thread(work)
threads._find_owners({working}, Maps(10**9), 1000)
print(repr(threads._owners[working]), native_threads._used_seconds(working) > native_threads._SPIN_SECONDS)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_a_pool_without_a_processor_is_waited_for():
    """On a busy machine a thread that spins may get no processor for longer than it would spin.
    One that works is another matter: it may go on for as long as it likes."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", PATIENCE], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["/lib/libopenblas.so", "'' True"]


RUNS = """
import os, platform
import numpy as np
from holdfast.worker import native_threads

if not platform.libc_ver()[0]:
    raise SystemExit("another C library")
np.ones((200, 200)) @ np.ones((200, 200))
tasks = native_threads._unknown_tasks()
native_threads._TASKS = "/nowhere"
maps = native_threads._Maps()
print({os.path.basename(maps.owner(task)).partition("openblas")[1] for task in tasks}, maps.owner(1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_a_thread_that_runs_is_known_at_once():
    """The system, which tells of none here, doesn't say where its stack stands."""
    done = subprocess.run([sys.executable, "-c", RUNS], capture_output=True, text=True, timeout=60)
    if "another C library" in done.stderr:
        pytest.skip("the C library doesn't tell debuggers of threads as glibc does")
    assert done.returncode == 0, done.stderr
    if done.stdout.strip() == "set()":
        pytest.skip("NumPy has no threads here")
    assert done.stdout.splitlines() == ["{'openblas'} "]


ABOVE = """
import ctypes, os
from holdfast.worker import native_threads

SIZE = 1 << 20
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
place = libc.mmap(None, 2 * SIZE, 3, 0x22, -1, 0)
code = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
(ctypes.c_size_t * (SIZE // 8)).from_address(place + SIZE)[:] = [code] * (SIZE // 8)
assert libc.mprotect(ctypes.c_void_p(place + SIZE), ctypes.c_size_t(SIZE), 1) == 0  # another mapping
attributes = ctypes.create_string_buffer(256)
assert libc.pthread_attr_init(attributes) == 0
assert libc.pthread_attr_setstack(attributes, ctypes.c_void_p(place), ctypes.c_size_t(SIZE)) == 0
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), attributes, libc.pause, None) == 0
(task,) = native_threads._unknown_tasks()
maps = native_threads._Maps()
while not (words := maps._stack(task)):  # until it sleeps
    pass
print(maps.owner(task) or "nobody", len(words) < native_threads._STACK_BYTES // 8, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_what_lies_above_a_stack_is_not_of_it():
    """Python's objects, for example, which are full of addresses of Python's code."""
    done = subprocess.run([sys.executable, "-c", ABOVE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["nobody True"]
