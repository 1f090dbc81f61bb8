"""Changes of a cell to an object that an unserializable value of the main worker holds as well.

A generator that reads from a list stays in the main worker when a cell runs in another process. The list is
carried. The new value of any other name is a new object. With a new list, the generator would go on with the
old one. So the list that is here keeps its address and gets the new contents.

First the new values are laid beside the old ones. Two containers of one type correspond if they are bound to
the same name, or stand at the same place of two that correspond. If two sequences have different lengths,
equal items correspond. So do the items between two equal ones, if there are as many in both.

Then every new object that has a counterpart gives its contents to it. Each reference to such an object becomes
one to its counterpart. An object without a counterpart (of another type, an array of another shape) is new.
A file or socket corresponds to the one with the same descriptor. A name that the cell has bound to another object
(`names = [1]`) corresponds to nothing: the generator goes on with the list that it has.

Some new objects share objects with such a name: other names of its group, and what a codec has put into an
object of a library that is here (`put_into`). These refer to the objects that are here, too.
"""

import array
import collections
import contextlib
import functools
import gc
import itertools
import operator
import random
import struct
import sys
import types
import weakref

from holdfast import codecs
from holdfast.carry import finalizers, handles, restoring

_met: dict[int, object] = {}  # by their ids: objects of libraries whose contents codecs see to
_bound_anew: set[str] = set()  # names that keep no object
_places: list[tuple] = []  # where those have put what was decoded: a list or dict, and a key of it


def leave(value):
    """Leave an object as it is, since a codec has found it here or made it."""
    _met[id(value)] = value


def put_into(holder, key):
    """Note that an item was decoded into a list or dict that `leave` keeps from being looked at."""
    _places.append((holder, key))


@contextlib.contextmanager
def bound_anew(names):
    """While a generation is adopted: the cell has bound these names to other objects."""
    _bound_anew.update(names)
    try:
        yield
    finally:
        _bound_anew.clear()


def forget():
    """Forget all objects that this adoption has met."""
    _met.clear()
    _places.clear()


def apply(namespace, bound, decoded, beside):
    """Put objects that are here in place of those that were decoded.

    Parameters
    ----------
    namespace : dict
        What the names are bound to before.
    bound, decoded : dict
        What they are to be bound to, and the store's groups (dicts) and classes; changed.
    beside : set
        Names whose objects unserializable values may hold.

    Returns
    -------
    list of str
        The names that could not be applied in place.
    """
    names = [name for name in bound if name in beside and name in namespace]
    names = [name for name in names if name not in _bound_anew]
    groups = [entry for key, entry in decoded.items() if key[:1] == "\0" and type(entry) is dict]
    mates = {other for entry in groups if any(name in entry for name in names) for other in entry}
    mates = [name for name in bound if name in mates and name not in names]
    merge, known = _Merge(), set(names)
    try:
        for name in names:
            merge.lay(namespace[name], bound[name])
        held = [holder[key] for holder, key in _places] if names else []
        merge.give([bound[name] for name in names + mates] + held)
    except Exception:  # the objects' own code; they are bound anew then
        return names
    apart = []
    for name in names + mates:
        new, value = bound[name], merge.translate(bound[name])
        if name in known and value is new and value is not namespace[name] and _is_apart(value):
            apart.append(name)
        bound[name] = value
        for entry in groups:
            if name in entry:
                entry[name] = value
    for holder, key in _places:
        holder[key] = merge.translate(holder[key])
    return apart


class _Merge:
    def __init__(self):
        self._here = {}  # id of a new object -> the old one that stands for it
        self._taken = set()  # ids of old ones
        self._tuples = {}  # id of a new tuple -> what stands for it
        self._alive = []  # whose ids are keys

    def lay(self, old, new):
        """Find which objects of the new value correspond to objects of the old one."""
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
        """Give the new contents to the objects that are here, and let all new objects refer to
        these."""
        seen, found = set(), []
        while values:
            new = values.pop()
            if id(new) in seen or id(new) in _met:
                continue
            if type(new) in _METHODS:
                values.append(new.__self__)
                continue
            kind = _kind_of(new)
            if not (kind or type(new) is tuple):
                continue
            seen.add(id(new))
            self._alive.append(new)
            values.extend(kind.children(new) if kind else new)
            if kind:
                found.append((kind, new))
        # First read all contents. Whatever can fail, such as a hash, fails before anything has
        # changed.
        contents = [kind.contents(new, self.translate) for kind, new in found]
        for (kind, new), held in zip(found, contents):
            kind.put(self._here.get(id(new), new), held, new)

    def translate(self, value):
        """The object that stands for a new one: its counterpart, or the new one itself."""
        if type(value) in _METHODS:
            return _bound(value, self._here.get(id(value.__self__), value.__self__))
        if type(value) is not tuple:
            return self._here.get(id(value), value)
        work, begun = [value], set()  # no recursion: tuples may be nested deeply
        while work:
            one = work[-1]
            inner = [item for item in one if type(item) is tuple and id(item) not in self._tuples]
            if id(one) in self._tuples or (inner and id(one) not in begun):
                work.pop() if id(one) in self._tuples else work.extend(inner)
                begun.add(id(one))
                continue
            items = tuple(map(self._stand_in, one))
            same = all(item is other for item, other in zip(items, one))
            self._tuples[id(one)] = one if same else items
            self._alive.append(one)
        return self._tuples[id(value)]

    def _stand_in(self, item):
        known = self._tuples if type(item) is tuple else self._here
        return known.get(id(item), item)


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

    def contents(self, new, translate):
        return [translate(item) for item in new]

    def put(self, here, items, new):
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

    def contents(self, new, translate):
        items = {translate(key): translate(item) for key, item in new.items()}
        factory = new.default_factory if isinstance(new, collections.defaultdict) else None
        return items, translate(factory)

    def put(self, here, held, new):
        items, factory = held
        if not _are_same(here, items):  # else iterators over it may go on
            here.clear()
        if not _are_same(here.values(), items.values()):
            # An OrderedDict keeps its order in a list of its own.
            ordered = isinstance(here, collections.OrderedDict)
            (collections.OrderedDict if ordered else dict).update(here, items)
        if isinstance(here, collections.defaultdict):
            here.default_factory = factory


class _Set:
    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return ()

    def children(self, new):
        return list(new)

    def contents(self, new, translate):
        return {translate(item) for item in new}

    def put(self, here, items, new):
        if {*map(id, here)} != {*map(id, items)}:  # else iterators over it may go on
            here.clear()
            here.update(items)


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

    def contents(self, new, translate):
        return new

    def put(self, here, held, new):
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

    def contents(self, new, translate):
        return [translate(item) for item in new.flat] if new.dtype == object else None

    def put(self, here, items, new):
        if items is not None:
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

    def contents(self, new, translate):
        return translate(new.__defaults__)

    def put(self, here, defaults, new):
        here.__defaults__ = defaults
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

    def contents(self, new, translate):
        return [translate(item) for item in self.children(new)]

    def put(self, here, items, new):
        for item in items:
            here.cell_contents = item
        if not items and here is not new:
            del here.cell_contents


class _Finalizer:
    """A `weakref.finalize` that isn't put to work yet."""

    def fits(self, old, new):
        return False

    def children(self, new):
        obj, func, args, kwargs, _ = finalizers.arrived(new)
        return [obj, func, args, kwargs]

    def contents(self, new, translate):
        return tuple(map(translate, finalizers.arrived(new)))

    def put(self, here, call, new):
        if call[0] is not None:
            finalizers.fill(here, call)


class _Partial:
    """functools.partial."""

    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return zip(old.__reduce__()[2], new.__reduce__()[2])

    def children(self, new):
        return list(new.__reduce__()[2])

    def contents(self, new, translate):
        function, arguments, named, attributes = new.__reduce__()[2]
        named = {name: translate(one) for name, one in named.items()}
        return translate(function), translate(arguments), named, attributes

    def put(self, here, state, new):
        here.__setstate__(state)


class _Open:
    """Files and sockets, by what their codecs know (handles.Exact)."""

    def fits(self, old, new):
        number = handles.table.number_if_known(handles.owner_of(new))
        return number and number == handles.table.number_if_known(handles.owner_of(old))

    def pairs(self, old, new):
        return [
            (getattr(old, layer), getattr(new, layer))
            for layer in handles.LAYERS
            if hasattr(old, layer) and hasattr(new, layer)
        ]

    def children(self, new):
        return ()

    def contents(self, new, translate):
        return codecs.find(type(new)).take(new)

    def put(self, here, give, new):
        if here is not new:
            give(here)
            handles.table.pass_on(handles.owner_of(new), handles.owner_of(here))


class _Drawn:
    """random.Random: its `__setstate__` takes what `__reduce__` gives."""

    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        return ()

    def children(self, new):
        return ()

    def contents(self, new, translate):
        return new.__reduce__()[2]

    def put(self, here, state, new):
        here.__setstate__(state)


class Taking(codecs.Codec):
    """A codec of a library's objects that can take the state of another one."""

    def inside(self, value):
        """Name the objects that the value draws its state from. It can't be given others."""
        return ()

    def take(self, new):
        """Read the state of a new object; what this returns gives it to the object that is here."""
        raise NotImplementedError


class _Taking:
    """Objects of libraries, by their codecs."""

    def fits(self, old, new):
        return [*map(type, self.children(old))] == [*map(type, self.children(new))]

    def pairs(self, old, new):
        return zip(self.children(old), self.children(new))

    def children(self, new):
        return list(codecs.find(type(new)).inside(new))

    def contents(self, new, translate):
        wanted = map(translate, self.children(new))
        if not all(map(operator.is_, wanted, self.children(translate(new)))):
            raise ValueError("it would have to draw from another object")
        return codecs.find(type(new)).take(new)

    def put(self, here, give, new):
        if here is not new:
            give(here)


class _Instance:
    """Objects whose state is their `__dict__` and slots.

    Read and written where it lies: a property or descriptor of the same name isn't asked.
    """

    def fits(self, old, new):
        return True

    def pairs(self, old, new):
        before = _state_of(old)
        return [(before[key], item) for key, item in _state_of(new).items() if key in before]

    def children(self, new):
        return list(_state_of(new).values())

    def contents(self, new, translate):
        return {key: translate(item) for key, item in _state_of(new).items()}

    def put(self, here, state, new):
        for member in filter(_is_slot, _state_of(here).keys() - state.keys()):
            member.__delete__(here)
        for member in filter(_is_slot, state):
            member.__set__(here, state[member])
        attributes = _dict_of(here)
        if attributes is not None:
            own = {key: item for key, item in state.items() if not _is_slot(key)}
            if not _are_same(attributes, own):  # also those in another order
                attributes.clear()
            attributes.update(own)


def _is_slot(key):
    return isinstance(key, types.MemberDescriptorType)


def _are_same(one, other):
    return len(one) == len(other) and all(a is b for a, b in zip(one, other))


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
    weakref.finalize: _Finalizer(),
    functools.partial: _Partial(),
    random.Random: _Drawn(),
}
_OPEN = _Open()
_TAKING = _Taking()
_METHODS = (types.MethodType, types.BuiltinMethodType)
# No other object refers to these for what they may become.
_FIXED = (tuple, frozenset, type, types.ModuleType, types.FunctionType, types.CodeType, *_METHODS)
_INSTANCE = _Instance()
_ARRAY = _Array()
_COMPARISONS_MAX = 100_000
_POINTER_SIZE = struct.calcsize("P")


def _kind_of(value):
    """What gives contents to such an object. None if that can't be done."""
    cls = type(value)
    kind = _KINDS.get(cls)
    if kind is _KINDS[types.FunctionType]:
        return kind if value.__module__ == "__main__" else None
    if kind is not None:
        return kind
    numpy = sys.modules.get("numpy")
    if numpy is not None and cls is numpy.ndarray:
        return _ARRAY
    codec = codecs.find(cls)
    if isinstance(codec, handles.Exact) and codec.take is not None:
        return _OPEN
    if isinstance(codec, Taking):
        return _TAKING
    if cls.__flags__ & restoring.HEAP_TYPE and not issubclass(cls, type) and _is_plain(cls):
        return _INSTANCE
    return None


def keeps(value):
    """Whether `apply` gives what comes back for a value to the object that is here, or names it."""
    return _kind_of(value) is not None or _is_apart(value)


def _is_apart(value):
    """Whether an unserializable value may hold an earlier object for this one. A file is known by its
    handle: one with another handle is another file."""
    kind = _kind_of(value)
    if kind is None:
        return gc.is_tracked(value) and not issubclass(type(value), _FIXED)
    return kind is not _OPEN or not handles.table.number_if_known(handles.owner_of(value))


def _is_plain(cls):
    """Whether instances have no state in C. As object.__reduce_ex__, it looks at their size."""
    slots = sum(
        isinstance(member, types.MemberDescriptorType)
        for base in cls.__mro__
        for member in vars(base).values()
    )
    pointers = slots + (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    size = object.__basicsize__ + pointers * _POINTER_SIZE
    return cls.__basicsize__ <= size and not cls.__itemsize__


def _dict_of(value):
    """The instance's own dict, whatever its class defines as `__dict__`. None if it has none."""
    for base in type(value).__mro__:
        found = vars(base).get("__dict__")
        if isinstance(found, types.GetSetDescriptorType):
            return found.__get__(value)
    return None


def _state_of(value):
    """The object's content: attributes by name, slots by their descriptors."""
    state = dict(_dict_of(value) or ())
    for base in type(value).__mro__:
        for member in vars(base).values():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    state[member] = member.__get__(value)
                except AttributeError:
                    pass  # an empty slot
    return state


def _aligned(old, new):
    """Pairs of the items of two sequences whose lengths differ: the equal items in order, and the
    items between two equal ones if there are as many in both."""
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


def _bound(method, bound_to):
    """The same method of another object, as that object's class has it by now. The class may have
    been decoded after the method."""
    if type(method) is types.BuiltinMethodType:
        return method if bound_to is method.__self__ else getattr(bound_to, method.__name__)
    function = method.__func__
    found = getattr(type(bound_to), getattr(function, "__name__", ""), None)
    if type(found) is type(function) is types.FunctionType and found.__code__ == function.__code__:
        function = found
    same = bound_to is method.__self__ and function is method.__func__
    return method if same else types.MethodType(function, bound_to)


def _are_equal(old, new):
    try:
        return type(old) is type(new) and bool(old == new)
    except Exception:  # the objects' own comparison
        return False
