"""Whether a setting may have changed since it was read, without reading it again.

Libraries keep their settings in dicts, lists, sets and attributes. While these hold the same objects, what was read from them is
the same. `_store._contents_digest` says so for a thousand of them in the time of one function of a library's.
"""

from __future__ import annotations

import gc
import operator
import sys
import types
import typing as t

from holdfast import _store
from holdfast.carry.patches import equal

from ..bound import look

_HOLDERS = frozenset((dict, list, tuple, set))
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None)))
_NUMBERED = sys.version_info < (3, 12)  # a dict has another number each time that it changes
_SPACES = (types.ModuleType, type)


class Watched:
    """The objects that something is about to be read from, and from nothing else."""

    def __init__(self, objects: t.Iterable[t.Any]):
        self._objects = tuple(objects)
        self._digest = _store._contents_digest(self._objects)
        self._held = [  # so that their addresses stay theirs
            list(vars(one).values()) if isinstance(one, _SPACES) else gc.get_referents(one)
            for one in self._objects
            if not (_NUMBERED and (type(one) is dict or isinstance(one, _SPACES)))
        ]

    def is_still(self) -> bool:
        """Whether reading it would give the same."""
        return self._digest == _store._contents_digest(self._objects)

    def is_still_of(self, objects: t.Collection[t.Any]) -> bool:
        """The same, if it is these that are to be read."""
        is_same = len(objects) == len(self._objects) and all(
            map(operator.is_, objects, self._objects)
        )
        return is_same and self.is_still()


class Memo:
    """A function that reads a setting, and is called again only if that may have changed.

    Parameters
    ----------
    read : callable
        It.
    root : callable
        Gives the object that it begins at.
    objects : callable
        Gives all objects that it reads from; None if it is to be called each time.
    """

    def __init__(
        self,
        read: t.Callable[[], t.Any],
        root: t.Callable[[], t.Any],
        objects: t.Callable[[], list[t.Any] | None],
    ):
        self._read, self._root, self._objects = read, root, objects
        self._known: tuple[t.Any, Watched] | None = None  # the root, and what was read from there
        self._found: t.Any = None

    def __call__(self) -> t.Any:
        root = self._root()
        if self._known is not None and self._known[0] is root and self._known[1].is_still():
            return self._found
        objects = None if root is None else self._objects()
        # Another thread may change it meanwhile: what it is read from is looked at before.
        self._known = None if objects is None else (root, Watched(objects))
        found = self._read()
        if not equal(found, self._found):
            self._found = found
        return self._found


def holders_in(value: t.Any) -> list[t.Any]:
    """A dict, list, tuple or set, and those in it."""
    found: dict[int, t.Any] = {}
    work = [value]
    while work:
        one = work.pop()
        if (type(one) in _HOLDERS or isinstance(one, dict)) and id(one) not in found:
            found[id(one)] = one
            work += dict.values(one) if isinstance(one, dict) else one
    return list(found.values())


def everything_in(value: t.Any) -> list[t.Any] | None:
    """A dict, list, tuple or set, those in it, and what `objects_in` says of the other objects there."""
    found = holders_in(value)
    for holder in list(found):
        for one in dict.values(holder) if isinstance(holder, dict) else holder:
            is_walked = type(one) in _HOLDERS or isinstance(one, dict)
            if type(one) not in _ATOMS and not is_walked:
                inner = objects_in(one)
                if inner is None:
                    return None
                found += inner
    return found


def objects_in(value: t.Any) -> list[t.Any] | None:
    """All that `look` looks into; None if something there changes without holding another object. A value that shows
    nothing of itself is only ever replaced."""
    seen: list[t.Any] = []
    if look(value, objects=seen) is None:
        return []
    return None if any(one is None for one in seen) else seen
