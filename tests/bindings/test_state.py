"""The state of a process that is no variable, as it is captured with a commit."""

import ast
import itertools
import os
import sys
import types

import pytest

from holdfast.carry.patches import MISSING
from holdfast.worker.settings import counters, state


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows the umask without changing it")
def test_the_umask_is_read_without_being_another_one_for_a_moment(monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            assert state._umask(None) == 0o027
    finally:
        os.umask(before)


def test_which_warnings_were_shown_is_looked_at_twice_however_many_filters_are_set(monkeypatch):
    """Each look is at all modules: 0.4 ms of a cell where pandas is imported."""
    from holdfast.worker.settings import process_settings

    looks = []
    look = process_settings._store._modules_with
    monkeypatch.setattr(
        process_settings._store, "_modules_with", lambda name: looks.append(name) or look(name)
    )
    with process_settings.as_shown_before():
        with process_settings.as_shown_before(), process_settings.as_shown_before():
            pass
    assert len(looks) == 2
    with process_settings.as_shown_before():
        pass
    assert len(looks) == 4


def test_a_number_that_is_also_taken_from_is_no_counter():
    """`depth` is where a function is by now, which is of its process alone."""

    def make():
        global made, depth
        made += 1
        depth += 1

    def leave():
        global depth
        depth -= 1

    assert counters._added_to([make, leave], {"made", "depth"}) == {"made"}


def test_counters_of_a_library_that_is_imported_anew_have_one_place(monkeypatch, tmp_path):
    found = counters.Counters()
    for turn in range(3):
        library = types.ModuleType("hf_counts")
        library.__file__ = str(tmp_path / "site-packages" / "hf_counts.py")
        library.ids = itertools.count()
        monkeypatch.setitem(sys.modules, "hf_counts", library)
        monkeypatch.setitem(sys.modules, f"hf_last_{turn}", types.ModuleType("hf_last"))
        found.look()
        monkeypatch.delitem(sys.modules, "hf_counts")
    assert found._places["hf_counts"] == ("ids",)


def test_what_loading_modules_has_changed_is_set_again(monkeypatch):
    """Also settings that come before, on which the loading depends."""
    now = {"first": 1, "modules": (), "last": 1}

    def setting(key):
        return state.Setting(lambda shell: now[key], lambda new, old, shell: now.update({key: new}))

    def load(new, old, shell):
        if now["modules"] == new:
            return False
        now.update(modules=new, first="the module's", last="the module's")
        return True

    modules = state.Setting(lambda shell: now["modules"], load)
    table = {"first": setting("first"), "modules": modules, "last": setting("last")}
    monkeypatch.setattr(state, "_SETTINGS", table)
    wanted = {"first": 2, "modules": ("a",), "last": 1}
    packed = state.pack(wanted)
    assert state.apply(packed, state.capture(None), None) == ["first", "modules", "first", "last"]
    assert now == wanted


def test_a_tuple_with_a_function_of_the_notebooks_is_the_notebooks(monkeypatch):
    """Dask has its callbacks so, in a set of a class."""
    from holdfast.worker.settings.differences import Differences

    library = types.ModuleType("differs_here")
    exec("class Callback:\n    active = set()", vars(library))
    monkeypatch.setitem(sys.modules, "differs_here", library)
    differences = Differences({"library": library})
    differences.see(ast.walk(ast.parse("library")))
    mine = types.FunctionType((lambda: 1).__code__, {"__name__": "__main__"})
    library.Callback.active.add((None, len))
    assert differences.find()[0] == {}
    library.Callback.active.add((None, mine))
    assert list(differences.find()[0]) == ["_differs_here:Callback.active"]


@pytest.fixture
def library(monkeypatch):
    """A module with a class, and what differs in it from now on."""
    from holdfast.worker.settings.differences import Differences

    made = types.ModuleType("differs_here")
    code = (
        "class Base:\n    table = {}\nclass Element(Base):\n    chars, _hidden, first = ' ', 1, None\n"
        "    table = property(lambda self: 1)\n    size = 2\n"
    )
    exec(code, vars(made))
    for cls in (made.Base, made.Element):
        cls.__module__ = made.__name__
    monkeypatch.setitem(sys.modules, made.__name__, made)
    made.differences = Differences({"library": made})
    made.differences.see(ast.walk(ast.parse("library")))
    return made


def test_plain_values_of_libraries_classes_are_looked_at(library):
    """Public ones."""
    cls, find = library.Element, library.differences.find
    assert find() == ({}, set())
    cls._hidden, cls.new, cls.first, cls.size = 2, 3, cls(), 2.0
    cls.chars = "x"
    named = {"_differs_here:Element.chars": " ", "_differs_here:Element.size": 2}
    new = {"_differs_here:Element.new": MISSING}
    assert find() == (named | new, set())
    cls.chars, cls.size = " ", 2
    del cls.new
    assert find() == ({}, set())


def test_a_property_in_the_place_of_a_bases_dict_is_none(library):
    library.Base.table["one"] = 1
    assert library.differences.find()[0].keys() == {"_differs_here:Base.table"}


def test_extensions_are_unloaded_and_have_the_names_that_the_notebook_gave(monkeypatch):
    from IPython.core import extensions

    monkeypatch.setattr(extensions, "BUILTINS_EXTS", {"autoreload": True, "storemagic": False})
    calls = []

    class Manager:
        loaded = {"IPython.extensions.autoreload", "IPython.extensions.storemagic", "mine"}

        def load_extension(self, name):
            calls.append(f"load {name}")

        def unload_extension(self, name):
            calls.append(f"unload {name}")

    shell = types.SimpleNamespace(extension_manager=Manager(), user_ns={})
    found = state._extensions(shell)
    assert found == ["autoreload", "IPython.extensions.storemagic", "mine"]
    state._set_extensions([*found, "other"], found, shell)
    state._set_extensions(found[:2], found, shell)
    state._set_extensions(found[:2], None, shell)  # what came meanwhile stays
    assert calls == ["load other", "unload mine"]
