"""Finds which library started each native thread of this process, to decide whether a fork can go on.

A fork has only the thread that made it. Pools of some libraries end before a fork, or begin anew in it. About
a thread of other code nothing is known, and the fork may lack it. Python's `threading` doesn't know native
threads, and the system has no list of their libraries. So the function with which a thread began is read from
memory:

* glibc keeps that function from the thread's start, in a list for debuggers.
* With other C libraries, the outermost frame on the thread's stack is that function's. The system shows the
  stack of a thread that sleeps, so a pool that spins has to be waited for.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import functools
import io
import operator
import os
import sys
import threading
import time

from holdfast.base.user_threads import is_service

_LIBC = ctypes.CDLL(None)
_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"
_STACK_BYTES = 64 * 1024  # of a thread, from where it stands
_FIELDS = ("list", "tid", "start_routine")
_THREADS_MAX = 10_000
_PATIENCE_SECONDS = 2.0  # with threads that run, or would run if they got a processor
_GLANCE_SECONDS = 0.05  # with those that are new, where no fork depends on them
_SPIN_SECONDS = 0.5  # of a processor: a pool that spins goes to sleep before
_LOOK_SECONDS = 0.002
# Libraries whose thread pools end before a fork, or begin anew in it.
_HARMLESS = ("libopenblas", "libscipy_openblas", "libblas", "libarrow", "libiomp5", "libomp")
_OPENMP = "libgomp"  # its pool must be paused: a fork would wait for threads that it doesn't have
_PAUSE_SOFT = 1  # omp_pause_resource_t
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


class Threads:
    """Whose the threads of this process are, as far as Python's `threading` doesn't know them."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}  # by thread: the library whose code it runs
        self._busy: set[int] = set()  # those that nobody waits for any more

    def obstacle(self) -> str:
        """Why a fork of this process couldn't go on as a program; "" if it could."""
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not is_service(thread):
                return f"the thread {thread.name}"
        if _has_interpreters():
            return "another interpreter of this process"
        try:
            others = _unknown_tasks()
        except OSError:  # another system: what isn't known can't be excluded
            return "" if len(sys._current_frames()) == len(_known_tasks()) else "a thread"
        if not others:
            self._owners = {}
            return ""
        if others != self._owners.keys() or not all(self._owners.values()) or _opens_device():
            maps = _Maps()
            device = maps.device()
            if device:
                return f"{device}, which is in use"
            self._find_owners(others, maps)
        openmp = {path for path in self._owners.values() if _is(path, _OPENMP)}
        for path in openmp:
            ctypes.CDLL(path).omp_pause_resource_all(_PAUSE_SOFT)
        for path in set(self._owners.values()) - openmp:
            if not _is(path, *_HARMLESS):
                return f"a thread of {os.path.basename(path) or 'unknown code'}"
        return ""

    def are_pools(self) -> bool:
        """Whether all that Python doesn't know are of pools, which write to the notebook's memory only while
        a call waits for them. One that nobody can see yet, since it runs, is taken for another."""
        try:
            others = _unknown_tasks()
        except OSError:
            return False
        if others != self._owners.keys():
            self._find_owners(others, _Maps(), _GLANCE_SECONDS)
        elif not all(self._owners.values()):
            self._find_owners(others, _Maps(), 0)
        return all(_is(self._owners.get(task, ""), *_HARMLESS, _OPENMP) for task in others)

    def _find_owners(
        self, tasks: set[int], maps: _Maps, patience: float = _PATIENCE_SECONDS
    ) -> None:
        """Of threads that are new. One that runs can't be seen where the C library tells nothing. OpenBLAS's threads
        spin for 2**26 to 2**28 ticks before they sleep, some 30 to 130 ms, so the search waits until a
        thread sleeps or has used more of a processor than that. On a busy machine it may get none for a
        long time meanwhile. One that has used more is looked at, and not waited for again."""
        self._owners = {task: self._owners.get(task, "") for task in tasks}
        self._busy &= tasks
        begun = {task: _used_seconds(task) for task in tasks}
        deadline = time.monotonic() + patience
        while True:
            waits = False
            for task in [task for task, owner in self._owners.items() if not owner]:
                self._owners[task] = maps.owner(task)
                if not self._owners[task] and not _lives(task):
                    del self._owners[task]
                elif not self._owners[task] and task not in self._busy:
                    waits = True
                    if _used_seconds(task) - begun[task] > _SPIN_SECONDS:
                        self._busy.add(task)
            if not waits or time.monotonic() > deadline:
                return
            time.sleep(_LOOK_SECONDS)


def _known_tasks() -> set[int | None]:
    """The threads that Python knows. The main one may have another number since a fork."""
    return {thread.native_id for thread in threading.enumerate()} | {os.getpid()}


def _has_interpreters() -> bool:
    """A fork has no interpreter but the one that made it."""
    for name in ("_xxsubinterpreters", "_interpreters"):  # the second since Python 3.13
        module = sys.modules.get(name)
        if module is not None:
            return len(module.list_all()) > 1
    return False


def _unknown_tasks() -> set[int]:
    """Those that it doesn't know. OSError: the system doesn't list them."""
    return {int(task) for task in os.listdir(_TASKS)} - _known_tasks()


def _opens_device() -> bool:
    """Whether a device is open, as one that is in use is. To read which code is in memory takes as
    long as a fork where many libraries are, and shows nothing new if no thread and no device came."""
    for fd in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # the listing's own is closed
            if os.readlink(f"{_DESCRIPTORS}/{fd}").startswith(_DEVICES):
                return True
    return False


def _lives(task: int) -> bool:
    try:
        os.stat(f"{_TASKS}/{task}")
    except OSError:
        return False
    return True


def _used_seconds(task: int) -> float:
    """The processor time of a thread. proc(5): the first number of schedstat, in nanoseconds."""
    try:
        with io.open(f"{_TASKS}/{task}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):  # it has ended, or the kernel doesn't count
        return 0.0


def _is(path: str, *names: str) -> bool:
    return os.path.basename(path).startswith(names)


class _Maps:
    """What is in this process's memory, and how its threads began."""

    def __init__(self) -> None:
        self._functions = _first_functions()
        with io.open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            self._text = maps.read()

    def device(self) -> str:
        """A device whose memory is mapped, or ""."""
        if not any(device in self._text for device in _DEVICES):
            return ""
        return next((path for *_, path in self._mappings if path.startswith(_DEVICES)), "")

    def owner(self, task: int) -> str:
        """The library whose function this thread began with; "" if that can't be seen."""
        begun = _library(self._functions.get(task, 0))
        return begun or next(filter(None, map(_library, self._code_on_stack(task))), "")

    @functools.cached_property
    def _mappings(self) -> list[tuple[int, int, str, str]]:
        """List the first address, the address behind the last, the rights and the path of each mapping
        (proc(5), /proc/PID/maps)."""
        found = []
        for line in self._text.splitlines():
            place, rights, _, _, _, *path = line.split(None, 5)
            start, end = (int(address, 16) for address in place.split("-"))
            found.append((start, end, rights, path[0] if path else ""))
        return found

    def _code_on_stack(self, task: int) -> list[int]:
        """The addresses of code on a thread's stack, the outermost first."""
        return [address for address in reversed(self._stack(task)) if self._is_code(address)]

    @functools.cached_property
    def _code(self) -> list[tuple[int, int]]:
        return [(start, end) for start, end, rights, _ in self._mappings if rights[2] == "x"]

    def _is_code(self, address: int) -> bool:
        place = bisect.bisect_right(self._code, address, key=operator.itemgetter(0)) - 1
        return place >= 0 and address < self._code[place][1]

    def _stack(self, task: int) -> list[int]:
        """The words on a thread's stack, from where it waits in the kernel. Behind the mapping's end is
        anybody's memory."""
        try:
            with io.open(f"{_TASKS}/{task}/syscall", encoding="ascii") as file:
                fields = file.read().split()
            if len(fields) < 3:
                return []  # it runs
            place = int(fields[-2], 16)
            end = next(end for start, end, *_ in self._mappings if start <= place < end)
            with io.open("/proc/self/mem", "rb", buffering=0) as memory:
                memory.seek(place)
                words = memoryview(memory.read(min(end - place, _STACK_BYTES)))
        except (OSError, StopIteration):
            return []
        return words[: len(words) // 8 * 8].cast("Q").tolist()


class _Object(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [
        ("path", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _library(address: int) -> str:
    """The file of the code at an address; "" if there is none, or it is C's library itself."""
    found = _Object()
    if not _LIBC.dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        return ""
    path = os.fsdecode(found.path or b"")
    return "" if _is(path, "libc.", "ld-") else path


def _first_functions() -> dict[int, int]:
    """By thread: the address of the function that it began with, as far as the C library tells.

    glibc has two lists of its threads' control blocks, and variables with the places of their fields, for
    debuggers (nptl_db/structs.def; libthread_db reads them). Threads may come and go meanwhile: then some may
    be missing.
    """
    found: dict[int, int] = {}
    try:
        link, task, function = (_place(f"pthread_{name}") for name in _FIELDS)
        heads = [_place(f"rtld_global__dl_stack_{name}") for name in ("used", "user")]
        lists = ctypes.addressof(ctypes.c_char.in_dll(_LIBC, "_rtld_global"))
    except ValueError:  # another C library
        return found
    with (
        contextlib.suppress(OSError, OverflowError),  # no address
        io.open("/proc/self/mem", "rb", buffering=0) as memory,
    ):

        def word(address: int, size: int = 8) -> int:
            return int.from_bytes(os.pread(memory.fileno(), size, address), sys.byteorder)

        for head in heads:
            at = word(lists + head)
            for _ in range(_THREADS_MAX):
                if at == lists + head:
                    break
                number = word(at - link + task, 4)
                found[number] = word(at - link + function)
                at = word(at)
    return found


def _place(name: str) -> int:
    """Where a field is, in bytes from its structure's begin: bits, elements and place are in a variable."""
    return (ctypes.c_uint32 * 3).in_dll(_LIBC, f"_thread_db_{name}")[2]
