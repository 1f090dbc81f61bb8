"""Finds out whether a forked cell changed variables that no codec can encode.

The fork of the main worker has these variables, and the cell can use them, but changes to them end with the
fork. So each is looked at before and after the cell. Both states are those of one process, with the same
objects at the same places, so a change shows. Looked at are:

* plain values and the members of containers;
* attributes of instances whose class is written in Python;
* classes and modules that aren't carried by themselves;
* the objects that functions hold;
* how far a generator or an iterator has come;
* whether a lock is held.

If a variable that is carried has the same object, a change inside of that object isn't lost: it comes back with
that variable, and is put into the notebook's object (carry/in_place.py). It counts only if another object takes its
place.

Other objects, such as a file or an extension's object, show nothing. They count as changed if the cell's code
can have reached them.

Nothing of what was looked at is kept, and no code of the objects' own runs.
"""

from __future__ import annotations

import _abc
import _random
import _thread
import abc
import collections
import gc
import io
import sys
import types
import typing as t

from holdfast.carry import cached_functions, in_place, restoring
from holdfast.carry.patches import MISSING, is_kept, is_patch

from .notices import Lost

_OBJECTS_MAX = 10_000  # looked at for one variable; beyond, it is unknown
_ALL_MAX = 100_000  # for all of them
_IN_HAND_MAX = 1000  # of what generators have in hand; the rest is left out
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None), type(...), range))
_HOLDERS = frozenset(
    (
        *(list, tuple, set, frozenset, collections.deque),
        *(types.MethodType, types.CellType, staticmethod, classmethod, property),
    )
)
_SIZED = frozenset((list, tuple, set, frozenset, dict, collections.deque))
_FIXED = (  # they are carried, a library's, or can't change
    *(
        type,
        types.ModuleType,
        types.CodeType,
        types.WrapperDescriptorType,
        types.MethodDescriptorType,
    ),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
)
_STEPS = {types.GeneratorType: "gi", types.CoroutineType: "cr", types.AsyncGeneratorType: "ag"}
_WAITS = {"gi": "_yieldfrom", "cr": "_await", "ag": "_await"}
_PIPED = frozenset((enumerate, zip, map, filter))
_CHANGING = (*_PIPED, _random.Random, abc.ABCMeta)  # without holding another object
_LOCKS = frozenset((_thread.LockType, _thread.RLock))
_IN_MEMORY = frozenset((io.StringIO, io.BytesIO))
_SLOT = types.MemberDescriptorType
_WORD = object.__basicsize__ // 2

# What an object of a builtin class below its own holds; all of them have the same size.
_ITEMS: dict[type, t.Callable[[t.Any], t.Iterable[t.Any]]] = {
    object: lambda one: (),
    list: list.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    dict: lambda one: [*dict.keys(one), *dict.values(one)],
    collections.OrderedDict: lambda one: [
        *collections.OrderedDict.__iter__(one),
        *dict.values(one),
    ],
    collections.defaultdict: lambda one: [*dict.keys(one), *dict.values(one), one.default_factory],
    collections.deque: collections.deque.__iter__,
    _random.Random: lambda one: [hash(_random.Random.getstate(one))],
}

RESULTS = "the results that it keeps can't be carried"  # a function's with a cache

Look = list[tuple[t.Any, ...]]
Seen = tuple[t.Any, t.Sequence[t.Any]]  # what one object shows of itself, and what it holds
Losses = dict[t.Any, tuple[str, Lost]]  # why a name isn't carried, and what the notebook has of it


class Bound:
    """Those of one namespace, before a cell.

    Parameters
    ----------
    unserializable : mapping of str to str
        Why each could not be carried.
    namespace : dict
        The notebook's variables.
    attributes : Patches, optional
        Attributes of modules that the notebook has set.
    """

    def __init__(
        self,
        unserializable: t.Mapping[str, str],
        namespace: dict[str, t.Any],
        attributes: t.Any = None,
    ):
        self._namespace, self._attributes = namespace, attributes
        self._calls = _calls_of_functions()
        self._places = places_of(namespace, namespace)
        budget = Budget()
        self._before = {}
        carried = _objects_of(namespace, unserializable) if unserializable else {}
        for name in unserializable:
            value = self._value(name)
            if value is not MISSING or is_patch(name):
                met: set[int] = set()
                shown = look(value, budget, met=met)
                shared = {one: carried[one] for one in met & carried.keys()}
                apart = look(value, budget, but=shared) if shared and shown is not None else None
                self._before[name] = id(value), shown, shared, apart

    def _value(self, name: str) -> t.Any:
        return self._attributes.last(name) if is_patch(name) else self._namespace.get(name, MISSING)

    def lost(self, unserializable: t.Mapping[str, str], touched: t.Container[str] | None) -> Losses:
        """After the cell: of what isn't carried what the cell made, bound anew or changed, and why.

        Parameters
        ----------
        unserializable : mapping of str to str
            Why each variable isn't carried now.
        touched : container of str, optional
            The variables that the cell's code can have reached; None for any.
        """
        found = {}
        for name, why in unserializable.items():
            ended = self._end_of(name, touched is None or name in touched)
            if ended is not None and not self._comes_back(name, unserializable):
                found[name] = why, ended
        return found

    def functions_lost(self) -> Losses:
        """After the cell: the functions with results that aren't carried, if it has called them."""
        calls = _calls_of_functions()
        return {
            name: (RESULTS, Lost.MAYBE_CHANGED)
            for name, count in calls.items()
            if count != self._calls.get(name)
        }

    def _end_of(self, name: str, may_be_touched: bool) -> Lost | None:
        """The change of one value; None if there is none."""
        if name not in self._before:
            return Lost.NEW
        place, before, *_ = self._before[name]
        value = self._value(name)
        if id(value) != place:
            return Lost.CHANGED
        now = look(value)
        if before is None or now is None:
            return Lost.MAYBE_CHANGED if may_be_touched else None
        return Lost.CHANGED if now != before else None

    def _comes_back(self, name: str, unserializable: t.Mapping[str, str]) -> bool:
        """Whether all that was changed of a value comes back with variables that are carried."""
        place, _, shared, apart = self._before.get(name, (None, None, None, None))
        value = self._value(name)
        if apart is None or id(value) != place:
            return False
        now = _objects_of(self._namespace, unserializable)
        same = all(now.get(one) == holder for one, holder in shared.items())
        return same and look(value, but=shared) == apart

    def bound_anew(self, names: t.Iterable[str]) -> list[str]:
        """After the cell: those of these names that have another object. What matters is held by a variable that
        isn't carried, so no other object has got its address."""
        return bound_anew(self._places, self._namespace, names)

    def gone(self, kept: t.Container[str]) -> list[str]:
        """After the cell: those that it deleted, and the patches that it took back.

        Parameters
        ----------
        kept : container of str
            What is saved now, or isn't carried.
        """
        return [
            name
            for name in self._before
            if name not in (kept if is_patch(name) else self._namespace)
        ]


def _calls_of_functions() -> dict[str, t.Any]:
    return {name: one.cache_info() for name, one in cached_functions.left_out().items()}


def places_of(namespace: dict[str, t.Any], names: t.Iterable[str]) -> dict[str, int]:
    """The ids of these variables, for `bound_anew`."""
    return {name: id(namespace[name]) for name in list(names)}


def bound_anew(
    places: dict[str, int], namespace: dict[str, t.Any], names: t.Iterable[str]
) -> list[str]:
    """Those of these names that have another object than at `places`, or had none. If an object has ended, the next
    one may have its address: that isn't seen."""
    return [name for name in names if name in namespace and places.get(name) != id(namespace[name])]


def _objects_of(
    namespace: dict[str, t.Any], unserializable: t.Container[str]
) -> dict[int, tuple[str, int]]:
    """By their ids: the values of the variables that are carried, and the cells of those that are functions. With
    each the name and the value that has it."""
    found: dict[int, tuple[str, int]] = {}
    for name, value in list(namespace.items()):
        if name not in unserializable and type(value) not in _ATOMS and in_place.keeps(value):
            cells = value.__closure__ if type(value) is types.FunctionType else None
            for one in (value, *(cells or ())):
                found.setdefault(id(one), (name, id(value)))
    return found


def unstorable(namespace: dict[t.Any, t.Any]) -> dict[t.Any, str]:
    """Variables that the store has no key for, which only `globals()` makes, and why."""
    return {
        name: "a name that isn't kept"
        for name in list(namespace)
        if type(name) is not str or not (name.isidentifier() and len(name) < 256 or is_kept(name))
    }


def with_traceback(names: t.Iterable[str], namespace: dict[str, t.Any]) -> list[str]:
    """Those of these variables that are exceptions whose traceback has frames that ran in this process:
    the variables of the frames stay here. One that came from another process has none to lose."""
    return [
        name
        for name in names
        if issubclass(type(value := namespace.get(name)), BaseException)
        and restoring.has_own_frames(value.__traceback__)
    ]


class Budget:
    """How many objects may still be looked at."""

    left = _ALL_MAX


def look(
    value: object,
    budget: Budget | None = None,
    objects: list[t.Any] | None = None,
    met: set[int] | None = None,
    but: t.Container[int] = (),
) -> Look | None:
    """The visible parts of a value and of all that it holds, to be compared with a later look; None
    if a part shows nothing of itself, or if there are too many. What generators have in hand is left out then.
    The parts are added to `objects`, and None for one that changes without holding another object. The ids of the
    parts are added to `met`. Not looked into are the parts with the ids `but`."""
    most = min(_OBJECTS_MAX, _ALL_MAX if budget is None else budget.left)
    seen: set[int] = set()
    found: Look = []
    work: list[t.Any] = [value]
    in_hand: list[t.Any] = []  # only when all else is looked at
    is_in_hand = False
    while work or in_hand:
        if not work and not is_in_hand:
            is_in_hand, most = True, len(seen) + _IN_HAND_MAX
        one = (in_hand if is_in_hand else work).pop()
        kind = type(one)
        is_first = one is value
        if kind in _ATOMS:
            found.append((kind, repr(one) if kind in (float, complex) else one))
            continue
        found.append((kind, id(one)))
        if id(one) in seen or id(one) in but:
            continue
        seen.add(id(one))
        is_small = len(seen) <= most and (kind not in _SIZED or len(one) <= most)  # type: ignore[arg-type]
        shown = _look_at(one, is_first) if is_small else None
        if budget is not None and not is_in_hand:
            budget.left -= 1
        if shown is None and is_in_hand:
            continue
        if shown is None:
            return None
        found.append((shown[0],))
        (in_hand if is_in_hand else work).extend(shown[1])
        in_hand.extend(_in_hand(one, _STEPS[kind]) if kind in _STEPS else ())
        if objects is not None and not (issubclass(kind, _FIXED) and not shown[1]):
            objects.append(one if shown[0] == () and not issubclass(kind, _CHANGING) else None)
    if met is not None:
        met |= seen
    return found


def _look_at(one: t.Any, is_variable: bool) -> Seen | None:
    kind = type(one)
    if issubclass(kind, type) and (is_variable or _is_nowhere(one)):
        return _look_at_class(one)
    if issubclass(kind, types.ModuleType) and (is_variable or not _is_imported(one)):
        return (), [object.__getattribute__(one, "__dict__")]
    if issubclass(kind, _FIXED):
        return (), ()
    if kind is dict:
        return (), [*one, *one.values()]
    if kind in _HOLDERS:
        return (), gc.get_referents(one)
    if kind is types.FunctionType:
        return (), [one.__closure__, one.__defaults__, one.__kwdefaults__, one.__dict__]
    if kind is types.BuiltinFunctionType:
        return (), [one.__self__]
    if kind in _STEPS:
        return _look_at_steps(one, _STEPS[kind])
    if kind is cached_functions.Cached:
        return one.cache_info(), [one.__wrapped__, vars(one)]
    if kind in _PIPED:
        _, inner, *state = one.__reduce__()
        return (), [*inner, *state]
    if kind.__module__ == "builtins" and hasattr(kind, "__length_hint__"):
        return one.__length_hint__(), gc.get_referents(one)
    if kind in _LOCKS:
        return repr(one), ()
    if kind in _IN_MEMORY and not one.closed:
        return (one.tell(), one.getvalue()), ()
    if kind is bytearray:
        return bytes(one), ()
    return _look_at_instance(one)


def _look_at_class(cls: t.Any) -> Seen:
    """Its attributes and bases, those of the classes that are made in it, and which classes are registered
    with it as an abstract one."""
    space = dict(type.__dict__["__dict__"].__get__(cls))
    registered: list[t.Any] = []
    if space.pop("_abc_impl", None) is not None:
        registered = [one() for one in _abc._get_dump(cls)[0]]
    inside = [part for one in space.values() if _is_in(one, cls) for part in _look_at_class(one)[1]]
    bases = type.__dict__["__bases__"].__get__(cls)
    return (), [*space, *space.values(), *inside, *registered, *bases]


def _is_in(one: t.Any, cls: type) -> bool:
    """Whether it is a class that is made in the body of this one, and carried with it."""
    return issubclass(type(one), type) and _path(one).startswith(_path(cls) + ".")


def _path(cls: type) -> str:
    """Its name, without asking a metaclass."""
    return ".".join(
        str(type.__dict__[part].__get__(cls)) for part in ("__module__", "__qualname__")
    )


def _is_nowhere(cls: type) -> bool:
    """Whether it is a class that no name leads to in its module: one that a function has made."""
    if not cls.__flags__ & restoring.HEAP_TYPE:
        return False
    found: t.Any = sys.modules.get(cls.__module__)
    for step in cls.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(step)
    return found is not cls


def _is_imported(module: types.ModuleType) -> bool:
    return sys.modules.get(object.__getattribute__(module, "__dict__").get("__name__")) is module


def _look_at_steps(one: t.Any, prefix: str) -> Seen:
    """A generator or its like: how far it is, what it waits for, and its variables, as cells if they are
    others' too."""
    frame = getattr(one, prefix + "_frame")
    if frame is None:
        return "over", ()
    code = frame.f_code
    shared = {*code.co_cellvars, *code.co_freevars}
    own = [value for name, value in frame.f_locals.items() if name not in shared]
    cells = [part for part in gc.get_referents(one) if type(part) is types.CellType]
    return frame.f_lasti, [getattr(one, prefix + _WAITS[prefix]), *own, *cells]


def _in_hand(one: t.Any, prefix: str) -> list[t.Any]:
    """What a generator or its like holds besides its variables: the iterators of its loops."""
    frame = getattr(one, prefix + "_frame")
    if frame is None:
        return []
    space = frame.f_locals
    return [part for part in gc.get_referents(one) if part is not frame and part is not space]


def _look_at_instance(one: t.Any) -> Seen | None:
    """Its attributes and items, where they are all that it has."""
    kind = type(one)
    base = next(base for base in kind.__mro__ if base in _ITEMS)
    slots = [slot for base in kind.__mro__ for slot in vars(base).values() if type(slot) is _SLOT]
    own = [slot for slot in slots if slot.__objclass__ not in _ITEMS]
    words = len(own)
    for offset in ("__weakrefoffset__", "__dictoffset__"):
        words += getattr(kind, offset) > 0 and not getattr(base, offset)
    if kind.__itemsize__ or kind.__basicsize__ != base.__basicsize__ + words * _WORD:
        return None  # C's code may keep there what nobody sees
    held = list(_ITEMS[base](one))
    if _is_nowhere(kind):
        held.append(kind)
    for slot in slots:
        try:
            held.append(slot.__get__(one, kind))
        except AttributeError:
            held.append(slot.__name__)  # it isn't set
    if kind.__dictoffset__:
        held.append(object.__getattribute__(one, "__dict__"))
    return (), held
