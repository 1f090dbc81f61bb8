"""Decides where a recorded or isolated cell runs: here alone, from tables of conditions.

in-process
    The main worker runs it (in_process.py), while a sleeping fork of it is the rollback (rollback.py).
forked
    A fork of the main worker runs it, and what it changed is adopted (forked.py).
isolated
    A clean process runs it, with the variables bound from the store (isolated.py).

The main worker is asked with the commit that an isolated cell begins with. `WISHES` say who has chosen, and
`NEEDS` what the cell needs all the same. When the fork for a cell is to be made, `OBSTACLES` say what it would
lack, and `IN_FORK` the same in the fork: the cell is isolated then. In each table the first condition that holds
counts. ARCHITECTURE.md prints them.
"""

from __future__ import annotations

import os
import sys
import typing as t

from . import imports
from .control import Frame
from .process import has_children

if t.TYPE_CHECKING:
    from .reports import Instrument

_RUN_MODES = ("auto", "in-process", "forked", "isolated")


class Asked(t.NamedTuple):
    """What conditions look at."""

    frame: Frame = {}  # that asks for a commit, or has the cell
    way: t.Any = None  # Way of the worker, which has the recording
    threads: t.Any = None  # Threads of the main worker
    wish: str = "auto"

    def records(self, *wishes: str) -> bool:
        """Whether the cell is to be recorded, by one of these wishes."""
        return self.wish in wishes and not self.frame.get("isolated")


class Condition(t.NamedTuple):
    """A row of a table."""

    when: str  # in the words of ARCHITECTURE.md
    run: str  # where the cell runs then; MODE is what `holds` returns
    holds: t.Callable[[Asked], t.Any]
    reason: str  # for the user; {} is what `holds` returns


def _environment(_asked: Asked) -> str:
    return os.environ.get("HOLDFAST_RUN", "")


def _records_scorep(asked: Asked) -> bool:
    with imports.unseen():
        from holdfast.scorep import loading
    return asked.records("auto", "in-process") and loading.is_chosen()


def _has_scorep(_asked: Asked) -> bool:
    loading = sys.modules.get("holdfast.scorep.loading")
    return loading is not None and loading.is_loaded()


def _needs_adapters(asked: Asked) -> bool:
    instrument: Instrument = asked.frame["instrument"]
    arguments = instrument.get("arguments") or []
    if instrument.get("isolated", False) or not arguments:
        return False
    try:
        return asked.way.recording.needs_restart(arguments)
    except (OSError, RuntimeError):
        return False  # reported when the recording is opened


WISHES = (
    Condition("`--run=MODE`", "MODE", lambda asked: asked.frame.get("cell_run"), "--run={}"),
    Condition("`%%isolated`", "isolated", lambda asked: asked.frame.get("isolated"), "%%isolated"),
    Condition(
        "`HOLDFAST_RUN` is another word",
        "isolated",
        lambda asked: _environment(asked) not in ("", *_RUN_MODES) and _environment(asked),
        "HOLDFAST_RUN={} must be one of auto, in-process, forked, isolated",
    ),
    Condition("`HOLDFAST_RUN=MODE`", "MODE", _environment, "HOLDFAST_RUN={}"),
    Condition(
        "`holdfast-kernel --run=MODE`",
        "MODE",
        lambda asked: asked.frame.get("run", "auto") != "auto" and asked.frame["run"],
        "holdfast-kernel --run={}",
    ),
)
NEEDS = (
    Condition(
        "`auto` or `in-process`, and Score-P records",
        "forked",
        _records_scorep,
        "Score-P records, which it does once in a process",
    ),
    Condition(
        "`auto`, and the notebook's own recording is open",
        "forked",
        lambda asked: asked.records("auto") and asked.way.recording.is_open(),
        "the notebook's own recording is open, and a process has one at a time",
    ),
)
OBSTACLES = (
    Condition(
        "the system isn't Linux",
        "isolated",
        lambda _: sys.platform != "linux",
        "a fork goes on as a program on Linux only",
    ),
    Condition(
        "the notebook has child processes",
        "isolated",
        lambda _: has_children(),
        "the notebook has child processes, for which only their parent can wait",
    ),
    Condition(
        "the main worker has loaded Score-P",
        "isolated",
        _has_scorep,
        "the notebook's own process has loaded Score-P",
    ),
    Condition(
        "threads run, or a GPU is in use, which a fork would lack",
        "isolated",
        lambda asked: asked.threads.obstacle(),
        "a fork lacks {}",
    ),
)
IN_FORK = (
    Condition(
        "Score-P's adapters for it must be loaded when a process starts",
        "isolated",
        _needs_adapters,
        "Score-P's adapters for it must be loaded when a process starts",
    ),
)
PARTS = {
    "the wish": WISHES,
    "the need": NEEDS,
    "an obstacle to a fork": OBSTACLES,
    "an obstacle in the fork": IN_FORK,
}


def choose(frame: Frame, way: t.Any) -> Frame:
    """Where a cell runs, in the words of the answer to a request for a commit: "run" is left out for isolated."""
    if "code" not in frame:
        return {}
    asked = Asked(frame, way)
    wish, reason = _first(WISHES, asked)
    run, needed = _first(NEEDS, asked._replace(wish=wish or "auto"))
    run, reason = (run, needed) if run else (wish, reason)
    found = {} if run == "isolated" else {"run": "in-process" if run in ("", "auto") else run}
    return found | ({"run_reason": reason} if reason else {})


def obstacle(threads: t.Any) -> str:
    """Why a cell in a fork would not find the notebook as it is; "" if it would."""
    return _first(OBSTACLES, Asked(threads=threads))[1]


def obstacle_in_fork(frame: Frame, way: t.Any) -> str:
    """Why a cell needs a process that starts with what records it; "" if it doesn't."""
    return _first(IN_FORK, Asked(frame, way))[1]


def _first(conditions: t.Iterable[Condition], asked: Asked) -> tuple[str, str]:
    """Where the cell runs by the first condition that holds, and the reason; twice "" if none does."""
    for one in conditions:
        if word := one.holds(asked):
            run = one.run if one.run != "MODE" else word if word in _RUN_MODES else "auto"
            return run, one.reason.format(word)
    return "", ""
