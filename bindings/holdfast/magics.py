"""The %holdfast line magic: what is carried between processes, and what it cost.

Sizes and generations are those that `holdfast show` and `holdfast info` tell of the same
session. Names that share objects are stored as one group; the group's size stands with the
first of them.
"""

from __future__ import annotations

import typing as t

_USAGE = """%holdfast            the session, its variables and the last instrumented cell
%holdfast last       what the last instrumented cell cost
%holdfast NAME ...   only these variables"""

_ROADS = {
    "home": "in the notebook's own process (the home road)",
    "map": "in a process of its own (the map road)",
}


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
        if not worker.last_report:
            return "No instrumented cell has run yet."
        return "\n".join(_report_lines(worker.last_report))
    listing = worker.names.listing()
    chosen = [
        row for row in listing if row["name"].isidentifier() and (not words or row["name"] in words)
    ]
    reasons = {
        name: reason for name, reason in worker.names.reasons.items() if not words or name in words
    }
    if words:
        lines = _name_lines(chosen, listing, reasons)
        return "\n".join(lines) or "No such variable is in the store."
    lines = _session_lines(worker.session)
    if worker.session.generation == 0:
        lines.append(
            "Nothing is in the store yet: plain cells keep their variables, the first"
            " instrumented cell commits them."
        )
    lines += _name_lines(chosen, listing, reasons)
    lines += _commit_lines(getattr(worker, "last_commit", {}))
    if worker.last_report:
        lines += ["", "The last instrumented cell:", *_report_lines(worker.last_report)]
    return "\n".join(lines)


def _session_lines(session: t.Any) -> list[str]:
    info = session.info()
    return [
        f"Session {session.name.lstrip('/')}, generation {session.generation}",
        f"{_size(info['committed_bytes'])} committed, {_size(info['allocated_bytes'])} allocated"
        f" of {_size(info['capacity_bytes'])}",
        "",
    ]


def _commit_lines(report: dict[str, t.Any]) -> list[str]:
    """What the last commit of plain cells' changes looked at."""
    if not report:
        return []
    told = f"The last commit looked at {_count(report['names_examined'], 'variable')}"
    told += f" and saved {report['names_saved']}, in {report['seconds'] * 1000:.1f} ms"
    return ["", told + (f"; all, since {report['reason']}." if report["reason"] else ".")]


def _name_lines(rows: list[dict], listing: list[dict], reasons: dict[str, str]) -> list[str]:
    groups = {row["name"]: row for row in listing}
    first: dict[str, str] = {}  # group: the name that its size stands with
    table = [("name", "type", "carried as", "size", "since")]
    for row in sorted(rows, key=lambda row: row["name"]):
        name, where = row["name"], row.get("where")
        stored = groups.get(where, row) if where else row
        carried, size = stored.get("codec") or "", _size(stored.get("bytes") or 0)
        if where and first.setdefault(where, name) != name:
            carried, size = f"with {first[where]}", ""
        since = str(stored.get("generation") or "")
        table.append((name, row.get("type") or "", carried, size, since))
    lines = _align(table, right=(3, 4)) if rows else []
    return lines + [
        f"{name} stays in the plain cells: {why}" for name, why in sorted(reasons.items())
    ]


def _report_lines(report: dict[str, t.Any]) -> list[str]:
    """Three lines, one a phase; why a cell got all names; which road it took."""
    count = {key: value for key, value in report.items() if isinstance(value, int)}

    def number(key: str) -> int:
        return count.get(key, 0)

    prepared = number("bytes_prepared") + number("bytes_populated")
    phases = {
        "in": f"{_count(number('names_bound'), 'name')} bound,"
        f" {number('names_decoded')} of them decoded; {number('names_skipped')} left in the store;"
        f" {_size(number('bytes_mapped'))} mapped"
        + (f", {_size(prepared)} made ready" if prepared else ""),
        "run": f"{_count(number('events'), 'event')};"
        f" {_count(number('copy_faults'), 'page')} of mapped values changed",
        "out": f"{_count(number('names_saved'), 'name')} saved"
        f" of {number('names_examined')} looked at;"
        f" {_size(number('bytes_copied'))} copied, {_size(number('bytes_shared'))} shared"
        " without a copy",
    }
    lost = number("names_declined")
    if lost:
        phases["out"] += f"; {_count(lost, 'name')} not carried"
    table = [
        (phase, f"{report.get('seconds_' + phase, 0.0) * 1000:.1f} ms", text)
        for phase, text in phases.items()
    ]
    lines = _align(table, right=(1,))
    if report.get("reason"):
        lines.append(f"All names were bound: {report['reason']}.")
    if report.get("recorder") == "scorep":
        lines.append("It was recorded by Score-P.")
    if report.get("road"):
        why = f": {report['road_reason']}" if report.get("road_reason") else ""
        lines.append(f"It ran {_ROADS[report['road']]}{why}.")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _align(table: t.Sequence[tuple[str, ...]], right: t.Container[int] = ()) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
