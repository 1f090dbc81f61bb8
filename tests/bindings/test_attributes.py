"""Whose an object is, and what is below a path (attributes.py)."""

import functools
import json
import sys
import types

import pytest
from holdfast.worker.settings import attributes
from holdfast.worker.settings.attributes import NewModules, own_modules
from holdfast.worker.settings.attributes import is_fixed, is_notebooks, parts_of, steps_to


def mine():
    pass


@pytest.fixture
def library(monkeypatch):
    """A function of a library's."""
    module = types.ModuleType("hf_of_library")
    exec("def f(): pass", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.f


def test_the_users(library):
    named = functools.wraps(library)(lambda: None)
    assert named.__module__ == library.__module__ and is_notebooks(named)
    around = property(mine), staticmethod(mine), functools.partial(mine), types.MethodType(mine, 1)
    assert all(map(is_notebooks, around)) and is_notebooks(type("K", (), {})())
    of_main = type("K", (), {"__module__": "__main__"})
    assert is_notebooks(of_main) and is_notebooks(of_main())


def test_a_librarys(library):
    around = property(library), staticmethod(library), functools.partial(library)
    assert not any(map(is_notebooks, (library, *around, json, json.JSONEncoder, 5, print, None)))


def test_a_module_that_waits_for_its_first_use_isnt_loaded(monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "hf_lazy", Lazy("hf_lazy"))
    assert not is_notebooks(type("K", (), {"__module__": "hf_lazy"}))


def test_what_cannot_change():
    assert all(map(is_fixed, (1, "a", None, (), (1, ("b", None)))))
    assert not any(map(is_fixed, ([], (1, []), frozenset(), len)))


def test_paths_below_what_was_replaced():
    module = types.ModuleType("hf_parts")
    exec("class K:\n    n = 1\n    def f(self): pass\ndef g(): pass", vars(module))
    begun = {path: value for path, value, _ in parts_of(module)}
    assert {"K", "K.n", "K.f", "K.f.__code__", "g"} <= begun.keys()
    module.K, module.g, module.new = type("K", (), {"n": 2}), lambda: 1, begun["g"]
    now = {path: (value, is_named) for path, value, is_named in parts_of(module, begun)}
    assert now["K"] == (module.K, False) and now["g"] == (module.g, False)
    assert now["K.n"][0] == 1 and now["K.f"] == (begun["K.f"], True)
    assert now["g.__code__"][0] is begun["g.__code__"] and "new.__code__" not in now
    assert list(steps_to("K.f.__code__")) == ["K", "K.f"]


def test_an_own_module_in_the_place_of_another_is_seen(monkeypatch, tmp_path):
    """No name is new, and another one comes at the same time."""
    own = types.ModuleType("hf_utils")
    own.__file__ = str(tmp_path / "hf_utils.py")
    monkeypatch.setitem(sys.modules, "hf_first", types.ModuleType("hf_first"))
    monkeypatch.setitem(sys.modules, "hf_second", types.ModuleType("hf_second"))
    assert not {"hf_first", "hf_second"} & own_modules().keys()
    monkeypatch.setitem(sys.modules, "hf_first", own)
    assert own_modules()["hf_first"] is own
    monkeypatch.setitem(sys.modules, "hf_second", own)
    monkeypatch.setitem(sys.modules, "hf_third", types.ModuleType("hf_third"))
    assert own_modules()["hf_second"] is own
    monkeypatch.setitem(sys.modules, "hf_first", types.ModuleType("hf_first"))
    assert "hf_first" not in own_modules()


def test_a_look_that_failed_loses_no_module(monkeypatch, tmp_path):
    own = types.ModuleType("hf_late")
    own.__file__ = str(tmp_path / "hf_late.py")
    own_modules()
    monkeypatch.setitem(sys.modules, "hf_late", own)
    with monkeypatch.context() as patch:
        patch.setattr(attributes, "is_library", lambda file: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            own_modules()
    assert own_modules()["hf_late"] is own


def test_a_librarys_module_is_given_once(monkeypatch, tmp_path):
    """Also if others are taken out; another object of that name is given, too."""

    def library():
        module = types.ModuleType("hf_library")
        module.__file__ = str(tmp_path / "site-packages" / "hf_library.py")
        return module

    def look():
        return [name for name, _ in new.installed() if name.startswith("hf_")]

    new = NewModules()
    monkeypatch.setitem(sys.modules, "hf_library", library())
    assert look() == ["hf_library"]
    monkeypatch.setitem(sys.modules, "hf_last", types.ModuleType("hf_last"))
    assert look() == []
    monkeypatch.delitem(sys.modules, "hf_last")
    assert look() == []
    monkeypatch.delitem(sys.modules, "hf_library")
    monkeypatch.setitem(sys.modules, "hf_library", library())
    monkeypatch.setitem(sys.modules, "hf_other", types.ModuleType("hf_other"))
    assert look() == ["hf_library"]
