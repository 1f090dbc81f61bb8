"""Takes over generations of other processes: what a cell changed, and the steps of the history that the user goes back to.

Names that differ are bound, and the process gets the state that comes with them. What was published is
privatized, so that no later write changes it. If one of these fails, the next cell or commit tries again, and
fails if that does.
"""

from __future__ import annotations

import gc
import sys
import typing as t

from holdfast import _store, libraries
from holdfast.carry import device_lease, finalizers, handles, in_place, trial
from holdfast.errors import LAST
from holdfast.libraries.ipywidgets import widgets
from holdfast.worker import notices, preparation, steps

from .absent import report_absent
from .analysis.reach import remake
from .ipython import autoreload, results
from .settings import census, state
from .settings.counters import counters
from .settings.plain_settings import plain_settings

if t.TYPE_CHECKING:
    from .control import Frame
    from .main_worker import MainWorker

_WIDGETS_CAME = "widgets came back, and stay"


class Adopting:
    """Brings generations of other processes into a main worker.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self._must_privatize = False  # whether something published is mapped shared still
        self._must_adopt = False  # whether a generation isn't taken over yet
        self._name: bytes | None = None  # of the generation that was to be taken over last
        self._bound_anew: set[str] = set()  # by what isn't taken over yet
        self._not_here: set[str] = set()  # where that was made: names without a copy

    def catch_up(self) -> None:
        """Have what was published, where taking it over has failed."""
        main = self._main
        if self._must_adopt:
            adopted = self._adopt_changes(self._name)
            main.saving.note_owed(adopted["changed"])
            main.touched.learn({})

    def before_code(self) -> None:
        """Have it, and have it privatized, before the code of a cell runs."""
        self.catch_up()
        if self._must_privatize:
            self.privatize()

    def privatize(self) -> None:
        """Make private what is published, so that no later write changes it.

        If it fails, the next cell tries again before its code runs, and fails if that does.
        """
        main = self._main
        self._must_privatize = True
        main.session.privatize(threads_stopped=main.rollback.is_alone())
        self._must_privatize = False

    @libraries.aside()
    def adopt_cell(self, frame: Frame) -> None:
        """Take over what a cell in another process has changed."""
        main, shell = self._main, self._main.shell
        report = main.last_report = frame.get("report") or {}
        main.lost |= report.pop("names_lost", {})
        submodules = report.pop("submodules", ())
        numbers = report.pop("numbers", {})
        gone = report.pop("names_gone", ())
        bound_anew = report.pop("names_bound_anew", ())
        not_here = report.pop("names_not_here", ())
        outputs_gone = report.pop("outputs_gone", ())
        with finalizers.living_on(shell.user_ns):  # a fork has copies of all
            for name in gone:
                shell.user_ns.pop(name, None)
        raised = report.pop("raised", False)
        if raised:
            main.absent.has_errors_elsewhere = True
            _forget_last_error()
        handles.table.taken_back(adopted=True)
        memory = None
        nothing = main.bare and frame.get("generation") == main.names.generation
        if main.names is not None and not nothing:
            self._bound_anew.update(bound_anew)
            self._not_here.update(not_here)
            adopted = self._adopt_changes(frame.get("name"))
            shell.patches.apply(gone)  # those of them that are any
            main.addresses.note(adopted["changed"], numbers)
            self._learn_writes(report.pop("written", []))
            handles.table.forget_arrived()
            device_lease.leases.forget_arrived()
            main.saving.note_owed(adopted["changed"])
            memory = main.names.extra("results")
            if memory is not None:
                results.restore_results(shell, memory)
            main.touched.learn({})
        results.forget(shell, outputs_gone)
        census.import_submodules(submodules)  # the environment, which some depend on, is there
        counters.settle()  # when all is imported
        autoreload.note_imported()
        if report.pop("collected", False):
            gc.collect()
        number = frame.get("execution_count")
        if number is not None and frame.get("store_history", True):
            results.store_input(shell, number, frame.get("code", ""), memory)
            results.note_outcome(shell, number, frame.get("code", ""), raised)
            shell.execution_count = number + 1

    def _adopt_changes(self, name: bytes | None) -> _store._Adopted:
        """Take over a generation, and what is known of the cells whose changes it has."""
        space = self._main.shell.user_ns
        living_on = finalizers.living_on(space, self._not_here)
        with living_on, in_place.bound_anew(self._bound_anew):
            return self._adopt(name)

    def checkout(self, frame: Frame) -> None:
        """The frontend published an older generation anew, or what a file had.

        What no step in between has changed stays the object that it is, though a variable may be stored
        beside other results there.
        """
        main, shell = self._main, self._main.shell
        before = shell.user_ns.copy()
        adopted = self._adopt(frame.get("name"), bool(frame.get("state")))
        if "changed" in frame:
            same = steps.unchanged(main.names, adopted["changed"], frame["changed"], before)
            shell.user_ns.update(same)
            # Classes change in place.
            classes = (
                name for name in frame["changed"] if isinstance(shell.user_ns.get(name), type)
            )
            adopted["changed"] = [
                name
                for name in dict.fromkeys((*adopted["changed"], *classes))
                if name in frame["changed"] or name not in before
            ]
        counters.settle()
        handles.table.forget_arrived()
        device_lease.leases.forget_arrived()
        results.keep(shell)
        main.touched.learn({})
        main.returned = {
            "changed": [name for name in adopted["changed"] if name in before],
            "back": [name for name in adopted["changed"] if name not in before],
            "gone": adopted["removed"],
        }

    @libraries.aside()
    def _adopt(self, name: bytes | None, has_state: bool = True) -> _store._Adopted:
        """Take over what differs in the frontend's generation; what Names.adopt reports.

        If it fails, the next cell or commit tries again, and fails if that does.
        """
        main, shell = self._main, self._main.shell
        self._must_adopt, self._name = True, name
        if has_state:  # of the process: where modules are found, which decoding imports
            new = _store.Names(main.session, name).extra("state")
            state.apply(new, main.committed_state, shell)
        adopted = main.names.adopt(shell.user_ns, name)
        self._must_adopt, self._bound_anew, self._not_here = False, set(), set()
        self._remake(adopted)
        plain_settings.settle()  # before figures are opened, which a backend may show
        shell.patches.apply((*adopted["changed"], *adopted["removed"]))
        self._remake(adopted)  # now that sys.modules is the cell's
        main.touched.learn(adopted["code"])
        if widgets.arrive(shell.user_ns, adopted["changed"]):
            main.touched.anything(_WIDGETS_CAME)
        _report_apart(adopted["apart"])
        absent = adopted["absent"]
        for name in absent:
            shell.user_ns.pop(name, None)  # the cell changed it: that isn't it any more
        main.absent.note(absent)
        main.lost |= {name: why for name, why in absent.items() if not trial.is_quarantine(why)}
        report_absent(absent)
        return adopted

    def _remake(self, adopted: _store._Adopted) -> None:
        main = self._main
        for found, part in remake(main.names, main.shell.user_ns, adopted["absent"]):
            adopted["changed"] += found
            adopted["code"] |= part["code"]

    def _learn_writes(self, written: list[str]) -> None:
        """Take the names that a recorded cell wrote without showing it: its key, and the
        names."""
        main = self._main
        if written:
            main.learnt = preparation.remember(main.learnt, written[0], written[1:])


def _forget_last_error() -> None:
    """The last one was another process's: %debug and %tb would show the one before."""
    for name in LAST:
        vars(sys).pop(name, None)


def _report_apart(names: list[str]) -> None:
    if names:
        notices.not_replaced(names)
