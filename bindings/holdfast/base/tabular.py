"""How our commands and reports show columns, sizes, times and counts."""

from __future__ import annotations

import typing as t


def count(number: int, noun: str) -> str:
    """Write a number with its noun.

    Parameters
    ----------
    number : int
        How many.
    noun : str
        In the singular.

    Returns
    -------
    str
        Such as "1 cell" or "2,000 cells".
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Write a number of bytes in the unit that suits it.

    Parameters
    ----------
    number : float
        Bytes.

    Returns
    -------
    str
        Such as "12 B" or "1.5 MiB".
    """
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def time(ms: float) -> str:
    """Write a time in the unit that suits it.

    Parameters
    ----------
    ms : float
        Milliseconds.

    Returns
    -------
    str
        Such as "12.3 ms".
    """
    if ms < 0.1:
        return f"{ms * 1000:.3g} µs"
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.1f} ms"


def align(table: t.Sequence[t.Sequence[str]], right: t.Container[int] = ()) -> list[str]:
    """Write the rows of a table as lines.

    Parameters
    ----------
    table : sequence of sequences of str
        The rows, all of one length.
    right : container of int
        The columns that are set from the right.

    Returns
    -------
    list of str
        A line for each row.
    """
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
