"""Pickling without recursion: values linked deeper than the interpreter's stack allows.

A pickler calls itself for each part of a part, so a linked list of a few hundred nodes is its end.
Here nothing is nested: lists, dicts, sets and instances are made empty where they are first met,
and filled one after the other by steps that follow in the same pickle. Their contents are met
there, and get their own steps. Tuples can't be made empty: before each step come the tuples that
are nested in what it holds, the innermost first, and the pickler's memory has them when they are
used.

An object is filled late only if nobody can notice: an instance that is made by `object.__new__` and
filled by setting attributes, with the hash that every object has. All others are *whole*: made by
their class's own code, which must find its arguments complete, so nothing in them is put off. If
one of them refers to an object that still waits for its step, the value can't be carried this way.

It takes four times as long as the pickler that it is a subclass of, and twice to read; so it is
used for what that one could not do.
"""

import copyreg
import io
import pickle
import types

from . import _restore
from ._carry import Pickler

# The kinds that have a place, by the remainder of its number; see _restore.
_KINDS = {kind: position for position, kind in enumerate(_restore.EMPTY_KINDS)}
_FILL = {list: _restore.fill_list, set: _restore.fill_set}
_BY_NAME = type, types.FunctionType, types.ModuleType


class _Mark:
    """Stands before and behind what must be whole; is pickled as nothing."""


_BEGIN, _END = _Mark(), _Mark()


class _Step:
    """A call that happens when the pickle is read up to here."""

    def __init__(self, call, *arguments):
        self.reduced = call, arguments


class _Plan:
    """A list of steps that grows while it is pickled."""

    def __init__(self, steps):
        self.reduced = list, (), None, steps


class DeepPickler(Pickler):
    def __init__(self, file, notes):
        super().__init__(file, notes)
        self._places = {}  # id of a list, dict or set -> its number; None: whole, in the memo
        self._waiting = []  # fills, by a list, dict, set, or (instance, how it was reduced)
        self._unfilled = set()  # ids of what waits
        self._is_whole = False

    def dump(self, value):
        self.root = value
        super(Pickler, self).dump(_Plan(self._steps(value)))
        self._finish()

    def persistent_id(self, obj):
        if type(obj) is _Mark:
            self._is_whole = obj is _BEGIN
            return -1
        if self._is_whole and id(obj) in self._unfilled:
            raise pickle.PicklingError(
                "linked deeper than can be pickled, with parts in each other"
            )
        kind = _KINDS.get(type(obj))
        if kind is None:
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = None if self._is_whole else self._put_off(obj, kind)
        return self._places[id(obj)]

    def _put_off(self, obj, kind):
        self._kept.append(obj)
        if obj:
            self._wait(obj, obj)
        return (len(self._places) + 1) * len(_KINDS) + kind

    def _wait(self, obj, how):
        self._waiting.append(how)
        self._unfilled.add(id(obj))

    def reducer_override(self, obj):
        if type(obj) in (_Step, _Plan):
            return obj.reduced
        reduced = super().reducer_override(obj)
        if self._is_whole or isinstance(reduced, str):
            return reduced
        if reduced is NotImplemented:
            if isinstance(obj, _BY_NAME):
                return reduced
            reducer = self.dispatch_table.get(type(obj))
            reduced = obj.__reduce_ex__(5) if reducer is None else reducer(obj)
        if isinstance(reduced, str) or reduced[0] is types.MethodType:
            return reduced
        if not _can_wait(obj, reduced):
            return _whole(reduced)
        self._kept.append(obj)
        self._wait(obj, (obj, reduced))
        return reduced[:2]

    def _steps(self, root):
        """Each step, and None behind it: the pickler may ask for one item in advance."""
        yield from self._nested_tuples((root,))
        yield root
        yield None
        while self._waiting:
            how = self._waiting.pop()
            obj, step = _step_for(how)
            yield from self._nested_tuples(*step.reduced[1])
            yield step
            yield None
            self._unfilled.discard(id(obj))
        yield root

    def _nested_tuples(self, *holders):
        """Tuples inside of tuples, each after those in it."""
        work = [(item, False) for one in holders if type(one) is tuple for item in one]
        work = [(item, True) for item, _ in work if type(item) is tuple]
        outermost, seen = {id(item) for item, _ in work}, set()
        while work:
            item, is_new = work.pop()
            if is_new and id(item) not in seen:
                seen.add(id(item))
                inner = [one for one in item if type(one) is tuple]
                if inner or id(item) not in outermost:
                    work.append((item, False))
                    work += [(one, True) for one in inner]
            elif not is_new:
                yield item
                yield None


def _can_wait(obj, reduced):
    cls = type(obj)
    make, args, state, items, pairs, setter = (*reduced, *[None] * 4)[:6]
    return (
        state is not None
        and make is copyreg.__newobj__
        and args == (cls,)
        and items is None
        and pairs is None
        and setter in (None, _restore.share_dict)
        and cls.__new__ is object.__new__
        and cls.__hash__ in (None, object.__hash__)
        and not hasattr(cls, "__setstate__")
        and all(type(part) in (dict, type(None)) for part in _parts_of(state))
    )


def _parts_of(state):
    """Attributes and slots."""
    return state if isinstance(state, tuple) and len(state) == 2 else (state, None)


def _whole(reduced):
    make, args, state, items, pairs, setter = (*reduced, *[None] * 4)[:6]
    first = _restore.make_whole, (_BEGIN, make, args, _END)
    if state is None and items is None and pairs is None:
        return first
    rest = _BEGIN, state, tuple(items or ()), tuple(pairs or ()), setter, _END
    return *first, rest, None, None, _restore.fill_whole


def _step_for(how):
    """The object that is filled, and the step that does it."""
    if type(how) is dict:
        return how, _Step(_restore.fill_dict, how, tuple(how), tuple(how.values()))
    if type(how) is not tuple:
        return how, _Step(_FILL[type(how)], how, tuple(how))
    obj, reduced = how
    if len(reduced) > 5:  # others hold its dict, which gets a step of its own all the same
        shared = reduced[2]
        return obj, _Step(
            _restore.fill_with_dict, obj, shared, tuple(shared), tuple(shared.values())
        )
    attributes, slots = (part or {} for part in _parts_of(reduced[2]))
    parts = (part for one in (attributes, slots) for part in (tuple(one), tuple(one.values())))
    return obj, _Step(_restore.fill_instance, obj, *parts)


class Deep:
    """Stands for a value, pickled by steps, in an ordinary pickle."""

    def __init__(self, value, notes):
        file = io.BytesIO()
        pickler = DeepPickler(file, notes)
        pickler.dump(value)
        self.classes = pickler.classes
        self.hooked = pickler.hooked
        self._arguments = file.getvalue(), tuple(map(pickle.PickleBuffer, pickler.buffers))

    def __reduce__(self):
        return _restore.make_deep, self._arguments
