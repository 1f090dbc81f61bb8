"""A cell worker: a fresh process for one instrumented (or isolated) cell.

It waits with its shell ready. Its one request goes through these steps, timed for the report:

in   bind the names that the cell can reach (reach.py), apply the process state, open the recorder;
run  the cell in IPython's shell, with events on exactly around its compiled code;
out  close the recorder, save what changed, reply with the prepared commit.

A recording that can't be opened is an error before the cell runs: who asks for a trace does not
want an hour of computing without one. One that can't be written at the end costs the trace,
not the cell.

Nothing is published by this process. If it dies, at whatever point, the state is as before the
cell. After the reply it waits until the frontend has closed its end, so that the reply can't be
lost, runs the exit handlers that user code registered, bounded in time, and leaves by _exit.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import typing as t

from holdfast.errors import NotCarriedError
from holdfast.scorep import ending

from . import figures, reach, results, state, tables
from .control import Frame
from .process import leave
from .requests import Worker


class Cell(Worker):
    """One cell, then the end."""

    # Its inputs are adopted by the home; a second writer would only lock the database.
    config = {"HistoryManager": {"hist_file": ":memory:"}}

    def prepare(self) -> None:
        self.names = None
        self.not_carried: dict[str, str] = {}
        if self.session is not None:
            from holdfast import _store

            self.names = _store.Names(self.session)
        from holdfast import magics, scorep

        scorep.install_alias()
        magics.register(self.shell, self)
        self._recorder = importlib.import_module("holdfast._recorder")
        for module in (figures, tables):  # they may run at an import of the cell's
            self._recorder.exclude(module.__file__)
        self._experiment = ""
        self.last_report: dict[str, t.Any] = {}

    async def execute(self, frame: Frame, message: dict[str, t.Any]) -> Frame:
        """Bind, run, save: the reply's fields."""
        instrument = frame.get("instrument") or {}
        record = not instrument.get("isolated", False)
        started = time.perf_counter()
        report = self._hand_in(frame.get("code", ""), instrument)
        try:
            directory = self._open_recorder(instrument) if record else None
        except (OSError, RuntimeError) as error:
            return self._refuse(error)
        report["seconds_in"] = time.perf_counter() - started

        started = time.perf_counter()
        try:
            reply = await super().execute(frame, message)
        finally:
            closed = self._close_recorder()
        report["seconds_run"] = time.perf_counter() - started - closed["seconds"]

        started = time.perf_counter() - closed["seconds"]
        report["events"] = closed["events"]
        if directory is not None:
            reply["trace"] = directory or closed["directory"]
        try:
            reply |= self._hand_out(report)
        except Exception as error:  # a full arena: the frontend says what to do
            report["error"] = f"{type(error).__name__}: {error}"
        self._flush()
        report["seconds_out"] = time.perf_counter() - started
        reply["report"] = report
        return reply

    # ---- in

    def _hand_in(self, code: str, instrument: Frame) -> dict[str, t.Any]:
        """Bind the committed state; the first part of the report."""
        report: dict[str, t.Any] = {"reason": "", "events": 0}
        self.not_carried = dict(instrument.get("declined") or {})
        if self.names is None:
            return report
        # Environment and sys.path first: unpickling imports modules.
        carried = self.names.extra("state") or {}
        state.apply(carried, state.capture(self.shell), self.shell)
        memory = self.names.extra("results")
        last = {} if memory is None else results.last_names(memory)
        bound, report["reason"] = reach.bind(self.names, self.shell, code, last)
        figures.settle(self.shell, code)
        if memory is not None:
            results.restore(self.shell, memory)
        self.not_carried = {**bound["absent"], **self.not_carried}
        for name, numbered in last.items():
            if numbered in self.not_carried:
                self.not_carried[name] = self.not_carried[numbered]
        report["names_bound"] = bound["bound"]
        report["names_decoded"] = bound["decoded"]
        report["names_skipped"] = bound["skipped"]
        report["bytes_mapped"] = bound["bytes_mapped"]
        return report

    def _open_recorder(self, instrument: Frame) -> str:
        """Open the experiment; its directory as the user wrote it, or ''."""
        arguments = instrument.get("arguments") or []
        wanted = os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
        self._recorder.open(wanted or None)
        self._experiment = self._recorder.directory()
        ending.guard(self._close_recorder)
        self.shell.recorder = self._recorder
        self.shell.instrument = "--noinstrumenter" not in arguments
        self.shell.name_cells()
        return wanted

    def _refuse(self, error: Exception) -> Frame:
        """The reply of a cell that did not run, since it could not be recorded."""
        said = f"the cell did not run: {error}. {_ADVICE}"
        name, shown = type(error).__name__, [f"{type(error).__name__}: {said}"]
        self.shell._showtraceback(type(error), said, shown)
        content = {"status": "error", "ename": name, "evalue": said, "traceback": shown}
        return {"content": self.app.session.pack(content)}

    # ---- out

    def _close_recorder(self) -> dict[str, t.Any]:
        """End the recording, if there is one: its events, its directory, the time it took."""
        started = time.perf_counter()
        ending.unguard()
        closed: dict[str, t.Any] = {"events": 0, "directory": self._experiment}
        if self.shell.recorder is not None:
            self.shell.recorder = None
            try:
                result = self._recorder.close()
            except (OSError, RuntimeError, MemoryError) as error:
                _tell(f"the trace in {self._experiment} could not be written: {error}")
            else:
                closed |= result or {}
                if result is None:
                    _tell(f"the cell itself closed its recording, in {self._experiment}")
                elif result["lost"]:
                    _tell(f"{result['lost']} events could not be written to {self._experiment}")
        return closed | {"seconds": time.perf_counter() - started}

    def _hand_out(self, report: dict[str, t.Any]) -> Frame:
        """Save what changed; the reply's part and the rest of the report."""
        if self.names is None:
            return {}
        saved = self.names.save(
            self.shell.user_ns,
            hidden=results.hidden_names(self.shell),
            extra={
                "state": state.capture(self.shell),
                "results": results.capture(self.shell),
            },
        )
        report["bytes_copied"] = saved["bytes_copied"]
        report["bytes_shared"] = saved["bytes_shared"]
        report["copy_faults"] = saved["pages_changed"]
        report["names_saved"] = len(saved["saved"])
        report["names_declined"] = len(saved["declined"])
        lost = {
            name: reason for name, reason in saved["declined"].items() if name in self.shell.user_ns
        }
        if lost:
            told = "; ".join(f"{name} ({reason})" for name, reason in sorted(lost.items()))
            print(f"holdfast: not carried out of this cell: {told}", file=sys.stderr)
        reply: Frame = {"lost": lost} if lost else {}
        if saved["prepared"] is not None:
            reply["prepared"] = saved["prepared"]
        return reply

    # ---- what the user sees

    def rewrite_exception(self, error: BaseException) -> BaseException:
        """A name that stayed at home gets its own error."""
        error = super().rewrite_exception(error)
        name = getattr(error, "name", None)
        if type(error) is NameError and name in self.not_carried and name not in self.shell.user_ns:
            return NotCarriedError(name, self.not_carried[name]).with_traceback(error.__traceback__)
        return error

    # ---- the end

    def closed(self) -> None:
        super().closed()
        leave()


_ADVICE = (
    "Choose another directory with SCOREP_EXPERIMENT_DIRECTORY (%env, %%scorep_env), or run the "
    "cell without %%execute_with_scorep."
)


def _tell(message: str) -> None:
    print(f"holdfast: {message}", file=sys.stderr)
