"""Objects in which libraries keep what the notebook sets (registry_contents.py): what differs, and refilled elsewhere."""

import collections
import sys
import types

import pytest

import holdfast
from holdfast.carry import module_objects
from holdfast.carry.patches import MISSING
from holdfast.libraries import Registry
from holdfast.worker.settings.registry_contents import Contents
from holdfast.worker.settings.library_state import library_state


class Library:
    """A module with a dict, a set and a value, as the notebook finds it, and what is carried of it."""

    def __init__(self, monkeypatch, **about):
        self.module = types.ModuleType("kept_here")
        self.module.hooks = collections.OrderedDict(own=len)
        self.module.assumed = Assumed({"given"})
        self.module.flag = None
        monkeypatch.setitem(sys.modules, "kept_here", self.module)
        names = "hooks", "assumed", "flag"
        self._kept = Contents(Registry("all", "kept_here", "", names, **about))
        self._kept.begin()
        self.slot = self._kept.slot()


class Assumed(set):
    pass


@pytest.fixture
def library(monkeypatch):
    return Library(monkeypatch)


def test_what_the_process_began_with_is_not_carried(library):
    assert library.slot.read() is MISSING


def test_ordered_dicts_and_sets_stay_the_objects_that_they_are(library):
    """Their library has them by other names as well."""
    hooks, assumed = library.module.hooks, library.module.assumed
    hooks[2], hooks[1] = print, repr
    assumed.add("mine")
    assumed.discard("given")
    library.module.flag = True
    carried = library.slot.read()
    library.slot.write(MISSING)
    assert dict(hooks) == {"own": len} and assumed == {"given"} and library.module.flag is None
    library.slot.write(carried)
    assert library.module.hooks is hooks and library.module.assumed is assumed
    assert list(hooks) == ["own", 2, 1] and assumed == {"mine"} and library.module.flag is True


def test_what_is_put_comes_in_its_own_order(library):
    hooks = library.module.hooks
    hooks.update({1: repr, 2: print})
    hooks.move_to_end(1)
    carried = library.slot.read()
    hooks.move_to_end(2)
    library.slot.write(carried)
    assert list(hooks) == ["own", 2, 1]


def test_a_variable_that_is_one_is_that_of_the_other_process(library):
    """A handle that takes a hook back, for one, refers to the dict of hooks."""
    library.module.hooks[1] = print
    for one in (library.module.hooks, library.module.assumed):
        assert holdfast.loads(holdfast.dumps({"in": one}))["in"] is one
    assert holdfast.loads(holdfast.dumps(Assumed({"other"}))) == {"other"}


def test_it_is_none_any_more_once_another_has_its_place(library):
    before = library.module.assumed
    library.module.assumed = Assumed(before)
    assert module_objects.reduce(before, Assumed) is None


def test_fixed_entries_are_compared_by_identity(monkeypatch):
    library = Library(monkeypatch, fixed=True)
    library.module.hooks["list"] = listed = []
    library._kept.begin()
    listed.append(1)
    assert library.slot.read() is MISSING
    library.module.hooks["list"] = [1]
    assert library.slot.read()[1]["hooks"][0] == {"list": [1]}


def test_mpmaths_contexts_are_those_of_the_other_process():
    """A variable that is one (`from mpmath import mp`), too."""
    mpmath = pytest.importorskip("mpmath")
    slot = library_state.begin(None)["mpmath: numbers"]
    with mpmath.workdps(mpmath.mp.dps):
        assert slot.read() is MISSING
        mpmath.mp.dps = 30
        found = slot.read()
        mpmath.mp.dps, mpmath.mp.pretty = 15, True
        slot.write(found)
        assert (mpmath.mp.dps, mpmath.mp.pretty) == (30, False)
        slot.write(MISSING)
        assert mpmath.mp.dps == 15
    for name in ("mp", "iv", "fp"):
        context = getattr(mpmath, name)
        assert module_objects.reduce(context, type(context)) == (
            module_objects.find,
            ("mpmath", name),
        )


def test_what_follows_is_set_once_the_notebook_has_something_there(monkeypatch):
    calls = []
    library = Library(monkeypatch, then=lambda: calls.append(library.module.flag))
    library.slot.write(MISSING)
    library.slot.write([{"flag": 2}, {}])
    library.slot.write(MISSING)
    library.slot.write(MISSING)
    assert calls == [2, None]


def test_entries_that_are_fixed_are_compared_all_at_once(monkeypatch):
    """Without a look at each; and what a class does to read its own dict isn't asked for."""
    library = Library(monkeypatch, fixed=True)
    library.module.hooks = Guarded(own=len)
    library._kept.begin()
    assert library.slot.read() is MISSING
    dict.__setitem__(library.module.hooks, "own", repr)
    assert library.slot.read()[1]["hooks"] == ({"own": repr}, [])
    library.slot.write(MISSING)
    assert dict.items(library.module.hooks) == {"own": len}.items()


class Guarded(dict):
    def __getitem__(self, key):
        raise AssertionError

    def __iter__(self):
        return dict.__iter__(self)


def test_one_may_be_inside_of_a_class_and_wait_for_a_package(monkeypatch):
    inner, package = types.ModuleType("kept_here.inner"), types.ModuleType("kept_here")
    inner.Plot = type("Plot", (), {"config": types.SimpleNamespace(theme={"a": 1})})
    registry = Registry("all", "kept_here.inner", "Plot.config", ("theme",), after="kept_here")
    monkeypatch.setitem(sys.modules, "kept_here.inner", inner)
    monkeypatch.setitem(sys.modules, "kept_here", package)
    kept = Contents(registry)
    assert kept.after == kept.slot().module == "kept_here"
    kept.begin()
    inner.Plot.config.theme["a"] = 2
    assert kept.slot().read() == [{}, {"theme": ({"a": 2}, [])}]
    kept.slot().write(MISSING)
    assert inner.Plot.config.theme == {"a": 1}


def test_one_that_this_version_lacks_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kept_here", types.ModuleType("kept_here"))
    with pytest.raises(LookupError, match="kept_here has no gone"):
        Contents(Registry("one", "kept_here", "", ("gone",))).begin()
