"""Makes sure that the notebook's finalizers run once, although objects are copied between processes.

*`__del__`.* An object that a cell's process has is a copy of the main worker's, or the main worker will have
a copy of it. A copy may go without the object's death: when the process ends after its cell, or when the main
worker replaces an object by what came back. Then the copy is disarmed first: its `__del__` won't run. This
holds for classes of the user's own. A library's `__del__` releases what the copy itself holds, and runs.

*Callbacks of weak references.* `weakref.ref(one, callback)` in the main worker is replaced together with its
object. The callback has run in the cell, or that of the new reference will.

*`weakref.finalize`.* What the notebook's code registers is a value: it goes to cells, and comes back with the
object that it waits for (libraries/standard/weak_references.py, worker/settings/kept.py). So is what a library's object
registers when the notebook makes it, if it only names things by text (`tempfile.TemporaryDirectory`). If it
has a number, that may be a descriptor of this process. A finalizer that arrives starts to work when
everything that was carried with it is there, and the one that it replaces is detached.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import types
import typing as t
import weakref

from holdfast import _store
from holdfast.carry import trial

Named = dict[str, t.Any]
Finalizer: t.TypeAlias = "weakref.finalize[t.Any, t.Any]"
Call = tuple[t.Any, t.Any, tuple, dict[str, t.Any], bool]  # object, function, arguments, at exit

_WEAK: t.Any = (weakref.ReferenceType, *weakref.ProxyTypes)


def _own(value: t.Any) -> list[t.Any]:
    """The objects behind a value whose `__del__` is the user's and hasn't run, and weak references with a
    callback of the user's."""
    return [one for one in _store._finalizers(value) if _is_own(type(one), one)]


def _is_own(cls: type, one: t.Any) -> bool:
    if issubclass(cls, _WEAK):
        callback = _store._weak_callback(one)
        while isinstance(callback, functools.partial):
            callback = callback.func
        return getattr(callback, "__module__", None) is None or trial.is_own_code(callback, cls)
    hook = next(base.__dict__["__del__"] for base in cls.__mro__ if "__del__" in base.__dict__)
    return trial.is_own_code(hook, cls)


def disarm(value: t.Any) -> None:
    """A copy that was made to be compared ends: no object of the notebook does."""
    for one in _own(value):
        _store._disarm(one)


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
    """While names are bound to what came back from a cell: what is replaced dies without `__del__` and
    callbacks, which the cell's copy has run, or its successor will."""
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


def collections() -> int:
    """How often all garbage was looked for in this process. After a cell's process has collected
    garbage, the main worker does it, too: it has the same cycles."""
    return gc.get_stats()[-1]["collections"]


# ---- weakref.finalize

_registry: dict[Finalizer, t.Any] = weakref.finalize._registry  # type: ignore[attr-defined]
_made: set[Finalizer] = set()  # by the notebook's code
_arrived: dict[Finalizer, Call] = {}  # not at work yet
_held: list[object] = []  # what nothing else holds here: its holder is in another process
ONCE = "its library cleans up after it, which is to happen once, in the process that made it"
_OURS = 2  # references to an object that only a variable here has


def watch(is_own: t.Callable[[dict[str, t.Any]], bool]) -> None:
    """Note from now on which ones are made by code whose globals are the user's, or for it."""
    make: t.Any = weakref.finalize.__init__

    @functools.wraps(make)
    def init(self: Finalizer, obj: t.Any, func: t.Any, /, *args: t.Any, **kwargs: t.Any) -> None:
        make(self, obj, func, *args, **kwargs)
        maker = sys._getframe(1)
        is_for_user = _is_constructor(maker, obj) and _is_text(*args, *kwargs.values())
        if is_own(maker.f_globals) or (is_for_user and is_own(maker.f_back.f_globals)):  # type: ignore[union-attr]
            _made.add(self)

    weakref.finalize.__init__ = init  # type: ignore[method-assign]


def _is_constructor(frame: types.FrameType, obj: t.Any) -> bool:
    code = frame.f_code
    first = code.co_varnames[:1] if code.co_name == "__init__" else ()
    return any(frame.f_locals.get(name) is obj for name in first)


def _is_text(*arguments: object) -> bool:
    return all(isinstance(one, (str, bool, type(None))) for one in arguments)


def at_work() -> list[Finalizer]:
    """The notebook's that haven't run, in the order in which they were made."""
    _made.intersection_update(_registry)
    return sorted(_made, key=lambda one: _registry[one].index)


def call_of(finalizer: Finalizer) -> Call | None:
    """The call that the notebook's finalizer makes; None if it has run, or does nothing any
    more."""
    found = finalizer.peek()
    if found is None:
        return None
    if finalizer not in _made:
        raise TypeError(ONCE)
    return *found, finalizer.atexit


def make_blank() -> Finalizer:
    """Make a finalizer that does nothing."""
    return object.__new__(weakref.finalize)


def fill(blank: Finalizer, call: Call) -> None:
    """Have it do that once it is put to work."""
    _arrived[blank] = call


def arrived(blank: Finalizer) -> Call:
    """The call that it is to make, if it isn't at work."""
    return _arrived.get(blank, (None, None, (), {}, False))


def put_to_work(wanted: t.Iterable[Finalizer]) -> None:
    """Let these be the notebook's. The others have run elsewhere, or have a successor."""
    wanted = list(wanted)
    for one in _made.difference(wanted):
        _registry.pop(one, None)
    _made.intersection_update(wanted)
    for one in wanted:
        if one in _arrived:
            obj, func, args, kwargs, at_exit = _arrived.pop(one)
            weakref.finalize.__init__(one, obj, func, *args, **kwargs)
            one.atexit = at_exit
            _made.add(one)
            if sys.getrefcount(obj) == _OURS:
                _held.append(obj)
    for one in filter(_registry.__contains__, wanted):
        _registry[one].index = next(weakref.finalize._index_iter)  # type: ignore[attr-defined]


def leave_to_others() -> None:
    """This process ends, and the notebook's objects don't."""
    for one in at_work():
        one.atexit = False
