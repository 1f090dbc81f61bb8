"""The %holdfast line magic: how variables are stored, and how much time that took.

Sizes and generations are the same that `holdfast show` and `holdfast info` show of the session. Names that share
objects are stored as one group. The group's size is shown with the first of them. A value lives in the arena if its
memory belongs to the store. Otherwise it lives in the heap of this process, with a copy in the store. The commands of
history.py are listed here, too.
"""

from __future__ import annotations

import json
import textwrap
import typing as t

from holdfast import alias
from holdfast.base.tabular import align, count, size
from holdfast.carry.patches import shown
from holdfast.commands import history, verify
from holdfast.monitor import registration

if t.TYPE_CHECKING:
    from holdfast._store import _Entry
    from holdfast.worker.reports import CommitReport, Report

_USAGE = (
    """%holdfast            the session, its variables and the last recorded cell
%holdfast last       the cost of the last recorded cell
%holdfast explain    the meaning of each term of the line below it
%holdfast NAME ...   only these variables
%holdfast memory     the memory of each variable, here and in the store; memory NAME ...: only these
%holdfast retry NAME ...  load or save once more a variable that ended a process
%holdfast verify on  check with each commit that it misses no change; or off
%holdfast doctor     what works on this machine, and what to do about the rest
"""
    + history.USAGE
)

_TRACE = "Show where the time of a recorded cell went."

_RUN_MODES = {
    "in-process": "in the notebook's own process (in-process)",
    "forked": "in a fork of the notebook's own process (forked)",
    "isolated": "in a clean process of its own (isolated)",
}


_PARTS_CLEAN = {
    "commit_ms": "saving variables",
    "wait_ms": "waiting for a process and the start",
    "bind_ms": "binding variables",
}
_PARTS_IN = {
    "in-process": {
        "commit_ms": "waiting for the notebook's process",
        "wait_ms": "the fork and the start",
        "prepare_ms": "making memory ready",
        "bind_ms": "opening the recording",
    },
    "forked": _PARTS_CLEAN | {"wait_ms": "the fork and the start"},
}


def register(shell: t.Any, worker: t.Any) -> None:
    """Add %holdfast to a worker's shell.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    worker : holdfast.worker.requests.Worker
        The worker, of which the command reports.
    """

    def holdfast(line: str) -> None:
        words = line.split()
        if words and words[0] in history.COMMANDS:
            print(history.run(line, worker))
        elif words[:1] == ["retry"] and words[1:] and worker.names is not None:
            print(worker.retry(words[1:]))
        elif words[:1] == ["memory"] and worker.names is not None:
            from IPython.display import display

            from holdfast.commands import (
                memory,  # and the monitor, which may be needed only here
            )

            display(memory.report(words[1:], worker).bundle(), raw=True)
        elif words[:1] == ["verify"]:
            print(verify.switch(words[1:]))
        elif words[:1] == ["doctor"]:
            from holdfast import doctor

            print(doctor.run(words[1:]))
        else:
            print(render(words, worker))

    holdfast.__doc__ = "Show the session and its variables.\n\n" + _USAGE
    shell.register_magic_function(holdfast, "line", "holdfast")
    registration.register(shell)
    alias.install_extension()

    def trace(line: str) -> None:
        from IPython.display import display

        from holdfast.views import (
            command,  # the views are loaded only when they are needed
        )

        command.run(line, display)

    trace.__doc__ = _TRACE
    trace.getdoc = _trace_usage  # type: ignore[attr-defined] # what IPython shows for %trace?
    shell.register_magic_function(trace, "line", "trace")


def _trace_usage() -> str:
    from holdfast.views import command

    return f"{_TRACE}\n\n{command.USAGE}"


def render(words: list[str], worker: t.Any) -> str:
    """Write the text of one call of %holdfast.

    Parameters
    ----------
    words : list of str
        The words behind the command.
    worker : holdfast.worker.requests.Worker
        The worker of which it reports.

    Returns
    -------
    str
        The text, in lines.
    """
    if words in (["help"], ["-h"], ["--help"], ["?"]):
        return _USAGE
    if words[:1] in (["explain"], ["last"]) and words[1:]:
        return (
            f"%holdfast {words[0]} takes nothing behind it: {' '.join(words[1:])}. It is about the last"
            " recorded cell. %holdfast help lists the commands."
        )
    if words == ["explain"]:
        return _explain(getattr(worker, "last_line", {}))
    if worker.names is None:
        return "This kernel runs without a store: nothing is carried."
    if words == ["last"]:
        if not worker.last_report:
            return "No recorded cell has run yet."
        return "\n".join(_report_lines(worker.last_report, worker.last_run))
    listing = worker.names.listing()
    chosen = [
        row
        for row in listing
        if row["name"].isidentifier()
        and (row["name"] in words if words else not row["name"].startswith(history.OWN_PREFIX))
    ]
    reasons = {
        name: reason for name, reason in worker.names.reasons.items() if not words or name in words
    }
    if words:
        lost = {name: why for name, why in getattr(worker, "lost", {}).items() if name in words}
        known = {row["name"] for row in chosen} | set(reasons) | set(lost)
        lines = _name_lines(chosen, listing, reasons)
        lines += [
            f"{name} ended with the process of the cell that made it: {why}"
            for name, why in sorted(lost.items())
        ]
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            lines.append(
                f"Not in the store: {', '.join(missing)}. %holdfast help lists the commands."
            )
        return "\n".join(lines)
    lines = _session_lines(worker.session)
    if worker.session.generation == 0:
        lines.append(
            "Nothing is in the store yet: plain cells keep their variables, the first"
            " recorded cell commits them."
        )
    lines += _name_lines(chosen, listing, reasons)
    commit: CommitReport | None = getattr(worker, "last_commit", None)
    lines += _commit_lines(commit)
    if worker.last_report:
        lines += [
            "",
            "The last recorded cell:",
            *_report_lines(worker.last_report, worker.last_run),
        ]
    lines += history.summary(getattr(worker, "history", None))
    return "\n".join(lines)


def _explain(line: dict[str, t.Any]) -> str:
    """The terms of the last line below a recorded cell, each with its meaning. The frontend wrote
    both (kernel/session/summary.c)."""
    terms = line.get("terms") or []
    if not terms:
        return (
            "No line to explain yet: it stands below each recorded cell (%%execute_with_scorep),"
            " unless %trace --summary off has left it out."
        )
    lines = [f"The line below cell In[{line['number']}]:"]
    for term, meaning in zip(terms[::2], terms[1::2], strict=True):
        lines += [
            "",
            term,
            *textwrap.wrap(meaning, 88, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines)


def _session_lines(session: t.Any) -> list[str]:
    info = session.info()
    return [
        f"Session {session.name.lstrip('/')}, generation {session.generation}",
        f"{size(info['committed_bytes'])} committed, {size(info['allocated_bytes'])} allocated"
        f" of {size(info['capacity_bytes'])}",
        "",
    ]


def _commit_lines(report: CommitReport | None) -> list[str]:
    """The values that the last commit looked at, after plain cells."""
    if not report:
        return []
    line = f"The last commit looked at {count(report['names_examined'], 'variable')}"
    line += f" and saved {report['names_saved']}, in {report['seconds'] * 1000:.1f} ms"
    return ["", line + (f"; all, since {report['reason']}." if report["reason"] else ".")]


def _name_lines(rows: list[_Entry], listing: list[_Entry], reasons: dict[str, str]) -> list[str]:
    groups = {row["name"]: row for row in listing}
    first: dict[str, str] = {}  # by group: the name with which its size is shown
    table = [("name", "type", "carried as", "lives in", "size", "since")]
    for row in sorted(rows, key=lambda row: row["name"]):
        name, where = row["name"], row.get("where")
        stored = groups.get(where, row) if where else row
        carried, bytes_ = stored.get("codec") or "", size(stored.get("bytes") or 0)
        if where and first.setdefault(where, name) != name:
            carried, bytes_ = f"with {first[where]}", ""
        lives = "arena" if row.get("in_arena") else "heap"
        since = str(stored.get("generation") or "")
        table.append((name, row.get("type") or "", carried, lives, bytes_, since))
    lines = align(table, right=(4, 5)) if rows else []
    return lines + [
        f"{shown(name)} stays in the plain cells: {why}" for name, why in sorted(reasons.items())
    ]


def _parts(cost: dict[str, float], words: dict[str, str]) -> str:
    """The parts of a phase that took at least a tenth of a millisecond."""
    parts = [f"{text} {cost[key]:.1f} ms" for key, text in words.items() if cost.get(key, 0) >= 0.1]
    return "; " + ", ".join(parts) if parts else ""


def _report_lines(report: Report, run: str) -> list[str]:
    """Three lines, one for each phase. Then why a cell got all names, and in which mode it ran. The
    times are those in the line below the cell: the frontend reports how long the client waited."""
    cost = json.loads(run).get("cost", {})
    counts = {key: value for key, value in report.items() if isinstance(value, int)}

    def number(key: str) -> int:
        return counts.get(key, 0)

    prepared = sum(map(number, ("bytes_prepared", "bytes_populated", "bytes_preallocated")))
    phases = {
        "in": f"{count(number('names_bound'), 'name')} bound,"
        f" {number('names_decoded')} of them decoded; {number('names_skipped')} left in the store;"
        f" {size(number('bytes_mapped'))} mapped"
        + (f", {size(prepared)} made ready" if prepared else ""),
        "run": f"{count(number('events'), 'event')};"
        f" {count(number('copy_faults'), 'page')} of mapped values changed",
        "out": f"{count(number('names_saved'), 'name')} saved"
        f" of {number('names_examined')} looked at;"
        f" {size(number('bytes_copied'))} copied, {size(number('bytes_shared'))} shared"
        " without a copy",
    }
    if flushes := number("flushes"):
        ms = report.get("seconds_flushed", 0.0) * 1000
        phases["run"] += f"; {count(flushes, 'full buffer')} written out in {ms:.1f} ms of it"
    if rewound := number("events_rewound"):
        phases["run"] += f"; {count(rewound, 'event')} taken back"
    if missing := number("events_lost"):
        phases["run"] += f"; {count(missing, 'event')} lost"
    if lost := number("names_unserializable"):
        phases["out"] += f"; {count(lost, 'name')} not carried"
    times = {
        "in": cost.get("hand_over_in_ms", report.get("seconds_in", 0.0) * 1000),
        "run": report.get("seconds_run", 0.0) * 1000,
        "out": cost.get("hand_over_out_ms", report.get("seconds_out", 0.0) * 1000),
    }
    phases["in"] += _parts(cost, _PARTS_IN.get(report.get("run", ""), _PARTS_CLEAN))
    phases["out"] += _parts(cost, {"trace_ms": "closing the recording"})
    table = [(phase, f"{times[phase]:.1f} ms", text) for phase, text in phases.items()]
    lines = align(table, right=(1,))
    if report.get("reason"):
        lines.append(f"All names were bound: {report['reason']}.")
    if report.get("recorder") == "scorep":
        lines.append("It was recorded by Score-P.")
    if report.get("run"):
        why = f": {report['run_reason']}" if report.get("run_reason") else ""
        lines.append(f"It ran {_RUN_MODES[report['run']]}{why}.")
    return lines
