"""Subshells: requests that the main worker serves beside the cell that runs, each subshell on a thread.

The main thread reads the control channel, and runs user code. So requests for subshells come on a second
channel. A thread that does nothing else waits for them (kernel/session/subshell.c). A subshell's frames leave
by the worker's own channel, with its parent, as any thread's output does.

IPython's shell is one object. It keeps in attributes what belongs to the cell that runs: its number, its
result, its traceback. `OwnInSubshell` gives each subshell a value of its own, by a context variable. So tasks
that a cell leaves behind stay with their subshell.

A subshell that has nothing to do doesn't count as a thread (`idle`): it writes nothing. While the main worker
commits or adopts, no request of a subshell begins (`still`). One that runs already counts as a thread of the
user's: its code may have touched anything.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import ctypes
import os
import queue
import select
import threading
import typing as t

from .control import Channel, ChannelClosed, Frame

_INPUT_SECONDS = 0.1  # between two looks whether the waiting thread was interrupted

# Of the subshell in whose context the code runs: what OwnInSubshell keeps. None: the main shell.
_here: contextvars.ContextVar[dict[str, t.Any] | None] = contextvars.ContextVar(
    "holdfast_subshell", default=None
)


def in_subshell() -> bool:
    """Whether the code that asks runs in a subshell."""
    return _here.get() is not None


class OwnInSubshell:
    """An attribute with one value for the main shell and another for each subshell."""

    def __init__(self, default: t.Any):
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: t.Any, owner: type | None = None) -> t.Any:
        if instance is None:
            return self
        values = _here.get()
        return (vars(instance) if values is None else values).get(self._name, self._default)

    def __set__(self, instance: t.Any, value: t.Any) -> None:
        values = _here.get()
        (vars(instance) if values is None else values)[self._name] = value


class SubshellThread(threading.Thread):
    """One subshell: requests in their order, on an event loop of its own."""

    def __init__(self, owner: Subshells, name: str):
        super().__init__(name=f"subshell {name}", daemon=True)
        self.subshell = name
        self.idle = True
        self.runs_cell = False
        self.cancels: t.Callable[[], object] | None = None  # the cell that awaits, if one does
        self.inputs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._owner = owner
        self._loop = asyncio.new_event_loop()
        self._waiting: collections.deque[Frame] = collections.deque()
        self._task: asyncio.Task[None] | None = None
        self._leaves = False
        self._context = contextvars.copy_context()
        self._context.run(_here.set, {})

    # ---- called by the thread that reads

    @property
    def runs_user_code(self) -> bool:
        return not self.idle

    def ask(self, frame: Frame) -> None:
        """Serve a request when those before it are done."""
        self._loop.call_soon_threadsafe(self._add, frame)

    def leave(self) -> None:
        """End when all is done."""
        self._loop.call_soon_threadsafe(self._add, None)

    def interrupt(self) -> None:
        """KeyboardInterrupt in the cell that runs, if one does."""
        if not self.runs_cell:
            return
        if asyncio.current_task(self._loop) is not None:  # in the cell's own code
            error = ctypes.py_object(KeyboardInterrupt)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), error)
        else:
            self._loop.call_soon_threadsafe(self._cancel, context=self._context)

    # ---- in the thread

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._leaves:
            with contextlib.suppress(KeyboardInterrupt):  # a cell's, which came too late
                self._loop.run_forever()

    def _add(self, frame: Frame | None) -> None:
        if frame is None:
            self._leaves = True
        else:
            self._waiting.append(frame)
        self._next()

    def _next(self) -> None:
        if self._task is not None:
            return
        if self._waiting:
            serving = self._serve(self._waiting.popleft())
            self._task = self._loop.create_task(serving, context=self._context)
            self._task.add_done_callback(self._served)
        elif self._leaves:
            self._loop.stop()

    async def _serve(self, frame: Frame) -> None:
        with self._owner.gate:
            self.idle = False
        try:
            reply = await self._owner.main.serve_aside(frame, self)
        finally:
            self.idle = True  # before the reply: what the client sends then finds it so
        self._owner.main.channel.send("reply", **reply)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and isinstance(task.exception(), ChannelClosed):
            self._leaves = True
            self._waiting.clear()
        self._next()

    def _cancel(self) -> None:
        if self.cancels is not None:
            self._owner.main.interrupts.cancelled = True
            self.cancels()

    @contextlib.contextmanager
    def awaiting(self, future: asyncio.Future) -> t.Iterator[None]:
        """While this runs, the event loop waits for `future` in the cell's name."""
        self.cancels = future.cancel
        try:
            yield
        finally:
            self.cancels = None

    def input(self) -> str:
        """The next input_reply."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self.inputs.get(timeout=_INPUT_SECONDS)


class SubshellListener(threading.Thread):
    """Reads the second channel."""

    runs_user_code = False

    def __init__(self, owner: Subshells, channel: Channel):
        super().__init__(name="subshells", daemon=True)
        self._owner, self._channel = owner, channel

    def run(self) -> None:
        ready = select.poll()
        ready.register(self._channel.fileno(), select.POLLIN)
        with contextlib.suppress(ChannelClosed):
            while True:
                ready.poll()
                for frame in self._channel.poll():
                    self._owner.handle(frame)


class Subshells:
    """The subshells of a main worker.

    Parameters
    ----------
    main : holdfast.worker.main_worker.MainWorker
        Its `serve_aside` serves a request in the subshell's thread.
    """

    def __init__(self, main: t.Any):
        self.main = main
        self.gate = threading.Lock()
        self._threads: dict[str, SubshellThread] = {}
        self._channel: Channel | None = None

    def open(self, fd: int) -> None:
        """Listen on the channel that the frontend gave."""
        self._channel = Channel(fd)
        os.register_at_fork(after_in_child=self._channel.abandon)
        SubshellListener(self, self._channel).start()

    @contextlib.contextmanager
    def still(self) -> t.Iterator[None]:
        """While this runs, no request of a subshell begins."""
        with self.gate:
            yield

    @property
    def busy(self) -> bool:
        """Whether a subshell runs something now."""
        return any(not thread.idle for thread in list(self._threads.values()))

    def handle(self, frame: Frame) -> None:
        """A frame of the second channel."""
        op, name = frame.get("op"), frame.get("subshell", "")
        if op == "request":
            if name not in self._threads:
                self._threads[name] = SubshellThread(self, name)
                self._threads[name].start()
            self._threads[name].ask(frame)
        elif op == "interrupt":
            for thread in list(self._threads.values()):
                thread.interrupt()
        elif name in self._threads and op == "input_reply":
            self._threads[name].inputs.put(frame.get("value", ""))
        elif name in self._threads and op == "delete":
            self._threads.pop(name).leave()


def current() -> SubshellThread | None:
    """The subshell whose thread asks."""
    thread = threading.current_thread()
    return thread if isinstance(thread, SubshellThread) else None
