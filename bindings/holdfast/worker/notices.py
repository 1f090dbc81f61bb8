"""A worker's own messages on stderr: a line `holdfast: ...` below the cell that runs.

The words stand here once, since a forked cell, a cell worker and the main worker report the same things,
and the documentation and the tests look for them.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast._patches import is_patch, shown


def say(text: str) -> None:
    """One line."""
    print(f"holdfast: {text}", file=sys.stderr)


def not_carried_out(reasons: t.Mapping[t.Any, str], others: t.Iterable[str] = ()) -> None:
    """Report changes that no codec encodes, by name (or by another key of the namespace), and other
    state that stays behind, in words."""
    _say_of("not carried out of this cell: {}", sorted([*_with_reasons(reasons), *others]))


def tracebacks_stay(names: t.Sequence[str]) -> None:
    """These exceptions go on with the places where they were raised, without the frames."""
    _say_of("not carried out of this cell: the local variables in tracebacks of {}", names)


def changed_alone(names: t.Sequence[str]) -> None:
    """Report changes of the cell to its process that the notebook's process doesn't have."""
    _say_of("changed in this cell's process alone: {}", names)


def addresses_alone(names: t.Sequence[str]) -> None:
    """Variables with numbers that are addresses of objects."""
    _say_of(
        "true in this cell's process alone: the addresses in {} (id(), pointers);"
        " the notebook has the objects at others",
        names,
    )


def not_carried_back(reasons: t.Mapping[str, str]) -> None:
    """Report values of a cell that the main worker can't decode."""
    _say_of("not carried back: {}", _with_reasons(reasons))


def not_carried_over(name: str, reason: object) -> None:
    """A setting that this process can't have as another one had it."""
    say(f"{name} couldn't be carried over: {reason}")


def _say_of(words: str, names: t.Sequence[str]) -> None:
    if names:
        say(words.format("; ".join(names)))


def _with_reasons(reasons: t.Mapping[t.Any, str]) -> list[str]:
    return sorted(f"{_as_text(name)} ({why})" for name, why in reasons.items())


def _as_text(name: t.Any) -> str:
    is_name = isinstance(name, str) and (_is_path(name) or is_patch(name))
    return shown(name) if is_name else repr(name)


def _is_path(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))
