"""Variables that are in the store but not in this process: the reason, and what the user can do.

A value that could not be loaded is *absent*: its name is not bound, and its stored value stays as it is. Code
that uses the name gets an error with the reason. `del` of the name deletes the stored value. While a cell
runs, a placeholder is bound to the name, so that Python finds something to delete.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import types
import typing as t

from holdfast.carry import trial
from holdfast.errors import NotCarriedError, QuarantinedError, of_last_error, with_reason

from . import notices

if t.TYPE_CHECKING:
    from holdfast._store import _Bound

    from .skipped import Skipped

_DELETES = frozenset(("DELETE_NAME", "DELETE_GLOBAL"))
_USES = frozenset(("LOAD_NAME", "LOAD_GLOBAL"))


class Absent:
    """Values of the store that could not be loaded here, and what else isn't in this process.

    Parameters
    ----------
    worker : holdfast.worker.requests.Worker
        With the shell whose namespace it is missing from.

    Attributes
    ----------
    reasons : dict of str to str
        By the variable.
    not_carried : dict of str to str
        Those that stayed in the main worker, and why.
    skipped : Skipped, optional
        The names that this process wasn't given, since its cell doesn't seem to need them.
    has_errors_elsewhere : bool
        Whether the notebook may have met its last error in another process.
    """

    def __init__(self, worker: t.Any):
        self._worker, self._shell = worker, worker.shell
        self.reasons: dict[str, str] = {}
        self.not_carried: dict[str, str] = {}
        self.skipped: Skipped | None = None
        self.has_errors_elsewhere = False

    def note(self, absent: t.Mapping[str, str]) -> dict[str, str]:
        """The values that a binding could not load; those of them that are variables."""
        found = {name: why for name, why in absent.items() if not name.startswith("\0")}
        self.reasons.update(found)
        for name in self.reasons.keys() & self._shell.user_ns.keys():
            del self.reasons[name]
        return found

    def explain(self, error: BaseException) -> BaseException:
        """An error of what isn't here, with the reason; others as they are."""
        found = with_reason(error, self._worker.lost)
        if found is error and self._is_about(error, self.reasons):
            name = t.cast(NameError, error).name
            found = QuarantinedError(name, self.reasons[name])
        if self.has_errors_elsewhere:
            found = of_last_error(found)
        if self._is_about(found, self.not_carried):
            name = t.cast(NameError, found).name
            found = NotCarriedError(name, self.not_carried[name])
        elif self.skipped is not None:
            found = self.skipped.explain(found)
        return found if found is error else found.with_traceback(error.__traceback__)

    def _is_about(self, error: BaseException, names: t.Container[str]) -> bool:
        """Whether it is a plain NameError of one of them."""
        name = getattr(error, "name", None)
        return type(error) is NameError and name in names and name not in self._shell.user_ns

    @contextlib.contextmanager
    def deletable(self, code: str, names: t.Any, lost: dict[str, str]) -> t.Iterator[None]:
        """While this cell runs, what it only deletes can be deleted; from `lost`, too."""
        space = self._shell.user_ns
        stand_in = object()
        wanted = _only_deleted(self._shell.transform_cell, code) if self.reasons else set()
        wanted = {name for name in wanted & self.reasons.keys() if name not in space}
        space.update(dict.fromkeys(wanted, stand_in))
        try:
            yield
        finally:
            for name in wanted:
                if space.get(name) is stand_in:
                    del space[name]
                elif name not in space:
                    names.discard(name)
                    self.reasons.pop(name, None)
                    lost.pop(name, None)

    def retry(self, wanted: list[str], names: t.Any) -> tuple[str, _Bound]:
        """Load these once more; what the user reads, and the report of Names.bind."""
        trial.forget()
        for name in wanted:
            names.readmit(name)
        missing = {name for name in wanted if name in self.reasons}
        bound = self._bind(missing, names)
        for name in missing & self._shell.user_ns.keys():
            del self.reasons[name]
        self.note({name: why for name, why in bound["absent"].items() if name in missing})
        lines = [
            f"{name} is not loaded: {self.reasons[name]}"
            if name in self.reasons
            else f"{name} is loaded"
            if name in missing
            else f"{name} will be tried again when it is saved or loaded next"
            for name in wanted
        ]
        return "\n".join(lines), bound

    def _bind(self, missing: set[str], names: t.Any) -> _Bound:
        """Bind these, and again what one of them may have needed of the others."""
        code: dict[str, list[t.Any]] = {}
        left, before = missing, None
        while left != before:
            bound = names.bind(self._shell.user_ns, names=left)
            code |= bound["code"]
            left, before = left - self._shell.user_ns.keys(), left
        return bound | {"code": code}


def report_absent(absent: t.Mapping[str, str]) -> None:
    """Say on stderr what a binding could not load, and why."""
    quarantined = {name: why for name, why in absent.items() if trial.is_quarantine(why)}
    notices.not_carried_back({name: why for name, why in absent.items() if name not in quarantined})
    for name, why in sorted(quarantined.items()):
        if not name.startswith("\0"):
            notices.say(str(QuarantinedError(name, why)))


def _only_deleted(transform: t.Callable[[str], str], code: str) -> set[str]:
    """Names that a cell deletes and uses for nothing else."""
    if "del" not in code:
        return set()
    try:
        tree = ast.parse(transform(code))
        compiled = compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError):
        return set()  # the shell will say so
    deleted: set[str] = set()
    used: set[str] = set()
    work = [compiled]
    while work:
        one = work.pop()
        work += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
        for step in dis.get_instructions(one):
            if step.opname in _DELETES:
                deleted.add(step.argval)
            elif step.opname in _USES:
                used.add(step.argval)
    return deleted - used
