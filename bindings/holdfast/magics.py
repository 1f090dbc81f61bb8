"""The %holdfast line magic: what is carried between processes, and what it cost."""

from __future__ import annotations

import typing as t

_USAGE = """%holdfast            what the notebook's variables are carried as
%holdfast last       what the last instrumented cell cost
%holdfast NAME ...   only these variables"""


def register(shell: t.Any, worker: t.Any) -> None:
    """Add %holdfast to a worker's shell."""

    def holdfast(line: str) -> None:
        print(render(line.split(), worker))

    holdfast.__doc__ = "Show what Holdfast carries.\n\n" + _USAGE
    shell.register_magic_function(holdfast, "line", "holdfast")


def render(words: list[str], worker: t.Any) -> str:
    """The text of one call."""
    if words in (["help"], ["-h"], ["--help"], ["?"]):
        return _USAGE
    if worker.names is None:
        return "This kernel runs without a store: nothing is carried."
    if words == ["last"]:
        return _render_report(worker.last_report)
    rows = [
        row
        for row in worker.names.listing()
        if row["name"].isidentifier() and (not words or row["name"] in words)
    ]
    reasons = {
        name: reason for name, reason in worker.names.reasons.items() if not words or name in words
    }
    return _render_names(rows, reasons, worker.session.generation)


def _render_names(rows: list[dict], reasons: dict[str, str], generation: int) -> str:
    if not rows and not reasons:
        return (
            "Nothing is in the store yet: plain cells keep their variables, the first"
            " instrumented cell commits them."
            if generation == 0
            else "No such variable is in the store."
        )
    table = [("name", "type", "carried as", "bytes", "generation")]
    for row in sorted(rows, key=lambda row: row["name"]):
        table.append(
            (
                row["name"],
                str(row.get("type") or ""),
                str(row.get("codec") or ""),
                f"{row.get('bytes') or 0:,}",
                str(row.get("generation") or ""),
            )
        )
    lines = _align(table) if rows else []
    lines += [f"{name} stays in the plain cells: {why}" for name, why in sorted(reasons.items())]
    return "\n".join(lines)


def _render_report(report: dict[str, t.Any]) -> str:
    if not report:
        return "No instrumented cell has run yet."
    lines = []
    for key, value in report.items():
        if isinstance(value, float):
            lines.append((key.replace("_", " "), f"{value * 1000:.1f} ms"))
        elif value not in ("", None):
            text = f"{value:,}" if isinstance(value, int) else str(value)
            lines.append((key.replace("_", " "), text))
    return "\n".join(_align(lines))


def _align(table: t.Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
