"""Ranges of cells: `5`, `2:8` (with both ends), `:5`, `3:`, and from the end, `-3:-1`.

A cell has two numbers. Its index is counted from 0, as in JUmPER, and used by ranges. The number in its prompt is the
one that the user sees. Messages name cells by both.
"""

from __future__ import annotations

import typing as t

from .arguments import CommandError


class Indexed(t.Protocol):
    """A cell with its index. The log keeps the newest cells, without a gap."""

    @property
    def index(self) -> int:
        """The cell's place among all cells of the session, from 0.

        Returns
        -------
        int
            The index.
        """


class Numbered(Indexed, t.Protocol):
    """A cell with the number in its prompt, or 0."""

    @property
    def number(self) -> int:
        """The number in the cell's prompt.

        Returns
        -------
        int
            The number, or 0.
        """


def names(cells: t.Sequence[Numbered]) -> str:
    """Return what cells are called.

    Parameters
    ----------
    cells : sequence of Numbered
        The cells, at least one, without a gap.

    Returns
    -------
    str
        For example "cell 1, In [2]", "cells 1 to 3, In [2] to In [4]".
    """
    ends = [cells[0]] if len(cells) == 1 else [cells[0], cells[-1]]
    prompts = " to ".join(f"In [{one.number}]" for one in ends if one.number)
    indexes = " to ".join(str(one.index) for one in ends)
    word = "cell" if len(ends) == 1 else "cells"
    return f"{word} {indexes}, {prompts}" if prompts else f"{word} {indexes}"


Item = t.TypeVar("Item", bound=Indexed)


def choose(text: str, cells: t.Sequence[Item]) -> list[Item]:
    """Find the cells that a range names by their indexes.

    Parameters
    ----------
    text : str
        The range.
    cells : sequence of Indexed
        All cells, in order and without a gap.

    Returns
    -------
    list of Indexed
        The cells.

    Raises
    ------
    CommandError
        The text is no range, or there are no such cells.
    """
    if not cells:
        raise CommandError("no cell has run yet")
    first, colon, last = text.partition(":")
    if not first and not last:
        if colon:
            return list(cells)
        raise CommandError("a range is missing; it looks like 5, 2:8, :5 or 3:")
    begin = _position(first, text, cells) if first else 0
    if not colon:
        return [cells[begin]]
    end = _position(last, text, cells) if last else len(cells) - 1
    if end < begin:
        raise CommandError(f"the range {text} is reversed: did you mean {last}:{first}?")
    return list(cells[begin : end + 1])


def _position(word: str, text: str, cells: t.Sequence[Item]) -> int:
    try:
        number = int(word)
    except ValueError:
        raise CommandError(f"{text!r} isn't a range like 5, 2:8, :5 or 3:") from None
    oldest, newest = cells[0].index, cells[-1].index
    at = number + len(cells) if number < 0 else number - oldest
    if not 0 <= at < len(cells):
        one = f"there is only cell {oldest}"
        there = one if oldest == newest else f"the cells are {oldest} to {newest}"
        raise CommandError(f"there is no cell {number}: {there}")
    return at
