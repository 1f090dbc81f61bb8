"""A worker's own messages on stderr: a line `holdfast: ...` below the cell that runs.

The texts stand here once. A forked cell, a cell worker and the main worker report the same things, and the
documentation and the tests quote them.
"""

from __future__ import annotations

import enum
import typing as t

from holdfast.base import sentences
from holdfast.base.sentences import say
from holdfast.carry.patches import is_patch, shown

_INSTEAD = sentences.INSTEAD.capitalize()

_RUNNING = frozenset(("running threads", "tasks of the event loop"))


class Lost(enum.Enum):
    """What the notebook has of a value that stays in its cell's process."""

    NEW = "lost with the cell's process"
    CHANGED = "the notebook goes on with the value before the cell"
    MAYBE_CHANGED = "if the cell changed {it}, the notebook goes on with the value before the cell"


def not_carried_out(losses: t.Mapping[t.Any, tuple[str, Lost]]) -> None:
    """Report values that no codec encodes, by name (or by another key of the namespace): the reason, and
    what the notebook has."""
    for kept in Lost:
        reasons = {name: why for name, (why, what) in losses.items() if what is kept}
        state = kept.value.format(it="it" if len(reasons) == 1 else "them")
        tail = f": {state}. {_INSTEAD}{_more(reasons)}"
        _say_of("not carried out of this cell: ", _with_reasons(reasons), tail)


def tracebacks_stay(names: t.Sequence[str]) -> None:
    """These exceptions go on with the places where they were raised, without the frames."""
    head = "not carried out of this cell: the local variables in the traceback of "
    _say_of(head, names, ". To debug it, use `%pdb on`")


def changed_alone(names: t.Sequence[str]) -> None:
    """Report changes of the cell to its process that the notebook's process doesn't have."""
    tail = f". The notebook goes on as before the cell. {_INSTEAD}"
    ended = [name for name in names if name in _RUNNING]
    _say_of("ended with this cell's process: ", ended, f". To keep them, {sentences.INSTEAD}")
    names = [name for name in names if name not in _RUNNING]
    _say_of("changed only in this cell's process: ", names, tail)


def addresses_alone(names: t.Sequence[str]) -> None:
    """Variables with numbers that are addresses of objects."""
    tail = (
        " (id(), pointers). In the notebook the objects have other addresses: take them again there"
    )
    texts = [_as_text(name) for name in names]
    _say_of("valid only in this cell's process: the addresses in ", texts, tail)


def descriptors_alone(names: t.Sequence[str]) -> None:
    """Variables with numbers that are descriptors."""
    tail = (
        " (os.open(), os.pipe()). In the notebook these numbers are nothing, or other files: use open(),"
        " os.fdopen() or a plain cell"
    )
    texts = [_as_text(name) for name in names]
    _say_of("valid only in this cell's process: the descriptors in ", texts, tail)


def not_carried_back(reasons: t.Mapping[str, str]) -> None:
    """Report values of a cell that the main worker can't decode."""
    tail = f". The notebook can't load what the cell made. {_INSTEAD}"
    _say_of("not carried back: ", _with_reasons(reasons), tail)


def not_replaced(names: t.Sequence[str]) -> None:
    """Variables of which objects that no codec encodes hold another value than the notebook has now."""
    head = "generators, locks and the like that were made before this cell still use the old "
    _say_of(
        head, names, ": the new value can't replace it there. Make them anew to use the new one"
    )


def not_carried_over(name: str, reason: object) -> None:
    """A setting that this process can't have as another one had it."""
    say(sentences.not_carried_over(name, reason))


def _say_of(head: str, names: t.Sequence[str], tail: str) -> None:
    if names:
        say(sentences.sentence(head, names, tail))


def _with_reasons(reasons: t.Mapping[t.Any, str]) -> list[str]:
    """The names; those with the same reason follow each other. The last has it, or the first if there are too many
    for a line."""
    names: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items(), key=str):
        names.setdefault(sentences.brief(name, why), []).append(_as_text(name))
    listed: list[str] = []
    for why, same in names.items():
        place = 0 if len(", ".join(same)) + len(why) > sentences.FITS else len(same) - 1
        same[place] += f" ({why})"
        listed += same
    return listed


def _more(reasons: t.Mapping[t.Any, str]) -> str:
    """Where the whole reason is, if a variable has more than is shown here."""
    for name, why in sorted(reasons.items(), key=str):
        if isinstance(name, str) and name.isidentifier() and sentences.brief(name, why) != why:
            return f" (details: %holdfast {name})"
    return ""


def _as_text(name: t.Any) -> str:
    if not isinstance(name, str):
        return f"the name {name!r}"
    return shown(name) if _is_path(name) or is_patch(name) else repr(name)


def _is_path(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))
