"""The way of a recorded cell in a fork of the main worker (forking.py).

The fork has every object, module and setting of the notebook: nothing is decoded, bound or imported. It makes
its own Score-P if that records, runs the cell as the main worker would, and prepares a commit of what changed.
It leaves by `_exit`: no exit handler and no finalizer of the notebook's objects runs in it. The main worker
has committed before, so that both know what is unchanged, and adopts what differs.

Everything is there on the way in; only what the store carries comes back. Messages name the rest:

* what the cell changed and no codec can encode (`Bound`): the notebook has it as it was;
* what it changed of the process and no list has (settings/census.py).
"""

from __future__ import annotations

import time
import typing as t

from holdfast import libraries
from holdfast.base import usage
from holdfast.carry import finalizers, handles
from holdfast.carry.patches import is_patch
from holdfast.libraries.ipywidgets import widgets
from holdfast.worker import notices

from . import where
from .bound import Bound, unstorable, with_traceback
from .descriptors import Descriptors
from .in_process import InProcess
from .ipython import results
from .preallocation import preallocation
from .prefault import prefault
from .process import end_own_children
from .running import Run
from .settings import census

if t.TYPE_CHECKING:
    from .control import Frame
    from .recording import Recording
    from .reports import ErrorContent


class Forked(InProcess):
    """The way of the one cell that a fork of the main worker runs.

    Parameters
    ----------
    worker : holdfast.worker.main_worker.MainWorker
        In the fork.
    recording : holdfast.worker.recording.Recording
        That of the main worker, which records nothing at the fork.
    """

    def __init__(self, worker: t.Any, recording: Recording):
        super().__init__(worker)
        self.recording = recording  # type: ignore[misc]

    def refuses(self, frame: Frame) -> str:
        """Why the cell needs another process; "" if it doesn't."""
        return where.obstacle_in_fork(frame, self)

    def prepare(self, run: Run) -> ErrorContent | None:
        """Look at what can't come back, then open the recording."""
        ready = self._begin(run)
        prefault.begin()
        preallocated = 0
        if self.session is not None:
            preallocated = preallocation.fill(self.session, run.code)
        with libraries.aside():
            stays = (run.instrument.get("unserializable") or {}) | unstorable(self.shell.user_ns)
            looked = (
                Bound(stays, self.shell.user_ns, self.shell.patches),
                census.Census(self.shell, run.code),
                results.own_entries(self.shell),
                Descriptors(),
            )
        run.before = looked, results.numbers(self.shell), finalizers.collections()
        refused = self._record(run)
        run.report |= ready | {"run": "forked", "bytes_preallocated": preallocated}
        return refused

    def hand_back(self, run: Run) -> None:
        """Save what changed, and end what the cell has started."""
        main, report = self.worker, run.report
        looked, numbers, collections = run.before
        run.reply["report"] = report
        report["collected"] = finalizers.collections() > collections
        if main.names is not None:
            try:
                self._save(run, *looked)
            except Exception as error:  # a full arena: the frontend says what to do
                report["error"] = f"{type(error).__name__}: {error}"
        end_own_children()
        report["outputs_gone"] = sorted(numbers - results.numbers(self.shell))
        main.app.flush_all()
        report["page_faults"] = prefault.faults()

    @libraries.aside()
    def _save(
        self,
        run: Run,
        bound: Bound,
        state: census.Census,
        entries: dict[str, t.Any],
        descriptors: Descriptors,
    ) -> None:
        """Save what changed; the rest of the report, and the reply's part."""
        started = time.perf_counter()
        main, namespace, report = self.worker, self.shell.user_ns, run.report
        preallocation.learn(self.session, run.code)
        widgets.leave(namespace)
        saved, touched, _ = main.saving.save()
        report |= usage.of_commit(saved)
        unserializable = {
            name: why
            for name, why in saved["unserializable"].items()
            if name in namespace or is_patch(name)
        }
        lost = widgets.left(bound.lost(unserializable, touched))
        lost |= bound.lost(unstorable(namespace), touched) | bound.functions_lost()
        notices.not_carried_out(lost)
        notices.tracebacks_stay(with_traceback(saved["saved"], namespace))
        report["numbers"] = saved["numbers"]
        notices.addresses_alone(main.addresses.of_saved(saved["saved"], namespace))
        notices.descriptors_alone(descriptors.held(saved["saved"], self.shell))
        report["submodules"] = state.submodules()
        changes = [*state.changes(), *results.altered(self.shell, entries)]
        notices.changed_alone(changes)
        for number, fd in handles.table.hand_over().items():
            self.channel.send_handle(number, fd)
        report["names_lost"] = {
            name: why for name, (why, _) in lost.items() if isinstance(name, str)
        }
        report["names_gone"] = bound.gone(saved["unserializable"].keys() | set(saved["saved"]))
        report["names_bound_anew"] = bound.bound_anew(saved["saved"])
        report["raised"] = not self.shell.last_execution_succeeded
        report["seconds_out"] += time.perf_counter() - started
        if saved["prepared"] is not None:
            run.reply |= {"prepared": saved["prepared"], "changed": saved["changed"]}
