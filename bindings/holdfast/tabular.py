"""Columns, sizes, times and counts as our commands and reports show them."""

from __future__ import annotations

import typing as t


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """A number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def time(ms: float) -> str:
    """A time in milliseconds."""
    if ms < 0.1:
        return f"{ms * 1000:.3g} µs"
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.1f} ms"


def align(table: t.Sequence[t.Sequence[str]], right: t.Container[int] = ()) -> list[str]:
    """The rows of a table as lines."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
