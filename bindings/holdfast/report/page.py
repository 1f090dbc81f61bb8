"""The report as one HTML file that opens by itself: no network, no other file.

Cells are rows of a table. Below it each cell has a section with its code and the parts of its costs. A recorded cell
also has its longest functions and its view. A view is a still picture until it is opened: its data is in a template,
which a browser doesn't run, and the file has the program of the views once. Without scripts only the zooming is missing.

If the file would become too large, views are left out, those of the shortest cells first. Their sections say how to
get them.
"""

from __future__ import annotations

import html
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.tabular import count, size
from holdfast.pages import page as views

from .columns import COLUMNS, Column, longest_first
from .traces import Recorded, overview

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.pages.schema import Function

    from .running import CellCost, Execution

_COSTS = (
    ("hand_over_in_ms", "hand-over in", "ms"),
    ("commit_ms", "of it saving variables, or waiting for the notebook's process", "ms"),
    ("wait_ms", "of it the fork, or waiting for a process, and the start", "ms"),
    ("bind_ms", "of it binding variables, or opening the recording", "ms"),
    ("run_ms", "the cell's code", "ms"),
    ("recorder_ms", "of it recording", "ms"),
    ("hand_over_out_ms", "hand-over out", "ms"),
    ("trace_ms", "of it closing the recording", "ms"),
    ("events", "events", ""),
    ("events_others", "events of other processes", ""),
    ("events_lost", "events lost", ""),
    ("bytes_grown", "memory it grew by", "bytes"),
    ("bytes_read", "read", "bytes"),
    ("bytes_written", "written", "bytes"),
    ("bytes_mapped", "mapped", "bytes"),
    ("bytes_copied", "copied into the store", "bytes"),
    ("bytes_shared", "published without a copy", "bytes"),
)


def _cost(kernel: Mapping[str, object], name: str, unit: str) -> str:
    value = float(str(kernel[name]))
    if unit == "ms":
        return f"{value:.1f} ms"
    if unit == "bytes":
        return f"-{size(-value)}" if value < 0 else size(value)
    return f"{value:,.0f}"


def make(notebook: Path, done: Execution, recorded: dict[int, Recorded], most_bytes: int) -> str:
    """Make the page.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook that was run.
    done : Execution
        What was measured.
    recorded : dict of int to Recorded
        The recorded cells, by number.
    most_bytes : int
        How many bytes of views are embedded at most. The page's other parts come on top.

    Returns
    -------
    str
        The file's text.
    """
    embedded = _chosen(done.costs, recorded, most_bytes)
    tracks = overview(done)
    parts = [
        _head(notebook, done),
        f'<p class="error" role="status">{html.escape(done.ended)}</p>' if done.ended else "",
        _failures(done),
        _table(longest_first(done.costs), done.left),
        _meanings(),
        _tracks(views.parts(tracks)) if tracks is not None else _no_tracks(),
        *(
            _section(cost, recorded.get(cost.number), cost.number in embedded)
            for cost in done.costs
        ),
        _left_out(recorded, embedded),
    ]
    style, script = (_file(f"page.{end}") for end in ("css", "js"))
    title = html.escape(f"{notebook.name}: what its cells cost")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head>\n<body>"
        + "\n".join(part for part in parts if part)
        + f'\n<div id="program" hidden>{views.program()}</div><script>{script}</script></body></html>\n'
    )


def _file(name: str) -> str:
    return resources.files("holdfast.report").joinpath(name).read_text("utf-8")


def _chosen(costs: Iterable[CellCost], recorded: dict[int, Recorded], most: int) -> set[int]:
    """The cells whose views are embedded: the longest cells first, until the file is full."""
    chosen = set()
    for cost in longest_first(costs):
        found = recorded.get(cost.number)
        if found is not None and found.output and len(found.output) <= most:
            chosen.add(cost.number)
            most -= len(found.output)
    return chosen


def _head(notebook: Path, done: Execution) -> str:
    costs = done.costs
    cpu = [cost.cpu_ms for cost in costs if cost.cpu_ms is not None]
    peaks = [cost.bytes_peak for cost in costs if cost.bytes_peak is not None]
    facts = [("cells", str(len(costs))), ("failed", str(len(done.failed)))]
    if done.left:
        facts.append(("not run", str(done.left)))
    facts.append(("wall time", f"{sum(cost.ms for cost in costs) / 1e3:.2f} s"))
    if cpu:
        facts.append(("processor time", f"{sum(cpu) / 1e3:.2f} s"))
    if peaks:
        facts.append(("highest memory", size(max(peaks))))
    facts.append(("made", time.strftime("%Y-%m-%d %H:%M")))
    shown = "".join(f"<span>{name} <b>{html.escape(value)}</b></span>" for name, value in facts)
    return f'<h1>{html.escape(notebook.name)}</h1><div class="facts">{shown}</div>'


def _failures(done: Execution) -> str:
    lines = [
        f'<li><a href="#cell-{cost.number}">cell {cost.number}</a> {html.escape(cost.error)}</li>'
        for cost in done.failed
    ]
    if not lines:
        return ""
    rest = f"<p>{count(done.left, 'cell')} after it didn't run.</p>" if done.left else ""
    return (
        '<section class="failures" role="alert"><h2>'
        f"{count(len(done.failed), 'cell')} failed</h2><ul>{''.join(lines)}</ul>{rest}</section>"
    )


def _table(costs: list[CellCost], left: int) -> str:
    if not costs:
        return f"<p>{'No cell has run yet' if left else 'The notebook has no code cells'}.</p>"
    head = "".join(
        f'<th class="{"number" if column.value else ""}" title="{html.escape(column.meaning)}">'
        f"<button>{column.head or '#'}</button></th>"
        for column in COLUMNS
    )
    most = {
        column.head: max((column.value(cost) or 0 for cost in costs), default=0)
        for column in COLUMNS
        if column.value is not None
    }
    rows = "".join(
        f'<tr class="{"failed" if cost.has_failed else ""}">'
        + "".join(_entry(cost, column, most.get(column.head, 0)) for column in COLUMNS)
        + "</tr>"
        for cost in costs
    )
    return (
        f'<div class="wide"><table class="cells"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _entry(cost: CellCost, column: Column, most: float) -> str:
    text = html.escape(column.text(cost))
    if column.head == "cell":
        return f'<td><a href="#cell-{cost.number}">{text or "(empty)"}</a></td>'
    if column.value is None:
        return f"<td>{text}</td>"
    value = column.value(cost)
    part = 100 * (value or 0) / most if most else 0
    key = "" if value is None else f"{value:.4f}"
    return f'<td class="number" data-key="{key}" style="--part:{part:.1f}%">{text}</td>'


def _meanings() -> str:
    pairs = "".join(
        f"<dt>{column.head}</dt><dd>{html.escape(column.meaning)}</dd>"
        for column in COLUMNS
        if column.head
    )
    return f'<details><summary>The columns</summary><dl class="meanings">{pairs}</dl></details>'


def _view(parts: tuple[str, str], label: str) -> str:
    still, output = parts
    held = f"<template>{output}</template>" if output else ""
    return (
        f'<details class="view"><summary>{label}</summary>'
        f'<div class="still">{still}</div>{held}</details>'
    )


def _tracks(parts: tuple[str, str]) -> str:
    return f"<h2>Over time</h2>{_view(parts, 'Samples of the monitor, with the cells')}"


def _no_tracks() -> str:
    return (
        '<p class="faint">The monitor took no samples: with <code>--monitor 0.1</code> it takes one'
        " each tenth of a second, and this page shows them.</p>"
    )


def _section(cost: CellCost, recorded: Recorded | None, is_embedded: bool) -> str:
    prompt = f"In [{cost.count}]" if cost.count is not None else f"cell {cost.number}"
    error = f'<p class="error">{html.escape(cost.error)}</p>' if cost.error else ""
    if cost.is_expected and cost.error:
        error += "<p>Its tag <code>raises-exception</code> announces this.</p>"
    costs = "".join(
        f"<tr><th>{label}</th><td>{_cost(cost.kernel, name, unit)}</td></tr>"
        for name, label, unit in _COSTS
        if cost.kernel.get(name)
    )
    why = cost.kernel.get("run_reason")
    reason = f"<p>It ran {html.escape(cost.run)}: {html.escape(why)}</p>" if why else ""
    return (
        f'<section class="one" id="cell-{cost.number}"><h2>{cost.number}. '
        f"{html.escape(cost.title) or '(empty)'} <small>{prompt}</small></h2>{error}"
        f"<details><summary>Code</summary><pre>{html.escape(cost.source)}</pre></details>"
        f"<details><summary>Its cost in parts</summary><table>{costs}</table></details>{reason}"
        + (_recorded(recorded, is_embedded) if recorded is not None else "")
        + "</section>"
    )


def _recorded(found: Recorded, is_embedded: bool) -> str:
    place = f'<p class="faint">Trace: <code>{html.escape(str(found.archive))}</code></p>'
    if not found.is_kept:
        place = f'<p class="faint">{_REMOVED}</p>'
    if found.trouble:
        return f'<p class="error">No view: {html.escape(found.trouble)}</p>{place}'
    rows = "".join(
        f"<tr><th>{html.escape(row['name'])}</th><td>{row['visits']:,}</td>"
        f"<td>{row['inclusive'] * 1e3:.3f}</td><td>{row['exclusive'] * 1e3:.3f}</td>"
        f'<td class="place">{html.escape(_place(row))}</td></tr>'
        for row in found.functions
    )
    more = f"<p>and {found.others} more</p>" if found.others > 0 else ""
    functions = (
        "<h3>Longest functions</h3>"
        '<div class="wide"><table class="functions"><thead><tr><th>function</th><th>calls</th>'
        "<th>total ms</th><th>own ms</th><th></th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{more}"
    )
    if is_embedded or not found.output:
        return functions + _view((found.still, found.output), "Timeline and flame graph") + place
    return f"{functions}{_view((found.still, ''), 'Picture')}<p>{_how(found)}</p>"


def _place(row: Function) -> str:
    return f"{row['file']}:{row['line']}" if row["line"] else row["file"]


_REMOVED = (
    "The trace was removed when it had been read: <code>HOLDFAST_TRACE_LIMIT=0</code> keeps it."
)


def _how(found: Recorded) -> str:
    if not found.is_kept:
        return f"Its view ({size(len(found.output))}) is left out of this file. {_REMOVED}"
    directory = str(found.archive.parent)
    line = f"""python -c "from holdfast import views; views.trace({directory!r}).export('cell.html')\""""
    return (
        f"Its view ({size(len(found.output))}) is left out of this file. In a notebook"
        f" <code>%trace {html.escape(directory)}</code> shows it; in a shell"
        f" <code>{html.escape(line)}</code> writes it."
    )


def _left_out(recorded: dict[int, Recorded], embedded: set[int]) -> str:
    left = [number for number, found in recorded.items() if found.output and number not in embedded]
    if not left:
        return ""
    names = ", ".join(map(str, left))
    bytes_ = size(sum(len(recorded[number].output) for number in left))
    what = "view is" if len(left) == 1 else "views are"
    return (
        f'<p class="faint">{len(left)} {what} left out, {bytes_}, of the cells {names}; their sections'
        " say how to get them, and <code>--embed MIB</code> embeds more.</p>"
    )
