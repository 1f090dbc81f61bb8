"""Finds which variables a commit really changes: only those make it a step of the history.

A cell that shows a variable binds `_5` to the same object. Names that share objects are one entry, so the
variable's entry is written anew, though its value is the same. So if a commit has new numbered results, what
it has written is compared once more, as it would be without them. That is a trial, which writes nothing.
Values are encoded twice then, but only those that such a commit writes, and after the cell.

To carry a result as another name of a variable was rejected. People also show `a, b`, `d["x"]` and `df.T`,
which share objects with variables and are none of them.
"""

from __future__ import annotations

import typing as t

from holdfast import _store

from .ipython import results

_EXIT_CODE = "_exit_code"  # of the last `!command`
# Names that aren't the notebook's: its widgets' models, and settings of the process.
_OWN = ("_holdfast_", "_:")


def save(names: _store.Names, shell: t.Any, *, extra: dict[str, t.Any], **how: t.Any) -> t.Any:
    """Save the notebook's namespace, as every worker does.

    Parameters
    ----------
    names : holdfast._store.Names
        What the process knows of the store.
    shell : IPython.core.interactiveshell.InteractiveShell
        Whose namespace is saved.
    extra : dict
        Process state by word.
    **how : Any
        What else `Names.save` takes.

    Returns
    -------
    dict
        The report of `Names.save`, with the names whose values differ as ``changed``.
    """
    hidden = results.hidden_names(shell)
    how |= {"holders": results.holders(shell), "given_back": results.given_back(shell)}
    saved: dict[str, t.Any] = dict(
        names.save(shell.user_ns, hidden=hidden, extra=extra, **how),
    )
    saved["changed"] = _changed(names, shell, hidden, saved, how)
    return saved


def _changed(
    names: _store.Names,
    shell: t.Any,
    hidden: frozenset[str],
    saved: dict[str, t.Any],
    how: dict[str, t.Any],
) -> list[str]:
    """Variables and classes; of what shares objects with a new result only what has another value."""
    classes, own = saved.pop("classes"), list(filter(is_variable, saved["saved"]))
    numbered = list(filter(results.is_numbered, saved["saved"]))
    stored = set(names.keys()) if numbered or saved["unserializable"] else set()
    shown = set(numbered) - stored
    doubtful = _sharing(shell.user_ns, saved["saved"], shown).intersection(own) if shown else set()
    if doubtful:
        try:
            tried: t.Mapping[str, t.Any] = names.save(
                shell.user_ns,
                trial=True,
                hidden=hidden | shown,
                **how | {"touched": doubtful, "verify": False},
            )
        except Exception:  # of code that pickling runs: then it counts as changed
            tried = {"saved": list(doubtful), "classes": classes}
        differing, classes = set(tried["saved"]), tried["classes"]
        own = [name for name in own if name not in doubtful or name in differing]
    gone = [*saved["removed"], *stored.intersection(saved["unserializable"])]
    made_anew = [cls.__name__ for cls in classes if cls.__name__ not in own]
    return [*own, *filter(is_variable, gone), *made_anew]


def _sharing(namespace: dict[str, t.Any], saved: list[str], shown: set[str]) -> set[str]:
    """Those of `saved` that share objects with one of `shown`, perhaps by an older result."""
    groups = _store.groups({name: namespace[name] for name in saved})
    return {name for group in groups if not shown.isdisjoint(group) for name in group}


def unchanged(
    names: _store.Names, adopted: list[str], changed: list[str], before: dict[str, t.Any]
) -> dict[str, t.Any]:
    """After a return to a step: what stays the object that it was.

    Parameters
    ----------
    names : holdfast._store.Names
        What the process knows of that step.
    adopted : list of str
        The names whose entries differ.
    changed : list of str
        The names whose values differ.
    before : dict
        The namespace as it was.

    Returns
    -------
    dict
        Names and values: of entries that have none of `changed`.
    """
    members: dict[str, set[str]] = {}
    where = {row["name"]: row["where"] or row["name"] for row in names.listing()}
    for name, entry in where.items():
        if not name.startswith("\0"):  # a group's own entry
            members.setdefault(entry, set()).add(name)
    known = before.keys() - set(changed)
    return {name: before[name] for name in adopted if members[where[name]] <= known}


def is_variable(name: str) -> bool:
    """Whether the name is the notebook's: numbered results and what `!command` leaves aren't."""
    return not (name == _EXIT_CODE or results.is_numbered(name) or name.startswith(_OWN))
