"""Values that missed a variable while they were remade: once more, when it is there.

A class's own `__setstate__` may use the notebook's variables: a module, another function. What is
bound at once comes into the namespace when all of it is decoded, so such a value fails by a
NameError at first, which names what it misses.
"""

from __future__ import annotations

import re
import typing as t

_MISSED = re.compile(r"\bNameError: name '(\w+)' is not defined")


def missed(absent: dict[str, str]) -> dict[str, str]:
    """The names whose values missed a variable, of those that aren't there for a reason: which."""
    found = {name: _MISSED.search(why) for name, why in absent.items()}
    return {name: match[1] for name, match in found.items() if match}


def remake(
    names: t.Any, namespace: dict[str, t.Any], absent: dict[str, str]
) -> t.Iterator[tuple[list[str], dict[str, t.Any]]]:
    """Bind those that missed a variable; the names that are there now, and what Names.bind told,
    for each time that was tried. They are taken from `absent`."""
    again = missed(absent)
    while again:
        part = names.bind(namespace, names=set(again))
        for name in again:
            del absent[name]
        absent.update(part["absent"])
        yield [name for name in again if name not in absent], part
        left = missed(part["absent"])
        if left == again:
            return
        again = left
