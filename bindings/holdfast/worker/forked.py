"""Runs a recorded cell in a fork of the main worker.

The fork has every object, module and setting of the notebook: nothing is decoded, bound or imported. It makes
its own Score-P if that records, runs the cell with the main worker's code, and prepares a commit of what
changed. It leaves by `_exit`: no exit handler and no finalizer of the notebook's objects runs in it. The main
worker has committed before, so that both know what is unchanged, and adopts what differs.

Everything is there on the way in; only what the store carries comes back. Messages name the rest:

* what the cell changed and no codec can encode (`Bound`): the notebook has it as it was;
* what it changed of the process and no list has (settings/census.py).

The fork lacks what belongs to a process and not to its memory: its number, its children, threads and POSIX
locks. If that would show, the cell runs in a clean process, and the line below it names the reason:
`obstacle`. Timers are set anew. Tasks of the event loop go on only while the cell awaits.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import select
import selectors
import socket
import stat
import sys
import time
import traceback
import typing as t

from holdfast import _store, libraries
from holdfast.base import fork_hooks, usage
from holdfast.carry import device_lease, finalizers, handles
from holdfast.carry.patches import is_patch
from holdfast.libraries.ipywidgets import widgets
from holdfast.worker import notices

from .bound import Bound, Budget, look, unstorable, with_traceback
from .control import ChannelClosed, Frame
from .descriptors import Descriptors
from .ipython import results
from .preallocation import preallocation
from .prefault import prefault
from .process import Forks, Unshared, end_own_children, end_own_trackers, has_children
from .rollback import descriptor_moves
from .settings import attributes, census

if t.TYPE_CHECKING:
    from .main_worker import MainWorker
    from .reports import Message, Report

_BUFFERED = frozenset((io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair))
_NOT_FILES = ("/memfd:", "/dev/shm/holdfast-")  # the store, what is counted of the pipes
_RESTART = "Score-P's adapters for it must be loaded when a process starts"


class Forked:
    """Makes the forks of the main worker that run a cell; in one, the way of that.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self._frontend = os.getppid()
        self.is_one = False  # this process is a fork that runs a cell

    # ---- in the main worker

    def make(self, frame: Frame) -> bool:
        """Fork, and report it to the frontend; whether this is the fork."""
        main = self._main
        descriptors = main.channel.take_descriptors(frame)
        parent = os.getpid()
        try:
            obstacle = self._obstacle()
            pid = -1 if obstacle else self._fork(*descriptors)
        except Exception as error:  # the cell has another process, then
            if os.getpid() != parent:
                os._exit(1)
            obstacle, pid = str(error), -1
        if pid == 0:
            return True
        for fd in descriptors:
            with contextlib.suppress(OSError):
                os.close(fd)
        if pid > 0:
            main.channel.send("forked", id=frame["id"], pid=pid)
        else:
            main.channel.send("forked", id=frame["id"], pid=0, error=obstacle)
        return False

    def _obstacle(self) -> str:
        """Why a cell in a fork would not find the notebook as it is; "" if it would."""
        if sys.platform != "linux":
            return "a fork goes on as a program on Linux only"
        if has_children():
            return "the notebook has child processes, for which only their parent can wait"
        loading = sys.modules.get("holdfast.scorep.loading")
        if loading is not None and loading.is_loaded():
            return "the notebook's own process has loaded Score-P"
        obstacle = self._main.rollback.threads.obstacle()
        return f"a fork lacks {obstacle}" if obstacle else ""

    def _fork(self, control: int, stdout: int, stderr: int) -> int:
        main = self._main
        main._flush()
        _flush_files((*main.shell.health.spares.values(), stdout, stderr))
        attributes.know_modules()
        main.run_mode.prepare()
        moves = descriptor_moves(main, control, stdout, stderr)
        recorder = sys.modules["holdfast._recorder"]
        recorder._forget_in_fork(True)  # what the notebook records is the notebook's
        Forks.goes_on = True  # in the fork, when its hooks run
        handles.table.lend_all()
        try:
            unshared = Unshared()
            with main.shell.history_manager.at_rest(), fork_hooks.limited():
                pid, _ = _store._fork("cell", main.session, moves, self._frontend, ())
        finally:
            Forks.goes_on = False
            recorder._forget_in_fork(False)
        if pid == 0:
            self.is_one = True
            self._become(unshared)
        return pid

    # ---- in the fork

    def _become(self, unshared: Unshared) -> None:
        """Make resources that were shared with the main worker our own."""
        main, loop = self._main, self._main.loop
        main.forget_requests()
        _part_loop(loop)
        unshared.restore(loop)
        _store._start_timers()
        main.channel.begin_anew()
        main.shell.ends_with_cell = True
        main.shell.history_manager.only_read()
        main.begin_fork()
        handles.table.begin_anew()
        device_lease.leases.answers, device_lease.leases.durable = False, True
        budget = Budget()
        widgets.stay(lambda part: look(part, budget))

    async def serve(self) -> t.NoReturn:
        """Run the one cell that the frontend sends, and leave."""
        main, status = self._main, 1
        try:
            main.op_output(main.channel.wait_for("output"))
            frame = main.channel.wait_for("request")
            if main.session is not None:
                _store._succeed(main.session)  # the main worker has named us
            instrument = frame["instrument"]
            if main.run_mode.needs_restart(instrument):
                main.channel.send("refused", reason=_RESTART)
            else:
                await main._request(frame)
            main.channel.await_end()
            status = 0
        except ChannelClosed:
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            with contextlib.suppress(BaseException):
                main._flush()
                end_own_trackers()
            os._exit(status)

    async def run(
        self,
        frame: Frame,
        message: Message,
        execute: t.Callable[[Frame, Message], t.Awaitable[Frame]],
    ) -> Frame:
        """Record the cell while `execute` runs it, and prepare what it changed; the reply's fields."""
        main, instrument = self._main, frame["instrument"]
        code = frame.get("code", "")
        prefault.begin()
        preallocated = preallocation.fill(main.session, code) if main.session is not None else 0
        with libraries.aside():
            before = (
                Bound(
                    (instrument.get("unserializable") or {}) | unstorable(main.shell.user_ns),
                    main.shell.user_ns,
                    main.shell.patches,
                ),
                census.Census(main.shell, code),
                results.own_entries(main.shell),
                Descriptors(),
            )
            numbers = results.numbers(main.shell)
        collections = finalizers.collections()
        reply = await main.run_mode.run(frame, message, execute)
        report: Report | None = reply.get("report")
        if report is None:  # it could not be recorded, and did not run
            return reply
        main._end_child()
        report |= {"run": "forked", "bytes_preallocated": preallocated}
        report["collected"] = finalizers.collections() > collections
        if main.names is not None:
            try:
                self._hand_out(code, report, reply, *before)
            except Exception as error:  # a full arena: the frontend says what to do
                report["error"] = f"{type(error).__name__}: {error}"
        end_own_children()
        report["outputs_gone"] = sorted(numbers - results.numbers(main.shell))
        main._flush()
        report["page_faults"] = prefault.faults()
        return reply

    @libraries.aside()
    def _hand_out(
        self,
        code: str,
        report: Report,
        reply: Frame,
        bound: Bound,
        state: census.Census,
        entries: dict[str, t.Any],
        descriptors: Descriptors,
    ) -> None:
        """Save what changed; the rest of the report, and the reply's part."""
        started = time.perf_counter()
        main, namespace = self._main, self._main.shell.user_ns
        preallocation.learn(main.session, code)
        widgets.leave(namespace)
        saved, touched, _ = main.save()
        report |= usage.of_commit(saved)
        unserializable = {
            name: why
            for name, why in saved["unserializable"].items()
            if name in namespace or is_patch(name)
        }
        lost = widgets.left(bound.lost(unserializable, touched))
        lost |= bound.lost(unstorable(namespace), touched) | bound.functions_lost()
        notices.not_carried_out(lost)
        notices.tracebacks_stay(with_traceback(saved["saved"], namespace))
        report["numbers"] = saved["numbers"]
        notices.addresses_alone(main.addresses.of_saved(saved["saved"], namespace))
        notices.descriptors_alone(descriptors.held(saved["saved"], main.shell))
        report["submodules"] = state.submodules()
        notices.changed_alone([*state.changes(), *results.altered(main.shell, entries)])
        for number, fd in handles.table.hand_over().items():
            main.channel.send_handle(number, fd)
        report["names_lost"] = {
            name: why for name, (why, _) in lost.items() if isinstance(name, str)
        }
        report["names_gone"] = bound.gone(saved["unserializable"].keys() | set(saved["saved"]))
        report["raised"] = not main.shell.last_execution_succeeded
        report["seconds_out"] += time.perf_counter() - started
        if saved["prepared"] is not None:
            reply |= {"prepared": saved["prepared"], "changed": saved["changed"]}


def _part_loop(loop: t.Any) -> None:
    """The event loop's own descriptors under the same numbers: a fork shares its parent's, and what
    either would wait for."""
    for old, new in zip((loop._ssock, loop._csock), socket.socketpair(), strict=True):
        os.dup2(new.fileno(), old.fileno(), inheritable=False)
        new.close()
        old.setblocking(False)
    fresh = select.epoll()
    os.dup2(fresh.fileno(), loop._selector.fileno(), inheritable=False)
    fresh.close()
    for key in list(loop._selector.get_map().values()):
        events = select.EPOLLIN if key.events & selectors.EVENT_READ else 0
        events |= select.EPOLLOUT if key.events & selectors.EVENT_WRITE else 0
        with contextlib.suppress(OSError):  # a file that was closed, which nobody waits for
            loop._selector._selector.register(key.fd, events)


def _flush_files(own: t.Iterable[int]) -> None:
    """Flush the buffers of open files: the fork would write their content, too. `own`: pipes of
    ours and the fork's."""
    known = {os.fstat(fd).st_ino for fd in own}
    if not any(_is_written(fd, known) for fd in map(int, os.listdir("/proc/self/fd"))):
        return  # to look at all objects takes milliseconds
    for one in gc.get_objects():
        if type(one) in _BUFFERED and not one.closed:
            with contextlib.suppress(OSError, ValueError):
                one.flush()


def _is_written(fd: int, known: t.Container[int]) -> bool:
    """Whether it is a file or pipe that a buffer may stand before."""
    try:
        about, flags = os.fstat(fd), fcntl.fcntl(fd, fcntl.F_GETFL)
        path = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False  # the listing's own
    if flags & os.O_ACCMODE == os.O_RDONLY or about.st_ino in known:
        return False
    is_file = stat.S_ISREG(about.st_mode) and not path.startswith(_NOT_FILES)
    return stat.S_ISFIFO(about.st_mode) or (is_file and ".sqlite" not in path)
