"""Finds numbers in variables that are addresses: `id()` of an object, or where its memory begins.

If a cell's process makes or changes an object, the notebook gets a new object at another address. There a
dict that is keyed by `id()`, or a pointer for `ctypes`, means nothing, or something wrong. So a number that
is the address of something that goes back is reported, with the variable that holds it.

Code that has an address can write to that memory without naming a variable. So after such a cell a save looks
at all variables. The same holds for code that gets `globals()` from a variable.

The walk of a save notes numbers that may be addresses (`graph_walk.c`). Only if there is one, which is rare,
this module looks at what it could point to.
"""

from __future__ import annotations

import collections
import gc
import types
import typing as t

from holdfast import _store

_OBJECTS_MAX = 100_000  # looked at; with more, any number may be the address of one
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), type(...), range))
_HOLDERS = frozenset(
    (list, dict, tuple, set, frozenset, types.CellType, types.MethodType)
    + (collections.deque, collections.OrderedDict, collections.defaultdict)
)
_NOT_ENTERED = (type, types.ModuleType, types.CodeType, types.FrameType)


class Addresses:
    """The numbers in one namespace that may be addresses."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = {}

    def learn(
        self,
        changed: t.Iterable[str],
        numbers: t.Mapping[str, list[int]],
        namespace: dict[str, t.Any],
    ) -> dict[str, list[int]]:
        """After a save: the variables that had changed, and the numbers in all that it looked at.
        Those of them that the notebook itself holds."""
        found = {}
        for name in changed:
            value = namespace.get(name)
            if type(value) is int and _store._may_be_address(value):
                found[name] = [value]
        for name in numbers.keys() & namespace.keys():
            held = held_by(namespace[name], namespace, _store._may_be_address)
            own = [one for one in numbers[name] if held is None or one in held]
            if own:
                found[name] = own
        self.note(changed, found)
        return found

    def note(self, changed: t.Iterable[str], found: dict[str, list[int]]) -> None:
        """The result of `learn`, here or in a fork."""
        for name in changed:
            self._found.pop(name, None)
        self._found.update(found)

    def in_any(self, names: t.Container[str]) -> bool:
        """Whether one of these variables holds a number that may be an address."""
        return any(name in names for name in self._found)

    def of_saved(self, names: t.Iterable[str], namespace: dict[str, t.Any]) -> list[str]:
        """The variables with addresses of what the variables `names` hold."""
        known = id(namespace)  # a reference to the namespace leads to the cell's there
        found = {
            name: own
            for name, numbers in self._found.items()
            if name in namespace and (own := [one for one in numbers if one != known])
        }
        if not found:
            return []
        values = [namespace[name] for name in names if name in namespace]
        objects, memories = _behind([one for one in values if one is not namespace], namespace)
        return sorted(
            name
            for name, numbers in found.items()
            if objects is None
            or any(one in objects or _is_in(one, memories) for one in set(numbers))
        )


def held_by(
    value: t.Any, namespace: dict[str, t.Any], is_meant: t.Callable[[int], bool]
) -> set[int] | None:
    """The numbers that are meant and references to the namespace that are in plain containers, in functions and in
    instances of the notebook's own classes; None for too many. Objects that a library's objects
    hold, such as the figures of Matplotlib, are theirs to carry."""
    found: set[int] = set()
    seen: set[int] = set()
    work = [value]
    while work:
        one = work.pop()
        kind = type(one)
        if kind is int and is_meant(one):
            found.add(one)
        elif one is namespace:
            found.add(id(namespace))
        elif kind in _ATOMS or id(one) in seen:
            continue
        elif kind is types.FunctionType:
            work += [one.__closure__, one.__defaults__, one.__kwdefaults__]
        elif kind in _HOLDERS or (kind.__module__ == "__main__" and kind is not type):
            seen.add(id(one))
            work += gc.get_referents(one)
        if len(seen) > _OBJECTS_MAX:
            return None
    return found


def _is_in(address: int, memories: list[tuple[int, int]]) -> bool:
    return any(low <= address < low + size for low, size in memories)


def _behind(
    values: list[t.Any], namespace: dict[str, t.Any]
) -> tuple[set[int] | None, list[tuple[int, int]]]:
    """The addresses of the objects that these hold, and their memory; None for too many. No code of
    theirs runs."""
    seen: set[int] = {id(value) for value in values if type(value) not in _ATOMS}
    memories: list[tuple[int, int]] = []
    work = [value for value in values if type(value) not in _ATOMS]
    while work:
        one = work.pop()
        if isinstance(one, _NOT_ENTERED):
            continue
        memories += _memory_of(one)
        if isinstance(one, types.FunctionType):
            parts: list[t.Any] = [one.__closure__, one.__defaults__, one.__kwdefaults__]
        else:
            parts = gc.get_referents(one)
        for part in parts:
            if type(part) in _ATOMS or part is namespace or isinstance(part, type):
                continue
            if id(part) not in seen:
                seen.add(id(part))
                work.append(part)
        if len(seen) > _OBJECTS_MAX:
            return None, memories
    return seen, memories


def _memory_of(one: t.Any) -> list[tuple[int, int]]:
    """The memory whose address code in C may have."""
    kind = type(one)
    try:
        if kind.__module__ == "numpy":
            return [(one.__array_interface__["data"][0], one.nbytes)]
        if kind.__module__ == "torch":
            storage = one.untyped_storage()
            return [(storage.data_ptr(), storage.nbytes())]
        if kind.__name__ in ("bytearray", "array", "mmap") or kind.__base__.__module__ == "_ctypes":
            return [_place_of(one)]
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        pass  # it has none that can be asked for
    return []


def _place_of(one: t.Any) -> tuple[int, int]:
    import ctypes

    view = memoryview(one)
    return ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes
