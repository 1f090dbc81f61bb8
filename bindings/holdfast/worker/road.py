"""Which way a recorded or isolated cell is run, and the recording of those that run here.

There are two ways:

in-process
    The main worker runs the cell itself, while a sleeping fork of it is the rollback (rollback.py). The
    cell has everything that the notebook has, by construction: every object, module, setting, thread
    and child. Nothing is encoded, bound or adopted. This is what `auto` chooses.
isolated
    A clean process runs it, with the variables bound from the store. Score-P needs that, since it can
    be initialized only once in a process.

The main worker is asked with the commit that an isolated cell begins with. The wish is that of the cell
(`%%execute_with_scorep --road=...`), else of the session (`HOLDFAST_ROAD` in the environment), else of
the kernel (`--road`). `home` and `map` are older names of the two.

Everything that a user sees is the same both ways: the recording is the same code (recording.py), `exit`
leaves the notebook alone, and the history has the cell as it was written. The main worker's own threads
are marked as none of the program's.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import typing as t

from .control import Frame
from .ipython import results

if t.TYPE_CHECKING:
    from .recording import Recording

_ROADS = {
    "auto": "auto",
    "in-process": "home",
    "isolated": "map",
    "home": "home",
    "map": "map",
}


class Road:
    """Which road an instrumented cell takes, and the way of those that stay.

    Parameters
    ----------
    home : Home
        The worker, with its shell and names.
    is_service : callable
        Whether a thread is the machinery's own.
    """

    def __init__(self, home: t.Any, is_service: t.Callable[[threading.Thread], bool]):
        self._home = home
        self._shell = home.shell
        self._is_service = is_service
        self._reason = ""

    @functools.cached_property
    def _recording(self) -> Recording:
        """Nothing of recordings is loaded before a cell is to be recorded."""
        from .recording import Recording

        return Recording(self._shell)

    # ---- which road

    def choose(self, frame: Frame) -> Frame | None:
        """The answer to a request for a commit, where the cell stays and none is needed."""
        self._reason = ""
        if "code" not in frame:  # a commit for its own sake
            return None
        from holdfast.scorep import loading

        if loading.is_chosen() and not frame.get("isolated"):
            self._reason = "Score-P records, which it does once in a process"
            return None
        road, self._reason = self._wish(frame)
        if road == "auto" and not frame.get("isolated") and self._recording.is_open():
            self._reason = "the notebook's own recording is open, and a process has one at a time"
            road = "map"
        return self._stay() if road != "map" else None

    def saved(self) -> Frame:
        """What a commit's answer has to tell of the road."""
        return {"road_reason": self._reason} if self._reason else {}

    def told(self, report: Frame | None) -> Frame:
        """A cell worker's report, with the road that its cell took."""
        return {**report, "road": "map", "road_reason": self._reason} if report else {}

    def _stay(self) -> Frame:
        return {"road": "home", "road_reason": self._reason}

    def _wish(self, frame: Frame) -> tuple[str, str]:
        """The road that somebody chose, and who did."""
        chosen = frame.get("cell_road")
        if chosen:
            return _ROADS.get(chosen, "auto"), f"--road={chosen}"
        chosen = os.environ.get("HOLDFAST_ROAD")
        if chosen and chosen not in _ROADS:
            return "map", f"HOLDFAST_ROAD={chosen} is none of auto, in-process, isolated"
        if chosen:
            return _ROADS[chosen], f"HOLDFAST_ROAD={chosen}"
        chosen = frame.get("road", "auto")
        said = "" if chosen == "auto" else f"holdfast-kernel --road={chosen}"
        return _ROADS.get(chosen, "auto"), said

    # ---- the way of those that stay

    async def run(
        self,
        frame: Frame,
        message: dict[str, t.Any],
        execute: t.Callable[[Frame, dict[str, t.Any]], t.Awaitable[Frame]],
    ) -> Frame:
        """Record the cell while `execute` runs it; the reply's fields, as a cell worker's."""
        from .recording import refuse

        report: Frame = {"road": "home", "road_reason": self._reason, "reason": ""}
        started = time.perf_counter()
        for thread in threading.enumerate():
            if self._is_service(thread):
                thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        instrument = frame["instrument"]
        try:
            if not instrument.get("isolated", False):
                self._recording.open(instrument.get("arguments") or [])
        except (OSError, RuntimeError) as error:
            return {"content": self._home.app.session.pack(refuse(self._shell, error))}
        report["seconds_in"] = time.perf_counter() - started
        with results.written_as(self._shell, message["content"].get("code", "")):
            reply = await self._recording.run(execute(frame, message), report)
        reply["report"] = self._home.last_report = report
        return reply
