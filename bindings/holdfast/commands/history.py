"""Formats the output of %holdfast undo, checkout, diff, history, save, load and publish; knows the form of all commands.

The frontend keeps the old generations and publishes them anew, before the cell runs. The cell must have only this
line. The frontend's result, and the steps that it keeps, come with the request (kernel/session/generations.c). This
module formats them, and compares steps. `rerun` and `protect` come here only where they can have no effect.

A step is named by its root. So the main worker reads the directories of two steps side by side. It decodes only small
plain values, to show them. An entry that both steps share has the same generation and sequence in both.
"""

from __future__ import annotations

import os
import re
import time
import typing as t

from IPython.core.error import UsageError

from holdfast.base import sentences
from holdfast.base.tabular import align, count, size
from holdfast.carry.patches import shown

USAGE = """%holdfast undo       the variables as before the last cell that changed any
%holdfast undo --to N  the variables as after In[N]
%holdfast history    the steps that are kept; history LIMIT (such as 2G, 500M, 0) bounds them
%holdfast checkout N  the variables of step N
%holdfast diff N M   the differences between two steps; diff N, or diff alone: up to now
%holdfast save FILE  write all variables to a file
%holdfast load FILE  replace all variables by those of a file; only of one that you trust
%holdfast publish    save now, and show how other programs open the variables
%holdfast rerun      run the cells again whose changes a crash has lost
%holdfast protect    how cells are protected from a crash; protect always, budget or never chooses"""

COMMANDS = ("undo", "checkout", "diff", "history", "save", "load", "publish", "rerun", "protect")

OWN_PREFIX = "_holdfast_"  # of names that aren't the notebook's: its widgets' models
_VALUE_MOST = 256  # bytes of an encoding that is shown
_SHOWN_MOST = 60  # characters of a value
_NAMES_MOST = 8  # in a line
_NUMBERED = re.compile(r"_[0-9]+\Z")

if t.TYPE_CHECKING:
    from holdfast import _store
    from holdfast.worker.reports import History, Step

    Rows = dict[str, _store._Entry]


def run(line: str, worker: t.Any) -> str:
    """Do one command of the history.

    Parameters
    ----------
    line : str
        The words behind %holdfast.
    worker : holdfast.worker.main_worker.MainWorker
        The worker that has the variables.

    Returns
    -------
    str
        The text that the command shows.
    """
    word, _, rest = line.strip().partition(" ")
    arguments = rest.split()
    if not _FORMS[word](arguments):
        usage = [text for text in USAGE.splitlines() if text.startswith(f"%holdfast {word}")]
        raise UsageError("usage:\n" + "\n".join(usage))
    history = getattr(worker, "history", None)
    if history is None or word not in _ACTIONS:
        also = " (or holdfast.publish())" if word == "publish" else ""
        when = (
            ": what this cell sets is saved by it in a cell after this one, or when the kernel has been idle for a while"
            if word == "publish"
            else ""
        )
        raise UsageError(f"%holdfast {word}{also} must be the only line of a plain cell{when}")
    from holdfast import _store

    try:
        return _ACTIONS[word](history, rest.strip(), worker)
    except (
        OSError,
        _store.Error,
    ) as error:  # an error of a file, or a full arena: the code isn't to blame
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"%holdfast {word}: {why}") from None


def summary(history: History | None) -> list[str]:
    """Write the line about the history in the status.

    Parameters
    ----------
    history : History or None
        The history, as the frontend sent it.

    Returns
    -------
    list of str
        One line, or none if there is no step.
    """
    if history is None or not history["steps"]:
        return []
    steps = count(len(history["steps"]), "step")
    return ["", f"History: {steps} (%holdfast history); {_limits(history)}."]


def _limits(history: History) -> str:
    kept = f"{size(history['kept_bytes'])} kept for it, of at most {size(history['limit_bytes'])}"
    if history["dropped"]:
        kept += f"; {count(history['dropped'], 'older step')} dropped"
    return kept


# ---- ways back


def _undo(history: History, rest: str, worker: t.Any) -> str:
    undone = history["undone"]
    many = "," in undone
    if undone:
        what = f"{'Cells' if many else 'Cell'} {undone} {'are' if many else 'is'} undone"
    else:
        what = "Done" if rest else "The last step is undone"
    return _went_back(what, history, worker)


def _checkout(history: History, rest: str, worker: t.Any) -> str:
    return _went_back("Done", history, worker)


def _went_back(what: str, history: History, worker: t.Any) -> str:
    lines = [f"{what}: the variables are those of step {history['target']}."]
    for words, names in (
        ("Changed", worker.returned["changed"]),
        ("Back", worker.returned["back"]),
        ("Gone", worker.returned["gone"]),
    ):
        names = [name for name in names if _is_users(name)]
        if names:
            lines.append(f"{words}: {_some(names)}.")
    lines += _unserializable_lines(history["unserializable"], worker)
    before = [None, *history["steps"]][-2]
    if before is not None:
        lines.append(f"%holdfast checkout {before} takes it back.")
    return "\n".join(lines)


def _unserializable_lines(then: dict[str, str], worker: t.Any) -> list[str]:
    """The line about variables that are in no step, since no codec encodes them."""
    now = worker.names.reasons
    gone = {name: why for name, why in then.items() if name not in now}
    return _with_reasons("stays as it is", now) + _with_reasons("can't be brought back", gone)


def _with_reasons(words: str, reasons: dict[str, str]) -> list[str]:
    lines = [
        f"{shown(name)} {words}: {sentences.brief(name, why)}."
        for name, why in sorted(reasons.items())[:_NAMES_MOST]
    ]
    more = len(reasons) - len(lines)
    return lines + [f"So it is with {more} more: %holdfast lists them."] if more else lines


# ---- what differs


def rows_of(session: t.Any, step: Step | None) -> Rows:
    """Find the entries of a step by their keys.

    Parameters
    ----------
    session : holdfast._store.Session
        The session.
    step : Step or None
        The step; None has no entries.

    Returns
    -------
    dict of str to dict
        The entries.
    """
    from holdfast import _store

    if step is None:
        return {}
    return {row["name"]: row for row in _store._entries(session, step["name"], _VALUE_MOST)}


def changed_names(before: Rows, after: Rows) -> list[str]:
    """Find the names that differ between two steps.

    Parameters
    ----------
    before, after : dict of str to dict
        The entries of both steps.

    Returns
    -------
    list of str
        The user's names of which the entry, or that of their group, differs.
    """
    return [
        name
        for name in {**before, **after}
        if _is_users(name) and _identity(before, name) != _identity(after, name)
    ]


def _identity(rows: Rows, name: str) -> object:
    row = rows.get(name)
    if row is None:
        return None
    group = rows.get(row["where"], row)
    return [(one["generation"], one["sequence"]) for one in (row, group)]


def _diff(history: History, rest: str, worker: t.Any) -> str:
    numbers = list(history["steps"])
    if not numbers:
        return "No step is kept yet."
    chosen = rest.split()
    last = chosen[1] if len(chosen) > 1 else numbers[-1]
    first = chosen[0] if chosen else (numbers[-2] if len(numbers) > 1 else None)
    before = rows_of(worker.session, history["steps"].get(first))
    after = rows_of(worker.session, history["steps"][last])
    since = "before it" if first is None else f"step {first}"
    names = _changed_between(history, before, after, first, last)
    names = [name for name in names if _differs(before, after, name)]
    if not names:
        return f"No variable differs between {since} and step {last}."
    table = [("", "name", "type", "size", "value")]
    for name in sorted(names):
        old, new = before.get(name), after.get(name)
        sign = "+" if old is None else "-" if new is None else "~"
        table.append((sign, name, *_both(before, after, name)))
    return "\n".join([f"From {since} to step {last}:", *align(table, right=(3,))])


def _changed_between(
    history: History, before: Rows, after: Rows, first: str | None, last: str
) -> list[str]:
    """The names whose entries differ between two steps, without those that no step in between has
    changed. Such an entry differs only because it is stored together with others."""
    low, high = sorted((int(first or 0), int(last)))
    between = [step for number, step in history["steps"].items() if low < int(number) <= high]
    lists = [step.get("changed") for step in between]
    names = changed_names(before, after)
    if first is None or None in lists:
        return names
    changed = {name for one in lists for name in one or ()}
    return [name for name in names if name in changed]


def _differs(before: Rows, after: Rows, name: str) -> bool:
    """Whether a name is shown. It isn't if both values are shown as text and equal: then only what
    it shares has changed."""
    old, new = _value(before, name), _value(after, name)
    return old is None or old != new


def _both(before: Rows, after: Rows, name: str) -> tuple[str, str, str]:
    cells = []
    for rows in (before, after):
        row = rows.get(name)
        if row is not None:
            group = rows.get(row["where"], row)
            cells.append((row["type"] or "", size(group["bytes"]), _value(rows, name) or ""))
    columns = list(zip(*cells, strict=True))
    kind, bytes_, value = ([one for one in column if one] for column in columns)
    return _arrow(kind), _arrow(bytes_), _arrow(value)


def _arrow(shown: list[str]) -> str:
    return " → ".join(dict.fromkeys(shown))


def _value(rows: Rows, name: str) -> str | None:
    """A small plain value as text."""
    from holdfast import _store

    row = rows.get(name)
    if row is None:
        return None
    content = rows.get(row["where"], row).get("content")
    if content is None:
        return None
    codec, meta, payload = content
    value = _store._decode(codec, meta, payload, [])
    text = repr(value.get(name) if row["where"] else value)
    return text if len(text) <= _SHOWN_MOST else text[: _SHOWN_MOST - 3] + "..."


# ---- the list


def _history(history: History, rest: str, worker: t.Any) -> str:
    steps = history["steps"]
    if not steps:
        return "No step is kept yet."
    table = [("step", "time", "cells", "size", "changed")]
    before: Rows | None = None
    for number, step in steps.items():
        after = rows_of(worker.session, step)
        names = [] if before is None else _changed_by(step, before, after)
        if step["origin"]:
            change = f"the variables of step {step['origin']}"
        elif before is None:
            change = f"{count(sum(map(_is_users, after)), 'variable')} in all"
        else:
            change = _some(names) or "code or shared values"
        table.append((number, _clock(step["unix_ns"]), step["cells"], _sum(after, names), change))
        before = after
    lines = align(table, right=(0, 3))
    if history["pending"]:
        cells = f"cell{'s' if ',' in history['pending'] else ''} {history['pending']}"
        lines.append(f"Not committed yet: what {cells} may have changed.")
    return "\n".join([*lines, f"{_limits(history)}."])


def _changed_by(step: Step, before: Rows, after: Rows) -> list[str]:
    names = step.get("changed")
    return changed_names(before, after) if names is None else list(filter(_is_users, names))


def _sum(rows: Rows, names: list[str]) -> str:
    """The bytes of the names' entries, each counted once, as text. "" if there are none."""
    entries = {}
    for name in names:
        row = rows.get(name)
        if row is not None:
            group = rows.get(row["where"], row)
            entries[group["name"]] = group["bytes"]
    return size(sum(entries.values())) if entries else ""


def _clock(unix_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix_ns / 1e9))


def _is_users(name: str) -> bool:
    own = name.startswith(OWN_PREFIX) or name == "_exit_code"
    return name.isidentifier() and not own and not _NUMBERED.match(name)


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMES_MOST])
    more = len(names) - _NAMES_MOST
    return f"{shown} and {more} more" if more > 0 else shown


# ---- files


def _save(history: History, rest: str, worker: t.Any) -> str:
    from holdfast import _store

    path = _path(rest)
    info = _store._save_file(worker.session, path)
    names = [row["name"] for row in worker.names.listing() if _is_users(row["name"])]
    lines = [
        f"{count(len(names), 'variable')} saved to {path}:"
        f" {size(info['data_bytes'])} in {size(info['file_bytes'])}."
    ]
    return "\n".join(lines + _with_reasons("isn't in it", worker.names.reasons))


def _load(history: History, rest: str, worker: t.Any) -> str:
    from holdfast import _store

    path = _path(rest)
    worker.loaded, info = _store._load_file(worker.session, path)
    saved = time.strftime("%F %T", time.localtime(info["created_unix_ns"] / 1e9))
    return (
        f"The variables are those of {path}, saved on {saved}: {size(info['data_bytes'])}.\n"
        "%holdfast undo takes it back."
    )


# ---- other programs


def _publish(history: History, rest: str, worker: t.Any) -> str:
    name, generation = worker.session.name, worker.names.generation
    in_c = f'hf_session_open_readonly("{name}", &session, &error)'
    in_python = f'holdfast.store.Session.open("{name}", readonly=True)'
    if not name:  # /dev/shm is too small
        path = f"/proc/{os.getpid()}/fd/{worker.session.fd}"
        in_c = f'hf_session_open_fd_readonly(open("{path}", O_RDWR), &session, &error)'
        in_python = f'holdfast.store.Session.from_fd(open("{path}", "r+b"), readonly=True)'
    lines = [
        f"Saved: generation {generation} of the session {name or '(which has no name)'}",
        f"C:       {in_c}",
        f"Python:  {in_python}",
    ]
    return "\n".join(lines + _with_reasons("isn't in it", worker.names.reasons))


def publish() -> None:
    """Save the notebook's variables now, and show how other programs open them.

    It must be the only line of a plain cell, as ``%holdfast publish``, which does the same: the kernel saves before it
    runs the cell. The output has the session's name, its generation, and the lines of C and Python that open it.

    Raises
    ------
    RuntimeError
        This program isn't a notebook of Holdfast's.
    IPython.core.error.UsageError
        It isn't the only line of the cell.
    """
    from IPython import get_ipython

    shell = get_ipython()  # type: ignore[no-untyped-call]
    if shell is None or shell.find_line_magic("holdfast") is None:
        raise RuntimeError(
            "only a notebook of Holdfast's has variables to publish; a program commits a Session of its own"
        )
    shell.run_line_magic("holdfast", "publish")


def _path(rest: str) -> str:
    quoted = len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "'\""
    return os.path.expanduser(rest[1:-1] if quoted else rest)


def _are_numbers(arguments: list[str]) -> bool:
    return all(re.fullmatch(r"[0-9]{1,15}", one) for one in arguments)


_FORMS: dict[str, t.Callable[[list[str]], bool]] = {
    "undo": lambda arguments: (
        not arguments
        or (len(arguments) == 2 and arguments[0] == "--to" and _are_numbers(arguments[1:]))
    ),
    "checkout": lambda arguments: len(arguments) == 1 and _are_numbers(arguments),
    "diff": lambda arguments: len(arguments) <= 2 and _are_numbers(arguments),
    "history": lambda arguments: (
        len(arguments) <= 1
        and all(re.fullmatch(r"[0-9]{1,15}[KMGTkmgt]?", one) for one in arguments)
    ),
    "save": lambda arguments: bool(arguments),
    "load": lambda arguments: bool(arguments),
    "publish": lambda arguments: not arguments,
    "rerun": lambda arguments: not arguments,
    "protect": lambda arguments: (
        not arguments or (len(arguments) == 1 and arguments[0] in ("always", "budget", "never"))
    ),
}
_ACTIONS: dict[str, t.Callable[[History, str, t.Any], str]] = {
    "undo": _undo,
    "checkout": _checkout,
    "diff": _diff,
    "history": _history,
    "save": _save,
    "load": _load,
    "publish": _publish,
}
