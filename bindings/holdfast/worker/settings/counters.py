"""Carries the numbers that libraries give to their objects, one after the other.

Two diagrams of a notebook with one id, or two of SymPy's dummies that are equal, are wrong. So a counter goes
on in the next process where it was. In modules of installed libraries these are counters:

* an `itertools.count` among the attributes of a module or of its classes, or its `__next__`;
* a whole number there that the module's own code adds to in place (`count += 1`), and takes nothing from.

Others are declared in holdfast/libraries. A counter never goes back, so two processes that counted meanwhile
can't end with the same number.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import itertools
import opcode
import re
import sys
import types
import typing as t

from holdfast.base.after_import import Waiting
from holdfast.libraries import Counter

from .attributes import NewModules

Places = dict[str, tuple[str, ...]]  # by module: names in it

_COUNTING = (itertools.count, types.MethodWrapperType)
_GAP_MAX = 1_000_000  # numbers; beyond, the process drew at random where to begin (rich)
_OPERATORS = [name for _, name in opcode._nb_ops]  # type: ignore[attr-defined]
_IN_PLACE = re.compile(
    b"|".join(
        re.escape(bytes((dis.opmap["BINARY_OP"], _OPERATORS.index(name)))) for name in ("+=", "-=")
    )
)
_STORES = (dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"])
_BETWEEN = (dis.opmap["CACHE"], dis.opmap["SWAP"], dis.EXTENDED_ARG)


class Counters:
    """The counters of this process."""

    def __init__(self) -> None:
        self._places: Places = {}
        # A process draws one at random, and adds another number to it.
        self._drawn: set[str] = set()
        self._modules = NewModules()
        self._held: dict[str, int] = {}  # numbers that came, until `settle` is called
        self._waiting = Waiting(self._go_on, lambda key: key.partition(":")[0])

    def add(self, counter: Counter) -> None:
        """Add a counter that a library's file declares."""
        self._places[counter.module] = (*self._places.get(counter.module, ()), counter.path)
        if counter.is_drawn:
            self._drawn.add(f"{counter.module}:{counter.path}")

    def capture(self, shell: t.Any) -> dict[str, int] | None:
        """How far each has counted."""
        self.look()
        found = self._waiting.values | self._held
        for module, names in self._places.items():
            if module in sys.modules:
                for name in names:
                    number = _number(_find(module, name))
                    if number is not None:
                        found[f"{module}:{name}"] = number
        return found or None

    def apply(self, new: dict[str, int], old: dict[str, int] | None, shell: t.Any) -> None:
        """Go on from there once `settle` is called: what is bound before that may import the modules, and
        an import counts, too."""
        self._held.update(new)

    def settle(self) -> None:
        """Go on, in the modules that are imported; in others once they are."""
        held, self._held = self._held, {}
        for key, number in held.items():
            self._waiting.set(key, number)

    def _go_on(self, key: str, number: int) -> None:
        module, _, name = key.partition(":")
        _count_to(module, name, number, key in self._drawn)

    def look(self) -> None:
        """Find those of modules that have been imported since the last time."""
        for name, module in self._modules.installed():
            if str(module.__file__).endswith(".py") and (found := _counters_in(module)):
                self._places[name] = tuple(dict.fromkeys((*self._places.get(name, ()), *found)))


# ---- which they are


def _counters_in(module: types.ModuleType) -> list[str]:
    """The names of those of a module and of its classes."""
    holders: list[tuple[str, t.Mapping[str, t.Any]]] = [("", vars(module))]
    holders += [
        (f"{name}.", vars(one))
        for name, one in list(vars(module).items())
        if issubclass(type(one), type)  # isinstance() would ask the object, which may run code
        and vars(one).get("__module__") == module.__name__
    ]
    functions: list[t.Any] = []
    numbers: dict[str, list[str]] = {}  # whole numbers, by their last names
    found = []
    for prefix, space in holders:
        for name, one in list(space.items()):
            kind = type(one)
            if kind is int:
                numbers.setdefault(name, []).append(prefix + name)
            elif kind is types.FunctionType or kind in (classmethod, staticmethod, property):
                functions.append(one)
            elif kind in _COUNTING and _counted(one) is not None:
                found.append(prefix + name)
    if numbers:
        for name in _added_to(functions, numbers.keys()):
            found += numbers[name]
    return found


def _added_to(functions: list[t.Any], names: t.Collection[str]) -> set[str]:
    """Find those of these names that the functions add to, and take nothing from."""
    added: set[str] = set()
    taken: set[str] = set()
    codes = [code for one in functions if (code := _code_of(one)) is not None]
    while codes:
        code = codes.pop()
        codes += [one for one in code.co_consts if type(one) is types.CodeType]
        if any(name in names for name in code.co_names):
            for operation, name in _changed_in_place(code):
                (added if operation == "+=" else taken).add(name)
    return (added - taken) & set(names)


def _changed_in_place(code: types.CodeType) -> t.Iterator[tuple[str, str]]:
    """The operation, and the name of the global or attribute. Most code has none, and `dis` takes long."""
    steps = code.co_code
    for found in _IN_PLACE.finditer(steps):
        place, argument = found.end(), 0
        while place < len(steps) and found.start() % 2 == 0:
            step, argument = steps[place], argument << 8 | steps[place + 1]
            if step in _STORES:
                yield _OPERATORS[found[0][1]], code.co_names[argument]
            if step not in _BETWEEN:
                break
            argument = argument if step == dis.EXTENDED_ARG else 0
            place += 2


def _code_of(one: t.Any) -> types.CodeType | None:
    """The code of a function, of a method of a class or of a property, without decorators that say so."""
    one = getattr(one, "fget", None) or getattr(one, "__func__", one)
    for _ in range(10):
        if not hasattr(one, "__wrapped__"):
            break
        one = one.__wrapped__
    return getattr(one, "__code__", None) if type(one) is types.FunctionType else None


# ---- how far they are


def _counted(one: t.Any) -> t.Any:
    """The `itertools.count` that this is, or whose `__next__` it is."""
    if type(one) is types.MethodWrapperType and one.__name__ == "__next__":
        one = one.__self__
    return one if type(one) is itertools.count else None


def _find(module: str, name: str) -> t.Any:
    """Find the counter; None in another version of the library."""
    found = sys.modules[module]
    for step in name.split("."):
        found = getattr(found, step, None)
    return found


def _number(one: t.Any) -> int | None:
    if type(one) is int:
        return one
    count = _counted(one)
    return None if count is None else _shown(count)[0]


def _shown(count: t.Any) -> tuple[int | None, int]:
    """The next number of an `itertools.count`, if it counts whole ones, and the step."""
    number, _, step = repr(count).removeprefix("count(")[:-1].partition(", ")
    with contextlib.suppress(ValueError):
        return int(number), int(step or 1)
    return None, 1


def _count_to(module: str, name: str, number: int, is_drawn: bool) -> None:
    one = _find(module, name)
    now = _number(one)
    holder, _, last = name.rpartition(".")
    if now is None or not (is_drawn or now < number <= now + _GAP_MAX):
        return
    count = _counted(one)
    if count is not None:  # it may have other names: it is the same object that goes on
        skipped = itertools.islice(count, (number - now) // max(_shown(count)[1], 1))
        collections.deque(skipped, maxlen=0)
        return
    with contextlib.suppress(AttributeError):
        place = _find(module, holder) if holder else sys.modules[module]
        setattr(place, last, number)


counters = Counters()
