"""What an object held before the notebook's code ran: the base of all comparisons.

A process looks when it begins, or when the import of a library has ended. Whatever a list, dict, set, module or
class holds later and didn't hold then was put there by the notebook or by a library. The callers find out by whom.
"""

from __future__ import annotations

import collections
import operator
import types
import typing as t

from holdfast.carry.patches import MISSING

Changes = dict[t.Any, tuple[t.Any, t.Any]]  # by key: what was there, and what is

_SPACES = (types.ModuleType, type)


class Snapshot:
    """What an object holds now.

    Parameters
    ----------
    holder : list, dict, set, module or class
        It.

    Attributes
    ----------
    entries : dict
        The objects in it: by key or attribute; of a set by themselves, of a list by their ids.
    kind : type
        list, dict or set; of a subclass of dict: dict.
    """

    def __init__(self, holder: t.Any):
        self.entries = entries_of(holder)
        self.kind = dict if isinstance(holder, dict) else type(holder)
        self.values = list(holder) if isinstance(holder, list) else self.entries.values()

    def is_still(self, now: t.Any) -> bool:
        """Whether it holds the same objects, in the same order unless it is a set."""
        if isinstance(now, list):
            return len(now) == len(self.values) and all(map(operator.is_, now, self.values))
        if isinstance(now, set):
            return now == self.entries.keys()
        keys, values = (now, now.values()) if type(now) is dict else _views(now)
        return (
            len(keys) == len(self.values)
            and all(map(operator.is_, values, self.values))
            and all(map(operator.is_, keys, self.entries))
        )

    def changes(self, now: t.Any) -> Changes:
        """What is other, new or gone, with MISSING for nothing. What is there comes first, in its order."""
        current = entries_of(now)
        found = {
            key: (self.entries.get(key, MISSING), value)
            for key, value in current.items()
            if self.entries.get(key, MISSING) is not value
        }
        gone = {key: (was, MISSING) for key, was in self.entries.items() if key not in current}
        return found | gone

    def put_back(self, holder: t.Any, keys: t.Iterable[t.Any]) -> None:
        """Have a dict hold under these keys what was there, at its end; or nothing."""
        for key in keys:
            holder.pop(key, None)
            if key in self.entries:
                holder[key] = self.entries[key]


def entries_of(holder: t.Any) -> dict[t.Any, t.Any]:
    """The objects in it, as a snapshot has them. What a class does to read its own dict isn't asked for."""
    if isinstance(holder, list):
        return {id(value): value for value in list(holder)}
    if isinstance(holder, set):
        return {item: item for item in holder}
    space = vars(holder) if isinstance(holder, _SPACES) else holder
    return dict(dict.items(space) if _is_subclass(space) else space)


def _views(holder: t.Any) -> tuple[t.Any, t.Any]:
    """Keys and values."""
    space = vars(holder) if isinstance(holder, _SPACES) else holder
    if _is_subclass(space):
        return dict.keys(space), dict.values(space)
    return space.keys(), space.values()


def _is_subclass(space: t.Any) -> bool:
    """Whether it is a dict of a class that may read it in another way. The order of an OrderedDict is its own."""
    is_dict = isinstance(space, dict) and type(space) is not dict
    return is_dict and not isinstance(space, collections.OrderedDict)
