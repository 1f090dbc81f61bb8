"""IPython's memory of the session: In, Out, `_`, `_i`, and which names are IPython's own.

IPython keeps them in the user's namespace, next to the variables, and hides them. The numbered results (`_5`)
are carried as variables, since they are the user's values and may be the same objects as variables.
Everything else is made from them again:

* `Out` from the numbered results;
* `_`, `__` and `___` from the numbers of the last ones;
* `In` and `_i` from the inputs, which are carried as text. With them go the file names of cells' code, which
  functions keep, and the sources: a traceback shows them, and `inspect.getsource` finds them.

A last result that isn't bound here (it is in the store, or no codec encodes it) is an `Elsewhere` in
IPython's display hook. So its number isn't forgotten, and no name is bound to it.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import typing as t

from IPython.core import interactiveshell

from .shell import cell_numbers

if t.TYPE_CHECKING:
    from ..reports import Memory

_NUMBERED = re.compile(r"_[0-9]+\Z")
_UNDERS = ("_", "__", "___")
_gone: set[int] = set()  # results that were taken out of Out before this process had them
_WARNED = "__warningregistry__"  # IPython deletes it before each cell


class Elsewhere:
    """Stands for a numbered result that this process doesn't have."""

    def __init__(self, number: int):
        self.number = number

    def __repr__(self) -> str:
        return f"<the result of cell {self.number}, which is not here>"


def is_numbered(name: str) -> bool:
    """Whether it is a name such as `_5`."""
    return name[:1] == "_" and _NUMBERED.match(name) is not None


def _numbered(namespace: dict[t.Any, t.Any]) -> list[tuple[str, t.Any]]:
    return [
        (name, value)
        for name, value in list(namespace.items())
        if isinstance(name, str) and is_numbered(name)
    ]


def hidden_names(shell: t.Any) -> frozenset[str]:
    """The names of the namespace that IPython made, without the numbered results.

    A name that the user bound anew is the user's: IPython knows that by identity. So is one that the
    notebook's code has hidden from %who; those that IPython makes later begin with an underscore.
    """
    namespace, own, absent = shell.user_ns, shell.own_hidden, object()
    return frozenset(
        name
        for name, value in shell.user_ns_hidden.items()
        if (name in own or name.startswith("_"))
        and name not in shell.from_files
        and namespace.get(name, absent) is value
        and not _NUMBERED.match(name)
    ).union(given_back(shell), (_WARNED,))


def given_back(shell: t.Any) -> set[str]:
    """Those of `_`, `__` and `___` that are IPython's, also if the notebook had them before."""
    return set(_UNDERS) & shell.user_ns.keys() - _user_unders(shell)


def holders(shell: t.Any) -> tuple[dict[str, t.Any], ...]:
    """The dicts in which IPython keeps references to the user's results, besides the names."""
    outcome = shell.last_execution_result
    return (
        shell.user_ns_hidden,
        _outputs(shell),
        vars(shell.displayhook),
        {} if outcome is None else vars(outcome),
    )


def _outputs(shell: t.Any) -> dict[t.Any, t.Any]:
    """`Out`, also where the user has deleted or replaced the name by which IPython finds it."""
    for name in ("_oh", "Out"):
        found = shell.user_ns.get(name)
        if type(found) is dict:
            return found
    return {}


def own_entries(shell: t.Any) -> dict[str, t.Any]:
    """What code has put into `In` and `Out` itself, in a form that can be compared. Another process
    makes them from the inputs and the numbered results."""
    history, outputs = shell.history_manager, _outputs(shell)
    is_there = any(shell.user_ns.get(name) is outputs for name in ("_oh", "Out"))
    numbered = {int(name[1:]): value for name, value in _numbered(shell.user_ns)}
    others = {key: id(value) for key, value in outputs.items() if key not in numbered}
    changed = {
        number: id(outputs[number])
        for number, value in numbered.items()
        if outputs.get(number, value) is not value
    }
    return {
        "In": len(history.input_hist_parsed) - len(history.input_hist_raw),
        "Out": others | changed if is_there else {},
    }


def altered(shell: t.Any, before: dict[str, t.Any]) -> list[str]:
    """`In` and `Out`, if code has changed their entries since `own_entries` gave `before`, in
    words."""
    now = own_entries(shell)
    return [f"the entries of {name}" for name in now if now[name] != before[name]]


def numbers(shell: t.Any) -> set[int]:
    """The numbers of the results in `Out`."""
    return {key for key in _outputs(shell) if type(key) is int}


def forget(shell: t.Any, gone: t.Iterable[int]) -> None:
    """Results that code has taken out of `Out` in another process."""
    for number in gone:
        _outputs(shell).pop(number, None)
        shell.user_ns_hidden.pop(f"_{number}", None)


def last_results(shell: t.Any) -> frozenset[str]:
    """The numbered results that `_`, `__` and `___` are now."""
    last = {id(getattr(shell.displayhook, name, None)) for name in _UNDERS}
    return frozenset(f"_{number}" for one, number in _numbers_by_id(shell).items() if one in last)


def _numbers_by_id(shell: t.Any) -> dict[int, t.Any]:
    """Also of results that code has taken out of `Out`, whose names are there yet."""
    named = {id(value): int(name[1:]) for name, value in _numbered(shell.user_ns)}
    return named | {id(value): number for number, value in _outputs(shell).items()}


def _taken_out(shell: t.Any) -> set[int]:
    """Results that may have names, and that code has taken out of `Out`."""
    outputs = _outputs(shell)
    if not any(shell.user_ns.get(name) is outputs for name in ("_oh", "Out")):
        return _gone
    named = {int(name[1:]) for name, _ in _numbered(shell.user_ns)}
    return (named | _gone) - outputs.keys()


def _user_unders(shell: t.Any) -> set[str]:
    """Those of `_`, `__` and `___` that the user assigned himself."""
    hook, namespace = shell.displayhook, shell.user_ns
    return {
        name
        for name in _UNDERS
        if name in namespace and namespace[name] is not getattr(hook, name, None)
    }


def capture(shell: t.Any) -> Memory:
    """The inputs and the numbers of the last results, as plain values."""
    history = shell.history_manager
    numbers = _numbers_by_id(shell)
    files = dict(cell_numbers(shell))
    outcome = shell.last_execution_result
    return {
        "raw": list(history.input_hist_raw),
        "parsed": list(history.input_hist_parsed),
        "files": files,
        "sources": _sources(files, history.input_hist_parsed),
        "directories": [str(directory) for directory in shell.user_ns.get("_dh", ())],
        "unbound": _unbound(shell),
        "outcome": [outcome.execution_count, not outcome.success] if outcome else [],
        "last": [_number(getattr(shell.displayhook, name, None), numbers) for name in _UNDERS],
        "gone": sorted(_taken_out(shell)),
        "empty": [name for name in _UNDERS if _is_empty(getattr(shell.displayhook, name, None))],
    }


def _is_empty(value: object) -> bool:
    """Whether no result was shown yet, or since `%reset out`."""
    return type(value) is str and value == ""


def _unbound(shell: t.Any) -> list[str]:
    """Those of `_`, `__` and `___` that are no names, although their values are here."""
    names = (name for name in _UNDERS if name not in shell.user_ns)
    return [name for name in names if not isinstance(vars(shell.displayhook).get(name), Elsewhere)]


def _number(value: object, numbers: dict[int, int]) -> int:
    return value.number if isinstance(value, Elsewhere) else numbers.get(id(value), 0)


def restore(shell: t.Any, memory: Memory) -> None:
    """In a cell worker: make In, Out and their relatives from what was carried."""
    _restore_inputs(shell, memory["raw"], memory["parsed"])
    restore_results(shell, memory)
    if memory.get("outcome"):
        number, raised = memory["outcome"]
        codes = memory["raw"]
        code = codes[number] if number is not None and number < len(codes) else ""
        note_outcome(shell, number, code, raised)


def _restore_inputs(shell: t.Any, raw: list[str], parsed: list[str]) -> None:
    history = shell.history_manager
    # The lists are In and _ih themselves.
    history.input_hist_raw[:], history.input_hist_parsed[:] = raw, parsed
    inputs = [*[""] * 4, *raw[1:]]
    # The shell shifts them when it stores the input of the cell that is about to run.
    history._iii, history._ii, history._i, history._i00 = inputs[-4:]
    numbered = {f"_i{number}": text for number, text in enumerate(raw) if number}
    shell.push(numbered, interactive=False)


def restore_results(shell: t.Any, memory: Memory) -> None:
    """Make Out and `_` agree with the numbered results that are bound now, and know by
    their files the cells that ran elsewhere."""
    _restore_sources(memory)
    _restore_directories(shell, memory["directories"])
    cell_numbers(shell).update(memory["files"])
    namespace, outputs = shell.user_ns, _outputs(shell)
    _gone.clear()
    _gone.update(memory.get("gone", ()))
    for name, value in _numbered(namespace):
        if int(name[1:]) not in _gone:
            outputs[int(name[1:])] = value
        shell.user_ns_hidden[name] = value
    users, unbound = _user_unders(shell), memory.get("unbound", ())
    for name in memory.get("empty", ()):
        setattr(shell.displayhook, name, "")
        if name not in users and name in namespace:
            namespace[name] = shell.user_ns_hidden[name] = ""
    for name, number in zip(_UNDERS, memory["last"], strict=True):
        value = namespace.get(f"_{number}", Elsewhere(number))  # if it isn't in Out
        value = outputs.get(number, value) if number else None
        if number:
            setattr(shell.displayhook, name, value)
        if name in users:
            continue
        if name in unbound or isinstance(value, Elsewhere):
            namespace.pop(name, None)
            shell.user_ns_hidden.pop(name, None)
        elif number:
            namespace[name] = shell.user_ns_hidden[name] = value


def keep(shell: t.Any) -> None:
    """After a return to an older state: results that are shown stay what they are, as
    `Out` and as names."""
    namespace, outputs = shell.user_ns, _outputs(shell)
    for number, value in outputs.items():
        name = f"_{number}"
        outputs[number] = namespace.setdefault(name, value)
        shell.user_ns_hidden[name] = namespace[name]


def _restore_directories(shell: t.Any, new: list[str]) -> None:
    """The directories that `%cd -` goes back to; entries that are known stay the objects they
    are."""
    known = shell.user_ns.get("_dh")
    if isinstance(known, list):
        objects = {str(directory): directory for directory in known}
        known[:] = [objects.get(directory, directory) for directory in new]


def last_names(memory: Memory) -> dict[str, str]:
    """The numbered results that `_`, `__` and `___` are, by these names."""
    last = zip(_UNDERS, memory["last"], strict=True)
    return {name: f"_{number}" for name, number in last if number}


def note_outcome(shell: t.Any, number: int, code: str, raised: bool) -> None:
    """The last cell is one that ran in another process. Its exception stayed there; only the value
    of `sys.last_value` is here."""
    info = interactiveshell.ExecutionInfo(code, True, False, True, None)
    outcome = interactiveshell.ExecutionResult(info)
    outcome.execution_count = number
    outcome.result = _outputs(shell).get(number)
    if raised:
        outcome.error_in_exec = getattr(sys, "last_value", None) or Exception()
    shell.last_execution_result, shell.last_execution_succeeded = outcome, not raised


def store_input(shell: t.Any, number: int, code: str, memory: Memory | None) -> None:
    """In the main worker: a cell that ran elsewhere takes its place in the history.

    `code` is what the user wrote; the Python that ran is in the cell worker's own `In`.
    """
    history, parsed = shell.history_manager, code
    if memory is not None:
        before = memory["raw"][:number], memory["parsed"][:number]
        if before != (
            history.input_hist_raw[:number],
            history.input_hist_parsed[:number],
        ):
            _restore_inputs(shell, *before)  # code has changed them
        if len(memory["parsed"]) > number:
            parsed = memory["parsed"][number]
    history.store_inputs(number, parsed, code)


@contextlib.contextmanager
def written_as(shell: t.Any, code: str) -> t.Iterator[None]:
    """In the main worker: the cell that runs now goes into the history as the user wrote it."""
    history = shell.history_manager
    store = history.store_inputs

    def store_inputs(number, source, source_raw=None):
        del history.store_inputs  # cells that this one runs are themselves
        store(number, source, code)

    history.store_inputs = store_inputs
    try:
        yield
    finally:
        vars(history).pop("store_inputs", None)


# ---- the cells' sources


def _sources(files: dict[str, int], parsed: list[str]) -> dict[str, str]:
    """The sources that aren't the input of that number.

    Such are those of silent cells, and all behind an input that IPython doesn't store.
    """
    sources = {}
    for name, number in files.items():
        entry = linecache.cache.get(name)
        if entry is not None and len(entry) == 4:
            source = "".join(entry[2])
            if number >= len(parsed) or source.rstrip("\n") != parsed[number]:
                sources[name] = source
    return sources


def _restore_sources(memory: Memory) -> None:
    parsed, sources = memory["parsed"], memory["sources"]
    for name, number in memory["files"].items():
        if name in linecache.cache:
            continue
        source = sources.get(name)
        if source is None:
            source = parsed[number] + "\n" if number < len(parsed) else ""
        # As IPython's compiler does it: without a time, checkcache() keeps the lines.
        lines = [line + "\n" for line in source.splitlines()]
        linecache.cache[name] = (len(source), None, lines, name)
