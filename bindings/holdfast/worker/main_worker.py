"""The main worker: runs plain cells, and holds the notebook's live objects.

A plain cell costs what it costs in ipykernel: nothing is saved after it. When a recorded cell is about to
run, the frontend asks for a commit. Changed names go into the store, and what was published is privatized
while the cell worker runs. Then `adopt` takes over what the cell changed, names and process state, and puts
the cell into the history. A commit looks only at what the cells since the last one can have touched
(touched.py). Only the main worker writes the profile's history database.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import typing as t

from holdfast import _store, libraries
from holdfast.base import sentences
from holdfast.carry import (
    device_lease,
    handles,
    trial,
)
from holdfast.scorep import experiments
from holdfast.worker import notices, preparation

from . import where
from .absent import report_absent
from .addresses import Addresses
from .adopting import Adopting
from .analysis.reach import remake
from .analysis.touched import Touched
from .control import VERSION, Frame, changes_nothing
from .forked import Forked
from .forking import Forking
from .imports import ImportReporter
from .in_process import InProcess
from .ipython import results
from .origin import is_library
from .process import trim_heap
from .requests import Worker
from .rollback import Rollback
from .saving import Saving
from .settings import state
from .settings.plain_settings import plain_settings
from .settings.counters import counters
from .subshells import Subshells, SubshellThread

if t.TYPE_CHECKING:
    from .reports import CommitReport, History, Message, Report, Returned

_SUBSHELL_RAN = "a subshell ran code"
_RETRIED = "%holdfast retry"
_OTHERS_GO_ON = frozenset(("request", "fork"))  # subshells, while a frame is handled
_LOOK_SECONDS = 0.005
_RUNS_MAX = 256  # as many as the frontend keeps


class MainWorker(Worker):
    """Plain cells, commits and adoptions."""

    runs_exit_handlers = True
    bare = False  # begin with no variable: taking them over ended those before

    def begin_bare(self) -> None:
        """Before it runs: bind nothing, and load what is asked for by name."""
        self.bare = True

    def run(self) -> None:
        # The user's startup files import, too.
        sys.meta_path.insert(0, ImportReporter(self.channel))
        super().run()

    def begin_notebook(self) -> None:
        self.app.run_files()

    def prepare(self) -> None:
        self.names = None
        self.shell.runs = []
        self.kept = experiments.Kept()
        self.last_run = "{}"  # what the frontend reported of the last recorded cell, as JSON
        self.last_line: Frame = {}  # the line below the last recorded cell: number, terms
        self.last_report: Report = {}
        self.last_commit: CommitReport = {}
        self.history: History | None = None  # of the cell that runs: what the frontend did for it
        # The names that the last return to a step bound.
        self.returned: Returned = {"changed": [], "back": [], "gone": []}
        self.loaded: bytes | None = None  # the commit that the cell prepared
        self.committed_state: state.State = {}
        self.learnt: preparation.Learnt = {}
        handles.table.fetch = lambda number: None  # what a cell made was sent before
        device_lease.leases.answers = True
        self.addresses = Addresses()
        self.adopting = Adopting(self)
        self.saving = Saving(self)
        if self.session is not None:
            trial.configure(self.session, encodes=True, decodes=True, is_library=is_library)
            self.names = _store.Names(self.session)
            if self.session.generation > 0:
                take_over = self._leave_all if self.bare else self._take_over
                self._context.run(take_over)  # context variables are those of all cells
        from holdfast import alias
        from holdfast.commands import magics

        alias.install()
        magics.register(self.shell, self)
        self.touched = None
        if self.names is not None:
            self.touched = Touched(self.shell, self.names)
            self.shell.touched = self.touched
        with self.shell.builtin_trap:
            self.shell.health.begin()
        self.rollback = Rollback(self)
        self.way = InProcess(self)
        self.forking = Forking(self)
        self.subshells = Subshells(self)

    @libraries.aside()
    def _take_over(self) -> None:
        """Begin with what is committed: the main worker before this one died."""
        state.apply(self.names.extra("state"), state.capture(self.shell), self.shell)
        bound = self.names.bind(self.shell.user_ns)
        for _ in remake(self.names, self.shell.user_ns, bound["absent"]):
            pass
        self.shell.patches.apply(list(self.shell.user_ns))
        self.absent.note(bound["absent"])
        report_absent(bound["absent"])
        self.learnt = self.names.extra("written") or {}
        self.lost = self.names.extra("lost") or {}
        plain_settings.settle()
        counters.settle()
        memory = self.names.extra("results")
        if memory is not None:
            results.restore(self.shell, memory)
        self.committed_state = state.capture(self.shell)

    def _leave_all(self) -> None:
        """Begin with nothing, and know what there is."""
        self.names.bind(self.shell.user_ns, names=())
        names = sorted(_listed(self.names))
        self.absent.note(dict.fromkeys(names, trial.left()))
        self.committed_state = state.capture(self.shell)
        notices.say(_words_of_all_left(names))

    async def serve_aside(self, frame: Frame, subshell: SubshellThread) -> Frame:
        """As any worker; what ran may have touched anything, before and after a commit."""
        self._await_own_channel()
        self.rollback.outdate()
        try:
            return await super().serve_aside(frame, subshell)
        finally:
            if self.touched is not None and frame["type"] == "execute_request":
                self.touched.anything(_SUBSHELL_RAN)

    def handling(self, frame: Frame) -> t.ContextManager[None]:
        """Subshells are still, unless Jupyter requests something, or a fork is to serve on."""
        if not changes_nothing(frame):
            self.rollback.outdate()
        if frame.get("op") in _OTHERS_GO_ON:
            return contextlib.nullcontext()
        return self.subshells.still()

    def op_fork(self, frame: Frame) -> bool:
        """Make a fork that runs a cell; whether this is the fork."""
        with self.subshells.still():
            is_fork = self.forking.make(frame)
        if is_fork:
            try:
                self._waiting.clear()
                self.begin_fork()
                self.way = Forked(self, self.way.recording)
            except Exception:  # the cell has another process, then
                os._exit(1)
        return is_fork

    def served(self) -> None:
        self.rollback.copy_pages()

    def _await_own_channel(self) -> None:
        """In a subshell: what the frontend said before on the worker's own channel comes first.

        Such as the adoption of a cell whose reply the client has seen. Of a request that runs
        it is known: all before it was done.
        """
        done = threading.Event()
        self.loop.call_soon_threadsafe(self._read_until_now, done)
        while not done.wait(_LOOK_SECONDS) and not self.requested:
            pass

    def _read_until_now(self, done: threading.Event) -> None:
        self._readable()
        requests = [i for i, frame in enumerate(self._waiting) if frame.get("op") == "request"]
        first = requests[0] if requests else len(self._waiting)
        self._waiting.insert(first, {"op": "passed", "done": done})
        self._serve_next()

    def op_passed(self, frame: Frame) -> None:
        """Of our own making: all before it is done."""
        frame["done"].set()

    def op_subshells(self, frame: Frame) -> None:
        """The frontend's second channel."""
        self.subshells.open(*self.channel.take_descriptors(frame))

    async def _answer(self, frame: Frame, message: Message) -> Frame:
        """ipykernel's own answer. To complete or to inspect runs properties and such."""
        if self.touched is not None:
            self.touched.asked(str(message["content"].get("code", "")))
        return await super()._answer(frame, message)

    # ---- the rollback

    def op_protect(self, frame: Frame) -> None:
        """Make a fork that holds the notebook as it is now (rollback.py)."""
        made = self.rollback.make(*self.channel.take_descriptors(frame))
        if made:  # else this is the fork, which woke
            self.channel.send("protected", id=frame["id"], **made)

    def begin_fork(self) -> None:
        """Be a process of its own, which is a fork of the main worker."""
        self.subshells = Subshells(self)
        for finder in sys.meta_path:
            if isinstance(finder, ImportReporter):
                finder.begin_anew()

    def begin_anew(self) -> None:
        """Be the main worker, which this process is the fork of; after `begin_fork`."""
        self.shell.runs = []  # the frontend reports all
        self.kept = experiments.Kept()
        self.channel.send("ready", version=VERSION, pid=os.getpid())

    # ---- requests of the frontend without user code

    @libraries.aside()
    def op_commit(self, frame: Frame) -> None:
        """Put every changed name into the store."""
        reply: Frame = {"id": frame["id"]}
        handles.table.taken_back(adopted=False)  # as in execute
        if self.names is None:
            self.channel.send("reply", report={}, unserializable={}, **reply)
            return
        self.adopting.catch_up()
        reply |= where.choose(frame, self.way)
        if reply.get("run") == "in-process" and (
            (is_safe := self.rollback.has_all())
            or frame.get("paced")
            or not self.saving.is_step_due()
        ):
            if is_safe:
                reply["protected"] = True
            self.channel.send("reply", report={}, **reply)
            return
        self.rollback.outdate()
        if "code" not in frame:
            self.rollback.look_at_pages()
        self.saving.commit(frame, reply)

    def retry(self, wanted: list[str]) -> str:
        """As any worker; the next commit looks at all."""
        text, bound = self.absent.retry(wanted, self.names)
        if self.touched is not None:
            self.touched.learn(bound["code"])
            self.touched.anything(_RETRIED)
        return text

    def op_published(self, frame: Frame) -> None:
        """The commit of this main worker is the current generation."""
        if self.names is not None:
            try:
                self.names.published(frame["generation"], frame.get("name"))
            finally:
                self.channel.send("settled", generation=frame["generation"])
            self.touched.settle()
            if device_lease.leases.durable:
                self.saving.owed.clear()
            self.adopting.privatize()

    def op_exit(self, frame: Frame) -> None:
        """As any worker; nobody would be left who writes what was recorded."""
        self.way.await_trace()
        super().op_exit(frame)

    def op_rest(self, frame: Frame) -> None:
        """Nobody has used the notebook for a while: its free memory is the system's."""
        if self.session is not None:
            self.session.reap(trim=True)
        trim_heap()

    def op_handle(self, frame: Frame) -> None:
        """A descriptor that a cell made; the commit to be adopted names it."""
        if frame.get("found"):
            handles.table.arrive(frame["handle"], *self.channel.take_descriptors(frame))

    def op_want_handle(self, frame: Frame) -> None:
        """A cell worker decodes a file that is open here."""
        number = frame["handle"]
        fd = handles.table.give(number)
        made = device_lease.leases.answer(number) if fd is None else None
        self.channel.send_handle(number, fd if made is None else made)
        if made is not None:
            os.close(made)

    def op_adopt(self, frame: Frame) -> None:
        """A cell worker's commit was published: take over what changed. What is said of it stands below the cell."""
        if "id" not in frame:
            self.adopting.adopt_cell(frame)
            return
        with self._as_output_of(frame["header"]):
            self.adopting.adopt_cell(frame)
        self.channel.send("reply", id=frame["id"])

    def op_ran(self, frame: Frame) -> None:
        """A recorded cell has run, or all that did, where this is a later main worker."""
        self.last_run = frame["run"]
        if frame.get("listed"):
            self.shell.runs.append(frame["run"])
            del self.shell.runs[:-_RUNS_MAX]
            with contextlib.suppress(Exception):  # the notebook may have replaced what it calls
                self.kept.note(frame["run"])

    def op_shown(self, frame: Frame) -> None:
        """The line below a recorded cell, as %holdfast explain reads it."""
        self.last_line = frame

    def op_checkout(self, frame: Frame) -> None:
        """The frontend published an older generation anew, or what a file had."""
        self.adopting.checkout(frame)

    def op_perfreport(self, frame: Frame) -> None:
        """The user wants to see what each cell used, and one has ended."""
        from holdfast.monitor import commands

        with self._as_output_of(frame["header"]):
            commands.report_last(self.shell, frame["level"], bool(frame.get("text")))
        self.channel.send("reply", id=frame["id"])

    @contextlib.contextmanager
    def _as_output_of(self, raw: bytes) -> t.Iterator[None]:
        """While this runs, output belongs to the request with this header."""
        header = json.loads(raw)
        message = {"header": header, "msg_id": header.get("msg_id", "")}
        self.parents.begin(raw, message["msg_id"])
        self.kernel.set_parent([b""], message)
        try:
            yield
        finally:
            self.app.flush_all()
            self.parents.end()

    def op_environment(self, frame: Frame) -> None:
        """%%scorep_env and its like."""
        os.environ.update(frame.get("values") or {})


def _listed(names: t.Any) -> list[str]:
    """The variables in the store: no process state, no modules and results of IPython's own."""
    found = [entry["name"] for entry in names.listing()]
    return [name for name in found if name.isidentifier()]


def _words_of_all_left(names: list[str]) -> str:
    return sentences.sentence(
        "the notebook's process ended several times by itself when it took over the variables, so"
        " none is loaded now. Their stored copies are kept: ",
        names,
        ". `%holdfast retry NAME ...` loads one, `del NAME` deletes it, `%holdfast save FILE` saves all",
    )
