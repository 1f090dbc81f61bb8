"""A look at all modules that touches none."""

import sys
import types
import weakref

import pytest

from holdfast import _store


class Lazy(types.ModuleType):
    """One that is loaded when it is asked for anything."""

    def __getattribute__(self, name):
        raise AssertionError(name)


def test_modules_with_an_attribute(monkeypatch):
    lazy = Lazy("hf_lazy")
    types.ModuleType.__getattribute__(lazy, "__dict__")["hf_mark"] = 5
    monkeypatch.setitem(sys.modules, "hf_lazy", lazy)
    monkeypatch.setitem(sys.modules, "hf_none", None)
    assert _store._modules_with("hf_mark") == [("hf_lazy", 5)]
    assert _store._modules_with("hf_nowhere") == []


def test_modules_that_are_other_than_their_marks(monkeypatch):
    kept, slotted = types.ModuleType("hf_kept"), types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "hf_kept", kept)
    monkeypatch.setitem(sys.modules, "hf_plain", slotted)
    monkeypatch.setitem(sys.modules, 5, kept)
    marks = {
        name: weakref.ref(one) for name, one in sys.modules.items() if type(one) is types.ModuleType
    }
    other, gone = _store._modules_changed(marks)
    assert "hf_plain" in other and "hf_kept" not in other and 5 not in other and gone == []
    marks |= {name: id(sys.modules[name]) for name in other}
    assert _store._modules_changed(marks) == ([], [])
    del kept
    monkeypatch.setitem(sys.modules, 5, None)
    monkeypatch.setitem(sys.modules, "hf_kept", types.ModuleType("hf_kept"))
    monkeypatch.setitem(sys.modules, "hf_plain", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "hf_new", None)
    assert _store._modules_changed(marks) == (["hf_kept", "hf_plain", "hf_new"], [])
    monkeypatch.delitem(sys.modules, "hf_kept")
    assert _store._modules_changed(marks)[1] == ["hf_kept"]
    with pytest.raises(TypeError, match="a dict"):
        _store._modules_changed([])


def test_the_digest_is_of_which_modules_there_are(monkeypatch):
    before = _store._modules_digest()
    assert _store._modules_digest() == before
    monkeypatch.setitem(sys.modules, "hf_one", types.ModuleType("hf_one"))
    added = _store._modules_digest()
    monkeypatch.setitem(sys.modules, "hf_one", types.ModuleType("hf_one"))
    replaced = _store._modules_digest()
    monkeypatch.delitem(sys.modules, "hf_one")
    assert len({before, added, replaced}) == 3 and _store._modules_digest() == before
