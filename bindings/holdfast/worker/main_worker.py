"""The main worker: runs plain cells, and holds the notebook's live objects.

A plain cell costs what it costs in ipykernel: nothing is saved after it. When a recorded cell is about to
run, the frontend asks for a commit. Changed names go into the store, and what was published is privatized
while the cell worker runs. Then `adopt` takes over what the cell changed, names and process state, and puts
the cell into the history. A commit looks only at what the cells since the last one can have touched
(touched.py). Only the main worker writes the profile's history database.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import threading
import time
import typing as t

from holdfast import _store, libraries
from holdfast.base import sentences, usage
from holdfast.base.user_threads import is_service
from holdfast.carry import (
    cached_functions,
    device_lease,
    finalizers,
    handles,
    module_objects,
    trial,
)
from holdfast.carry.patches import is_patch
from holdfast.commands import verify
from holdfast.errors import LAST, of_last_error
from holdfast.libraries.ipywidgets import widgets
from holdfast.scorep import experiments
from holdfast.worker import notices, preparation, steps

from .absent import report_absent
from .addresses import Addresses
from .analysis.reach import remake
from .analysis.touched import Touched
from .bound import unstorable, with_traceback
from .control import VERSION, Frame, changes_nothing
from .forked import Forked
from .imports import ImportReporter
from .ipython import autoreload, results
from .origin import is_library
from .process import trim_heap
from .requests import Worker
from .rollback import Rollback
from .where import RunMode
from .settings import census, state
from .settings.plain_settings import plain_settings
from .settings.counters import counters
from .settings.own_code import own_code
from .subshells import Subshells, SubshellThread

if t.TYPE_CHECKING:
    from .reports import CommitReport, History, Message, Report, Returned

_SUBSHELL_RAN = "a subshell ran code"
_BY_ADDRESS = "a cell had an address, and may have written there"
_RETRIED = "%holdfast retry"
_LOADED_ANEW = "a module was loaded anew"
_WIDGETS_CAME = "widgets came back, and stay"
_LOOK_SECONDS = 0.005
_RUNS_MAX = 256  # as many as the frontend keeps
_CHEAP_SECONDS = 0.05  # the last commit
_CHEAP_BLOCKS = 8_000  # that were allocated since


class MainWorker(Worker):
    """Plain cells, commits and adoptions."""

    runs_exit_handlers = True
    _bare = False  # begin with no variable: taking them over ended those before

    def begin_bare(self) -> None:
        """Before it runs: bind nothing, and load what is asked for by name."""
        self._bare = True

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
        self.made_ready: Report = {}  # memory, before the cell that runs
        self.last_run = "{}"  # what the frontend reported of the last recorded cell, as JSON
        self.last_line: Frame = {}  # the line below the last recorded cell: number, terms
        self.last_report: Report = {}
        self.last_commit: CommitReport = {}
        self._ran_plain = False  # since the last commit
        self._blocks = sys.getallocatedblocks()  # at that
        self.history: History | None = None  # of the cell that runs: what the frontend did for it
        # The names that the last return to a step bound.
        self.returned: Returned = {"changed": [], "back": [], "gone": []}
        self.loaded: bytes | None = None  # the commit that the cell prepared
        self._committed_state: state.State = {}
        self._must_privatize = False  # whether something published is mapped shared still
        self._must_adopt = False  # whether a generation of another process isn't taken over yet
        self._name: bytes | None = None  # of the generation that was to be taken over last
        self._learnt: preparation.Learnt = {}
        handles.table.fetch = lambda number: None  # what a cell made was sent before
        device_lease.leases.answers = True
        self.addresses = Addresses()
        self._owed: set[str] = set()  # names with memory that the store has no bytes of
        self._lost_error = False  # whether a cell has met an error in another process
        self._reported_stays: dict[str, str] = {}  # what stays because saving it ended a process
        if self.session is not None:
            trial.configure(self.session, encodes=True, decodes=True, is_library=is_library)
            self.names = _store.Names(self.session)
            if self.session.generation > 0:
                take_over = self._leave_all if self._bare else self._take_over
                self._context.run(take_over)  # context variables are those of all cells
        from holdfast import alias
        from holdfast.commands import magics

        alias.install()
        magics.register(self.shell, self)
        self.touched = None
        if self.names is not None:
            self.touched = Touched(self.shell, self.names)
            self.shell.saw_code = self.touched.ran
        with self.shell.builtin_trap:
            self.shell.health.begin()
        self.run_mode = RunMode(self, is_service)
        self.rollback = Rollback(self)
        self.forked = Forked(self)
        self._requested = False  # a request runs
        self.subshells = Subshells(self.serve_aside, self.interrupts)

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
        self._learnt = self.names.extra("written") or {}
        self.lost = self.names.extra("lost") or {}
        plain_settings.settle()
        counters.settle()
        memory = self.names.extra("results")
        if memory is not None:
            results.restore(self.shell, memory)
        self._committed_state = state.capture(self.shell)

    def _leave_all(self) -> None:
        """Begin with nothing, and know what there is."""
        self.names.bind(self.shell.user_ns, names=())
        names = sorted(_listed(self.names))
        self.absent.note(dict.fromkeys(names, trial.left()))
        self._committed_state = state.capture(self.shell)
        notices.say(_words_of_all_left(names))

    async def execute(self, frame: Frame, message: Message) -> Frame:
        """Run a cell, recorded where the frontend says so."""
        handles.table.taken_back(adopted=False)  # else the adoption came first
        code = frame.get("code") or message["content"].get("code", "")
        if self.touched is not None:
            is_numbered = message["content"].get("store_history", True)
            self.touched.begin(code, frame.get("execution_count", 0) if is_numbered else 0)
            self.touched.asked(str(message["content"].get("user_expressions") or ""))
        self._make_ready(code, reading="instrument" in frame)
        plain_settings.settle(code)
        if self.forked.is_one:
            return await self.forked.run(frame, message, super().execute)
        if "instrument" in frame:
            return await self.run_mode.run(frame, message, super().execute)
        self.history = frame.get("history")
        self._ran_plain = True
        reply = await super().execute(frame, message)
        if self.loaded is not None:
            reply["prepared"] = self.loaded
        self.history = self.loaded = None
        return reply

    def replies_at_once(self, frame: Frame) -> bool:
        """A plain cell; of others the recording is closed, or a commit prepared."""
        return "instrument" not in frame and not self.forked.is_one

    async def serve_aside(self, frame: Frame, subshell: SubshellThread) -> t.Callable[[], None]:
        """As any worker; what ran may have touched anything, before and after a commit."""
        self._await_own_channel()
        self.rollback.outdate()
        try:
            return await super().serve_aside(frame, subshell)
        finally:
            if self.touched is not None and frame["type"] == "execute_request":
                self.touched.anything(_SUBSHELL_RAN)

    async def _handle(self, frame: Frame) -> None:
        """As any worker; whatever isn't a request of Jupyter's, with the subshells still."""
        if not changes_nothing(frame):
            self.rollback.outdate()
        if frame.get("op") == "request":
            self._requested = True
            try:
                await super()._handle(frame)
            finally:
                self._requested = False
        elif frame.get("op") == "fork":
            with self.subshells.still():
                is_fork = self.forked.make(frame)
            if is_fork:
                await self.forked.serve()
        else:
            with self.subshells.still():
                await super()._handle(frame)

    def _served(self, task: asyncio.Task) -> None:
        super()._served(task)
        self.rollback.copy_pages()

    def is_asked(self) -> bool:
        """Whether a frame is being handled, or waits."""
        return self._serving or bool(self._waiting)

    def _await_own_channel(self) -> None:
        """In a subshell: what the frontend said before on the worker's own channel comes first.

        Such as the adoption of a cell whose reply the client has seen. Of a request that runs
        it is known: all before it was done.
        """
        done = threading.Event()
        self.loop.call_soon_threadsafe(self._read_until_now, done)
        while not done.wait(_LOOK_SECONDS) and not self._requested:
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

    def _make_ready(self, code: str, reading: bool) -> None:
        """Memory of this process's own for what a privatization made private and the cell writes. And the
        page tables that it took, for what a recorded cell reads: else its time would have them."""
        self.made_ready = {}
        if (
            self.session is not None
            and _store._has_large_regions(self.session)
            and self.rollback.is_alone()
        ):
            started = time.perf_counter()
            done, _ = preparation.prepare(self.session, self.shell, code, self._learnt, reading)
            self.made_ready = done | {"seconds_prepared": time.perf_counter() - started}

    def rewrite_exception(self, error: BaseException) -> BaseException:
        """As any worker's; what is asked of an error that another process met."""
        error = super().rewrite_exception(error)
        return of_last_error(error) if self._lost_error else error

    def _still_lost(self) -> dict[str, str]:
        for name in self.lost.keys() & self.shell.user_ns.keys():
            del self.lost[name]
        return self.lost

    def _learn_writes(self, written: list[str]) -> None:
        """Take the names that a recorded cell wrote without showing it: its key, and the
        names."""
        if written:
            self._learnt = preparation.remember(self._learnt, written[0], written[1:])

    # ---- the rollback

    def op_protect(self, frame: Frame) -> None:
        """Make a fork that holds the notebook as it is now (rollback.py)."""
        made = self.rollback.make(*self.channel.take_descriptors(frame))
        if made:  # else this is the fork, which woke
            self.channel.send("protected", id=frame["id"], **made)

    def begin_fork(self) -> None:
        """Be a process of its own, which is a fork of the main worker."""
        self.subshells = Subshells(self.serve_aside, self.interrupts)
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
        self._catch_up()
        stays = self.run_mode.choose(frame)
        if stays is not None and (
            (is_safe := self.rollback.has_all()) or frame.get("paced") or not self._is_step_due()
        ):
            if is_safe:
                stays["protected"] = True
            self.channel.send("reply", report={}, **stays, **reply)
            return
        self.rollback.outdate()
        if "code" not in frame:
            self.rollback.look_at_pages()
        device_lease.leases.durable = bool(frame.get("durable"))
        device_lease.leases.left_out = False
        plain_settings.is_idle = "code" not in frame and not frame.get("leaves")
        try:
            saved, _, reason = self.save()
        finally:
            plain_settings.is_idle = False
        code = saved.pop("code")
        self.touched.learn(code, saved.pop("held"))
        self.touched.count_strays()
        if saved["prepared"] is not None:
            looked = self.touched.looked(saved["changed"])
            reply |= {"prepared": saved["prepared"], "changed": saved["changed"], "looked": looked}
        else:
            self.touched.settle()
        reply |= self.run_mode.saved() if stays is None else stays
        self.touched.forget(set(saved["saved"]) - code.keys())
        self.last_commit = {
            "seconds": saved["seconds"],
            "reason": reason,
            **usage.of_commit(saved),
        }
        self._report_stays(saved["unserializable"])
        unserializable = saved["unserializable"] | self._staying()
        self._ran_plain, self._blocks = False, sys.getallocatedblocks()
        self.channel.send("reply", unserializable=unserializable, report=self.last_commit, **reply)
        self._note_owed(saved["saved"])

    def _is_step_due(self) -> bool:
        """Whether a cell that stays begins with a commit, so that an undo has the state before it: if plain cells
        can have changed a variable since the last one, and if it will be cheap, as far as one can know."""
        if not self._ran_plain or self.last_commit.get("seconds", 0.0) > _CHEAP_SECONDS:
            return False
        if sys.getallocatedblocks() - self._blocks > _CHEAP_BLOCKS:
            return False
        touched, _ = self.touched.take()
        own = self.shell.user_ns.keys() - results.hidden_names(self.shell) - self.touched.held
        return touched is None or not touched.isdisjoint(own)

    def save(self) -> tuple[_store._Saved, set[str] | None, str]:
        """Prepare a commit of what changed since the last one: what Names.save() reports, the names
        that can have been touched, and why they are all."""
        if not self.forked.is_one:  # of which changes() names them
            staying, waiting = plain_settings.staying(self.shell), state.losses.waiting
            for name in waiting.keys() & plain_settings.rows.keys() - staying.keys():
                del waiting[name]  # the notebook has set it back before a cell could report it
            for name, why in staying.items():
                state.losses.note(name, why)
        self.shell.patches.collect()  # first: it finds which attributes others are to look at
        self._committed_state = state.capture(self.shell)
        if self.subshells.busy:
            self.touched.anything(_SUBSHELL_RAN)
        if own_code.has_loaded_anew():
            self.touched.anything(_LOADED_ANEW)
        touched, reason = self.touched.take()
        if touched is not None and self.addresses.in_any(touched):
            touched, reason = None, _BY_ADDRESS
        if touched is not None:
            touched.update(filter(is_patch, self.shell.user_ns))
            if device_lease.leases.durable:  # also what is owed
                touched |= self._owed
        try:
            saved = steps.save(
                self.names,
                self.shell,
                touched=touched,
                verify=verify.is_on(),
                stand_ins=module_objects.stand_ins(self.shell.user_ns),
                extra={
                    "state": state.pack(self._committed_state),
                    "results": results.capture(self.shell),
                    "written": self._learnt,
                    "lost": self._still_lost(),
                    "program": sys.implementation.cache_tag,  # which interpreters can read the encodings
                    "history": self.shell.history_manager.session_number,
                },
            )
        finally:
            self.shell.patches.withdraw()
        self.shell.patches.drop_imported(saved["unserializable"])
        verify.report(saved, self.touched.cells())
        saved["numbers"] = self.addresses.learn(
            saved["saved"], saved["numbers"], self.shell.user_ns
        )
        return saved, touched, reason

    def _staying(self) -> dict[str, str]:
        """The variables that a clean process lacks, and state that no commit can name; as settings
        are, by names that no code can use."""
        names = self.shell.user_ns
        found = {f"the name {name!r}": why for name, why in unstorable(names).items()}
        if results.own_entries(self.shell)["Out"]:
            found["what code changed in Out"] = "it is made anew from the numbered results"
        for name in with_traceback(list(names), names):
            found[f"the local variables in the traceback of {name}"] = (
                "frames stay in their process"
            )
        for name in cached_functions.left_out():
            found[f"the results that {name} keeps"] = "one of them can't be carried"
        for name in self.addresses.of_saved(list(names), names):
            found[f"the addresses in {name}"] = (
                "objects and memory lie elsewhere in another process"
            )
        return {"_:" + name: why for name, why in found.items()}

    def _report_stays(self, unserializable: t.Mapping[str, str]) -> None:
        """Of what ended a process that tried to save it, once."""
        stays = {name: why for name, why in unserializable.items() if trial.is_kept(why)}
        for name, why in sorted(stays.items()):
            if self._reported_stays.get(name) != why:
                notices.say(
                    f"{name} stays in the notebook's own process, and is in no commit:"
                    f" {sentences.brief(name, why)}. Everything else is saved;"
                    f" `%holdfast retry {name}` tries it again"
                )
        self._reported_stays = stays

    def retry(self, wanted: list[str]) -> str:
        """As any worker; the next commit looks at all."""
        text, bound = self.absent.retry(wanted, self.names)
        if self.touched is not None:
            self.touched.learn(bound["code"])
            self.touched.anything(_RETRIED)
        return text

    def _note_owed(self, names: t.Iterable[str]) -> None:
        """Ask for a commit with the bytes, once there is time, if memory was left out."""
        if device_lease.leases.left_out:
            device_lease.leases.left_out = False
            self._owed.update(names)
            self.channel.send("owes")

    def op_published(self, frame: Frame) -> None:
        """The commit of this main worker is the current generation."""
        if self.names is not None:
            try:
                self.names.published(frame["generation"], frame.get("name"))
            finally:
                self.channel.send("settled", generation=frame["generation"])
            self.touched.settle()
            if device_lease.leases.durable:
                self._owed.clear()
            self._privatize()

    def _privatize(self) -> None:
        """Make private what is published, so that no later write changes it.

        If it fails, the next cell tries again before its code runs, and fails if that does.
        """
        self._must_privatize = True
        self.session.privatize(threads_stopped=self.rollback.is_alone())
        self._must_privatize = False

    def _catch_up(self) -> None:
        """Have what was published, where taking it over has failed."""
        if self._must_adopt:
            with finalizers.living_on(self.shell.user_ns):
                adopted = self._adopt(self._name)
            self._note_owed(adopted["changed"])
            self.touched.learn({})

    async def _run_cell(self, frame: Frame, message: Message) -> Frame:
        self._catch_up()
        if self._must_privatize:
            self._privatize()
        return await super()._run_cell(frame, message)

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
            self._adopt_cell(frame)
            return
        with self._as_output_of(frame["header"]):
            self._adopt_cell(frame)
        self.channel.send("reply", id=frame["id"])

    @libraries.aside()
    def _adopt_cell(self, frame: Frame) -> None:
        shell = self.shell
        self.last_report = frame.get("report") or {}
        self.lost |= self.last_report.pop("names_lost", {})
        submodules = self.last_report.pop("submodules", ())
        numbers = self.last_report.pop("numbers", {})
        gone = self.last_report.pop("names_gone", ())
        outputs_gone = self.last_report.pop("outputs_gone", ())
        for name in gone:
            self.shell.user_ns.pop(name, None)
        raised = self.last_report.pop("raised", False)
        if raised:
            self._lost_error = True
            _forget_last_error()
        handles.table.taken_back(adopted=True)
        memory = None
        nothing = self._bare and frame.get("generation") == self.names.generation
        if self.names is not None and not nothing:
            with finalizers.living_on(self.shell.user_ns):
                adopted = self._adopt(frame.get("name"))
            self.shell.patches.apply(gone)  # those of them that are any
            self.addresses.note(adopted["changed"], numbers)
            self._learn_writes(self.last_report.pop("written", []))
            handles.table.forget_arrived()
            device_lease.leases.forget_arrived()
            self._note_owed(adopted["changed"])
            memory = self.names.extra("results")
            if memory is not None:
                results.restore_results(shell, memory)
            self.touched.learn({})
        results.forget(shell, outputs_gone)
        census.import_submodules(submodules)  # the environment, which some depend on, is there
        counters.settle()  # when all is imported
        autoreload.note_imported()
        if self.last_report.pop("collected", False):
            gc.collect()
        number = frame.get("execution_count")
        if number is not None and frame.get("store_history", True):
            results.store_input(shell, number, frame.get("code", ""), memory)
            results.note_outcome(shell, number, frame.get("code", ""), raised)
            shell.execution_count = number + 1

    @libraries.aside()
    def _adopt(self, name: bytes | None, has_state: bool = True) -> _store._Adopted:
        """Take over what differs in the frontend's generation; what Names.adopt reports.

        If it fails, the next cell or commit tries again, and fails if that does.
        """
        self._must_adopt, self._name = True, name
        if has_state:  # of the process: where modules are found, which decoding imports
            new = _store.Names(self.session, name).extra("state")
            state.apply(new, self._committed_state, self.shell)
        adopted = self.names.adopt(self.shell.user_ns, name)
        self._must_adopt = False
        self._remake(adopted)
        plain_settings.settle()  # before figures are opened, which a backend may show
        self.shell.patches.apply((*adopted["changed"], *adopted["removed"]))
        self._remake(adopted)  # now that sys.modules is the cell's
        self.touched.learn(adopted["code"])
        if widgets.arrive(self.shell.user_ns, adopted["changed"]):
            self.touched.anything(_WIDGETS_CAME)
        _report_apart(adopted["apart"])
        absent = adopted["absent"]
        for name in absent:
            self.shell.user_ns.pop(name, None)  # the cell changed it: that isn't it any more
        self.absent.note(absent)
        self.lost |= {name: why for name, why in absent.items() if not trial.is_quarantine(why)}
        report_absent(absent)
        return adopted

    def _remake(self, adopted: _store._Adopted) -> None:
        for found, part in remake(self.names, self.shell.user_ns, adopted["absent"]):
            adopted["changed"] += found
            adopted["code"] |= part["code"]

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
        """The frontend published an older generation anew, or what a file had.

        What no step in between has changed stays the object that it is, though a variable may be stored
        beside other results there.
        """
        before = self.shell.user_ns.copy()
        adopted = self._adopt(frame.get("name"), bool(frame.get("state")))
        if "changed" in frame:
            same = steps.unchanged(self.names, adopted["changed"], frame["changed"], before)
            self.shell.user_ns.update(same)
            # Classes change in place.
            classes = (
                name for name in frame["changed"] if isinstance(self.shell.user_ns.get(name), type)
            )
            adopted["changed"] = [
                name
                for name in dict.fromkeys((*adopted["changed"], *classes))
                if name in frame["changed"] or name not in before
            ]
        counters.settle()
        handles.table.forget_arrived()
        device_lease.leases.forget_arrived()
        results.keep(self.shell)
        self.touched.learn({})
        self.returned = {
            "changed": [name for name in adopted["changed"] if name in before],
            "back": [name for name in adopted["changed"] if name not in before],
            "gone": adopted["removed"],
        }

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
            self._flush()
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


def _forget_last_error() -> None:
    """The last one was another process's: %debug and %tb would show the one before."""
    for name in LAST:
        vars(sys).pop(name, None)


def _report_apart(names: list[str]) -> None:
    if names:
        notices.not_replaced(names)
