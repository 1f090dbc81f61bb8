"""Iterators over dicts and sets, and itertools' groups.

Their own pickling makes an iterator over a copied list of what is left: it would not see a value that the
dict gets later. So each is made again from its dict or set, by the number of steps that it
has made. One that can't say where it stands isn't carried: its container has changed, and its next step would
be an error, or it has moved in a way that isn't known.

Pickling a `groupby` between two groups forgets the group that it is in, whose rest it would give as
a new one.
"""

from __future__ import annotations

import collections
import gc
import itertools
import typing as t

from . import Codec, register

_CONTAINERS = (dict, set, frozenset)
_NAMES = ("keys", "values", "items")
_KINDS = tuple(
    f"dict_{way}{name}iterator" for way in ("", "reverse") for name in ("key", "value", "item")
)


def _iterate(container: t.Any, name: str, is_reversed: bool) -> t.Iterator[t.Any]:
    """A new iterator: over the views of a dict, or (without a name) over a set."""
    if name:
        base = collections.OrderedDict if isinstance(container, collections.OrderedDict) else dict
        container = getattr(base, name)(container)
    return reversed(container) if is_reversed else container.__iter__()


def _are_same(left: t.Sequence[t.Any], other: t.Sequence[t.Any], name: str) -> bool:
    if name == "items":  # the pairs are made at each step
        return len(left) == len(other) and all(map(_are_parts, left, other))
    return len(left) == len(other) and all(one is two for one, two in zip(left, other))


def _are_parts(one: t.Any, two: t.Any) -> bool:
    pair = type(one) is type(two) is tuple and len(one) == len(two) == 2
    return pair and one[0] is two[0] and one[1] is two[1]


class _Iterators(Codec):
    types = tuple(f"builtins.{kind}" for kind in (*_KINDS, "odict_iterator", "set_iterator"))

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        left = value.__reduce__()[1][0]  # raises where the container has another size
        found = [one for one in gc.get_referents(value) if isinstance(one, _CONTAINERS)]
        ways = list(_ways(type(value).__name__))
        if not found:  # it has ended
            return _make_ended, (*ways[0], type(value).__name__ == "odict_iterator")
        for way in ways:
            whole = list(_iterate(found[0], *way))
            start = len(whole) - len(left)
            if start >= 0 and _are_same(left, whole[start:], way[0]):
                rest = left if type(value).__name__ == "set_iterator" else None
                return _resume, (found[0], *way, start, rest)
        raise TypeError(f"cannot pickle '{type(value).__name__}' object: its container has changed")


def _ways(kind: str) -> t.Iterator[tuple[str, bool]]:
    """The view that an iterator of this type may go over: a view's name, and whether from the
    end."""
    if kind == "odict_iterator":
        yield from itertools.product(_NAMES, (False, True))
    elif kind == "set_iterator":
        yield "", False
    else:
        yield next(name for name in _NAMES if name[:-1] in kind), "reverse" in kind


def _resume(
    container: t.Any, name: str, is_reversed: bool, start: int, rest: list[t.Any] | None
) -> t.Iterator[t.Any]:
    if rest is not None and list(container)[start:] != rest:
        return iter(rest)  # a set has another order where hashes of texts are others
    made = _iterate(container, name, is_reversed)
    for _ in range(start):
        next(made)
    return made


def _make_ended(name: str, is_reversed: bool, is_ordered: bool) -> t.Iterator[t.Any]:
    empty: t.Any = collections.OrderedDict() if is_ordered else {} if name else set()
    made = _iterate(empty, name, is_reversed)
    next(made, None)
    return made


class _Groups(Codec):
    types = ("itertools.groupby",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        begun = len([one for one in gc.get_referents(value) if one is not type(value)]) > 2
        if begun and len(value.__reduce__()) == 2:  # more than its source and its function
            raise TypeError("cannot pickle 'itertools.groupby' object: it is between two items")
        return NotImplemented


for _codec in (_Iterators(), _Groups()):
    register(_codec)
