"""%holdfast memory: the memory of variables, in this process and in the store, and what they share.

The text has a table whose columns add up. Then come the totals of the process and of the session, each split into
parts that add up to it, and the memory of the cells that ran. `weights` measures the process. The sizes in the store
are those that `%holdfast` shows.
"""

from __future__ import annotations

import html
import types
import typing as t

from holdfast import _store
from holdfast.base.tabular import align, count, size
from holdfast.commands import history
from holdfast.commands.weights import Weight, weigh

if t.TYPE_CHECKING:
    from holdfast._store import _Entry
    from holdfast.monitor.sampled import Cell

_CELLS = 20
_HEAD = ("name", "type", "size", "resident", "in the arena", "own copies", "in the store", "shares")
_MEANINGS = (
    "size: objects and buffers in this process; a part that names share counts with the first of those shown,"
    " and a name of the same object says in which row it is."
    " resident: the part of it that is in memory. in the arena: the part of size that lies in the"
    " session's shared memory, which other processes map as it is. own copies: the part of size in pages"
    " of mapped values that this process copied to write them. in the store: the size at the last commit;"
    " - if there was none yet."
)
_CELLS_HEAD = ("In", "kind", "s", "at its begin", "peak", "grown by", "code")


class Table(t.NamedTuple):
    """Rows of texts with a head. Some columns are numbers."""

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: range

    def text(self) -> str:
        """Write the table as plain text.

        Returns
        -------
        str
            Its lines.
        """
        return "\n".join(align([self.head, *self.rows], right=self.numbers))

    def page(self) -> str:
        """Write the table as HTML.

        Returns
        -------
        str
            A table element.
        """

        def line(row: tuple[str, ...], tag: str) -> str:
            style = ' style="text-align:right"'
            return "".join(
                f"<{tag}{style if at in self.numbers else _LEFT}>{html.escape(one)}</{tag}>"
                for at, one in enumerate(row)
            )

        body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in self.rows)
        return (
            f"<table><thead><tr>{line(self.head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
        )


_LEFT = ' style="text-align:left"'


class Shown(t.NamedTuple):
    """The text that the command shows: tables with a line before each, and lines."""

    parts: list[Table | str]

    def text(self) -> str:
        """Write all parts as plain text.

        Returns
        -------
        str
            Their lines.
        """
        return "\n".join(part if isinstance(part, str) else part.text() for part in self.parts)

    def bundle(self) -> dict[str, str]:
        """Write all parts for `display`.

        Returns
        -------
        dict of str to str
            The text by MIME type: plain and HTML.
        """
        shown = (
            f"<div>{html.escape(part)}</div>" if isinstance(part, str) else part.page()
            for part in self.parts
        )
        page = f'<div class="holdfast-memory">{"".join(shown)}</div>'
        return {"text/plain": self.text(), "text/html": page}


def report(words: list[str], worker: t.Any) -> Shown:
    """Measure all variables, or those that are named.

    Parameters
    ----------
    words : list of str
        Names of variables; empty for all.
    worker : holdfast.worker.requests.Worker
        The worker whose variables they are.

    Returns
    -------
    Shown
        The parts that the command shows.
    """
    names = _names(worker)
    missing = [word for word in words if word not in names]
    if missing:
        return Shown([f"No such variable: {', '.join(missing)}."])
    # A name that was asked for counts as a whole, with what it shares with names that aren't shown.
    chosen = list(dict.fromkeys(words)) or names
    weights = weigh(worker.shell.user_ns, chosen, worker.session, skipped=_skipped(worker))
    stored = _stored(worker.names.listing(), chosen)
    shares = _shares(worker.shell.user_ns, names)
    rows = [_row(name, worker.shell.user_ns, weights, stored, shares, chosen) for name in chosen]
    parts: list[Table | str] = []
    if chosen:
        parts.append(Table(_HEAD, [*rows, _total(chosen, weights, stored)], range(2, 7)))
    else:
        parts.append("There are no variables.")
    if not words:
        parts += ["", *_process_lines(weights.values()), *_store_lines(worker, stored)]
        parts += _cell_parts()
    return Shown([*parts, "", _MEANINGS] if chosen else parts)


def _names(worker: t.Any) -> list[str]:
    """The notebook's variables, without names that IPython has set."""
    hidden = worker.hidden_names()
    return sorted(
        name
        for name, value in worker.shell.user_ns.items()
        if isinstance(name, str)
        and name.isidentifier()
        and name not in hidden
        and not name.startswith(history.OWN_PREFIX)
        and not issubclass(type(value), types.ModuleType)
    )


def _skipped(worker: t.Any) -> list[t.Any]:
    """Objects of ours and IPython's. A variable may refer to them, but they don't belong to it."""
    shell = worker.shell
    found = [worker, shell, worker.names, worker.session, getattr(shell, "kernel", None)]
    return [one for one in found if one is not None]


def _stored(listing: list[_Entry], names: t.Iterable[str]) -> dict[str, int]:
    """Bytes in the store, by name. The bytes of a group are at the first of its names."""
    groups = {row["name"]: row for row in listing}
    found, taken = {}, set()
    order = {name: at for at, name in enumerate(names)}
    for row in sorted(
        (row for row in listing if row["name"] in order), key=lambda r: order[r["name"]]
    ):
        where = row.get("where")
        if where is None or where not in groups:
            found[row["name"]] = row["bytes"]
        else:
            found[row["name"]] = 0 if where in taken else groups[where]["bytes"]
            taken.add(where)
    return found


def _shares(namespace: dict[str, t.Any], names: list[str]) -> dict[str, list[str]]:
    """By name: the other names with which it shares an object or memory."""
    found = {}
    for group in _store.groups({name: namespace[name] for name in names}):
        for name in group:
            found[name] = [other for other in group if other != name]
    return found


def _row(
    name: str,
    namespace: dict[str, t.Any],
    weights: dict[str, Weight],
    stored: dict[str, int],
    shares: dict[str, list[str]],
    chosen: t.Sequence[str] = (),
) -> tuple[str, ...]:
    weight = weights[name]
    others = shares.get(name, [])
    first = next((one for one in chosen if one == name or one in others), name)
    whole = ("" if weight.is_whole else "> ") + size(weight.size)
    sharing = f"with {', '.join(others[:4])}" + (
        f" and {len(others) - 4} more" if others[4:] else ""
    )
    return (
        name,
        type(namespace[name]).__qualname__,
        whole if weight.size or first == name else f"in {first}",
        _known(weight.resident) if weight.size or first == name else "",
        size(weight.arena) if weight.arena else "",
        size(weight.copied) if weight.copied else "",
        _known(stored.get(name)),
        sharing if others else "",
    )


def _known(number: int | None) -> str:
    return "-" if number is None else size(number)


def _sum(numbers: t.Iterable[int | None]) -> int | None:
    whole = 0
    for number in numbers:
        if number is None:
            return None
        whole += number
    return whole


def _total(names: list[str], weights: dict[str, Weight], stored: dict[str, int]) -> tuple[str, ...]:
    chosen = [weights[name] for name in names]
    mark = "" if all(weight.is_whole for weight in chosen) else "> "
    return (
        "together",
        count(len(names), "variable"),
        mark + size(sum(weight.size for weight in chosen)),
        _known(_sum(weight.resident for weight in chosen)),
        size(sum(weight.arena for weight in chosen)),
        size(sum(weight.copied for weight in chosen)),
        size(sum(stored.get(name, 0) for name in names)),
        "",
    )


def _process_lines(weights: t.Collection[Weight]) -> list[str]:
    """The process's resident memory, and its parts."""
    from holdfast.base.usage import resident

    all_of_it, found = resident(), _sum(weight.resident for weight in weights)
    if not all_of_it or found is None:
        return []
    line = f"This process has {size(all_of_it)} resident: {size(found)} of these variables"
    if found <= all_of_it:
        line += (
            f", and {size(all_of_it - found)} of everything else: Python, modules, code, figures and"
            " other state of libraries, and memory that was freed but not given back"
        )
    return [line + "."]


def _store_lines(worker: t.Any, stored: dict[str, int]) -> list[str]:
    """The memory that the session has allocated, and its parts."""
    info = worker.session.info()
    ours = sum(stored.values())
    entries = sum(row["bytes"] for row in worker.names.listing())
    parts = [
        (ours, "of these variables"),
        (entries - ours, "of inputs, results and settings of the notebook"),
        (info["committed_bytes"] - entries, "to fill pages, and for the directory"),
    ]
    other = info["allocated_bytes"] - sum(
        info[name] for name in ("committed_bytes", "reserved_bytes", "retired_bytes", "free_bytes")
    )
    more = [
        (info["reserved_bytes"], "not committed yet, or of values that were replaced"),
        (info["retired_bytes"], "of earlier generations"),
        (info["free_bytes"], "free for new values"),
        (other, "of the session's own tables"),
    ]
    return [
        f"The store has {size(info['committed_bytes'])} committed{_listed(parts, ': ')}.",
        f"It has {size(info['allocated_bytes'])} allocated: that, and {_listed(more)}.",
    ]


def _listed(parts: list[tuple[int, str]], before: str = "") -> str:
    found = ", ".join(f"{'-' if n < 0 else ''}{size(abs(n))} {what}" for n, what in parts if n)
    return before + found if found else ""


# ---- cells


def _cell_parts() -> list[Table | str]:
    from holdfast.monitor import source

    try:
        monitor = source.connect()
        ended = [cell for cell in monitor.cells() if cell.end_ns is not None]
    except (OSError, RuntimeError):
        return []  # a kernel without a monitor
    shown = [row for cell in ended[-_CELLS:] if (row := _cell_row(cell)) is not None]
    if not shown:
        return []
    before = len(ended) - min(len(ended), _CELLS)
    more = f" ({count(before, 'cell')} before these)" if before else ""
    return [
        "",
        f"Memory of the process that ran each cell{more}; peak is - if it had had more before:",
        Table(_CELLS_HEAD, shown, range(2, 6)),
    ]


def _cell_row(cell: Cell) -> tuple[str, ...] | None:
    if not (cell.begin_bytes and cell.number):
        return None
    grown = round(cell.end_bytes - cell.begin_bytes)
    change = ("-" if grown < 0 else "+") + size(abs(grown))
    code = (cell.source.strip().splitlines() or [""])[0][:40]
    return (
        f"[{cell.number}]",
        cell.kind,
        f"{cell.duration:.3f}",
        size(round(cell.begin_bytes)),
        size(round(max(cell.peak_bytes, cell.begin_bytes))) if cell.peak_bytes else "-",
        change if cell.end_bytes else "-",  # its process died
        code,
    )
