"""The home worker: runs plain cells and keeps the live objects.

A plain cell costs what it costs in ipykernel: nothing is saved after it. Only when an
instrumented cell is about to run does the frontend ask for a commit: changed names go into the
store, and what is published is sealed while the cell worker runs. Afterwards `adopt` takes
over what the cell changed, names and process state, and puts the cell into the history. A commit
looks only at what the cells since the last one can have touched (touched.py). The home alone owns the profile's history database.
"""

from __future__ import annotations

import os
import sys
import threading
import typing as t

from holdfast.codecs import handles, lending

from . import figures, preparation, results, state
from .control import Frame
from .imports import ImportTeller
from .requests import Worker
from .road import Road
from .touched import Touched

# They run no user code and write to no array.
_SERVICE_THREADS = {"HistorySavingThread", "IPythonHistorySavingThread"}


class Home(Worker):
    """Plain cells, commits and adoptions."""

    def prepare(self) -> None:
        self.names = None
        self.last_report: dict[str, t.Any] = {}
        self.last_commit: dict[str, t.Any] = {}
        self._committed_state: state.State = {}
        self._sealed = False  # whether there may be large private mappings
        self._learnt: preparation.Learnt = {}
        handles.table.fetch = lambda number: None  # what a cell made was sent before
        lending.desk.answers = True
        self._owed: set[str] = set()  # names with memory that the store has no bytes of
        sys.meta_path.insert(0, ImportTeller(self.channel))
        if self.session is not None:
            from holdfast import _store

            self.names = _store.Names(self.session)
            if self.session.generation > 0:
                self._take_over()
        from holdfast import magics

        magics.register(self.shell, self)
        self.touched = None
        if self.names is not None:
            self.touched = Touched(self.shell, self.names)
            self.shell.saw_code = self.touched.ran
        self.road = Road(self, _is_service)

    def _take_over(self) -> None:
        """Begin with what is committed: the home before this one died."""
        state.apply(self.names.extra("state") or {}, state.capture(self.shell), self.shell)
        bound = self.names.bind(self.shell.user_ns)
        self._sealed = bound["bytes_mapped"] > 0
        _tell_lost(bound["absent"])
        self._learnt = self.names.extra("written") or {}
        figures.settle(self.shell)
        memory = self.names.extra("results")
        if memory is not None:
            results.restore(self.shell, memory)
        self._committed_state = state.capture(self.shell)

    async def execute(self, frame: Frame, message: dict[str, t.Any]) -> Frame:
        """Run a cell, recorded where the frontend says so."""
        handles.table.taken_back(adopted=False)  # else the adoption came first
        code = frame.get("code") or message["content"].get("code", "")
        if self.touched is not None:
            self.touched.begin(code)
            self.touched.asked(str(message["content"].get("user_expressions") or ""))
        self._make_writable(code)
        if "instrument" in frame:
            return await self.road.run(frame, message, super().execute)
        return await super().execute(frame, message)

    async def _answer(self, frame: Frame, message: dict[str, t.Any]) -> Frame:
        """ipykernel's own answer. To complete or to inspect runs properties and such."""
        if self.touched is not None:
            self.touched.asked(str(message["content"].get("code", "")))
        return await super()._answer(frame, message)

    def _make_writable(self, code: str) -> None:
        """Memory of this process's own for what a seal made private and the cell writes."""
        if self._sealed and _alone():
            preparation.prepare(self.session, self.shell, code, self._learnt, reading=False)

    def _learn_writes(self, told: list[str]) -> None:
        """What an instrumented cell wrote without showing it: its key, and the names."""
        if told:
            self._learnt = preparation.remember(self._learnt, told[0], told[1:])

    # ---- requests of the frontend without user code

    def op_commit(self, frame: Frame) -> None:
        """Put every changed name into the store."""
        reply: Frame = {"id": frame["id"]}
        handles.table.taken_back(adopted=False)  # as in execute
        if self.names is None:
            self.channel.send("reply", report={}, declined={}, **reply)
            return
        stays = self.road.choose(frame)
        if stays is not None:
            self.channel.send("reply", report={}, **stays, **reply)
            return
        self._committed_state = state.capture(self.shell)
        touched, reason = self.touched.take()
        touched = self._begin_lending(frame, touched)
        saved = self.names.save(
            self.shell.user_ns,
            hidden=results.hidden_names(self.shell),
            touched=touched,
            holders=results.holders(self.shell),
            extra={
                "state": self._committed_state,
                "results": results.capture(self.shell),
                "written": self._learnt,
            },
        )
        self.touched.learn(saved.pop("code"), saved.pop("held"))
        self.touched.count_strays()
        if saved["prepared"] is not None:
            reply["prepared"] = saved["prepared"]
        else:
            self.touched.settle()
        reply |= self.road.saved(saved["declined"])
        self.last_commit = {
            "seconds": saved["seconds"],
            "bytes_copied": saved["bytes_copied"],
            "bytes_shared": saved["bytes_shared"],
            "names_saved": len(saved["saved"]),
            "names_declined": len(saved["declined"]),
            "names_examined": saved["names_examined"],
            "names_encoded": saved["names_encoded"],
            "reason": reason,
        }
        declined = dict(saved["declined"])
        self.channel.send("reply", declined=declined, report=self.last_commit, **reply)
        self._note_owed(saved["saved"])

    def _begin_lending(self, frame: Frame, touched: set[str] | None) -> set[str] | None:
        """What a commit is to look at: what is owed, too, where it must hold the bytes."""
        desk = lending.desk
        desk.durable, desk.left_out = bool(frame.get("durable")), False
        return touched | self._owed if desk.durable and touched is not None else touched

    def _note_owed(self, names: t.Iterable[str]) -> None:
        """Ask for a commit with the bytes, once there is time, if memory was left out."""
        if lending.desk.left_out:
            lending.desk.left_out = False
            self._owed.update(names)
            self.channel.send("owes")

    def op_published(self, frame: Frame) -> None:
        """What this home committed is the current generation."""
        if self.names is not None:
            try:
                self.names.published(frame["generation"])
            finally:
                self.channel.send("settled", generation=frame["generation"])
            self.touched.settle()
            if lending.desk.durable:
                self._owed.clear()
            self.session.seal(threads_stopped=_alone())
            self._sealed = True

    def op_rest(self, frame: Frame) -> None:
        """Nobody has used the notebook for a while: its free memory is the system's."""
        if self.session is not None:
            self.session.reap(trim=True)

    def op_handle(self, frame: Frame) -> None:
        """A descriptor that a cell made; the commit to be adopted names it."""
        if frame.get("found"):
            handles.table.arrive(frame["handle"], *self.channel.take_descriptors(1))

    def op_want_handle(self, frame: Frame) -> None:
        """A cell worker decodes a file that is open here."""
        number = frame["handle"]
        fd = handles.table.give(number)
        made = lending.desk.answer(number) if fd is None else None
        self.channel.send_handle(number, fd if made is None else made)
        if made is not None:
            os.close(made)

    def op_adopt(self, frame: Frame) -> None:
        """A cell worker's commit was published: take over what changed."""
        shell = self.shell
        self.last_report = self.road.told(frame.get("report"))
        handles.table.taken_back(adopted=True)
        memory = None
        if self.names is not None:
            adopted = self.names.adopt(shell.user_ns)
            self.touched.learn(adopted["code"])
            _tell_apart(adopted["apart"])
            self._sealed = True
            _tell_lost(adopted["absent"])
            self._learn_writes(self.last_report.pop("written", []))
            handles.table.forget_arrived()
            lending.desk.forget_arrived()
            self._note_owed(adopted["changed"])
            new = self.names.extra("state") or {}
            state.apply(new, self._committed_state, shell)
            memory = self.names.extra("results")
            if memory is not None:
                results.restore_results(shell, memory)
            self.touched.learn({})
        number = frame.get("execution_count")
        if number is not None and frame.get("store_history", True):
            results.store_input(shell, number, frame.get("code", ""), memory)
            shell.execution_count = number + 1

    def op_environment(self, frame: Frame) -> None:
        """%%scorep_env and its like."""
        os.environ.update(frame.get("values") or {})


def _tell_apart(names: list[str]) -> None:
    if names:
        print(
            f"holdfast: what stayed at home goes on with the {', '.join(names)} of before the "
            "cell: what they are now can't be put in its place",
            file=sys.stderr,
        )


def _tell_lost(absent: t.Mapping[str, str]) -> None:
    if absent:
        told = "; ".join(f"{name} ({reason})" for name, reason in sorted(absent.items()))
        print(f"holdfast: not carried home: {told}", file=sys.stderr)


def _alone() -> bool:
    """Whether no Python thread but this one can write to an array now."""
    threads = [thread for thread in threading.enumerate() if not _is_service(thread)]
    # Threads started below `threading` are in no list but have a frame.
    services = len(threading.enumerate()) - len(threads)
    return len(threads) == 1 and len(sys._current_frames()) - services == 1


def _is_service(thread: threading.Thread) -> bool:
    return type(thread).__name__ in _SERVICE_THREADS or thread.name in _SERVICE_THREADS
