"""Finds the variables that cells can have touched since the last commit, so that a save skips the others.

A save that looked at every variable would cost as much as the notebook holds. A plain cell can have changed
only values that its code can reach. So reach.py's analysis is applied to cells that have already run, and
only when there is something to commit: while cells run, their compiled code is kept and no more.

The functions that were behind a name when the cell ran may be gone by now. They are known all the same: each
save returns the code behind the values that it looked at, and code that is newer is in the cells' own.

A variable can change without a cell that reaches it:

* By code that somebody else can call: a callback given to a library, a thread's function, a signal handler, a
  finalizer. A save sees that a function is held by more than the variables (`held`), or that no variable
  leads to a function (`strays`). Names in held code always count as touched; a stray may name anything.
* By methods, since an instance may be anywhere: names in the notebook's classes always count as touched.
* By references to an object that aren't the notebook's, such as Matplotlib's list of figures. A value that
  has any is always looked at (names_scan.c).
* By modules of the user's own that look into `__main__` (own_modules.py).

If the analysis can't tell, everything counts as touched, and the reason is reported. To watch the objects
instead was rejected: CPython has no versions for lists and instances, and in write-protected memory even
reading writes reference counts.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
import types
import typing as t

from holdfast.carry import pickling
from holdfast.carry.patches import is_patch

from ..ipython import results
from .looking import names_looked_at
from .own_modules import OwnModules
from .reach import Reach

_CELLS_MAX = 1000  # whose code is kept between two commits
_UNDERS = {"_", "__", "___"}
_WORD = re.compile(r"[^\W\d]\w*")


class _Cell(t.NamedTuple):
    """A cell that ran."""

    number: int
    text: str
    codes: list[types.CodeType]


@dataclasses.dataclass
class _Period:
    """The code that ran between two commits."""

    cells: list[_Cell] = dataclasses.field(default_factory=list)
    words: set[str] = dataclasses.field(default_factory=set)
    reason: str = ""

    def add(self, later: _Period) -> None:
        self.cells += later.cells
        self.words |= later.words
        self.reason = self.reason or later.reason


class _Behind(t.NamedTuple):
    """The names in the code behind one value."""

    names: frozenset[str]
    classes: frozenset[str]
    reason: str


class Touched:
    """The cells since the last commit, and the code behind the variables at that commit.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Whose cells are meant.
    names : holdfast._store.Names
        Watches the shell's namespace.
    """

    def __init__(self, shell: t.Any, names: t.Any):
        self._shell = shell
        self._names = names
        self._period = _Period(reason="no variable was looked at before")
        self._taken: _Period | None = None
        self._behind: dict[str, _Behind] = {}
        self.held: set[str] = set()
        self._stray_reason = ""
        self._last: frozenset[str] = frozenset()
        self._modules = OwnModules()
        names.watch(shell.user_ns)
        names.strays()  # what is normal

    # ---- while cells run

    def begin(self, text: str, number: int = 0) -> None:
        """A cell begins."""
        if len(self._period.cells) == _CELLS_MAX:
            self._period = _Period(reason=f"more than {_CELLS_MAX} cells ran since the last commit")
        self._period.cells.append(_Cell(number, text, []))

    def ran(self, code: types.CodeType) -> None:
        """A piece of the cell that began last is about to run."""
        if not self._period.cells:
            self._period.cells.append(_Cell(0, "", []))
        self._period.cells[-1].codes.append(code)

    def anything(self, reason: str) -> None:
        """Something ran that nobody looked at."""
        self._period.reason = self._period.reason or reason

    def asked(self, text: str) -> None:
        """A completion or an inspection evaluated some of these words."""
        self._period.words.update(_WORD.findall(text))

    # ---- at a commit

    def take(self) -> tuple[set[str] | None, str]:
        """The names that can have been touched, or None and why.

        The period ends here, for good with `settle`; without it, it is part of the next.
        """
        if self._taken is not None:
            self._taken.add(self._period)
            self._period = self._taken
        self._taken, self._period = self._period, _Period()
        reason = self._taken.reason or self._stray_reason or self._modules.look()
        return (None, reason) if reason else self._close(*self._name(self._taken))

    def cells(self) -> list[str]:
        """The text of the cells that `take` spoke of."""
        return [cell.text for cell in self._taken.cells] if self._taken is not None else []

    def looked(self, changed: t.Collection[str]) -> list[int]:
        """The numbers of the cells that `take` spoke of which can have changed none of these names.

        Only after `learn`: functions that cells made since may have been called by the next ones.
        """
        taken = self._taken
        if taken is None or len(taken.cells) < 2:
            return []
        own = [self._name(_Period(cells=[cell])) for cell in taken.cells]
        any_other = taken.reason or self._stray_reason
        makers = [names for cell, (names, _) in zip(taken.cells, own) if _makes_code(cell)]
        others: set[int] = set()
        found: set[int] = set()
        for cell, (names, reason) in zip(taken.cells, own):
            reason = reason or any_other
            looks = self._only_looks(cell) or self._misses(names, reason, makers, changed)
            (found if looks else others).add(cell.number)
        return sorted(found - others)

    def _misses(
        self, names: set[str], reason: str, makers: list[set[str]], changed: t.Collection[str]
    ) -> bool:
        """Whether these names lead to none of `changed`, also by code that cells have made."""
        reached: set[str] | None = names
        while reached is not None:
            reached, reason = self._close(reached, reason)
            more = {name for made in makers if not made.isdisjoint(reached or ()) for name in made}
            if reached is None or more <= reached:
                break
            reached |= more
        return reached is not None and reached.isdisjoint(changed)

    def _only_looks(self, cell: _Cell) -> bool:
        names = names_looked_at(cell.text, self._shell.user_ns)
        return names is not None and not any(
            behind.names or behind.classes or behind.reason
            for behind in map(self._behind.get, names)
            if behind is not None
        )

    def settle(self) -> None:
        """The values that the last commit saved are committed."""
        self._taken = None

    def learn(self, code: t.Mapping[str, list], held: t.Iterable[str] = ()) -> None:
        """Take the report of a save or an adoption about the code behind the values that it saw."""
        for key, found in code.items():
            self._behind[key] = _look_behind(found)
            self.held.discard(key)
        self.held.update(held)
        self._last = results.last_results(self._shell)

    def forget(self, names: t.Iterable[str]) -> None:
        """Behind these values a save has found no code. After `looked`: cells may have met what was there."""
        for name in names:
            self._behind.pop(name, None)

    def count_strays(self) -> None:
        """After a save: does somebody hold functions that it didn't see?"""
        strays = self._names.strays() - self._kept_by_errors()
        self._stray_reason = (
            "something besides the variables holds functions of the notebook" if strays else ""
        )

    # ---- names

    def _name(self, period: _Period) -> tuple[set[str], str]:
        """The names in the cells' own code."""
        names = set(period.words)
        for _, text, codes in period.cells:
            reach = Reach()
            for code in codes:
                reach.add_code(code)
            if "get_ipython" in reach.names:  # magics: their text shows it
                reach = Reach(text, self._shell.transform_cell)
            if reach.reason:
                return names, reach.reason
            names |= reach.names
        return names, ""

    def _close(self, names: set[str], reason: str) -> tuple[set[str] | None, str]:
        """And what is named by the code behind these names, and by what may run anyhow."""
        work = names | self.held
        # Classes, and settings of the process: hooks among these run without being named.
        work.update(key for key in self._behind if key.startswith("\0") or is_patch(key))
        done: set[str] = set()
        while work and not reason:
            key = work.pop()
            done.add(key)
            if self._shell.user_ns.get(key) is self._shell:
                reason = "the code can reach the shell"
            if key in _UNDERS:
                work |= self._last - done
            behind = self._behind.get(key)
            if behind is not None:
                reason = behind.reason
                work |= (behind.names | behind.classes) - done
        return (None, reason) if reason else (done, "")

    # ---- what isn't in the cells

    def _kept_by_errors(self) -> int:
        """References to the namespace that the frames of shown tracebacks hold.

        Those frames have ended: they keep their functions, and nobody can call them.
        """
        namespace, count = self._shell.user_ns, 0
        for frame in _frames_of(getattr(sys, "last_value", None)):
            for held in gc.get_referents(frame):
                if held is namespace:
                    count += 1
                elif isinstance(held, types.FunctionType) and held.__globals__ is namespace:
                    # The frame, the list of referents, this name and the call.
                    count += sys.getrefcount(held) == 4
        return count


def _makes_code(cell: _Cell) -> bool:
    return any(isinstance(one, types.CodeType) for code in cell.codes for one in code.co_consts)


def _look_behind(found: t.Collection[object]) -> _Behind:
    reach = Reach()
    reach.add_functions(found)
    classes = {pickling.class_key(one) for one in found if isinstance(one, type)}
    return _Behind(frozenset(reach.names), frozenset(classes), reach.reason)


def _frames_of(error: BaseException | None) -> set[types.FrameType]:
    frames: set[types.FrameType] = set()
    seen: set[int] = set()
    work = [error]
    while work:
        error = work.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        work += [error.__cause__, error.__context__]
        step = error.__traceback__
        while step is not None:
            frames.add(step.tb_frame)
            step = step.tb_next
    return frames
