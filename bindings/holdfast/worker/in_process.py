"""The way of a cell that the main worker runs itself: a plain one, or one that is recorded in-process.

The cell has every object, module, setting, thread and child of the notebook. Nothing is encoded, bound or
adopted, and nothing is saved before the reply. A sleeping fork is the rollback (rollback.py), if a cell dies.

A recording shows users the same in all ways: it is the same code (recording.py), `exit` leaves the notebook
alone, and the history has the cell as it was written. The main worker's own threads are marked as not the
program's.
"""

from __future__ import annotations

import functools
import threading
import time
import typing as t

from holdfast import _store
from holdfast.base.user_threads import is_service
from holdfast.carry import handles
from holdfast.worker import preparation

from . import imports
from .ipython import results
from .running import Run, Way
from .settings.plain_settings import plain_settings

if t.TYPE_CHECKING:
    from .recording import Recording
    from .reports import ErrorContent, Report


class InProcess(Way):
    """The main worker's way.

    Parameters
    ----------
    worker : holdfast.worker.main_worker.MainWorker
        The main worker.
    """

    @functools.cached_property
    def recording(self) -> Recording:  # type: ignore[override]
        """Nothing of recordings is loaded before a cell is to be recorded."""
        with imports.unseen():
            from .recording import Recording

            return Recording(self.shell)

    def prepare(self, run: Run) -> ErrorContent | None:
        """Get ready for a plain cell, or for a recorded one."""
        main = self.worker
        run.report |= self._begin(run)
        if run.is_plain:
            self.await_trace()
            main.history = run.frame.get("history")
            main.saving.ran_plain = True
            return None
        # A program that opens the trace at the reply can't wait.
        self.writes_later = not run.instrument.get("viewed", False)
        return self._record(run)

    def await_trace(self) -> None:
        """Before a plain cell, and at the end: have the large trace of a cell written, if one was left."""
        recording: Recording | None = vars(self).get("recording")
        if recording is not None:
            recording.await_other()

    def catch_up(self) -> None:
        self.worker.adopting.before_code()

    def around(self, run: Run) -> t.ContextManager[None]:
        return results.written_as(self.shell, run.text)

    def hand_back(self, run: Run) -> None:
        """Report a recorded cell, and what a plain one's `%holdfast load` has prepared."""
        main = self.worker
        if run.is_plain:
            if main.loaded is not None:
                run.reply["prepared"] = main.loaded
            main.history = main.loaded = None
        else:
            run.reply["report"] = main.last_report = run.report

    def _begin(self, run: Run) -> Report:
        """What each cell in the notebook's memory needs; the first part of the report."""
        main, frame, content = self.worker, run.frame, run.message["content"]
        handles.table.taken_back(adopted=False)  # else the adoption came first
        if main.touched is not None:
            is_numbered = content.get("store_history", True)
            main.touched.begin(run.code, frame.get("execution_count", 0) if is_numbered else 0)
            main.touched.asked(str(content.get("user_expressions") or ""))
        report = self._make_ready(run)
        plain_settings.settle(run.code)
        return report

    def _make_ready(self, run: Run) -> Report:
        """Memory of this process's own for what a privatization made private and the cell writes. And the
        page tables that it took, for what a recorded cell reads: else its time would have them."""
        main = self.worker
        if (
            self.session is None
            or not _store._has_large_regions(self.session)
            or not main.rollback.is_alone()
        ):
            return {}
        started = time.perf_counter()
        done, _ = preparation.prepare(
            self.session, self.shell, run.code, main.learnt, reading=not run.is_plain
        )
        return done | {"seconds_prepared": time.perf_counter() - started}

    def _record(self, run: Run) -> ErrorContent | None:
        """Open the recording; the error where that is impossible."""
        reason = run.instrument.get("run_reason", "")
        run.report |= {"run": "in-process", "run_reason": reason, "reason": ""}
        started, refused = time.perf_counter(), None
        for thread in threading.enumerate():
            if is_service(thread):
                thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        if run.records:
            with imports.unseen():
                refused = self.recording.begin(run.instrument.get("arguments") or [])
        run.report["seconds_in"] = time.perf_counter() - started
        return refused
