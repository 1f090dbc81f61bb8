"""A cell worker: a fresh process for one recorded (or isolated) cell.

It waits with its shell ready. Its one request has these steps, timed for the report:

* in: bind the names that the cell can reach (reach.py), apply the process state, open the recorder;
* run: the cell in IPython's shell, with events on exactly around its compiled code;
* out: close the recorder, save what changed, reply with the prepared commit.

This process publishes nothing. If it dies, at whatever point, the state is as before the cell.

After the reply it waits until the frontend has closed its end, so that the reply can't be lost. Then it drops
what wasn't carried, runs the exit handlers of libraries for a limited time, and leaves by _exit. What was
carried lives on in the main worker, so no `__del__` of it runs here.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import typing as t

from holdfast import _store, libraries
from holdfast.base import sentences, usage
from holdfast.base.no_warnings import no_warnings
from holdfast.carry import (
    cached_functions,
    device_lease,
    finalizers,
    handles,
    module_objects,
    trial,
)
from holdfast.carry.patches import is_patch, shown
from holdfast.commands import verify
from holdfast.errors import NotCarriedError, of_last_error
from holdfast.libraries.ipywidgets import widgets
from holdfast.worker import notices, preparation, restarted, steps

from .addresses import Addresses
from .analysis import reach
from .bound import RESULTS, unstorable, with_traceback
from .computing import computing
from .control import Frame
from .descriptors import Descriptors
from .ipython import autoreload, results
from .ipython.application import CELL_CONFIG
from .origin import is_library
from .preallocation import preallocation
from .prefault import prefault
from .process import end_own_children, end_own_trackers, leave
from .recording import Recording, refuse
from .requests import Worker
from .settings import census, slots, state
from .settings.attributes import new_modules
from .settings.counters import counters
from .settings.module_entries import module_entries
from .settings.own_code import own_code
from .settings.plain_settings import plain_settings
from .settings.process_settings import as_shown_before
from .skipped import Skipped

if t.TYPE_CHECKING:
    from .reports import Instrument, Message, Report

_WHILE_SECONDS = 0.1  # without a cell: there is time
_PATIENCE_SECONDS = 0.005  # until one looks again whether a cell's code runs; longer each time
_LEASE_SECONDS = 9.0  # the frontend waits for ten before it ends this process


class Cell(Worker):
    """One cell, then the end."""

    config = CELL_CONFIG

    def prepare(self) -> None:
        self._has_cell = False
        self._handlers = atexit._ncallbacks()
        self._modules = len(sys.modules)
        self.names: t.Any = None
        self.not_carried: dict[str, str] = {}
        self._faults = 0  # of its cell
        self._patience = _PATIENCE_SECONDS
        self._copied: list[int] = []  # buffers made ready to be written
        self._skipped: Skipped | None = None
        self._reached: set[str] | None = None  # what the cell's code can touch; None: all
        handles.table.fetch = self._fetch_handle
        device_lease.leases.durable = False
        from holdfast.commands import magics

        magics.register(self.shell, self)
        self.shell.ends_with_cell = True
        self.recording = Recording(self.shell)
        self.recording.prepare()
        with self.shell.builtin_trap:
            self.shell.health.begin()
        self._state = state.capture(self.shell)
        self.last_run = "{}"
        self.last_report: Report = {}

    def _begin(self) -> None:
        super()._begin()
        self.loop.call_soon(self._copy_ahead)

    def _copy_ahead(self) -> None:
        """While nobody asks: have the pages that every cell writes (prefault.py), and know what
        an event costs (event_cost.py). Not while a cell's code runs elsewhere."""
        if self._has_cell:
            return
        if computing.is_going_on():
            self.loop.call_later(self._patience, self._copy_ahead)
            self._patience = min(2 * self._patience, 0.25)
            return
        self._patience = _PATIENCE_SECONDS
        if prefault.copy_some():
            self.loop.call_soon(self._copy_ahead)
        else:
            self.recording.measure()
            self.loop.call_later(_WHILE_SECONDS, self._meet_libraries)

    def _meet_libraries(self) -> None:
        if not self._has_cell:
            prefault.meet_libraries()
            self._prefill()

    def _prefill(self) -> None:
        """While nobody asks: see to it that there is memory for what a cell makes (preallocation.py)."""
        if self._has_cell or self.session is None:
            return
        if computing.is_going_on():
            preallocation.prefill_no_more(self.session)
            self.loop.call_later(_WHILE_SECONDS, self._prefill)
            return
        pause = preallocation.prefill_some(self.session)
        if pause is not None:
            self.loop.call_later(pause, self._prefill)

    async def execute(self, frame: Frame, message: Message) -> Frame:
        """Bind, run, save: the reply's fields."""
        self._has_cell = True  # what waits for one ends
        instrument: Instrument = frame.get("instrument") or {}
        started = time.perf_counter()
        prefault.begin()
        preallocation.prefill_no_more(self.session)  # before the session may be left
        self._restart_where_needed(frame, instrument)
        report = self._hand_in(frame.get("code", ""), instrument)
        try:
            if not instrument.get("isolated", False):
                self.recording.open(instrument.get("arguments") or [])
        except (OSError, RuntimeError) as error:
            return {"content": self.app.session.pack(refuse(self.shell, error))}
        descriptors = Descriptors()
        module_entries.changed()  # what was bound has imported modules, which the cell may remove
        before = plain_settings.look(self.shell), len(sys.modules), results.own_entries(self.shell)
        numbers = results.numbers(self.shell)
        report["seconds_in"] = time.perf_counter() - started

        collections = finalizers.collections()
        reply = await self.recording.run(super().execute(frame, message), report)
        report["collected"] = finalizers.collections() > collections
        self._end_child()

        started = time.perf_counter()
        try:
            reply |= self._hand_out(frame.get("code", ""), report, descriptors)
            self._report_changes(report, *before)
        except Exception as error:  # a full arena: the frontend says what to do
            report["error"] = f"{type(error).__name__}: {error}"
        report["outputs_gone"] = sorted(numbers - results.numbers(self.shell))
        self._learn_writes(frame.get("code", ""), report)
        self._flush()
        report["seconds_out"] += time.perf_counter() - started
        report["page_faults"] = self._faults = prefault.faults()
        reply["report"] = report
        return reply

    # ---- in

    def _restart_where_needed(self, frame: Frame, instrument: Instrument) -> None:
        """See restarted.py. The main worker's environment and directory say what is to be loaded."""
        arguments = instrument.get("arguments") or []
        if instrument.get("isolated", False) or not arguments:
            return
        if self.session is not None:
            carried = _store.Names(self.session, instrument.get("name")).extra("state")
            state.apply(
                carried, state.capture(self.shell), self.shell, ("environment", "directory")
            )
        with contextlib.suppress(OSError, RuntimeError):  # reported when the recording is opened
            if self.recording.needs_restart(arguments):
                restarted.restart(frame, self.channel, self.session)

    @libraries.aside()
    def _hand_in(self, code: str, instrument: Instrument) -> Report:
        """Bind the committed state; the first part of the report."""
        report: Report = {
            "reason": "",
            "events": 0,
            "run": "isolated",
            "run_reason": instrument.get("run_reason", ""),
        }
        self.not_carried = dict(instrument.get("unserializable") or {})
        if self.session is None:
            return report
        # Not before: it leases a generation, and a standby may wait for hours.
        self.names = _store.Names(self.session, instrument.get("name"))
        _store._compare_pages(self.session)
        # Environment and sys.path first: unpickling imports modules.
        state.apply(self.names.extra("state"), self._state, self.shell)
        memory = self.names.extra("results")
        last = {} if memory is None else results.last_names(memory)
        patches, self._mapped_first = self.shell.patches, 0
        # Warnings from remaking values aren't the cell's.
        with as_shown_before():
            with no_warnings():
                patches.bind_slot(slots.FINDERS, self._bind_with_what_it_needs)
                bound, report["reason"] = reach.bind(
                    self.names, self.shell, code, last, always=patches.keys()
                )
            plain_settings.settle(code)  # before figures are opened, which a backend may show
            patches.apply(list(self.shell.user_ns))
            counters.settle()
            autoreload.note_imported()
        if memory is not None:
            results.restore(self.shell, memory)
        self.absent.note(
            {name: why for name, why in bound["absent"].items() if trial.is_quarantine(why)}
        )
        self.not_carried = {**bound["absent"], **self.not_carried}
        for name in filter(is_patch, self.not_carried):
            state.losses.report(shown(name), sentences.brief(name, self.not_carried[name]))
        self.lost = self.names.extra("lost") or {}
        for name, numbered in last.items():
            if numbered in self.not_carried:
                self.not_carried[name] = self.not_carried[numbered]
        self._reached = bound["reached"]
        if bound["skipped"]:
            self._skipped = Skipped(self.names, self.shell.user_ns, self._note_reached)
            self._skipped.watch()
        report["names_bound"] = bound["bound"]
        report["names_decoded"] = bound["decoded"]
        report["names_skipped"] = bound["skipped"]
        report["bytes_mapped"] = bound["bytes_mapped"] + self._mapped_first
        return report | self._prepare_memory(code, report["bytes_mapped"])

    def _note_reached(self, name: str) -> None:
        if self._reached is not None:
            self._reached.add(name)

    def _bind_with_what_it_needs(self, key: str) -> None:
        """A setting of the notebook's that is at work while others are bound."""
        self._mapped_first += reach.bind_behind(self.names, self.shell, key)

    def _prepare_memory(self, code: str, bytes_mapped: int) -> Report:
        """Copy in bulk what the cell will write, and have ready what its new data will lie in;
        the report of it."""
        report: Report = {}
        started = time.perf_counter()
        if bytes_mapped >= preparation.BYTES_MIN:
            learnt = self.names.extra("written") or {}
            report, self._copied = preparation.prepare(self.session, self.shell, code, learnt)
        # After the copies, which then don't take of it.
        report["bytes_preallocated"] = preallocation.fill(self.session, code)
        report["seconds_prepared"] = time.perf_counter() - started
        return report

    def _fetch_handle(self, number: int) -> int | None:
        """The descriptor of a file that the main worker has open."""
        self.channel.send("want_handle", handle=number)
        answer = self.channel.wait_for("handle")
        return self.channel.take_descriptors(answer)[0] if answer.get("found") else None

    # ---- out

    @libraries.aside()
    def _hand_out(self, code: str, report: Report, descriptors: Descriptors) -> Frame:
        """Save what changed; the reply's part and the rest of the report."""
        if self.names is None:
            return {}
        preallocation.learn(self.session, code)
        preparation.undo(self.session, self._copied)
        widgets.leave(self.shell.user_ns)
        trial.configure(self.session, encodes=True, decodes=False, is_library=is_library)
        self._report_imports()
        self._collect_patches()
        saved = steps.save(
            self.names,
            self.shell,
            touched=None if own_code.has_loaded_anew() else self._reached,
            verify=verify.is_on(),
            stand_ins=module_objects.stand_ins(self.shell.user_ns),
            extra={
                "state": state.pack(state.capture(self.shell)),
                "results": results.capture(self.shell),
            },
        )
        self.shell.patches.drop_imported(saved["unserializable"])
        verify.report(saved, [code])
        report |= usage.of_commit(saved)
        lost = self._report_lost(saved)
        notices.descriptors_alone(descriptors.held(saved["saved"], self.shell))
        for number, fd in handles.table.hand_over().items():
            self.channel.send_handle(number, fd)
        loans = device_lease.leases.hand_over()
        if loans is not None:
            self.channel.send_handle(device_lease.CATALOGUE, loans)
        report["names_lost"] = lost
        self.shell.goes_with_cell = list(lost)
        report["raised"] = not self.shell.last_execution_succeeded
        reply: Frame = {}
        if saved["prepared"] is not None:
            reply |= {"prepared": saved["prepared"], "changed": saved["changed"]}
        return reply

    def _report_lost(self, saved: t.Any) -> dict[str, str]:
        """Name to the user the cell's variables that end with its process; returns them."""
        namespace = self.shell.user_ns
        lost = widgets.left(
            {name: why for name, why in saved["unserializable"].items() if name in namespace}
        )
        ended: dict[t.Any, str] = lost | unstorable(namespace)
        results_lost = dict.fromkeys(
            cached_functions.left_out(), (RESULTS, notices.Lost.MAYBE_CHANGED)
        )
        notices.not_carried_out(
            {name: (why, notices.Lost.NEW) for name, why in ended.items()} | results_lost
        )
        notices.tracebacks_stay(with_traceback(saved["saved"], namespace))
        addresses = Addresses()
        addresses.learn(saved["saved"], saved["numbers"], namespace)
        # Numbers in other names are the notebook's, and may be the address of anything here.
        names = set(saved["saved"]).intersection(addresses.of_saved(saved["saved"], namespace))
        notices.addresses_alone(sorted(names))
        return lost

    @libraries.aside()
    def _report_changes(
        self, report: Report, before: dict[str, t.Any], count: int, entries: dict[str, t.Any]
    ) -> None:
        """Of the state of this process: what stays in it, to the user, and what the main worker imports."""
        new = new_modules(count)
        changed = plain_settings.changed(before, bool(new), self.shell)
        notices.changed_alone([*changed, *results.altered(self.shell, entries)])
        report["submodules"] = census.submodules(self.shell, new)

    def _report_imports(self) -> None:
        """In a process that lives on, the next cell would find what this one imported."""
        if new := new_modules(self._modules):
            self.channel.send("importing", modules=new[::-1])

    def _collect_patches(self) -> None:
        """Attributes that the cell set on modules are its changes, as much as the names that it
        set."""
        patches = self.shell.patches
        patches.collect()
        if self._reached is not None:
            self._reached |= set(patches.keys())

    def _learn_writes(self, code: str, report: Report) -> None:
        """Report to the main worker what was written without a preparation."""
        if report.get("copy_faults", 0) < preparation.PAGES_MIN:
            return
        hidden = results.hidden_names(self.shell)
        names = preparation.wrote_unseen(self.session, self.shell.user_ns, hidden)
        if names:
            report["written"] = [preparation.key(code), *names]

    # ---- what the user sees

    def rewrite_exception(self, error: BaseException) -> BaseException:
        """A name that stayed in the main worker gets its own error."""
        error = of_last_error(super().rewrite_exception(error))
        name = getattr(error, "name", None)
        if type(error) is NameError and name in self.not_carried and name not in self.shell.user_ns:
            return NotCarriedError(name, self.not_carried[name]).with_traceback(error.__traceback__)
        return error if self._skipped is None else self._skipped.explain(error)

    # ---- the end

    def closed(self) -> None:
        super().closed()
        prefault.learn(self._faults)
        device_lease.leases.wait_for_return(_LEASE_SECONDS)
        # Exit handlers and threads that were left running may write to what is published.
        may_write = atexit._ncallbacks() > self._handlers or len(sys._current_frames()) > 1
        if self.session is not None and may_write:
            self.session.privatize()
        self._let_go_of_names()
        end_own_children()
        end_own_trackers()
        leave()

    def _let_go_of_names(self) -> None:
        """Drop the names: they hold what wasn't carried, too, which ends with this process (shell.py)."""
        self.names = None
        if self._skipped is not None:
            self._skipped.close()
