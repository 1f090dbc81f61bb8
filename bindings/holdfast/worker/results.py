"""IPython's memory of the session: In, Out, `_`, `_i`, and which names are its own.

IPython keeps them in the user's namespace, next to the variables, and hides them. The
numbered results (`_5`) travel as variables, since they are the user's values and may be the same
objects as his names. Everything else is made from them again: `Out` from the numbered
results, `_`, `__` and `___` from the numbers of the last ones, `In` and `_i` from the inputs,
which travel as text.
"""

from __future__ import annotations

import re
import typing as t

from .shell import cell_numbers

_NUMBERED = re.compile(r"_[0-9]+\Z")


def hidden_names(shell: t.Any) -> frozenset[str]:
    """The names of the namespace that IPython made, without the numbered results.

    A name that the user bound anew is the user's: IPython tells by identity.
    """
    namespace, hidden = shell.user_ns, shell.user_ns_hidden
    absent = object()
    return frozenset(
        name
        for name, value in hidden.items()
        if namespace.get(name, absent) is value and not _NUMBERED.match(name)
    ) | {"_", "__", "___"} & namespace.keys() - _user_unders(shell)


def _user_unders(shell: t.Any) -> set[str]:
    """Those of `_`, `__` and `___` that the user assigned himself."""
    hook, namespace = shell.displayhook, shell.user_ns
    return {
        name
        for name in ("_", "__", "___")
        if name in namespace and namespace[name] is not getattr(hook, name, None)
    }


def capture(shell: t.Any) -> dict[str, t.Any]:
    """The inputs and the numbers of the last results, as plain values."""
    history = shell.history_manager
    numbers = {id(value): number for number, value in shell.user_ns.get("_oh", {}).items()}
    hook = shell.displayhook
    return {
        "raw": list(history.input_hist_raw),
        "parsed": list(history.input_hist_parsed),
        "files": dict(cell_numbers(shell)),
        "last": [numbers.get(id(getattr(hook, name, None)), 0) for name in ("_", "__", "___")],
    }


def restore(shell: t.Any, memory: dict[str, t.Any]) -> None:
    """In a cell worker: make In, Out and their relatives from what was carried."""
    history = shell.history_manager
    # The lists are In and _ih themselves.
    history.input_hist_raw[:] = memory["raw"]
    history.input_hist_parsed[:] = memory["parsed"]
    inputs = [*[""] * 4, *memory["raw"][1:]]
    # The shell shifts them when it stores the input of the cell that is about to run.
    history._iii, history._ii, history._i, history._i00 = inputs[-4:]
    restore_results(shell, memory)


def restore_results(shell: t.Any, memory: dict[str, t.Any]) -> None:
    """Make Out and `_` agree with the numbered results that are bound now, and know by
    their files the cells that ran elsewhere."""
    cell_numbers(shell).update(memory["files"])
    namespace, outputs = shell.user_ns, shell.user_ns["_oh"]
    for name in [name for name in namespace if _NUMBERED.match(name)]:
        outputs[int(name[1:])] = namespace[name]
        shell.user_ns_hidden[name] = namespace[name]
    for name, number in zip(("_", "__", "___"), memory["last"], strict=True):
        if number in outputs:
            value = outputs[number]
            if name not in _user_unders(shell):
                namespace[name] = shell.user_ns_hidden[name] = value
            setattr(shell.displayhook, name, value)


def store_input(shell: t.Any, number: int, code: str, memory: dict[str, t.Any] | None) -> None:
    """In the home: a cell that ran elsewhere takes its place in the history.

    `code` is what the user wrote; the Python that ran is in the cell worker's own `In`.
    """
    parsed = code
    if memory is not None and len(memory["parsed"]) > number:
        parsed = memory["parsed"][number]
    shell.history_manager.store_inputs(number, parsed, code)
