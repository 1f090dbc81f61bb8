"""What the user's own modules hold: which of it is a name, and what is computed at import."""

import ast
import functools
import importlib.machinery
import importlib.util
import sys
import types

import pytest
from holdfast.carry.patches import MISSING, Patches
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
        differences = Differences({})
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


def test_an_object_that_stands_in_its_modules_place(monkeypatch):
    """`sys.modules[__name__] = M()`: what is set on it is compared like a module's attributes."""
    made = type("M", (), {"__module__": "hf_stands_in"})()
    made.x = 1
    monkeypatch.setitem(sys.modules, "hf_stands_in", made)
    differences = Differences({})
    differences.imported(types.ModuleType("hf_stands_in"))
    assert differences.find()[0] == {}
    made.x = 5
    assert differences.find()[0] == {"_hf_stands_in:x": 1}


def test_a_module_that_was_made_by_its_file_is_compared_like_one_that_was_imported(
    tmp_path, monkeypatch
):
    file = tmp_path / "hf_by_file.py"
    file.write_text("_calls = 0\ndef count():\n    global _calls\n    _calls += 1\n")
    differences = Differences({})
    assert differences.find()[0] == {}
    spec = importlib.util.spec_from_file_location("hf_by_file", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hf_by_file", module)
    spec.loader.exec_module(module)
    assert differences.find()[0] == {}  # no variable leads to it
    module.count()
    assert differences.find()[0] == {"_hf_by_file:_calls": 0}


COMPUTES = "import random\nrun = random.random()\nclass K: number = random.random()\nnone = None\n"


def test_what_was_computed_at_import_is_taken_over(own):
    first, there = own(COMPUTES)
    said = there.slot().read()
    assert said == {"hf_differs": {"run": first.run, "K.number": first.K.number, "none": None}}
    second, here = own(COMPUTES)
    assert second.run != first.run
    second.K.number = "the notebook's"
    here.slot().write(said)
    assert (second.run, second.K.number) == (first.run, "the notebook's")
    assert keys(here) == {"K.number"}  # which alone has changed
    assert here.slot().read() == said


def test_an_object_in_its_modules_place_gets_what_was_computed(own, monkeypatch):
    """Also if its class sets attributes in its own way, or if it is a member of an enumeration."""
    source = """
import random
class S:
    def __setattr__(self, name, value): raise AttributeError(name)
s = S(); vars(s)["run"] = random.random()
"""

    def begin():
        module, _ = own(source)
        monkeypatch.setitem(sys.modules, "hf_differs", module.s)
        differences = Differences({})
        differences.imported(module)
        return module.s, differences

    first, there = begin()
    second, here = begin()
    assert first.run != second.run
    here.slot().write(there.slot().read())
    assert second.run == first.run and keys(here) == set()
    _, there = own("import enum\nclass E(enum.Enum): A = 1\nE.A.drawn = 1.5")
    module, here = own("import enum\nclass E(enum.Enum): A = 1\nE.A.drawn = 2.5")
    here.slot().write(there.slot().read())
    assert module.E.A.drawn == 1.5 and keys(here) == set()


PLACES = """
import random
pair = random.random(), 1
def f(x=random.random()): return x
class K:
    def m(self, x=random.random()): return x
    p = property(lambda self, x=random.random(): x)
"""


def test_what_was_computed_in_tuples_and_defaults(own):
    def values(module):
        kind = module.K()
        return module.pair, module.f(), kind.m(), kind.p

    first, there = own(PLACES)
    second, here = own(PLACES)
    assert not set(values(first)) & set(values(second))
    here.slot().write(there.slot().read())
    assert values(second) == values(first)
    assert here.slot().read() == there.slot().read() and keys(here) == set()


CHOOSES = "if FAST:\n    def f(): pass\nelse:\n    def f(): pass\ndef same(): pass\n"


def test_other_code_of_that_name_is_reported_once(own, capsys):
    _, there = own("FAST = True\n" + CHOOSES)
    _, here = own("FAST = False\n" + CHOOSES)
    said = there.slot().read()
    here.slot().write(said)
    assert "hf_differs: f couldn't be carried over" in capsys.readouterr().err
    here.slot().write(said)
    assert here.slot().read() == said and capsys.readouterr().err == ""


def test_what_was_replaced_keeps_its_attributes(own):
    module, differences = own()
    kind, patches = module.Kind, Patches({}, {}, differences)
    module.Kind, kind.top = type("Kind", (), {"top": 1}), 6
    found, _ = differences.find()
    assert {"_hf_differs:Kind", "_hf_differs:Kind.top"} <= found.keys()
    assert "_hf_differs:Kind.make" not in found
    assert differences.owner("_hf_differs:Kind.top") == (kind, "top")
    assert differences.made("_hf_differs:Kind") is kind
    assert differences.made("_hf_differs:items") is MISSING  # which may hold something else
    patches.collect()
    assert patches.key_of(kind) == "_hf_differs:Kind" and patches.key_of(module.Kind) is None
    assert patches.original("_hf_differs:Kind") is kind


def test_a_function_with_the_name_of_the_replaced_one(own):
    module, differences = own()
    add, patches = module.add, Patches({}, {}, differences)
    module.add = functools.wraps(add)(lambda x: add(x))
    patches.collect()
    assert patches.replaces(module.add) and not patches.replaces(add)
    assert patches.key_of(add) == "_hf_differs:add"
    module.add = add
    patches.collect()
    assert not patches.replaces(add)


def test_of_a_librarys_classes(monkeypatch):
    module = types.ModuleType("hf_library")
    exec(
        "class K:\n    level, order, gone, _cache = 1, (1,), 1, ()\n    def f(self): pass",
        vars(module),
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    differences = Differences({"hf_library": module})
    differences.see(ast.walk(ast.parse("import hf_library")))
    assert keys(differences) == set()
    kind = module.K

    def mine():
        pass

    mine.__module__ = "__main__"
    kind.f = kind.new = kind.__str__ = mine
    kind.shout, kind.level, kind.order = property(mine), 2, (2,)
    kind._cache, kind.library, kind.level = (1,), len, 1
    del kind.gone
    named = "f new __str__ shout order gone".split()
    assert keys(differences) == {f"K.{name}" for name in named}
    assert differences.find()[0]["_hf_library:K.new"] is MISSING


def test_of_a_module_that_is_imported_later(own):
    first, there = own(COMPUTES)
    said = there.slot().read()
    differences = Differences({})
    differences.slot().write(said)
    assert differences.slot().read() == said
    module = types.ModuleType("hf_differs")
    exec(COMPUTES, vars(module))
    sys.modules["hf_differs"] = module
    differences.imported(module)
    assert module.run == first.run


def test_of_ipython_what_no_library_has_made(monkeypatch):
    import IPython.core.page as page

    differences = Differences({"page": page})
    differences.see(ast.walk(ast.parse("page")))
    real = page.page
    monkeypatch.setattr(page, "display_page", max)  # a library's, or C's
    assert not differences.find()[0]
    own = type("f", (), {"__module__": "__main__"})()
    monkeypatch.setattr(page, "page", own)
    assert differences.find()[0] == {"_IPython.core.page:page": real}


def test_names_that_never_become_variables_cost_a_statement_nothing():
    """A function's own, for example: 5,000 of them, and calls are counted."""
    namespace = {"x": 1}
    patches = Patches(namespace, differences=Differences(namespace))

    def calls_of_a_statement():
        made = []
        sys.setprofile(lambda *about: made.append(about))
        patches.resolve()
        sys.setprofile(None)
        return len(made)

    before = calls_of_a_statement()
    code = "\n".join(f"    own_{i} = 1; own_{i}.a = own_{i}.b.c" for i in range(5000))
    patches.see(ast.parse(f"def f():\n{code}").body)
    assert calls_of_a_statement() <= before + 2
