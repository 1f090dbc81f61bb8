"""The loop of a worker: it handles one request after the other, on asyncio.

The loop runs in the main thread and reads the control channel. So tasks that a cell's top-level `await` left
behind go on between cells, as under ipykernel. A request runs in a task of its own, but all share one
context: what a cell sets in it (NumPy's print options, decimal's precision) is there in the next. Threads and
tasks that a request starts copy the context, and with it the request's parent header.

Requests run in the order in which they came. Only comm messages don't wait for an async cell that is running,
because the cell may be waiting for one.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import json
import os
import sys
import traceback
import typing as t

from holdfast import _store
from holdfast.base import usage
from holdfast.worker import arrays

from .absent import Absent
from .control import VERSION, Channel, ChannelClosed, Frame
from .debug import debuggee
from .health import Health
from .interrupt import Interrupts
from .ipython import application, results
from .ipython.session import ReplySlot
from .parents import Parents
from .process import end_own_trackers, leave
from .settings import baseline
from .spare_memory import SpareMemory
from .subshells import SubshellThread

if t.TYPE_CHECKING:
    from .reports import ErrorContent, Message

_NOTHING = contextlib.nullcontext()
_COMMS = {"comm_open", "comm_msg", "comm_close"}


class Worker:
    """The parts that the main worker and cell workers share: the shell, the loop, ipykernel's
    requests."""

    config: dict[str, t.Any] = {}
    runs_exit_handlers = False  # the notebook's own, when this process ends
    app: application.WorkerApp
    kernel: t.Any  # WorkerKernel
    names: t.Any = None  # holdfast._store.Names, where there is a session
    absent: Absent
    shell: t.Any  # ZMQInteractiveShell
    way: t.Any = None  # Way: how it runs a cell, if it does

    def __init__(self, channel: Channel, session: t.Any, first: Frame | None = None):
        self.channel = channel
        self._first = first  # a request that a process before this one has read
        self.session = session
        self.lost: dict[str, str] = {}  # what cells made and could not hand over: the reason
        arrays.be_born_in(session)
        usage.leave_out_memory_of(session)
        self.parents = Parents()
        self.interrupts = Interrupts(channel)
        self._spare = SpareMemory()
        self._context = contextvars.copy_context()
        self._waiting: collections.deque[Frame] = collections.deque()
        self._serving = False
        self._finished = False
        self.running_async = False
        self.requested = False  # a request of Jupyter's is being served

    # ---- life

    def run(self) -> None:
        """Serve until `exit`, or the end of the channel."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self.loop = loop
        self.app = application.start(self.channel, self.parents, self.interrupts, self.config)
        self.kernel = self.app.kernel
        self.shell = self.app.shell
        self.shell.channel = self.channel
        self.shell.interrupts, self.shell.spare = self.interrupts, self._spare
        self.absent = self.shell.absent = Absent(self)
        baseline.follow(self.shell, self.app.ahead, self.runs_exit_handlers)
        self.begin_notebook()
        waits = loop._selector.fileno()  # type: ignore[attr-defined]
        self.shell.health = Health((self.channel.fileno(), waits))
        loop.call_soon(self._begin)
        while not self._finished and not self.shell.exit_now:
            try:
                loop.run_forever()  # a cell may stop it
            except Exception:  # of a handler of signals, which ran while the loop waited
                traceback.print_exc()

    def begin_notebook(self) -> None:
        """What comes before the first cell, in the notebook's own process."""

    def _begin(self) -> None:
        from tornado import ioloop  # ipykernel's; it finds the running loop

        self.kernel.io_loop = ioloop.IOLoop.current()
        try:
            self.prepare()
            if self._first is None:
                self.channel.send("ready", version=VERSION, pid=os.getpid())
            else:
                self._waiting.append(self._first)
        except ChannelClosed:
            leave(0)  # the session ended meanwhile, and the fork server waits for its children
        except BaseException:
            # The loop would only log it, and the frontend would wait.
            traceback.print_exc(file=sys.__stderr__)
            leave(1)
        self.loop.add_reader(self.channel.fileno(), self._readable)
        self._serve_next()

    def prepare(self) -> None:
        """Do the work that this kind of worker needs before it is ready."""

    def forget_requests(self) -> None:
        """Forget requests that came and weren't begun: they are another process's."""
        self._waiting.clear()

    def finish(self) -> None:
        """Leave the loop; no further frame is handled."""
        if self.channel.open:
            self.loop.remove_reader(self.channel.fileno())
        self._waiting.clear()
        self._finished = True
        self.loop.stop()

    # ---- frames

    def _readable(self) -> None:
        try:
            frames = self.channel.poll()
        except ChannelClosed:
            self.finish()
            self.closed()
            return
        for frame in frames:
            self._sort(frame)
        self._serve_next()

    def closed(self) -> None:
        """The frontend closed the channel: what is left to do."""

    def _sort(self, frame: Frame) -> None:
        op = frame.get("op")
        if op == "input_reply":
            self.kernel.input_reply(frame.get("value", ""))
        elif op == "request" and frame.get("type") in _COMMS and self.running_async:
            context = self._context.copy()
            self.loop.create_task(self._request(frame, concurrent=True), context=context)
        else:
            self._waiting.append(frame)

    def _serve_next(self) -> None:
        if self._waiting and not self._serving:
            self._serving = True
            handling = self._handle(self._waiting.popleft())
            task = self.loop.create_task(handling, context=self._context)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task) -> None:
        self._serving = False
        if not task.cancelled() and task.exception() is not None:
            if isinstance(task.exception(), ChannelClosed):
                self.finish()
                return
            # Nobody would reply: a cell broke what we rest on. The frontend starts another process.
            traceback.print_exception(task.exception(), file=sys.__stderr__)
            sys.__stderr__.flush()
            os._exit(1)
        if self.channel.open and self.channel.pending:
            # Frames that input() read while it waited for its answer.
            self._readable()
        self._serve_next()
        self.served()

    def served(self) -> None:
        """A frame was handled; another one may be already."""

    async def _handle(self, frame: Frame) -> None:
        op = frame.get("op", "")
        with self.handling(frame):
            if op == "request":
                self.requested = True
                try:
                    await self._request(frame)
                finally:
                    self.requested = False
                return
            is_fork = self._handle_own(op, frame)
        if is_fork:
            await self._serve_one()

    def handling(self, frame: Frame) -> t.ContextManager[None]:
        """While this frame is handled: what else may run."""
        return _NOTHING

    def _handle_own(self, op: str, frame: Frame) -> bool:
        """A frame that is no request of Jupyter's; whether this is now a fork for one cell."""
        handler = getattr(self, "op_" + op, None)
        if handler is None:
            print(f"holdfast worker: unknown op {op!r}", file=sys.__stderr__, flush=True)
            return False
        try:
            return bool(handler(frame))
        except ChannelClosed:
            raise
        except Exception as error:
            traceback.print_exc(file=sys.__stderr__)
            if "id" in frame:
                self.channel.send("reply", id=frame["id"], report={"error": _in_words(error)})
            return False

    async def _serve_one(self) -> t.NoReturn:
        """In a fork that runs a cell: serve that one request, and leave. Tasks of the loop go on only
        while the cell awaits."""
        status = 1
        try:
            self.op_output(self.channel.wait_for("output"))
            frame = self.channel.wait_for("request")
            if self.session is not None:
                _store._succeed(self.session)  # the main worker has named us
            reason = self.way.refuses(frame)
            if reason:
                self.channel.send("refused", reason=reason)
            else:
                await self._request(frame)
            self.channel.await_end()
            status = 0
        except ChannelClosed:
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            with contextlib.suppress(BaseException):
                self.app.flush_all()
                end_own_trackers()
            os._exit(status)

    def op_exit(self, _frame: Frame) -> None:
        """After what came before it: the last cell's changes and its line of the history."""
        self.finish()

    def op_output(self, frame: Frame) -> None:
        """The frontend counts there the bytes that it reads of fds 1 and 2."""
        (tally,) = self.channel.take_descriptors(frame)
        self.channel.watch(tally, 1, 2)

    def op_debug(self, frame: Frame) -> None:
        """The debugger, which is in the assistant, wants in."""
        (fd,) = self.channel.take_descriptors(frame)
        debuggee.begin(fd, wait=bool(frame.get("waits")))

    # ---- Jupyter requests

    async def _request(self, frame: Frame, concurrent: bool = False) -> None:
        try:
            self._spare.keep()
            message = _message(frame)
            if not concurrent:
                self.parents.begin(frame["header"], message["header"].get("msg_id", ""))
            self.kernel.set_parent([b""], message)
        except BaseException as error:
            self.parents.end()
            self.channel.send("reply", **self._unreadable(frame, error))
            return
        try:
            if frame["type"] == "execute_request":
                reply = await self.way.execute(frame, message)
            else:
                reply = await self._answer(frame, message)
        except ChannelClosed:
            raise
        except BaseException as error:  # SIGINT in our own code, a broken handler
            self._spare.give()
            reply = self._failed(frame, message, error)
        self.app.flush_all()
        if not concurrent:
            self.parents.end()
        try:
            self.channel.send("reply", id=frame["id"], **reply)
        finally:  # also if nobody is there to read it
            self._finish_replied()

    def _finish_replied(self) -> None:
        """Do what a request has left for the time after its reply."""
        try:
            done = self.way is not None and self.way.after_reply()
        except ChannelClosed:
            raise
        except Exception:  # of the user's own stream, maybe
            done = True
            traceback.print_exc(file=sys.__stderr__)
        if done:
            self.app.flush_all()

    def _unreadable(self, frame: Frame, error: BaseException) -> Frame:
        """The reply to a request that the frontend let through and that can't be begun."""
        return {"id": frame["id"], "content": self.app.session.pack(_error_content(error))}

    def _failed(self, frame: Frame, message: Message, error: BaseException) -> Frame:
        """The reply if none could be made."""
        self.app.flush_all()
        found = _error_content(error)
        reply = {"content": self.app.session.pack(found)}
        if frame["type"] == "execute_request":
            shown = {name: value for name, value in found.items() if name != "status"}
            self.app.session.send(self.app.iopub_socket, "error", shown, parent=message)
        return reply

    async def serve_aside(self, frame: Frame, subshell: SubshellThread) -> Frame:
        """Serve a request in a subshell's thread; the reply."""
        try:
            message = _message(frame)
            self.parents.begin_aside(frame["header"], message["header"].get("msg_id", ""))
        except BaseException as error:
            return self._unreadable(frame, error)
        # None of it says that the thread's parent is the last of all: other threads' stay.
        if hasattr(self.shell, "set_thread_parent"):
            self.shell.set_thread_parent(message)
        for name, value in (("_shell_parent", message), ("_shell_parent_ident", [b""])):
            if isinstance(getattr(self.kernel, name, None), contextvars.ContextVar):
                getattr(self.kernel, name).set(value)
        try:
            if frame["type"] == "execute_request":
                self.interrupts.cancelled = False
                subshell.runs_cell = True
                reply = await self.way.run_code(frame, message)
            else:
                reply = await self._answer(frame, message)
        except ChannelClosed:
            raise
        except BaseException as error:
            reply = self._failed(frame, message, error)
        finally:
            subshell.runs_cell = False
        self.app.flush_all()
        return {"id": frame["id"], **reply}

    async def _answer(self, frame: Frame, message: Message) -> Frame:
        """Let ipykernel's own handler answer."""
        kind = frame["type"]
        if kind == "debug_request":
            content = debuggee.answer(self.shell, message["content"])
            return {"content": self.app.session.pack(content)}
        handler = self.kernel.shell_handlers.get(kind)
        if handler is None:
            raise NotImplementedError(f"this worker doesn't answer a {kind}")
        slot = ReplySlot()
        result = handler(slot, [], message)
        if asyncio.iscoroutine(result) or asyncio.isfuture(result):
            await result
        if slot.content is None:
            return {}
        return {
            "content": slot.content,
            "metadata": slot.metadata,
            "buffers": slot.buffers,
        }

    def retry(self, wanted: list[str]) -> str:
        """%holdfast retry: load once more what could not be loaded."""
        return self.absent.retry(wanted, self.names)[0]

    def hidden_names(self) -> frozenset[str]:
        """Variables that IPython has put into the namespace."""
        return results.hidden_names(self.shell)


def _message(frame: Frame) -> Message:
    header = _loads(frame["header"])
    return {
        "header": header,
        "msg_id": header.get("msg_id", ""),
        "msg_type": frame["type"],
        "parent_header": _loads(frame.get("parent")),
        "metadata": _loads(frame.get("metadata")),
        "content": _loads(frame.get("content")),
        "buffers": [memoryview(buffer) for buffer in frame.get("buffers") or ()],
    }


_scan = t.cast(t.Any, json.JSONDecoder()).scan_once


def _loads(data: bytes | None) -> dict[str, t.Any]:
    if not data or data == b"{}":
        return {}
    text = data.decode("utf-8", "surrogatepass")
    try:
        found, end = _scan(text, 0)  # as json.loads, in one call
    except StopIteration:
        end = -1
    if end != len(text):
        found = json.loads(data)
    if not isinstance(found, dict):
        raise TypeError(f"a part of the message is a {type(found).__name__}, not an object")
    return found


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _error_content(error: BaseException) -> ErrorContent:
    lines = traceback.format_exception(error)
    return {
        "status": "error",
        "ename": type(error).__name__,
        "evalue": str(error),
        "traceback": [line.rstrip("\n") for line in lines],
    }
