"""Chooses in which process a recorded or isolated cell runs, and runs it if that is the main worker.

There are three run modes:

in-process
    The main worker runs the cell itself, while a sleeping fork of it is the rollback (rollback.py). The
    cell has every object, module, setting, thread and child of the notebook. Nothing is encoded, bound
    or adopted. `auto` chooses this, unless one of the next applies.
forked
    A fork of the main worker runs it, and what it changed is adopted (forked.py). `auto` chooses this if
    Score-P records, which a process can initialize only once, or if the notebook's own recording is open.
isolated
    A clean process runs it, with the variables bound from the store. It replaces a fork that can't be
    made (threads, a GPU in use), or if Score-P's adapters must be loaded when a process starts.

The main worker is asked with the commit that an isolated cell begins with. The wish is that of the cell (`--run=...` behind
`%%execute_with_scorep` or `%%isolated`). `%%isolated` alone wishes for a clean process, and for a recorded cell it is the wish
of the session (`HOLDFAST_RUN` in the environment), else of the kernel (`--run`).

What a user sees is the same in all modes: the recording is the same code (recording.py), `exit` leaves the
notebook alone, and the history has the cell as it was written. In a recording, the main worker's own threads
are marked as not the program's.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import typing as t

from . import imports
from .control import Frame
from .ipython import results

if t.TYPE_CHECKING:
    from .recording import Recording
    from .reports import Instrument, Message, Report

_RUN_MODES = ("auto", "in-process", "forked", "isolated")


class RunMode:
    """How a recorded cell takes, and the way of those that stay.

    Parameters
    ----------
    main : MainWorker
        The worker, with its shell and names.
    is_service : callable
        Whether a thread is the machinery's own.
    """

    def __init__(self, main: t.Any, is_service: t.Callable[[threading.Thread], bool]):
        self._main = main
        self._shell = main.shell
        self._is_service = is_service
        self._reason = ""
        self._mode = ""

    @functools.cached_property
    def _recording(self) -> Recording:
        """Nothing of recordings is loaded before a cell is to be recorded."""
        with imports.unseen():
            from .recording import Recording

        return Recording(self._shell)

    def prepare(self) -> None:
        """Before a fork, which then needn't: load what records."""
        with imports.unseen():
            self._recording.is_open()

    # ---- which way

    def choose(self, frame: Frame) -> Frame | None:
        """The answer to a request for a commit, where the cell stays and none is needed."""
        self._reason = self._mode = ""
        if "code" not in frame:  # a commit for its own sake
            return None
        with imports.unseen():
            from holdfast.scorep import loading

        mode, self._reason = self._wish(frame)
        records = not frame.get("isolated")
        if records and loading.is_chosen() and mode in ("auto", "in-process"):
            self._reason = "Score-P records, which it does once in a process"
            mode = "forked"
        elif records and mode == "auto" and self._recording.is_open():
            self._reason = "the notebook's own recording is open, and a process has one at a time"
            mode = "forked"
        self._mode = mode
        return {"run": "in-process", **self._why()} if mode in ("auto", "in-process") else None

    def saved(self) -> Frame:
        """The run mode in the answer to a commit."""
        return {"run": "forked", **self._why()} if self._mode == "forked" else self._why()

    def _why(self) -> Frame:
        return {"run_reason": self._reason} if self._reason else {}

    def needs_restart(self, instrument: Instrument) -> bool:
        """In a fork: whether the cell needs a process that starts with what records it."""
        arguments = instrument.get("arguments") or []
        if instrument.get("isolated", False) or not arguments:
            return False
        try:
            return self._recording.needs_restart(arguments)
        except (OSError, RuntimeError):
            return False  # reported when the recording is opened

    def _wish(self, frame: Frame) -> tuple[str, str]:
        """The run mode that somebody chose, and who did."""
        chosen = frame.get("cell_run")
        if chosen:
            return chosen if chosen in _RUN_MODES else "auto", f"--run={chosen}"
        if frame.get("isolated"):
            return "isolated", "%%isolated"
        chosen = os.environ.get("HOLDFAST_RUN")
        if chosen and chosen not in _RUN_MODES:
            return (
                "isolated",
                f"HOLDFAST_RUN={chosen} must be one of auto, in-process, forked, isolated",
            )
        if chosen:
            return chosen, f"HOLDFAST_RUN={chosen}"
        chosen = frame.get("run", "auto")
        said = "" if chosen == "auto" else f"holdfast-kernel --run={chosen}"
        return chosen if chosen in _RUN_MODES else "auto", said

    # ---- the way of those that stay

    async def run(
        self,
        frame: Frame,
        message: Message,
        execute: t.Callable[[Frame, Message], t.Awaitable[Frame]],
    ) -> Frame:
        """Record the cell while `execute` runs it; the reply's fields, as a cell worker's."""
        from .recording import refuse

        instrument: Instrument = frame["instrument"]
        reason = instrument.get("run_reason", "")
        # A fork leaves when its reply is read.
        can_wait = not (instrument.get("viewed", False) or self._main.forked.is_one)
        report: Report = {"run": "in-process", "run_reason": reason, "reason": ""}
        report |= self._main.made_ready
        started = time.perf_counter()
        for thread in threading.enumerate():
            if self._is_service(thread):
                thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        try:
            if not instrument.get("isolated", False):
                with imports.unseen():
                    self._recording.open(instrument.get("arguments") or [])
        except (OSError, RuntimeError) as error:
            return {"content": self._main.app.session.pack(refuse(self._shell, error))}
        report["seconds_in"] = time.perf_counter() - started
        with results.written_as(self._shell, message["content"].get("code", "")):
            reply = await self._recording.run(
                execute(frame, message), report, self._main.after_reply if can_wait else None
            )
        reply["report"] = self._main.last_report = report
        return reply
