"""The way of a recorded or isolated cell in a clean process, which a cell worker is (cell.py).

* *prepare*: bind the names that the cell can reach (reach.py), apply the process state, open the recorder;
* *run*: as in all ways;
* *hand back*: save what changed, and reply with the prepared commit.

This process publishes nothing. If it dies, at whatever point, the state is as before the cell.
"""

from __future__ import annotations

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
from holdfast.libraries.ipywidgets import widgets
from holdfast.worker import notices, preparation, restarted, steps

from .addresses import Addresses
from .analysis import reach
from .bound import RESULTS, bound_anew, places_of, unstorable, with_traceback
from .descriptors import Descriptors
from .ipython import autoreload, results
from .origin import is_library
from .preallocation import preallocation
from .prefault import prefault
from .recording import Recording
from .running import Run, Way
from .settings import census, slots, state
from .settings.attributes import new_modules
from .settings.counters import counters
from .settings.module_entries import module_entries
from .settings.own_code import own_code
from .settings.plain_settings import plain_settings
from .settings.process_settings import as_shown_before
from .skipped import Skipped

if t.TYPE_CHECKING:
    from .control import Frame
    from .reports import ErrorContent, Instrument, Report


class Isolated(Way):
    """The way of a cell worker's one cell.

    Parameters
    ----------
    worker : holdfast.worker.cell.Cell
        The cell worker, with its shell as it is before the notebook's state comes.
    """

    def __init__(self, worker: t.Any):
        super().__init__(worker)
        self.recording = Recording(self.shell)
        self.recording.prepare()
        self._state = state.capture(self.shell)
        self.faults = 0  # of the cell
        self._copied: list[int] = []  # buffers made ready to be written
        self._places: dict[str, int] = {}  # ids of what was bound to the notebook's names
        self._reached: set[str] | None = None  # what the cell's code can touch; None: all

    def prepare(self, run: Run) -> ErrorContent | None:
        """Bind what the cell can reach; it is never a plain one."""
        run.is_plain = False
        self.worker.has_cell = True  # what waits for one ends
        started = time.perf_counter()
        prefault.begin()
        preallocation.prefill_no_more(self.session)  # before the session may be left
        self._restart_where_needed(run.frame, run.instrument)
        run.report |= self._bind(run.code, run.instrument)
        self._places |= places_of(self.shell.user_ns, self.shell.user_ns)
        if not run.instrument.get("isolated", False):
            refused = self.recording.begin(run.instrument.get("arguments") or [])
            if refused is not None:
                return refused
        descriptors = Descriptors()
        module_entries.changed()  # what was bound has imported modules, which the cell may remove
        settings, modules = plain_settings.look(self.shell), len(sys.modules)
        entries, numbers = results.own_entries(self.shell), results.numbers(self.shell)
        run.before = descriptors, (settings, modules, entries), numbers, finalizers.collections()
        run.report["seconds_in"] = time.perf_counter() - started
        return None

    def hand_back(self, run: Run) -> None:
        """Save what changed, and name what stays."""
        started, report = time.perf_counter(), run.report
        descriptors, before, numbers, collections = run.before
        report["collected"] = finalizers.collections() > collections
        try:
            run.reply |= self._save(run.code, report, descriptors)
            self._report_changes(report, *before)
        except Exception as error:  # a full arena: the frontend says what to do
            report["error"] = f"{type(error).__name__}: {error}"
        report["outputs_gone"] = sorted(numbers - results.numbers(self.shell))
        self._learn_writes(run.code, report)
        self.worker.app.flush_all()
        report["seconds_out"] += time.perf_counter() - started
        report["page_faults"] = self.faults = prefault.faults()
        run.reply["report"] = report

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
    def _bind(self, code: str, instrument: Instrument) -> Report:
        """Bind the committed state; the first part of the report."""
        report: Report = {
            "reason": "",
            "events": 0,
            "run": "isolated",
            "run_reason": instrument.get("run_reason", ""),
        }
        absent = self.worker.absent
        absent.not_carried = dict(instrument.get("unserializable") or {})
        if self.session is None:
            return report
        # Not before: it leases a generation, and a standby may wait for hours.
        self.worker.names = _store.Names(self.session, instrument.get("name"))
        _store._compare_pages(self.session)
        # Environment and sys.path first: unpickling imports modules.
        state.apply(self.worker.names.extra("state"), self._state, self.shell)
        memory = self.worker.names.extra("results")
        last = {} if memory is None else results.last_names(memory)
        patches, self._mapped_first = self.shell.patches, 0
        # Warnings from remaking values aren't the cell's.
        with as_shown_before():
            with no_warnings():
                patches.bind_slot(slots.FINDERS, self._bind_with_what_it_needs)
                bound, report["reason"] = reach.bind(
                    self.worker.names, self.shell, code, last, always=patches.keys()
                )
            plain_settings.settle(code)  # before figures are opened, which a backend may show
            patches.apply(list(self.shell.user_ns))
            counters.settle()
            autoreload.note_imported()
        if memory is not None:
            results.restore(self.shell, memory)
        absent.note(
            {name: why for name, why in bound["absent"].items() if trial.is_quarantine(why)}
        )
        not_carried = absent.not_carried = {**bound["absent"], **absent.not_carried}
        for name in filter(is_patch, not_carried):
            state.losses.report(shown(name), sentences.brief(name, not_carried[name]))
        self.worker.lost = self.worker.names.extra("lost") or {}
        for name, numbered in last.items():
            if numbered in not_carried:
                not_carried[name] = not_carried[numbered]
        self._reached = bound["reached"]
        if bound["skipped"]:
            absent.skipped = Skipped(self.worker.names, self.shell.user_ns, self._note_reached)
            absent.skipped.watch()
        report["names_bound"] = bound["bound"]
        report["names_decoded"] = bound["decoded"]
        report["names_skipped"] = bound["skipped"]
        report["bytes_mapped"] = bound["bytes_mapped"] + self._mapped_first
        return report | self._prepare_memory(code, report["bytes_mapped"])

    def _note_reached(self, names: set[str]) -> None:
        self._places |= places_of(self.shell.user_ns, names)
        if self._reached is not None:
            self._reached |= names

    def _bind_with_what_it_needs(self, key: str) -> None:
        """A setting of the notebook's that is at work while others are bound."""
        self._mapped_first += reach.bind_behind(self.worker.names, self.shell, key)

    def _prepare_memory(self, code: str, bytes_mapped: int) -> Report:
        """Copy in bulk what the cell will write, and have ready what its new data will lie in;
        the report of it."""
        report: Report = {}
        started = time.perf_counter()
        if bytes_mapped >= preparation.BYTES_MIN:
            learnt = self.worker.names.extra("written") or {}
            report, self._copied = preparation.prepare(self.session, self.shell, code, learnt)
        # After the copies, which then don't take of it.
        report["bytes_preallocated"] = preallocation.fill(self.session, code)
        report["seconds_prepared"] = time.perf_counter() - started
        return report

    # ---- out

    @libraries.aside()
    def _save(self, code: str, report: Report, descriptors: Descriptors) -> Frame:
        """Save what changed; the reply's part and the rest of the report."""
        if self.worker.names is None:
            return {}
        preallocation.learn(self.session, code)
        preparation.undo(self.session, self._copied)
        widgets.leave(self.shell.user_ns)
        trial.configure(self.session, encodes=True, decodes=False, is_library=is_library)
        self._report_imports()
        self._collect_patches()
        saved = steps.save(
            self.worker.names,
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
        report["names_bound_anew"] = bound_anew(self._places, self.shell.user_ns, saved["saved"])
        report["names_not_here"] = [*{*saved["saved"], *saved["removed"]} - self._places.keys()]
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
        if new := new_modules(self.worker.modules):
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
