"""The list of known differences, tests/oracle/differences.txt.

    kind | mode ... | notebook [cell,...] | reason

`documented`  is meant to be so: an entry of docs/carried.md, "What differs in a clean process".
              It names the cells that differ, and no other may.
`defect`      is wrong, with the number of the issue's item.
`unsteady`    is a defect that doesn't show in each run: a race. Nothing is expected of it.

An entry that isn't true any more is an error, so that the list gets shorter.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

KINDS = ("documented", "defect", "unsteady")


@dataclasses.dataclass(frozen=True)
class Known:
    """One line of the list."""

    kind: str
    modes: tuple[str, ...]
    notebook: str
    cells: frozenset[int]
    reason: str


def read(path: Path) -> list[Known]:
    """The list. Lines that are empty or begin with # are skipped."""
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|", 3)]
        if len(fields) != 4 or fields[0] not in KINDS or not fields[3]:
            raise ValueError(f"{path.name}:{number}: not `kind | modes | notebook cells | reason`")
        kind, modes, where, reason = fields
        name, _, cells = where.partition(" ")
        numbers = frozenset(int(cell) for cell in cells.split(",") if cell)
        if kind == "documented" and not numbers:
            raise ValueError(f"{path.name}:{number}: a documented difference names its cells")
        entries.append(Known(kind, tuple(modes.split()), name, numbers, reason))
    return entries


def trouble(entries: list[Known], notebook: str, mode: str, differing: dict[int, str]) -> str:
    """What is wrong with this outcome, given the list; empty if nothing is."""
    mine = [entry for entry in entries if entry.notebook == notebook and mode in entry.modes]
    if any(entry.kind == "unsteady" for entry in mine):
        return ""
    if any(entry.kind == "defect" for entry in mine):
        return "" if differing else f"listed as a defect in {mode}, but equal: take it off the list"
    named = any(entry.reason.partition(":")[2].endswith(_SAYS_SO) for entry in mine)
    if named and differing and not is_named(differing):
        return f"listed as named, but nothing names it:\n{differing[min(differing)]}"
    allowed = frozenset().union(*(entry.cells for entry in mine))
    if vanished := sorted(allowed - set(differing)):
        return f"documented as different in {mode}, but equal: cells {vanished}"
    return "\n".join(
        f"{mode}, cell {number}:\n{diff}"
        for number, diff in differing.items()
        if number not in allowed
    )


# An error or a line on stderr that says by name what isn't there.
_NAMED = re.compile(
    r"NotCarriedError|carried out of|can't be carried|not carried|be carried over|only in this cell's process"
)


_SAYS_SO = "named"  # the end of a reason


def is_named(differing: dict[int, str]) -> bool:
    """Whether the first cell that differs says what isn't there: the others follow from it."""
    return bool(differing) and bool(_NAMED.search(differing[min(differing)]))


def _new(notebook: str, mode: str, differing: dict[int, str]) -> Known:
    """An entry for a difference that nobody listed, with a guess at its kind."""
    if is_named(differing):
        return Known("documented", (mode,), notebook, frozenset(differing), "3, 4: named")
    return Known("defect", (mode,), notebook, frozenset(), "new")


def revised(
    entries: list[Known], notebook: str, outcomes: dict[str, dict[int, str]]
) -> list[Known]:
    """A notebook's entries after a run in these modes: the vanished gone, the new ones added."""
    mine = [entry for entry in entries if entry.notebook == notebook]
    kept: dict[tuple, list[str]] = {}
    for entry in mine:
        for mode in entry.modes:
            differing = outcomes.get(mode, {0: ""})
            if differing or entry.kind == "unsteady":
                cells = frozenset(differing) if entry.cells and mode in outcomes else entry.cells
                kept.setdefault((entry.kind, cells, entry.reason), []).append(mode)
    listed = {mode for entry in mine for mode in entry.modes}
    for mode, differing in outcomes.items():
        if differing and mode not in listed:
            new = _new(notebook, mode, differing)
            kept.setdefault((new.kind, new.cells, new.reason), []).append(mode)
    return [
        Known(kind, tuple(modes), notebook, cells, reason)
        for (kind, cells, reason), modes in kept.items()
    ]


def line(entry: Known) -> str:
    """The entry as it stands in the list."""
    cells = ",".join(str(cell) for cell in sorted(entry.cells))
    where = f"{entry.notebook} {cells}".strip()
    return f"{entry.kind} | {' '.join(entry.modes)} | {where} | {entry.reason}"


def write(path: Path, entries: list[Known]) -> None:
    """Write the list anew, below the comments at its head."""
    head = [text for text in path.read_text(encoding="utf-8").splitlines() if text.startswith("#")]
    lines = sorted(map(line, entries), key=lambda text: (text.split(" | ")[2], text))
    path.write_text("\n".join([*head, "", *lines]) + "\n", encoding="utf-8")


def documented(text: str) -> set[str]:
    """What the reason of a documented difference begins with: rows of docs/carried.md, and its section
    on forks. What a recording refuses is named by an error."""
    return {*re.findall(r"(?m)^\| (\w+) \|", text), "fork", "named"}


def check(entries: list[Known], notebooks: set[str], modes: set[str], rows: set[str]) -> None:
    """Raise if an entry names a notebook, a mode or a row of the documentation that isn't there."""
    for entry in entries:
        head = set(entry.reason.partition(":")[0].split(", "))
        if entry.kind == "documented" and not head <= rows:
            raise ValueError(f"differences: {entry.notebook}: {entry.reason!r} isn't documented")
        if entry.notebook not in notebooks:
            raise ValueError(f"differences: there is no notebook {entry.notebook}")
        if unknown := set(entry.modes) - modes:
            raise ValueError(f"differences: {entry.notebook}: no modes {sorted(unknown)}")
