"""Carries functions and classes of the notebook that it has added to lists and dicts of the interpreter.

Such lists are finders of modules, callbacks of the collector, hooks of IPython (ipython_registries.py). The
notebook and libraries add to them. What the notebook has added to one is a slot (kept.py); in another process
it is added to what libraries have put there. An entry is the notebook's if its code made it, or if nobody's
code did (`len`) and the process didn't begin with it. To carry another registry, add it to the table here.

A few things are set by functions instead (handlers of signals): they are slots of their own.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing as t

from holdfast.carry.patches import MISSING, Deleted, Slot

from .attributes import is_notebooks, own_modules

Holders = dict[t.Any, t.Any]  # lists and dicts, by name

FINDERS = "how modules are found"
_OWN_SIGNALS = ("SIGINT", "SIGTERM", "SIGURG")


# ---- who has made an entry


def _parts(value: t.Any) -> list[t.Any]:
    """What it consists of: the object of a method, the function of a partial one, the hook beside its priority."""
    kind = type(value)
    if kind is tuple:
        return [part for one in value if callable(one) for part in _parts(one)]
    if kind is functools.partial:
        return [part for part in _parts(value.func) if is_notebooks(part)] or [value]
    return [value, value.__self__] if kind is types.MethodType else [value]


def is_own(one: object) -> bool:
    """Whether a module of the user's own has made it."""
    own = own_modules()
    home = getattr(one, "__module__", None)
    return (isinstance(home, str) and home in own) or type(one).__module__ in own


def is_notebooks_or_nobodys(one: object) -> bool:
    """Whether no library has made it. Aliases of magics are IPython's, but nobody's own."""
    is_ipythons = type(one).__name__ in ("MagicAlias", "LazyMagic")
    module = getattr(one, "__module__", None)
    return is_ipythons or module in (None, "builtins") or is_notebooks(one)


# ---- what it has made


class Registry:
    """The items that the notebook has added to some lists and dicts.

    Parameters
    ----------
    module : str
        They are there once this is imported.
    holders : callable
        Gives them, by name. It is given the names that another process has.
    is_made : callable
        Whether something that the process didn't begin with is to be carried.
    has_removals : bool
        Whether to carry which items of dicts are gone that the process began with.
    """

    def __init__(
        self,
        module: str,
        holders: t.Callable[[t.Iterable[t.Any]], Holders],
        is_made: t.Callable[[object], bool] = is_notebooks_or_nobodys,
        has_removals: bool = False,
    ):
        self._module = module
        self._holders = holders
        self._is_made = is_made
        found = holders(()) if module in sys.modules else {}
        self._begun = {name: _copied(holder) for name, holder in found.items()}
        # What libraries add later may be gone with them.
        self._first = {name: list(one) for name, one in self._begun.items() if type(one) is dict}
        self._has_removals = has_removals

    def slot(self) -> Slot:
        return Slot(self._module, self._read, self._write)

    def _mine(self, name: t.Any, holder: t.Any) -> list[tuple[t.Any, t.Any]]:
        """Places and values. A place in a list is counted from its end, but for the first."""
        begun = self._begun.get(name, ())
        if _is_same(holder, begun):
            return []
        if not isinstance(holder, dict):
            mine = self._added(holder, begun)
        else:
            mine = self._put(holder, begun)
            if self._has_removals:
                mine += [(key, Deleted) for key in self._first.get(name, ()) if key not in holder]
        if not mine:  # what libraries have added is known from now on
            self._begun[name] = _copied(holder)
        return mine

    def _added(self, holder: list[t.Any], begun: t.Any) -> list[tuple[t.Any, t.Any]]:
        known = set(map(id, begun))
        return [
            (index - len(holder) if index else 0, value)
            for index, value in enumerate(holder)
            if self._counts(value, value if id(value) in known else MISSING)
        ]

    def _put(self, holder: dict[t.Any, t.Any], begun: t.Any) -> list[tuple[t.Any, t.Any]]:
        """The other entries, libraries', are known from now on."""
        begun = begun or {}
        changed = [
            (key, value)
            for key, value in list(holder.items())
            if begun.get(key, MISSING) is not value
        ]
        mine = [
            (key, value)
            for key, value in changed
            if self._counts(value, MISSING) or (is_notebooks(key) and self._is_made(key))
        ]
        if 0 < len(mine) < len(changed):
            keys = {key for key, _ in mine}
            begun |= {key: value for key, value in changed if key not in keys}
        return mine

    def _counts(self, value: t.Any, before: t.Any) -> bool:
        """Whether an entry counts: what the notebook's code has made always does."""
        is_new = value is not before
        return any((is_new or is_notebooks(one)) and self._is_made(one) for one in _parts(value))

    def _read(self) -> t.Any:
        found = {name: self._mine(name, holder) for name, holder in self._holders(()).items()}
        return {name: mine for name, mine in found.items() if mine} or MISSING

    def _write(self, new: t.Any) -> None:
        wanted = {} if new is MISSING else new
        for name, holder in self._holders(wanted).items():
            mine, entries = self._mine(name, holder), wanted.get(name, [])
            if isinstance(holder, dict):
                _refill(holder, mine, entries, self._begun.get(name, {}))
                continue
            taken = {id(value) for _, value in mine}
            holder[:] = [value for value in holder if id(value) not in taken]
            for place, value in reversed(entries):  # each has all behind it there
                holder.insert(len(holder) + 1 + place if place else 0, value)


def _refill(
    holder: dict[t.Any, t.Any],
    mine: list[tuple[t.Any, t.Any]],
    entries: list[tuple[t.Any, t.Any]],
    begun: t.Any,
) -> None:
    for key, _ in mine:
        holder.pop(key, None)
        if key in begun:
            holder[key] = begun[key]
    for key, value in entries:
        if value is Deleted:
            holder.pop(key, None)
        else:
            holder[key] = value


def _is_same(holder: t.Any, begun: t.Any) -> bool:
    """Whether nothing was added or replaced."""
    if isinstance(holder, dict) and isinstance(begun, dict):
        if holder.keys() != begun.keys():
            return False
        holder, begun = holder.values(), begun.values()
    return len(holder) == len(begun) and all(map(operator.is_, holder, begun))


def _copied(holder: t.Any) -> t.Any:
    return dict(holder) if isinstance(holder, dict) else list(holder)


def slots() -> dict[str, Slot]:
    """The slots that only look (kept.py)."""
    registries = {
        "gc.callbacks": Registry("gc", lambda _: {"callbacks": sys.modules["gc"].callbacks}),
        "how types are pickled (copyreg)": Registry(
            "copyreg", lambda _: {"types": sys.modules["copyreg"].dispatch_table}
        ),
        "sqlite3's adapters and converters": Registry("sqlite3", _adapters),
    }
    return {name: registry.slot() for name, registry in registries.items()}


def own_slots() -> dict[str, Slot]:
    """Those of one process alone. To be called once in a process."""
    abstract = _Abstract()
    finders = Registry("sys", lambda _: {"finders": sys.meta_path, "hooks": sys.path_hooks})
    return {
        FINDERS: finders.slot(),  # a worker has some
        "handlers of signals": _signals(),
        "registrations with abstract classes": Slot("abc", abstract.read, abstract.write),
    }


# ---- the interpreter's


def _signals() -> Slot:
    import _signal
    import signal

    own = {getattr(_signal, name, None) for name in _OWN_SIGNALS}
    numbers = [number for number in range(1, _signal.NSIG) if number not in own]
    begun = {number: _signal.getsignal(number) for number in numbers}

    def read() -> t.Any:
        found = {number: _signal.getsignal(number) for number in numbers}
        changed = {
            number: int(handler) if isinstance(handler, int) else handler
            for number, handler in found.items()
            if handler is not None and handler != begun[number]
        }
        return changed or MISSING

    def write(new: t.Any) -> None:
        wanted = {} if new is MISSING else new
        for number, before in begun.items():
            handler = wanted.get(number, before)
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)

    return Slot("signal", read, write)


class _Abstract:
    """Classes that the user registers with others', or with a module's. The notebook's own abstract classes carry
    what is registered with them."""

    def __init__(self) -> None:
        self._pairs: list[tuple[t.Any, t.Any]] = []
        abc: t.Any = sys.modules["abc"]
        register = abc._abc_register  # what every abstract class calls

        def note(kind: t.Any, member: t.Any) -> t.Any:
            is_users = is_notebooks(member) or is_notebooks(kind)
            if is_users and kind.__module__ != "__main__" and (kind, member) not in self._pairs:
                self._pairs.append((kind, member))
            return register(kind, member)

        abc._abc_register = note

    def read(self) -> t.Any:
        return list(self._pairs) or MISSING

    def write(self, new: t.Any) -> None:
        for kind, member in [] if new is MISSING else new:
            kind.register(member)


def _adapters(names: t.Iterable[t.Any]) -> Holders:
    sqlite3 = sys.modules["sqlite3"]
    return {"adapters": sqlite3.adapters, "converters": sqlite3.converters}
