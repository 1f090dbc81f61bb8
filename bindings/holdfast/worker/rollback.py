"""The rollback: a sleeping fork of the main worker that holds the notebook as it was before a cell.

The main worker runs a cell itself, so the cell finds every module, object, setting, thread and
child of the notebook, and leaves them behind. A process of its own would have one more advantage:
the notebook survives its death. A fork gives the same: it costs some milliseconds, encodes nothing,
and sleeps. If the main worker dies, the frontend wakes the fork (kernel/session/rollback.c):

* As a rule it takes the main worker's place as it is: every object, with its identity, and every
  module is there, unserializable ones included. Resources that belong to a process and not to its
  memory are not: its children, threads, pipes, sockets and terminals. Timers start again with the time they
  had left at the fork.
* If native threads of the notebook's may have held locks at the fork, or a GPU was in use, the
  fork can't go on as a program. Then it only encodes what the last commit doesn't have, and a new
  main worker binds that.

Which of the two it is, is decided by facts at the fork (`Threads`): the threads in /proc/self/task, and whose
code they run. Pools of libraries that handle forks themselves don't count; OpenMP's is paused first.

If cells are recorded, the fork is made while nobody uses the notebook. The next cell needs no other
if this one still has the notebook as it is: nothing has run since, and nothing can run by itself.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import ctypes
import os
import sys
import threading
import time
import traceback
import typing as t

from holdfast import _store
from holdfast._threads import alone, is_service

from .control import Frame
from .prefault import CellPages
from .process import Forks, Unshared

if t.TYPE_CHECKING:
    from .main_worker import MainWorker

_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"
_STACK_BYTES = 64 * 1024  # of a thread, from where it stands
_CONTROL_BLOCK_BYTES = 2048  # glibc's has 2,304 or more, and what is looked for in the first 1,700
_PATIENCE_SECONDS = 2.0  # with threads that run, or would run if they got a processor
_GLANCE_SECONDS = 0.05  # with those that are new, where no fork depends on them
_SPIN_SECONDS = 0.5  # of a processor: a pool that spins goes to sleep before
_LOOK_SECONDS = 0.002
_ASIDE_BYTES = 16 << 20  # of which page tables are given up at once: 1 ms
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
            if not any(_is(path, name) for name in _HARMLESS):
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
        return all(
            any(_is(self._owners.get(task, ""), name) for name in (*_HARMLESS, _OPENMP))
            for task in others
        )

    def _find_owners(
        self, tasks: set[int], maps: _Maps, patience: float = _PATIENCE_SECONDS
    ) -> None:
        """Of threads that are new. One that runs shows no stack. OpenBLAS's threads spin for 2**26 to
        2**28 ticks before they sleep, some 30 to 130 ms, so the search waits until a thread sleeps or has
        used more of a processor than that. On a busy machine it may get none for a long time meanwhile.
        One that has used more is looked at, and not waited for again."""
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
        with open(f"{_TASKS}/{task}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):  # it has ended, or the kernel doesn't count
        return 0.0


def _is(path: str, name: str) -> bool:
    return os.path.basename(path).startswith(name)


class _Maps:
    """What is in this process's memory, by address: the code, and where mappings end."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str]] = []
        self._ends: list[int] = []  # of all mappings, in the order of their addresses
        self._device = ""
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                fields = line.split(None, 5)
                path = fields[5].rstrip("\n") if len(fields) > 5 else ""
                if path.startswith(_DEVICES):
                    self._device = path
                start, end = (int(address, 16) for address in fields[0].split("-"))
                self._ends.append(end)
                if "x" in fields[1] and path.startswith("/"):
                    self._code.append((start, end, path))
        self._starts = [start for start, _, _ in self._code]  # in the order of their addresses

    def device(self) -> str:
        """A device whose memory is mapped, or ""."""
        return self._device

    def owner(self, task: int) -> str:
        """The library that started this thread: on its stack, the outermost code that isn't C's
        library itself. "" if that can't be seen."""
        owner = ""
        for address in self._stack(task):
            place = bisect.bisect_right(self._starts, address) - 1
            if place >= 0 and address < self._code[place][1]:
                path = self._code[place][2]
                if not _is(path, "libc.") and not _is(path, "ld-"):
                    owner = path
        return owner

    def _stack(self, task: int) -> t.Iterator[int]:
        """The words on a thread's stack, from where it waits in the kernel, and of the control block above
        it. Its first and its third word are its own address (glibc's tcbhead_t, x86-64), and it has the
        address of the thread's function, which may be in no frame. What lies above is anybody's."""
        try:
            with open(f"{_TASKS}/{task}/syscall", encoding="ascii") as file:
                fields = file.read().split()
            if len(fields) < 3:
                return  # it runs
            place = int(fields[-2], 16)
            following = bisect.bisect_right(self._ends, place)
            end = self._ends[following] if following < len(self._ends) else place
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                memory.seek(place)
                words = memoryview(memory.read(min(end - place, _STACK_BYTES)))
        except OSError:
            return
        found = words[: len(words) // 8 * 8].cast("Q").tolist()
        for number, word in enumerate(found):
            at = place + 8 * number
            if word == at and found[number + 2 : number + 3] == [at]:
                found = found[: number + _CONTROL_BLOCK_BYTES // 8]
                break
        yield from found


def descriptor_moves(main: MainWorker, control: int, stdout: int, stderr: int) -> tuple:
    """Which descriptors a fork of the main worker puts in the place of that one's own."""
    spares = main.shell.health.spares
    return (
        (control, main.channel.fileno()),
        (stdout, 1),
        (stdout, spares[1]),
        (stderr, 2),
        (stderr, spares[2]),
    )


class Rollback:
    """Makes the main worker's sleeping forks; in one that wakes, takes over or commits.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self.threads = Threads()
        self._writing = Threads()  # the same, as last looked at without a fork
        self._frontend = os.getppid()
        self._has_all = False  # the notebook, as it is now
        self._pages = CellPages()

    def make(self, control: int, stdout: int, stderr: int) -> Frame:
        """Fork; what is reported to the frontend. Takes the descriptors. In a fork that wakes the
        call returns as well: the process is the main worker then, or has ended."""
        main, started = self._main, time.process_time()
        obstacle = self.threads.obstacle()
        moves = descriptor_moves(main, control, stdout, stderr)
        unshared = Unshared()
        Forks.goes_on = True  # in the fork, when its hooks run
        try:
            with main.shell.history_manager.at_rest():
                pid, forking = _store._fork(main.session, moves, self._frontend, self._kept())
        except (OSError, _store.Error) as error:
            return {"pid": 0, "error": str(error)}
        finally:
            Forks.goes_on = False
            for fd in (control, stdout, stderr):
                with contextlib.suppress(OSError):
                    os.close(fd)
        if pid == 0:
            try:
                self._wake(obstacle, unshared)
            except BaseException:  # the frontend goes on with the last commit
                traceback.print_exc(file=sys.__stderr__)
                sys.__stderr__.flush()
                os._exit(1)
            return {}
        self._has_all = self._is_still() and not unshared.has_timers()
        self._pages.begin()
        seconds = time.process_time() - started + forking
        return {"pid": pid, "obstacle": obstacle, "seconds": seconds}

    def _kept(self) -> tuple[int, ...]:
        """The descriptors of the event loop, which the fork keeps."""
        loop = self._main.loop
        found = (loop._selector, loop._ssock, loop._csock)  # type: ignore[attr-defined]
        return tuple(one.fileno() for one in found)

    # ---- between two forks

    def outdate(self) -> None:
        """Something is about to run that may change the notebook."""
        self._has_all = False

    def has_all(self) -> bool:
        """Whether the last fork has the notebook as it is now."""
        return self._has_all and self._is_still()

    def is_alone(self) -> bool:
        """Whether no other thread can write to the notebook's memory now, be it Python's or not."""
        return alone() and self._writing.are_pools()

    def _is_still(self) -> bool:
        """Whether nothing of the notebook's runs unless somebody asks: no thread, task or timer."""
        main = self._main
        return (
            self.is_alone()
            and not main.subshells.busy
            and not main.loop._scheduled  # type: ignore[attr-defined]
            and len(asyncio.all_tasks(main.loop)) <= 1  # the one that handles a frame
        )

    def look_at_pages(self) -> None:
        """Before a commit that no cell waits for: which pages cells have written."""
        self._pages.learn()

    def copy_pages(self) -> None:
        """While nobody asks: have the pages that the next cell will write, and give up the page
        tables that the last fork has set aside."""
        main = self._main
        if main.is_asked():
            return
        if self._pages.copy_some() or (
            main.session is not None and _store._drop_aside(main.session, _ASIDE_BYTES)
        ):
            main.loop.call_soon(self.copy_pages)

    # ---- in the fork

    def _wake(self, obstacle: str, unshared: Unshared) -> None:
        """The main worker is dead: be it, or save what it had."""
        main, loop = self._main, self._main.loop
        main.forget_requests()  # among them the one that the dead one died of
        unshared.restore(loop)
        loop.remove_reader(main.channel.fileno())  # that was the dead one's
        main.channel.begin_anew()
        main.app.session.pid = os.getpid()
        word = main.channel.wait_for("wake")
        if main.session is not None:
            _store._succeed(main.session)
        main.begin_fork()
        if obstacle:
            self._commit_and_leave(word)
        unshared.restore_timers()
        main.shell.history_manager.resume()
        main.shell.execution_count = word["execution_count"] + 1
        main.begin_anew()
        loop.add_reader(main.channel.fileno(), main._readable)
        loop.call_soon(main._readable)  # what was read together with the word to wake

    def _commit_and_leave(self, word: Frame) -> t.NoReturn:
        self._main.op_commit({"op": "commit", "id": word["id"], "durable": True})
        self._main.channel.await_end()
        os._exit(0)
