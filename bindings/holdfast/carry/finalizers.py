"""Makes sure that the notebook's finalizers run once, although objects are copied between processes.

*`__del__`.* An object in the process of a cell is a copy of the main worker's object, or the main worker gets
a copy of it. A copy may be freed although the object lives on: when the process ends after its cell, or when
the main worker replaces an object by the one that came back. Such a copy is *disarmed* first: its `__del__`
won't run. This holds for classes of the user's own, and for those of libraries whose objects are carried by their
attributes alone: their `__del__` would act on what the other object uses (a bar of tqdm's would be drawn again).
The `__del__` of other libraries' classes runs, since it releases what the copy itself holds.

*Callbacks of weak references.* `weakref.ref(one, callback)` in the main worker is replaced together with its
object. The callback has run in the cell, or that of the new reference will run.

*`weakref.finalize`.* A finalizer of the notebook's code is a value: it goes to cells, and comes back with its
object (libraries/standard/weak_references.py, worker/settings/slots.py). The same holds for a finalizer of a
library's object that the notebook makes, if its arguments are only texts (`tempfile.TemporaryDirectory`). A
number among them may be a descriptor of this process. A finalizer that arrives is put to work when all that
was carried with it is there. The one that it replaces is detached.
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
from holdfast.carry import instances, trial

Named = dict[str, t.Any]
Finalizer: t.TypeAlias = "weakref.finalize[t.Any, t.Any]"
Call = tuple[t.Any, t.Any, tuple, dict[str, t.Any], bool]  # object, function, arguments, at exit

_WEAK: t.Any = (weakref.ReferenceType, *weakref.ProxyTypes)


def _own(value: t.Any) -> list[t.Any]:
    """The objects in a value whose `__del__` hasn't run and isn't the copy's own, and the weak references with a
    callback of the user's."""
    return [one for one in _store._finalizers(value) if _is_own(type(one), one)]


def _is_own(cls: type, one: t.Any) -> bool:
    if issubclass(cls, _WEAK):
        callback = _store._weak_callback(one)
        while isinstance(callback, functools.partial):
            callback = callback.func
        return getattr(callback, "__module__", None) is None or trial.is_own_code(callback, cls)
    hook = next(base.__dict__["__del__"] for base in cls.__mro__ if "__del__" in base.__dict__)
    return trial.is_own_code(hook, cls) or instances.is_copied(cls)


def disarm(value: t.Any) -> None:
    """Disarm a copy that was made for a comparison: it ends, and no object of the notebook does."""
    for one in _own(value):
        _store._disarm(one)


def let_go(namespace: Named, names: t.Iterable[str]) -> None:
    """Remove names whose objects end with this process. The other objects of the namespace live on
    in another process, so theirs are disarmed: an object that ends may refer to one."""
    going = [namespace.pop(name) for name in names if name in namespace]
    if going:
        for one in _own(list(namespace.values())):
            _store._disarm(one)
    while going:
        going.pop()  # the last one first: it may use the others


@contextlib.contextmanager
def living_on(namespace: Named, but: t.Container[str] = ()) -> t.Iterator[None]:
    """Disarm what is replaced while names are bound to the values that came back from a cell.
    `__del__` and callbacks of a replaced object have run in the cell, or run when its successor
    dies. The cell had no copies of the objects of `but`: they end here."""
    before = list(namespace.items())
    yield
    replaced = [
        value
        for name, value in before
        if name not in but and (name not in namespace or namespace[name] is not value)
    ]
    old = _own(replaced) if replaced else []
    if old:
        kept = {id(one) for one in _own(list(namespace.values()))}
        for one in old:
            if id(one) not in kept:
                _store._disarm(one)


def collections() -> int:
    """How often all garbage was collected in this process. If the process of a cell has done that,
    the main worker does it, too: it has the same cycles."""
    return gc.get_stats()[-1]["collections"]


# ---- weakref.finalize

_registry: dict[Finalizer, t.Any] = weakref.finalize._registry  # type: ignore[attr-defined]
_made: set[Finalizer] = set()  # the notebook's code has made these
_arrived: dict[Finalizer, Call] = {}  # not put to work yet
_held: list[object] = []  # nothing else holds these here: their holder is in another process
ONCE = "its library cleans up after it, once, in the process that made it"
_OURS = 2  # references to an object that only a local variable holds


def watch(is_own: t.Callable[[dict[str, t.Any]], bool]) -> None:
    """Note from now on which finalizers the user's code makes, or a library's object that it
    makes."""
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
    """The notebook's finalizers that haven't run, in the order in which they were made."""
    _made.intersection_update(_registry)
    return sorted(_made, key=lambda one: _registry[one].index)


def call_of(finalizer: Finalizer) -> Call | None:
    """The call that a finalizer of the notebook makes. None if it has run or was detached."""
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
    """Give a blank finalizer its call. It starts when it is put to work."""
    _arrived[blank] = call


def arrived(blank: Finalizer) -> Call:
    """The call of a finalizer that isn't put to work yet."""
    return _arrived.get(blank, (None, None, (), {}, False))


def put_to_work(wanted: t.Iterable[Finalizer]) -> None:
    """Make these the notebook's finalizers. The others have run in another process, or have a
    successor."""
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
    """Before this process ends, while the notebook's objects live on: let no finalizer run."""
    for one in at_work():
        one.atexit = False
