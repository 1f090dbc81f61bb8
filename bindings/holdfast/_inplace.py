"""What a cell changed of an object that a declined one at home holds as well.

A generator that reads from a list stays at home when a cell runs elsewhere; the list travels.
Were its new value a new object, as it is for any other name, the generator would go on with the
old one. So it is applied to the object that is here: same address, new contents.

First the new values are laid beside the old ones: two containers of one type correspond if they
are bound to one name, or stand at one place of two that correspond. Items of sequences whose
lengths differ correspond where they are equal, and where as many stand between equal ones. Then every object that
has a counterpart gives its contents to it, and wherever one is referred to, its counterpart takes
its place. What has none (another type, an array of another shape) is new, as elsewhere.
"""

import array
import collections
import itertools
import struct
import sys
import types


def apply(namespace, bound, decoded, beside):
    """Put objects that are here in place of those that were decoded.

    Parameters
    ----------
    namespace : dict
        What the names are bound to before.
    bound, decoded : dict
        What they are to be bound to, and the store's groups (dicts) and classes; changed.
    beside : set
        Names whose objects declined ones may hold.

    Returns
    -------
    list of str
        The names that could not be applied in place.
    """
    names = [name for name in bound if name in beside and name in namespace]
    merge = _Merge()
    try:
        for name in names:
            merge.lay(namespace[name], bound[name])
        merge.give([bound[name] for name in names])
    except Exception:  # the objects' own code; they are bound anew then
        return names
    apart = []
    for name in names:
        new, value = bound[name], merge.translate(bound[name])
        if value is new and value is not namespace[name] and _kind_of(value):
            apart.append(name)
        bound[name] = value
        for key, entry in decoded.items():
            if key[:1] == "\0" and type(entry) is dict and name in entry:
                entry[name] = value
    return apart


class _Merge:
    def __init__(self):
        self._here = {}  # id of a new object -> the old one that stands for it
        self._taken = set()  # ids of old ones
        self._tuples = {}  # id of a new tuple -> what stands for it
        self._alive = []  # whose ids are keys

    def lay(self, old, new):
        """Find which objects correspond."""
        stack = [(old, new)]
        while stack:
            old, new = stack.pop()
            if old is new or type(old) is not type(new) or id(new) in self._here:
                continue
            if type(new) is tuple:
                stack.extend(zip(old, new))
                continue
            kind = _kind_of(new)
            if kind is None or id(old) in self._taken or not kind.fits(old, new):
                continue
            self._here[id(new)] = old
            self._taken.add(id(old))
            self._alive += old, new
            stack.extend(kind.pairs(old, new))

    def give(self, values):
        """Let all that is reached refer to what is here, and that have the new contents."""
        seen, found = set(), []
        while values:
            new = values.pop()
            kind = _kind_of(new)
            if id(new) in seen or not (kind or type(new) is tuple):
                continue
            seen.add(id(new))
            self._alive.append(new)
            values.extend(kind.children(new) if kind else new)
            if kind:
                found.append((kind, new))
        for kind, new in found:
            kind.give(new, self._here.get(id(new), new), self.translate)

    def translate(self, value):
        """The object that stands for a new one; it itself where none does."""
        if type(value) is not tuple:
            return self._here.get(id(value), value)
        known = self._tuples.get(id(value))
        if known is None:
            items = tuple(map(self.translate, value))
            same = all(one is other for one, other in zip(items, value))
            known = self._tuples[id(value)] = value if same else items
            self._alive.append(value)
        return known


# ---- the kinds of objects that can take other contents


class _Sequence:
    """list and deque."""

    def fits(self, old, new):
        return getattr(old, "maxlen", None) == getattr(new, "maxlen", None)

    def pairs(self, old, new):
        if len(old) == len(new):
            return zip(old, new)
        return _aligned(list(old), list(new))

    def children(self, new):
        return list(new)

    def give(self, new, here, translate):
        items = [translate(item) for item in new]
        if type(here) is list:
            here[:] = items
        else:
            here.clear()
            here.extend(items)


class _Mapping:
    """dict and those derived from it in C."""

    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return [(old[key], item) for key, item in new.items() if key in old]

    def children(self, new):
        return [*new.keys(), *new.values()]

    def give(self, new, here, translate):
        items = {translate(key): translate(item) for key, item in new.items()}
        if list(here) != list(items):  # else iterators over it may go on
            here.clear()
        for key, item in items.items():
            if key not in here or here[key] is not item:
                here[key] = item
        if isinstance(new, collections.defaultdict):
            here.default_factory = translate(new.default_factory)


class _Set:
    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return ()

    def children(self, new):
        return list(new)

    def give(self, new, here, translate):
        items = {translate(item) for item in new}
        here &= items
        here |= items


class _Memory:
    """bytearray and array.array."""

    def fits(self, old, new):
        if len(old) == len(new):
            return getattr(old, "typecode", "") == getattr(new, "typecode", "")
        try:
            old.append(0)  # while somebody looks at its memory it can't be resized
            old.pop()
        except (BufferError, TypeError):
            return False
        return getattr(old, "typecode", "") == getattr(new, "typecode", "")

    def pairs(self, old, new):
        return ()

    def children(self, new):
        return ()

    def give(self, new, here, translate):
        if here is not new:
            here[:] = new


class _Array:
    """numpy.ndarray."""

    def fits(self, old, new):
        alike = (old.shape, old.dtype) == (new.shape, new.dtype)
        return alike and old.flags.writeable and new.flags.writeable

    def pairs(self, old, new):
        return zip(old.flat, new.flat) if new.dtype == object else ()

    def children(self, new):
        return list(new.flat) if new.dtype == object else ()

    def give(self, new, here, translate):
        if new.dtype == object:
            items = [translate(item) for item in new.flat]
            for index, item in enumerate(items):
                here.flat[index] = item
        elif here is not new:
            here[...] = new


class _Function:
    """Functions of the notebook, with their closures."""

    def fits(self, old, new):
        return old.__code__.co_freevars == new.__code__.co_freevars

    def pairs(self, old, new):
        yield from zip(old.__closure__ or (), new.__closure__ or ())
        yield old.__defaults__ or (), new.__defaults__ or ()
        yield old.__dict__, new.__dict__

    def children(self, new):
        return [*(new.__closure__ or ()), new.__defaults__, new.__kwdefaults__, new.__dict__]

    def give(self, new, here, translate):
        here.__defaults__ = translate(new.__defaults__)
        here.__kwdefaults__ = new.__kwdefaults__
        if here.__code__ != new.__code__:
            here.__code__ = new.__code__


class _Cell:
    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return zip(self.children(old), self.children(new))

    def children(self, new):
        try:
            return [new.cell_contents]
        except ValueError:
            return []

    def give(self, new, here, translate):
        for contents in self.children(new):
            here.cell_contents = translate(contents)


class _Instance:
    """Objects whose state is their `__dict__` and slots."""

    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        before = _state_of(old)
        return [(before[name], item) for name, item in _state_of(new).items() if name in before]

    def children(self, new):
        return list(_state_of(new).values())

    def give(self, new, here, translate):
        state = {name: translate(item) for name, item in _state_of(new).items()}
        for name in _state_of(here).keys() - state.keys():
            object.__delattr__(here, name)
        for name, item in state.items():
            object.__setattr__(here, name, item)


_KINDS = {
    list: _Sequence(),
    collections.deque: _Sequence(),
    dict: _Mapping(),
    collections.OrderedDict: _Mapping(),
    collections.defaultdict: _Mapping(),
    collections.Counter: _Mapping(),
    set: _Set(),
    bytearray: _Memory(),
    array.array: _Memory(),
    types.FunctionType: _Function(),
    types.CellType: _Cell(),
}
_INSTANCE = _Instance()
_ARRAY = _Array()
_COMPARISONS_MAX = 100_000
_POINTER_SIZE = struct.calcsize("P")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _kind_of(value):
    """How contents are given to such an object; None where they can't be."""
    cls = type(value)
    kind = _KINDS.get(cls)
    if kind is _KINDS[types.FunctionType]:
        return kind if value.__module__ == "__main__" else None
    if kind is not None:
        return kind
    numpy = sys.modules.get("numpy")
    if numpy is not None and cls is numpy.ndarray:
        return _ARRAY
    if cls.__flags__ & _HEAP_TYPE and not isinstance(value, type) and _is_plain(cls):
        return _INSTANCE
    return None


def _is_plain(cls):
    """Whether instances have no state in C: as object.__reduce_ex__ tells it, by their size."""
    slots = sum(
        isinstance(member, types.MemberDescriptorType)
        for base in cls.__mro__
        for member in vars(base).values()
    )
    pointers = slots + (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    size = object.__basicsize__ + pointers * _POINTER_SIZE
    return cls.__basicsize__ <= size and not cls.__itemsize__


def _state_of(value):
    state = dict(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    state[name] = member.__get__(value)
                except AttributeError:
                    pass  # an empty slot
    return state


def _aligned(old, new):
    """Pairs of two sequences of other lengths: the equal items in order, and what stands between
    two equal ones where it is as many in both."""
    if len(old) * len(new) > _COMPARISONS_MAX:
        return list(itertools.takewhile(lambda pair: _are_equal(*pair), zip(old, new)))
    pairs, start, begin = [], 0, 0  # behind the last equal ones
    for at, item in enumerate(old):
        there = next((i for i in range(begin, len(new)) if _are_equal(item, new[i])), None)
        if there is None:
            continue
        if at - start == there - begin:
            pairs.extend(zip(old[start:at], new[begin:there]))
        pairs.append((item, new[there]))
        start, begin = at + 1, there + 1
    if len(old) - start == len(new) - begin:
        pairs.extend(zip(old[start:], new[begin:]))
    return pairs


def _are_equal(old, new):
    try:
        return type(old) is type(new) and bool(old == new)
    except Exception:  # the objects' own comparison
        return False
