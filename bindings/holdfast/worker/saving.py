"""The main worker's commits: what changed since the last one goes into the store.

A commit looks only at what the cells since the last one can have touched (touched.py). It is prepared here;
the frontend publishes it.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast import _store
from holdfast.base import sentences, usage
from holdfast.carry import cached_functions, device_lease, module_objects, trial
from holdfast.carry.patches import is_patch
from holdfast.commands import verify
from holdfast.worker import notices, steps

from .bound import unstorable, with_traceback
from .ipython import results
from .settings import state
from .settings.own_code import own_code
from .settings.plain_settings import plain_settings

if t.TYPE_CHECKING:
    from .control import Frame
    from .main_worker import MainWorker

_SUBSHELL_RAN = "a subshell ran code"
_BY_ADDRESS = "a cell had an address, and may have written there"
_LOADED_ANEW = "a module was loaded anew"
_CHEAP_SECONDS = 0.05  # the last commit
_CHEAP_BLOCKS = 8_000  # that were allocated since


class Saving:
    """Prepares a main worker's commits.

    Parameters
    ----------
    main : MainWorker
        The main worker.
    """

    def __init__(self, main: MainWorker):
        self._main = main
        self.ran_plain = False  # since the last commit
        self._blocks = sys.getallocatedblocks()  # at that
        self.owed: set[str] = set()  # names with memory that the store has no bytes of
        self._reported_stays: dict[str, str] = {}  # what stays because saving it ended a process

    def commit(self, frame: Frame, reply: Frame) -> None:
        """Prepare a commit, and answer with it; `reply` begins the answer."""
        main = self._main
        device_lease.leases.durable = bool(frame.get("durable"))
        device_lease.leases.left_out = False
        plain_settings.is_idle = "code" not in frame and not frame.get("leaves")
        try:
            self._note_staying_settings()
            saved, _, reason = self.save()
        finally:
            plain_settings.is_idle = False
        code = saved.pop("code")
        main.touched.learn(code, saved.pop("held"))
        main.touched.count_strays()
        if saved["prepared"] is not None:
            looked = main.touched.looked(saved["changed"])
            reply |= {"prepared": saved["prepared"], "changed": saved["changed"], "looked": looked}
        else:
            main.touched.settle()
        main.touched.forget(set(saved["saved"]) - code.keys())
        main.last_commit = {
            "seconds": saved["seconds"],
            "reason": reason,
            **usage.of_commit(saved),
        }
        self._report_stays(saved["unserializable"])
        unserializable = saved["unserializable"] | self._staying()
        self.ran_plain, self._blocks = False, sys.getallocatedblocks()
        main.channel.send("reply", unserializable=unserializable, report=main.last_commit, **reply)
        self.note_owed(saved["saved"])

    def is_step_due(self) -> bool:
        """Whether a cell that stays begins with a commit, so that an undo has the state before it: if plain cells
        can have changed a variable since the last one, and if it will be cheap, as far as one can know."""
        main = self._main
        if not self.ran_plain or main.last_commit.get("seconds", 0.0) > _CHEAP_SECONDS:
            return False
        if sys.getallocatedblocks() - self._blocks > _CHEAP_BLOCKS:
            return False
        touched, _ = main.touched.take()
        own = main.shell.user_ns.keys() - results.hidden_names(main.shell) - main.touched.held
        return touched is None or not touched.isdisjoint(own)

    def save(self) -> tuple[_store._Saved, set[str] | None, str]:
        """Prepare a commit of what changed since the last one: what Names.save() reports, the names
        that can have been touched, and why they are all."""
        main, shell = self._main, self._main.shell
        shell.patches.collect()  # first: it finds which attributes others are to look at
        main.committed_state = state.capture(shell)
        if main.subshells.busy:
            main.touched.anything(_SUBSHELL_RAN)
        if own_code.has_loaded_anew():
            main.touched.anything(_LOADED_ANEW)
        touched, reason = main.touched.take()
        if touched is not None and main.addresses.in_any(touched):
            touched, reason = None, _BY_ADDRESS
        if touched is not None:
            touched.update(filter(is_patch, shell.user_ns))
            if device_lease.leases.durable:  # also what is owed
                touched |= self.owed
        try:
            saved = steps.save(
                main.names,
                shell,
                touched=touched,
                verify=verify.is_on(),
                stand_ins=module_objects.stand_ins(shell.user_ns),
                extra={
                    "state": state.pack(main.committed_state),
                    "results": results.capture(shell),
                    "written": main.learnt,
                    "lost": self._still_lost(),
                    "program": sys.implementation.cache_tag,  # which interpreters can read the encodings
                    "history": shell.history_manager.session_number,
                },
            )
        finally:
            shell.patches.withdraw()
        shell.patches.drop_imported(saved["unserializable"])
        verify.report(saved, main.touched.cells())
        saved["numbers"] = main.addresses.learn(saved["saved"], saved["numbers"], shell.user_ns)
        return saved, touched, reason

    def _note_staying_settings(self) -> None:
        """Of a commit of the notebook's: a cell reports it (forked.py names a fork's own)."""
        staying, waiting = plain_settings.staying(self._main.shell), state.losses.waiting
        for name in waiting.keys() & plain_settings.rows.keys() - staying.keys():
            del waiting[name]  # the notebook has set it back before a cell could report it
        for name, why in staying.items():
            state.losses.note(name, why)

    def _still_lost(self) -> dict[str, str]:
        main = self._main
        for name in main.lost.keys() & main.shell.user_ns.keys():
            del main.lost[name]
        return main.lost

    def _staying(self) -> dict[str, str]:
        """The variables that a clean process lacks, and state that no commit can name; as settings
        are, by names that no code can use."""
        main = self._main
        names = main.shell.user_ns
        found = {f"the name {name!r}": why for name, why in unstorable(names).items()}
        if results.own_entries(main.shell)["Out"]:
            found["what code changed in Out"] = "it is made anew from the numbered results"
        for name in with_traceback(list(names), names):
            found[f"the local variables in the traceback of {name}"] = (
                "frames stay in their process"
            )
        for name in cached_functions.left_out():
            found[f"the results that {name} keeps"] = "one of them can't be carried"
        for name in main.addresses.of_saved(list(names), names):
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

    def note_owed(self, names: t.Iterable[str]) -> None:
        """Ask for a commit with the bytes, once there is time, if memory was left out."""
        if device_lease.leases.left_out:
            device_lease.leases.left_out = False
            self.owed.update(names)
            self._main.channel.send("owes")
