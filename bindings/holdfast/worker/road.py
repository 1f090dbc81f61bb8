"""The home road: an instrumented cell in the home itself, with events on.

A process of its own keeps a cell's accidents from the notebook, and it is what Score-P and other
programs need; that is the mapped road. But some objects can't leave the home, and some are so
many that to decode them costs more than the cell. Under the built-in recorder the home can run
the cell itself: nothing is saved, bound or decoded, and every object is simply there.

The home is asked with the commit that the mapped road would begin with, since it alone knows its
objects. The wish is that of the cell (`%%execute_with_scorep --road=...`), else of the session
(`HOLDFAST_ROAD` in the environment), else of the kernel (`--road`). `auto` takes the home road
where the cell

* lost something the last time it ran, since no codec carries what it makes;
* calls `backward` and names a tensor of PyTorch's with an autograd graph, which is its process's;
* names what is bound to its process by its nature (a generator, a lock), what the last commit
  could not carry, or what this one couldn't: then the answer comes with a commit;
* reaches more than `LARGE` references behind names. They are counted on the live objects by the
  walk that finds the groups, in C, which gives up at that number. Sizes of what is stored
  were rejected: they say nothing of what was never saved, and bytes cost little where they
  are one text. Decoding takes some 0.3 us a reference, and looking for changes about as much.

What a cell reaches is reach.py's answer. Where the code doesn't tell, all names count as
reached, but none as named.

Everything that a user sees is the same on both roads: the recording is the same code
(recording.py), `exit` leaves the notebook alone, and the history has the cell as it was written.
The home's own threads are marked as none of the program's. What the cell does to its process
stays done, as in a plain cell.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import types
import typing as t

from .analysis.reach import Reach
from .control import Frame
from .ipython import results

if t.TYPE_CHECKING:
    from .recording import Recording

LARGE = 50_000  # references
# No codec will ever carry them, so no commit is needed to know.
_BOUND = (
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    threading.Thread,
    type(threading.Lock()),
    type(threading.RLock()),
)
_ROADS = ("auto", "map", "home")
_DIFFERENTIATE = frozenset(("backward", "grad"))
_LOST_MAX = 256  # cells


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
        self._declined: dict[int, tuple[str, str]] = {}  # id: name, reason; of the last commit
        self._named: set[str] = set()  # by the cell that waits for the answer
        self._reason = ""
        self._code = ""  # of that cell
        self._lost: dict[str, str] = {}  # code of cells: what their last run could not hand over

    @functools.cached_property
    def _recording(self) -> Recording:
        """Nothing of recordings is loaded before a cell is to be recorded."""
        from .recording import Recording

        return Recording(self._shell)

    # ---- which road

    def choose(self, frame: Frame) -> Frame | None:
        """The answer to a request for a commit, where the cell stays and none is needed."""
        self._named, self._reason = set(), ""
        if "code" not in frame:  # a commit for its own sake, or for a fresh process
            return None
        from holdfast.scorep import loading

        if loading.is_chosen():
            self._reason = "Score-P records, which it does once in a process"
            return None
        self._code = frame["code"]
        road, self._reason = self._wish(frame)
        if road == "auto":
            self._reason = self._need(frame["code"])
            road = "home" if self._reason else "map"
        return self._stay() if road == "home" else None

    def saved(self, declined: t.Mapping[str, str]) -> Frame:
        """What a commit's answer has to tell of the road."""
        namespace = self._shell.user_ns
        self._declined = {
            id(namespace[name]): (name, why) for name, why in declined.items() if name in namespace
        }
        found = self._find_declined(self._named)
        if found:
            self._reason = found
            return self._stay()
        return {"road_reason": self._reason} if self._reason else {}

    def told(self, report: Frame | None) -> Frame:
        """A cell worker's report, with the road that its cell took."""
        if not report:
            return {}
        lost = ", ".join(sorted(report.get("names_lost", ())))
        if lost:
            self._lost[self._code] = lost
            if len(self._lost) > _LOST_MAX:
                del self._lost[next(iter(self._lost))]
        return {**report, "road": "map", "road_reason": self._reason}

    def _stay(self) -> Frame:
        return {"road": "home", "road_reason": self._reason}

    def _wish(self, frame: Frame) -> tuple[str, str]:
        """The road that somebody chose, and who did."""
        chosen = frame.get("cell_road")
        if chosen:
            return chosen, f"%%execute_with_scorep --road={chosen}"
        chosen = os.environ.get("HOLDFAST_ROAD")
        if chosen:
            if chosen in _ROADS:
                return chosen, f"HOLDFAST_ROAD={chosen}"
            return "map", f"HOLDFAST_ROAD={chosen} is none of {', '.join(_ROADS)}"
        chosen = frame.get("road", "auto")
        return chosen, f"holdfast-kernel --road={chosen}"

    def _need(self, code: str) -> str:
        """Why the cell had better stay, or ""."""
        if self._home.names is None or self._recording.is_open():
            return ""
        lost = self._lost.get(code)
        if lost is not None:
            return f"its last run could not hand over {lost}"
        namespace = self._shell.user_ns
        reach = Reach(code, self._shell.transform_cell)
        done = self._named
        while not reach.names <= done:
            new = reach.names - done
            done |= new
            found = (
                self._find_declined(new)
                or self._find_graph(done)
                or self._weigh(done, "what the cell can reach")
            )
            if found:
                return found
            if reach.reason:
                break
            reach.follow(namespace, new)
        if not reach.reason:
            return ""
        every = namespace.keys() - results.hidden_names(self._shell)
        return self._weigh(every, f"what the cell can reach, which is all ({reach.reason}),")

    def _find_declined(self, names: t.Iterable[str]) -> str:
        """The sentence on the first of them, by name, that no codec carries."""
        namespace = self._shell.user_ns
        for name in sorted(names):
            value = namespace.get(name)
            known, why = self._declined.get(id(value), ("", ""))
            if isinstance(value, _BOUND):
                why = type(value).__name__
            elif namespace.get(known, names) is not value:  # another one by now
                continue
            return f"the cell names {name}, which stays at home: {why}"
        return ""

    def _find_graph(self, names: set[str]) -> str:
        """The sentence on the first tensor by name that the cell may go back from."""
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if tensor is None or not names & _DIFFERENTIATE:
            return ""
        for name in sorted(names):
            value = self._shell.user_ns.get(name)
            if type(value) is tensor and value.grad_fn is not None:
                return f"the cell differentiates {name}, whose autograd graph stays at home"
        return ""

    def _weigh(self, names: t.Iterable[str], what: str) -> str:
        """The sentence on what these names hold, where it is large."""
        from holdfast import _store

        namespace = self._shell.user_ns
        values = [namespace[name] for name in names if name in namespace]
        if not _store.is_larger(values, LARGE, namespace):
            return ""
        return f"{what} holds more than {LARGE:,} references"

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
        try:
            self._recording.open(frame["instrument"].get("arguments") or [])
        except (OSError, RuntimeError) as error:
            return {"content": self._home.app.session.pack(refuse(self._shell, error))}
        report["seconds_in"] = time.perf_counter() - started
        with results.written_as(self._shell, message["content"].get("code", "")):
            reply = await self._recording.run(execute(frame, message), report)
        reply["report"] = self._home.last_report = report
        return reply
