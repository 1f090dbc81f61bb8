"""A look at all modules that touches none."""

import sys
import types

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


def test_the_digest_is_of_which_modules_there_are(monkeypatch):
    before = _store._modules_digest()
    assert _store._modules_digest() == before
    monkeypatch.setitem(sys.modules, "hf_one", types.ModuleType("hf_one"))
    added = _store._modules_digest()
    monkeypatch.setitem(sys.modules, "hf_one", types.ModuleType("hf_one"))
    replaced = _store._modules_digest()
    monkeypatch.delitem(sys.modules, "hf_one")
    assert len({before, added, replaced}) == 3 and _store._modules_digest() == before
