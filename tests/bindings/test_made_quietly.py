"""Objects and classes that are made again without what their classes do when they are used."""

import collections
import dataclasses
import subprocess
import sys

import pytest

import holdfast

WRITE = """
import sys, holdfast
class Meta(type):
    def __new__(meta, name, bases, space, *, tag):
        return super().__new__(meta, name, bases, space)
    def __init__(cls, name, bases, space, *, tag):
        super().__init__(name, bases, space)
class Base:
    def __init_subclass__(cls, /, tag): cls.tag = tag
class Derived(Base, tag=3): pass
class Made(metaclass=Meta, tag=4): value = 5
def make():
    class Inner:
        def __init_subclass__(cls, /, tag): cls.tag = tag
    class Other(Inner, tag=6): pass
    return Other
other = make()
sys.stdout.buffer.write(holdfast.dumps([Derived, Made, other, Derived(), other()]))
"""


def test_classes_with_arguments_of_their_own_are_read_elsewhere():
    """`__init_subclass__` and metaclasses ran when the class was defined."""
    written = subprocess.run([sys.executable, "-c", WRITE], stdout=subprocess.PIPE, check=True)
    derived, made, other, one, two = holdfast.loads(written.stdout)
    assert (derived.tag, made.value, other.tag, type(one), type(two)) == (3, 5, 6, derived, other)


class Slots:
    __slots__ = ("a",)


@dataclasses.dataclass(frozen=True)
class Frozen(Slots):
    x: int


class Guarded:
    __slots__ = ("a",)

    def __setattr__(self, name, value):
        raise AttributeError(name)


class Shadowed(Slots):
    a = property(lambda self: "the property's")


def made(cls, *args):
    one = cls(*args)
    Slots.a.__set__(one, 7) if isinstance(one, Slots) else Guarded.a.__set__(one, 7)
    return one


@pytest.mark.parametrize(
    "one", [made(Frozen, 3), made(Guarded), made(Shadowed)], ids=["frozen", "guarded", "shadowed"]
)
def test_slots_that_their_class_guards(one, monkeypatch):
    monkeypatch.setattr(type(one), "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], type(one).__name__, type(one), raising=False)
    again = holdfast.loads(holdfast.dumps(one))
    slot = Guarded.a if type(one) is Guarded else Slots.a
    assert type(again) is type(one) and slot.__get__(again) == 7
    assert getattr(again, "x", 3) == 3


def test_objects_of_libraries_that_answer_any_attribute():
    """pickle asks such a half-made object for `__setstate__`."""
    import xmlrpc.client

    one = xmlrpc.client.ServerProxy("http://localhost:1/here")
    again = holdfast.loads(holdfast.dumps(one))
    assert type(again) is type(one) and repr(again) == repr(one)
    assert vars(again)["_ServerProxy__handler"] == "/here"


def test_wrappers_of_libraries():
    utils = pytest.importorskip("tqdm.utils")
    one = utils.DisableOnWriteError(collections.UserList(), None)
    again = holdfast.loads(holdfast.dumps(one))
    assert type(again) is type(one) and vars(again).keys() == vars(one).keys()
