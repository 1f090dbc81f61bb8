"""Objects of the notebook with a `__del__`: it runs once, where the object dies.

An object that a cell's process has is a copy of the main worker's, or the main worker will have a copy of
it. Such a copy may end without the object's death: when the process ends after its cell, or when the
main worker puts what came back in place of what it had. Then it is disarmed first: its `__del__` won't run.
So it is for classes of the user's own: a library's `__del__` gives back what the copy itself holds.
"""

from __future__ import annotations

import contextlib
import typing as t

from . import _store, _trial

Named = dict[str, t.Any]


def _own(value: t.Any) -> list[t.Any]:
    """The objects behind a value whose `__del__` is the user's and hasn't run."""
    return [one for one in _store._finalizers(value) if _is_own(type(one))]


def _is_own(cls: type) -> bool:
    hook = next(base.__dict__["__del__"] for base in cls.__mro__ if "__del__" in base.__dict__)
    return _trial.is_own_code(hook, cls)


def let_go(namespace: Named, names: t.Iterable[str]) -> None:
    """Remove names whose objects end with this process. All other objects of the namespace live on
    elsewhere: theirs are disarmed, since one may be a part of what goes."""
    going = [namespace.pop(name) for name in names if name in namespace]
    if going:
        for one in _own(list(namespace.values())):
            _store._disarm(one)
    while going:
        going.pop()  # the last first: it may use others


@contextlib.contextmanager
def living_on(namespace: Named) -> t.Iterator[None]:
    """While names are bound to what came back from a cell: what is replaced dies without `__del__`,
    which the cell's copy has run, or its successor will."""
    before = list(namespace.items())
    yield
    replaced = [
        value for name, value in before if name not in namespace or namespace[name] is not value
    ]
    old = _own(replaced) if replaced else []
    if old:
        kept = {id(one) for one in _own(list(namespace.values()))}
        for one in old:
            if id(one) not in kept:
                _store._disarm(one)
