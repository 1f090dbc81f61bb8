"""What is the same in all ways of running a cell: the steps, and how the code runs.

Each way is a class in a file of its own (in_process.py, forked.py, isolated.py), with what is different in the steps:

* *prepare*: the process gets what the cell needs, and the recording is opened;
* *run*: IPython's shell runs the code, with the recording around it. This is the same in all ways;
* *hand back*: what the cell has changed is saved, and the reply says it.

A worker has one way. Where a cell runs is decided before it gets there (where.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from jupyter_client.jsonutil import json_default

from holdfast.base import usage

from .control import Frame
from .debug import debuggee

if t.TYPE_CHECKING:
    from .recording import Recording
    from .reports import ErrorContent, Instrument, Message, Report

_NOTHING = contextlib.nullcontext()
_encode = json.JSONEncoder(default=json_default, ensure_ascii=False, allow_nan=False).encode


class Run:
    """One cell on its way through the steps."""

    def __init__(self, frame: Frame, message: Message):
        self.frame, self.message = frame, message
        self.text: str = message["content"].get("code", "")  # as it was written
        code = frame.get("code")
        self.code: str = self.text if code is None else code  # what runs
        self.is_plain = "instrument" not in frame  # neither recorded nor isolated
        self.instrument: Instrument = frame.get("instrument") or {}
        self.records = not (self.is_plain or self.instrument.get("isolated", False))
        self.before: tuple[t.Any, ...] = ()  # what `prepare` has looked at, for `hand_back`
        self.report: Report = {}
        self.reply: Frame = {}  # its fields


class Way:
    """A way of running a cell, without what is different in each.

    Parameters
    ----------
    worker : holdfast.worker.requests.Worker
        The worker that runs its cells so.
    """

    recording: Recording
    writes_later = False  # a trace after the reply, if it can wait

    def __init__(self, worker: t.Any):
        self.worker = worker
        self.shell, self.channel, self.session = worker.shell, worker.channel, worker.session

    def prepare(self, run: Run) -> ErrorContent | None:
        """Have what the cell needs. The error that it ends with, if it can't be recorded."""
        raise NotImplementedError

    def hand_back(self, run: Run) -> None:
        """Save what the cell has changed; the rest of the reply."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Before the code of a cell, a subshell's too: take over what should have been before."""

    def around(self, run: Run) -> t.ContextManager[None]:
        """While a cell that isn't plain runs: what is different then."""
        return _NOTHING

    async def execute(self, frame: Frame, message: Message) -> Frame:
        """Run a cell; the reply's fields."""
        run = Run(frame, message)
        refused = self.prepare(run)
        if refused is not None:
            return {"content": self.worker.app.session.pack(refused)}
        if run.is_plain:
            await self._run(run)
        else:
            with self.around(run), self.recording.around(run.report, run.reply, self.writes_later):
                await self._run(run)
        if not self.channel.open:
            self._end_child()
        self.hand_back(run)
        return run.reply

    def after_reply(self) -> bool:
        """Write the trace of the cell whose reply is out; False if none waits for that."""
        recording: Recording | None = vars(self).get("recording")
        if recording is None or not recording.waits:
            return False
        recording.finish()
        return True

    # ---- run

    async def _run(self, run: Run) -> None:
        """Run the code as a cell. What is seldom needed isn't entered."""
        worker = self.worker
        self.shell.compile.written = (run.code, run.text)
        worker.running_async = True
        absent, debugged = worker.absent, debuggee.attached()
        args = run.code, worker.names, worker.lost
        try:
            with debuggee.lines_kept(self.shell) if debugged else _NOTHING:
                worker.interrupts.begin_cell(run.frame["id"])
                try:
                    with absent.deletable(*args) if absent.reasons else _NOTHING:
                        await self._run_watched(run)
                finally:
                    worker.interrupts.end_cell()
        finally:
            worker.running_async = False

    async def _run_watched(self, run: Run) -> None:
        """Run it, and say when it begins and ends. SIGINT may come from here on."""
        channel, shell, number = self.channel, self.shell, run.frame["id"]
        shell.span, shell.request = {}, number
        said = usage.word(brief=True)  # the rest is asked for when the code begins
        first = {"begin": said, **shell.recorded}
        if run.report.get("bytes_prepared"):
            first["prepared"] = run.report["seconds_prepared"]
        channel.send("started", id=number, **first)
        run.reply |= await self.run_code(run.frame, run.message)
        if channel.open:  # not in a child that the cell forked
            span = shell.span
            if "end" not in span:  # no code ran, or it was interrupted
                span["end"] = usage.word()
            if "begin" not in span:  # it has used nothing since
                span = span | {"begin": span["end"] | {"time_ns": said["time_ns"]}}
            # After a plain cell the reply follows at once.
            tell = channel.keep if run.is_plain else channel.send
            tell("ended", id=number, **span)

    async def run_code(self, frame: Frame, message: Message) -> Frame:
        """Run the code of a cell or of a subshell's; the reply's content."""
        self.catch_up()
        content, kernel = message["content"], self.worker.kernel
        if "execution_count" in frame:
            self.shell.execution_count = frame["execution_count"]
        silent = content.get("silent", False)
        metadata = kernel.init_metadata(message)
        reply = await kernel.do_execute(
            frame.get("code", content.get("code", "")),
            silent,
            content.get("store_history", not silent),
            content.get("user_expressions") or {},
            content.get("allow_stdin", False),
            cell_meta=message["metadata"],
            cell_id=message["metadata"].get("cellId"),
        )
        self.worker.app.flush_all()
        metadata = kernel.finish_metadata(message, metadata, reply)
        return {"content": self._pack(reply), "metadata": self._pack(metadata)}

    def _pack(self, content: dict[str, t.Any]) -> bytes:
        try:
            return _encode(content).encode("utf-8", "surrogateescape")  # as the session does
        except (TypeError, ValueError):
            return self.worker.app.session.pack(content)  # which cleans it

    def _end_child(self) -> t.NoReturn:
        """In a child that a cell forked, and that came to the end of the cell: the process ends.

        The rest is its parent's: the reply, the store, exit handlers.
        """
        self.worker.app.flush_all()
        os._exit(0)
