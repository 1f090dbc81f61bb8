"""Objects of the notebook's classes are made again without the code of their classes (carry/instances.py)."""

import copyreg
import dataclasses
import sys
import threading
import types

import pytest
from store_process import hand_over

import holdfast

CLASSES = """
import collections, datetime, decimal, pathlib, random

class Color:
    made = {}
    def __new__(cls, name="black"):
        if name not in cls.made:
            new = cls.made[name] = super().__new__(cls)
            new.name = name
        return cls.made[name]

class Twice(dict):
    length, upper = len, str.upper
    def __setitem__(self, key, value): super().__setitem__(key, value * 2)

class Loud(list):
    def append(self, one): super().append(one + "!")
    def extend(self, several): [self.append(one) for one in several]

class Negative(set):
    def __init__(self, items): super().__init__(-one for one in items)

class Frozen(frozenset):
    def __new__(cls, items): return super().__new__(cls, [-one for one in items])

class Money(float):
    def __new__(cls, value, unit="e"):
        new = super().__new__(cls, value * 1000)
        new.unit = unit
        return new

class Point(collections.namedtuple("Point", "x y")):
    def __new__(cls, x): return super().__new__(cls, x, x * 2)

class Slotted:
    __slots__ = ("x", "__hidden")
    def __init__(self): self.x, self.__hidden = "sub", 3

class Ordered(collections.OrderedDict):
    def __setitem__(self, key, value): super().__setitem__(key, value + 1)
    def __getitem__(self, key): return 99

class Default(collections.defaultdict):
    def __init__(self, extra): super().__init__(list); self.extra = extra

class Queue(collections.deque):
    def __init__(self, one): super().__init__([one, one], 5)

class Route:
    def __init__(self, parts=()): self.parts = parts
    def __getattr__(self, name): return Route((*self.parts, name))
    def __call__(self, *args): return Route((*self.parts, *args))

class Itself(dict):
    def __init__(self): self.__dict__ = self
    def __setitem__(self, key, value): dict.__setitem__(self, key, value)

class Denied(OSError):
    def __init__(self, what, rule): super().__init__(13, f"denied: {what}", what); self.rule = rule

class Price(decimal.Decimal): pass
class Day(datetime.date): pass
class Where(pathlib.PurePosixPath): pass
class Tally(collections.Counter): pass
class Dice(random.Random): pass

"""


@pytest.fixture(scope="module")
def made():
    """The notebook's classes."""
    main, before = sys.modules["__main__"].__dict__, dict(sys.modules["__main__"].__dict__)
    exec(CLASSES, main)
    yield types.SimpleNamespace(**{k: v for k, v in main.items() if k not in before})
    main.clear()
    main.update(before)


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_new_is_not_called(made):
    assert crossed(made.Color("red")).name == "red" and set(made.Color.made) == {"red"}
    money = crossed(made.Money(1.5, "k"))
    assert (float(money), money.unit, type(money)) == (1500.0, "k", made.Money)
    assert crossed(made.Point(3)) == (3, 6)
    assert crossed(made.Frozen([1, 2])) == {-1, -2}


def test_items_are_put_where_they_were(made):
    twice = made.Twice()
    twice["a"], twice.extra = 1, 5
    assert crossed(twice) == {"a": 2} and crossed(twice).extra == 5
    loud = made.Loud()
    loud.append("x")
    assert crossed(loud) == ["x!"]
    assert crossed(made.Negative([1, 2])) == {-1, -2}
    ordered = made.Ordered()
    ordered["k"] = 1
    assert dict.__getitem__(crossed(ordered), "k") == 2
    default = made.Default(4)
    default["a"].append(1)
    assert crossed(default) == {"a": [1]} and crossed(default).extra == 4
    assert crossed(default)["n"] == []
    queue = crossed(made.Queue(1))
    assert list(queue) == [1, 1] and queue.maxlen == 5


def test_attributes_are_put_where_they_were(made):
    slotted = crossed(made.Slotted())
    assert (slotted.x, slotted._Slotted__hidden) == ("sub", 3)
    assert crossed(made.Route(("a",))).users(7).parts == ("a", "users", 7)
    itself = made.Itself()
    itself.a = 1
    found = crossed(itself)
    assert found == {"a": 1} and found.__dict__ is found


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("Price", "1.5"),
        ("Where", "/a/b"),
        ("Tally", "aab"),
        ("Dice", 3),
    ],
)
def test_what_the_standard_library_leaves_out_is_added(made, name, argument):
    value = getattr(made, name)(argument)
    value.label = ["x"]
    found = crossed(value)
    assert found.label == ["x"] and type(found) is type(value)
    assert found.random() == value.random() if name == "Dice" else found == value


def test_exceptions_have_the_fields_that_they_had(made):
    denied = made.Denied("/x", "rule")
    denied.filename = "/y"
    found = crossed(denied)
    assert (found.rule, found.filename, found.errno, found.args) == ("rule", "/y", 13, denied.args)
    assert str(found) == str(denied)
    gone = FileNotFoundError(2, "gone", "b")
    gone.errno = 5
    assert str(crossed(gone)) == "[Errno 5] gone: 'b'" and type(crossed(gone)) is FileNotFoundError
    stop = StopIteration(1)
    stop.value = [6]
    assert (crossed(stop).value, crossed(stop).args) == ([6], (1,))
    with pytest.raises(SyntaxError) as caught:
        compile("x = = 1", "f", "exec")
    found = crossed(caught.value)
    assert found.text.strip() == "x = = 1" and str(found) == str(caught.value)
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    assert crossed(caught.value).object == b"\xff"
    assert crossed(KeyError("a")).args == ("a",)
    assert crossed(ExceptionGroup("g", [ValueError(1)])).message == "g"


def test_reducers_of_libraries_for_exceptions_leave_the_fields(monkeypatch):
    stop = StopIteration(1)
    stop.value = [6]
    monkeypatch.setitem(copyreg.dispatch_table, StopIteration, lambda error: (StopIteration, (2,)))
    assert (crossed(stop).value, crossed(stop).args) == ([6], (1,))


def test_a_dict_that_two_objects_share_is_shared_while_it_is_empty(main):
    main.execute("class Twin: pass\nt, u = Twin(), Twin(); u.__dict__ = t.__dict__")
    main.commit()
    found = main.other("names.bind(ns); ns['t'].x = 5; answer(found=ns['u'].x)")
    assert found["found"] == 5


def test_objects_that_say_that_they_are_of_another_class(main):
    main.execute(
        "class Proxy:\n    target = [1]\n    __class__ = property(lambda self: list)\np = Proxy()"
    )
    assert main.commit()["unserializable"] == {}
    assert hand_over(main, "value = type(p).__name__")["value"] == "Proxy"


def test_a_cached_property_is_carried(main):
    main.execute("""
import functools
class A:
    @functools.cached_property
    def slow(self):
        "the text"
        return [4]
a = A()
""")
    assert main.commit()["unserializable"] == {}
    source = "one = vars(A)['slow']; value = [a.slow, vars(a), one.attrname, one.__doc__]"
    assert hand_over(main, source)["value"] == [[4], {"slow": [4]}, "slow", "the text"]


def test_a_generator_of_random_numbers_whose_class_wants_arguments(main):
    main.execute(
        "import random\nclass R(random.Random):\n"
        "    def __init__(self, name, seed): self.name = name; super().__init__(seed)\n"
        "r = R('n', 4)"
    )
    assert main.commit()["unserializable"] == {}
    source = "import random; value = [r.name, r.random() == random.Random(4).random()]"
    assert hand_over(main, source)["value"] == ["n", True]


def test_what_a_decorator_does_not_know_of_a_subclass():
    """`__getstate__` of attrs and dataclasses has the slots; pickle loses the rest without a word."""
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Slots:
        x: int = 1

    @attrs.define(slots=False)
    class Fields(Slots):
        y: int = 2

    @dataclasses.dataclass(frozen=True, slots=True)
    class Frozen:
        x: int = 1

    class Other(Frozen):
        pass

    class Own(Slots):
        def __getstate__(self):
            return {"x": self.x}

    for cls in (Fields, Other, Own):
        value = cls(5)
        vars(value)["more"] = [1]
        found = crossed([value, vars(value)])
        kept = {} if cls is Own else {**vars(value)}
        assert found[0].x == 5 and vars(found[0]) == kept, cls
        assert cls is Own or vars(found[0]) is found[1]

    class Reduced(Slots):
        def __reduce__(self):
            return Reduced, (self.x,)

    class Remade(Slots):
        def __setstate__(self, state):
            super().__setstate__(state)
            self.lock = threading.Lock()

    for cls in (Reduced, Remade):
        value = cls(5)
        value.lock = threading.Lock()
        found = crossed(value)
        assert found.x == 5 and list(vars(found)) == ["lock"] * (cls is Remade)
