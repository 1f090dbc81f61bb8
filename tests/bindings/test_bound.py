"""What can be seen of values that no codec carries, and that a change of any of it shows."""

import array
import collections
import functools
import io
import itertools
import random
import sqlite3
import threading
import zlib

import pytest

from holdfast.worker.notices import Lost
from holdfast.worker.bound import Bound, Budget, look


class Plain:
    pass


class Slots:
    __slots__ = ("one", "other")


class OwnList(list):
    pass


def steps():
    total = 0
    while True:
        total += 1
        yield total


def same_steps():
    for _ in [5, 5, 5]:
        yield 1


def counter():
    count, lock = 0, threading.Lock()

    def add():
        nonlocal count
        with lock:
            count += 1

    return add


def holder():
    made = Plain()
    made.lock, made.values, made.me = threading.RLock(), {"a": [1, 2.5]}, made
    return made


def nowhere():
    kind = type("Made", (), {"count": 0, "kept": staticmethod(len)})
    kind.__module__ = "json"  # whose function it is from
    return {"a": kind}


def slotted():
    made = Slots()
    made.one = [1]
    return made


def started(generator):
    next(generator)
    return generator


CHANGES = {
    "generator": (steps, next),
    "generator in a loop": (lambda: started(same_steps()), next),
    "generator expression": (lambda: (i for i in range(9)), next),
    "iterator": (lambda: iter([1, 2]), next),
    "zip": (lambda: zip([1, 2], iter({3: 4, 5: 6}), strict=True), next),
    "map": (lambda: map(str, [1, 2]), next),
    "lock": (threading.Lock, lambda one: one.acquire()),
    "event": (threading.Event, lambda one: one.set()),
    "closure": (counter, lambda one: one()),
    "bound method": (lambda: holder().values["a"].append, lambda one: one(3)),
    "instance": (holder, lambda one: one.values["a"].append(3)),
    "a float in it": (holder, lambda one: one.values["a"].__setitem__(1, -0.0)),
    "its lock": (holder, lambda one: one.lock.acquire()),
    "a new attribute": (holder, lambda one: setattr(one, "more", 1)),
    "class that a function made": (nowhere, lambda one: setattr(one["a"], "count", 1)),
    "method": (lambda: {"a": staticmethod(counter())}, lambda one: one["a"]()),
    "property": (lambda: property(counter()), lambda one: one.fget()),
    "slots": (slotted, lambda one: setattr(one, "other", 1)),
    "deque": (lambda: collections.deque([steps()]), lambda one: next(one[0])),
    "own list": (lambda: OwnList([1]), lambda one: one.append(2)),
    "own list's attribute": (lambda: OwnList([1]), lambda one: setattr(one, "a", 1)),
    "counter": (lambda: collections.Counter("ab"), lambda one: one.update("a")),
    "ordered": (
        lambda: collections.OrderedDict(a=1, b=1),
        lambda one: one.move_to_end("a"),
    ),
    "default": (lambda: collections.defaultdict(list), lambda one: one["a"]),
    "random numbers": (random.Random, lambda one: one.random()),
    "text in memory": (io.StringIO, lambda one: one.write("a")),
    "partial": (lambda: functools.partial(print, [1]), lambda one: one.args[0].append(2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_shows(name):
    make, change = CHANGES[name]
    value = make()
    before = look(value)
    assert before is not None and look(value) == before
    change(value)
    assert look(value) not in (None, before)


def numbers(kept=None):
    for number in itertools.count():
        yield number


def lines():
    for _, line in enumerate(io.TextIOWrapper(io.BytesIO(b"a\nb\n"))):
        yield line


def long():
    for one in [[] for _ in range(20_000)]:
        yield one


@pytest.mark.parametrize("make", [numbers, lines, long])
def test_what_a_generator_has_in_hand_may_show_nothing(make):
    value = started(make())
    before = look(value)
    assert before is not None and look(value) == before
    next(value)
    assert look(value) not in (None, before)
    assert look(started(numbers(sqlite3.connect(":memory:")))) is None  # a variable


def test_what_it_has_in_hand_takes_nothing_of_what_may_be_looked_at():
    def many():
        for one in [[[] for _ in range(900)] for _ in range(9)]:
            one = None
            yield one

    value, budget = started(many()), Budget()
    before = look(value)
    budget.left = 9
    assert look(value, budget) == before is not None and budget.left > 0


def test_an_object_in_hand_that_is_a_variable_too():
    opaque = itertools.count()

    def steps():
        for number in opaque:
            yield number

    assert look(started(steps())) is None
    assert look([started(numbers()), opaque]) is None is look([opaque, started(numbers())])


class OwnError(ValueError):
    pass


@pytest.mark.parametrize(
    "value",
    [
        array.array("i"),
        sqlite3.connect(":memory:"),
        OwnError(),
        ValueError(),
        [zlib.crc32, zlib.decompressobj()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_shows_nothing(value):
    assert look(value) is None


def test_too_much_is_not_looked_at():
    assert look([[] for _ in range(20_000)]) is None
    assert look({number: None for number in range(20_000)}) is None


def test_no_code_of_the_object_runs():
    class Loud:
        def __getattribute__(self, name):
            raise AssertionError(name)

        __eq__ = __hash__ = __iter__ = __len__ = __getattribute__

    assert look(Loud()) is not None


def test_what_became_of_each():
    names = "same stepped opaque untouched replaced gone".split()
    space = {name: steps() for name in names} | {
        "opaque": sqlite3.connect(":memory:"),
        "made": None,
    }
    bound = Bound(dict.fromkeys(names, "why"), space)
    next(space["stepped"])
    space["replaced"], space["made"] = steps(), steps()
    del space["gone"]
    touched = set(space) - {"untouched"}
    unserializable = dict.fromkeys(space, "why")
    found = bound.lost(unserializable, touched)
    assert found == {
        "stepped": ("why", Lost.CHANGED),
        "opaque": ("why", Lost.MAYBE_CHANGED),
        "replaced": ("why", Lost.CHANGED),
        "made": ("why", Lost.NEW),
    }
    assert bound.lost({"opaque": "why"}, {"same"}) == {}
    assert list(bound.lost({"opaque": "why"}, None)) == ["opaque"]
    assert bound.gone({}) == ["gone"]


def sharing():
    """Two closures with one variable, of which only the second is carried, and a list that the first also has."""
    count, kept, lock = [0], [0], threading.Lock()

    def add():
        with lock:
            count[0] += 1
        return kept

    def get():
        return count[0]

    get.__module__ = "__main__"
    return {"add": add, "get": get, "kept": kept}


@pytest.mark.parametrize(
    "change",
    [
        lambda space: space["add"](),
        lambda space: space["add"]().append(1),
        lambda space: space["kept"].append(1),
    ],
    ids=["cell", "both", "variable"],
)
def test_what_comes_back_with_a_carried_variable_is_not_lost(change):
    space = sharing()
    bound = Bound({"add": "why"}, space)
    change(space)
    assert bound.lost({"add": "why"}, None) == {}


def test_a_generator_that_shares_a_variable_with_a_function():
    def make():
        rows = [1]

        def put():
            nonlocal rows
            rows = [5]

        put.__module__ = "__main__"
        return {"put": put, "reads": (rows for _ in range(9))}

    space = make()
    bound = Bound({"reads": "why"}, space)
    space["put"]()
    assert bound.lost({"reads": "why"}, None) == {}
    next(space["reads"])
    assert bound.lost({"reads": "why"}, None) == {"reads": ("why", Lost.CHANGED)}


@pytest.mark.parametrize(
    "change",
    [
        lambda space: space.update(get=space["add"], x=space["add"]()),
        lambda space: space.update(kept=[space["add"]().append(1)]),
        lambda space: [space["add"]().append(1), space.pop("kept")],
        lambda space: space["add"].__closure__[2].cell_contents.acquire(),
    ],
    ids=["another function", "another list", "deleted", "lock"],
)
def test_it_is_if_that_variable_no_longer_has_it(change):
    space = sharing()
    bound = Bound({"add": "why"}, space)
    change(space)
    assert bound.lost({"add": "why"}, None) == {"add": ("why", Lost.CHANGED)}
