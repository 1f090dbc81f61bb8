"""SIGINT in a worker: it interrupts a running cell, and nothing else.

The frontend sends SIGINT to the worker. Between cells the worker ignores it. While a cell runs it becomes a
KeyboardInterrupt in the cell:

* If the cell's own code runs, it is raised where the interpreter stands.
* If the event loop waits for the cell (`await asyncio.sleep(100)`), the cell's task is cancelled.
* If another task blocks the loop, that task gets a CancelledError, at a second interrupt or a second after
  the first.
* While a frame is being sent, it waits for the frame's end, as for that of any call of C code.
* While IPython prepares the cell, it waits, too: raised there, the reply would lack the error that the user
  sees. A second interrupt doesn't wait, since hooks of the user's may run there.

The handler is set after each cell, since a cell may have set one of its own, and before the next one if a
task between them has. A signal to a kernel's whole process group comes twice: directly, and through the frontend. So a second SIGINT
to the same cell within `_TWICE` seconds is the same key press.

An interrupt that becomes an exception is reported to the frontend. It ends a process that takes none
(kernel/session/escalate.c), as with C code that never returns, or threads that keep the GIL.
"""

from __future__ import annotations

import _signal  # below `signal`, which makes an enumerator of the old handler, twice a cell
import asyncio
import contextlib
import enum
import signal
import time
import types
import typing as t

from .control import Channel, ChannelClosed
from .subshells import OwnInSubshell, in_subshell

_TWICE = 0.05  # seconds
_BLOCKED = 1.0  # seconds in which the event loop has not turned
_STEP = asyncio.Handle._run.__code__  # by which the loop runs callbacks and steps of tasks


class _Phase(enum.Enum):
    """Whose SIGINT is."""

    IDLE = enum.auto()  # nobody's: no cell runs
    PREPARING = enum.auto()  # the cell's, whose own code hasn't begun
    RUNNING = enum.auto()  # the cell's


class Interrupts:
    """The meaning of SIGINT in this worker at this moment."""

    cancelled = OwnInSubshell(False)  # an interrupt cancelled the task of the running cell

    def __init__(self, channel: Channel):
        self._channel = channel
        self._phase = _Phase.IDLE
        self._pending = False  # one came, and waits for the end of the preparation
        self._last = 0.0
        self._number = 0  # the running cell's request
        self._task: asyncio.Task | asyncio.Future | None = None
        self._asked = 0.0  # when the loop was asked to cancel it; 0: it has done so

    def listen(self) -> None:
        """Once in a process: signals that are not the user's."""
        self.install()
        # A handler makes it end a system call. The frontend nudges so where SIGINT came between the
        # interpreter's last look and the call.
        signal.signal(signal.SIGURG, self._nudged)

    def install(self) -> None:
        """Take SIGINT for this process."""
        _signal.signal(signal.SIGINT, self._handle)

    def begin_cell(self, number: int) -> None:
        """From here on SIGINT belongs to the cell, which is request `number`. None is raised before
        its code begins."""
        self._number = number
        if _signal.getsignal(signal.SIGINT) != self._handle:  # a task of an earlier cell set one
            self.install()
        self.cancelled = self._pending = False
        self._last = self._asked = 0.0
        self._phase = _Phase.PREPARING

    def end_cell(self) -> None:
        """The end of that."""
        self._phase = _Phase.IDLE
        self.install()

    def begin_code(self) -> None:
        """The cell's own code begins now; raises what came while it was prepared."""
        if in_subshell():
            return
        if self._phase is _Phase.PREPARING:
            self._phase = _Phase.RUNNING
        if self._pending:
            self._pending = False
            self._report()
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def awaiting(self, future: asyncio.Future) -> t.Iterator[None]:
        """While this runs, the event loop waits for `future` in the cell's name."""
        self._task = future
        try:
            yield
        finally:
            self._task, self._asked = None, 0.0

    def _handle(self, signum: int, frame: types.FrameType | None) -> None:
        now = time.monotonic()
        if self._phase is _Phase.IDLE or now - self._last < _TWICE:
            return
        self._last = now
        if self._phase is _Phase.PREPARING and not self._pending:
            self._pending = True
        else:
            self._deliver(frame)

    def _nudged(self, signum: int, frame: types.FrameType | None) -> None:
        if self._asked and time.monotonic() - self._asked > _BLOCKED:
            self._cancel_step(frame)

    def _report(self) -> None:
        """Without it the frontend ends this process when the grace is over."""
        with contextlib.suppress(ChannelClosed, OSError):
            self._channel.send("interrupted", id=self._number)

    def _deliver(self, frame: types.FrameType | None) -> None:
        task = self._task
        if task is None or _is_inside(task):
            self._report()
            raise KeyboardInterrupt
        self.cancelled = True
        if self._asked:
            self._cancel_step(frame)
        else:
            self._asked = time.monotonic()
            # From a signal handler the loop must be woken: it may sleep in its selector.
            task.get_loop().call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: asyncio.Future) -> None:
        if task is self._task:
            self._asked = 0.0
            self._report()
        task.cancel()

    def _cancel_step(self, frame: types.FrameType | None) -> None:
        """End what keeps the loop from turning: the step of a task, or a callback. Both leave the loop whole."""
        while frame is not None:
            if frame.f_code is _STEP:
                raise asyncio.CancelledError
            frame = frame.f_back


def _is_inside(task: asyncio.Future) -> bool:
    """Whether the interpreter is now in a step of this task, not in the loop around it."""
    try:
        return asyncio.current_task(task.get_loop()) is task
    except RuntimeError:
        return False
