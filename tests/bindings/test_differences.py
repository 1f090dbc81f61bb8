"""What the user's own modules hold: which of it is a name, and what is computed at import."""

import importlib.machinery
import sys
import types

import pytest
from holdfast._patches import MISSING, Patches
from holdfast.worker.settings.differences import Differences

SOURCE = """
import enum, functools, itertools, threading, typing
items, table, numbers, nothing = [], {"a": []}, itertools.count(), ()
limit, name, pair = 3, "own", (1, "b")
UNSET, lock = object(), threading.Lock()
T, Pairs, Color = typing.TypeVar("T"), list[int], enum.Enum("Color", "RED BLUE")
class Kind:
    made, top, Meta = [], 5, None
    def __init__(self, size=0): self.size = size
    @classmethod
    def make(cls, kept=[]): kept.append(1); return cls()
    @property
    def double(self): return 2 * self.size
one = Kind()
class Empty: pass
MARK = Empty()
def add(x: int, to=[], *, by=items): to.append(x)
def count(): count.calls = getattr(count, "calls", 0) + 1
def outer():
    k = 0
    @functools.wraps(count)
    def inner():
        nonlocal k
        k += 1; return k
    return inner
step = outer()
"""
ALWAYS = {
    "items", "table", "numbers", "lock", "Kind.made", "one", "Kind.make.__func__.__defaults__",
    "add.__defaults__", "add.__kwdefaults__",
}  # fmt: skip


@pytest.fixture
def own(monkeypatch):
    """A function that begins a process whose module has just been imported."""

    def begin(source=SOURCE):
        module = types.ModuleType("hf_differs")
        exec(source, vars(module))
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        differences = Differences({}, MISSING)
        differences.imported(module)
        return module, differences

    return begin


def keys(differences):
    return {key.partition(":")[2] for key in differences.find()[0]}


def test_what_can_change_or_be_shared_is_always_a_name(own):
    _, differences = own()
    assert keys(differences) == ALWAYS


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("limit = 4", "limit"),
        ("Kind.top = 6", "Kind.top"),
        ("del pair", "pair"),
        ("new = 1", "new"),
        ("count()", "count.calls"),
        ("add.__code__ = count.__code__", "add.__code__"),
        ("add.__annotations__['to'] = list", "add.__annotations__"),
        ("MARK.n = 1", "MARK"),
        ("step()", "step"),
        ("Kind.double = property(lambda self: 3)", "Kind.double"),
        ("Kind.__init__.calls = 1", None),  # a special method is its class's affair
    ],
)
def test_other_attributes_are_names_once_they_have_changed(own, code, key):
    module, differences = own()
    exec(code, vars(module))
    found, inside = differences.find()
    assert {name.partition(":")[2] for name in found} - ALWAYS >= ({key} if key else set())
    assert set(found) == inside


def test_what_an_import_gives_again(own):
    module, differences = own()
    assert differences.is_as_imported("_hf_differs:lock")
    assert differences.is_as_imported("_hf_differs:items")
    assert not differences.is_as_imported("_hf_differs:numbers")  # which shows nothing
    assert not differences.is_as_imported("_json:items")
    module.lock.acquire()
    assert not differences.is_as_imported("_hf_differs:lock")
    patches = Patches({}, {}, differences)
    reasons = dict.fromkeys(["lock", "_hf_differs:lock", "_hf_differs:table"], "why")
    patches.drop_imported(reasons)
    assert list(reasons) == ["lock", "_hf_differs:lock"]


COMPUTES = "import random\nrun = random.random()\nclass K: number = random.random()\nnone = None\n"


def test_what_was_computed_at_import_is_taken_over(own):
    first, there = own(COMPUTES)
    said = there.slot().read()
    assert said == {"hf_differs": {"run": first.run, "K.number": first.K.number}}
    second, here = own(COMPUTES)
    assert second.run != first.run
    second.K.number = "the notebook's"
    here.slot().write(said)
    assert (second.run, second.K.number) == (first.run, "the notebook's")
    assert keys(here) == {"K.number"}  # which alone has changed
    assert here.slot().read() == said


def test_of_a_module_that_is_imported_later(own):
    first, there = own(COMPUTES)
    said = there.slot().read()
    differences = Differences({}, MISSING)
    differences.slot().write(said)
    assert differences.slot().read() == said
    module = types.ModuleType("hf_differs")
    exec(COMPUTES, vars(module))
    sys.modules["hf_differs"] = module
    differences.imported(module)
    assert module.run == first.run
