"""Attributes that the notebook gives to IPython's shell and to its classes (shell_attributes.py)."""

import sys
import types

import pytest

from holdfast._patches import MISSING
from holdfast.worker.settings import shell_attributes


class Library:
    pass


Library.__module__ = "some_extension.magics"


class Base:
    trait = property(lambda self: 1, lambda self, value: None)

    def run(self):
        return "library's"


class Shell(Base):
    def __init__(self):
        self.user_ns, self.begun = {}, 1
        self.extension_manager = types.SimpleNamespace(loaded={"own_extension"})


@pytest.fixture
def shell():
    return Shell()


def test_attributes_of_the_shell(shell):
    slot = shell_attributes.of_shell(shell)
    assert slot.read() is MISSING
    shell.state = {"n": 1}
    shell.active_eventloop = "asyncio"  # IPython's
    shell.extension = Library()
    vars(shell)["trait"] = 2
    assert slot.read() == {"state": {"n": 1}}
    shell.user_ns["known"] = shell.extension
    carried = slot.read()
    assert carried == {"state": {"n": 1}, "extension": shell.extension}
    slot.write({"state": 5})
    assert shell.state == 5 and not hasattr(shell, "extension") and shell.begun == 1
    slot.write(MISSING)
    assert slot.read() is MISSING and not hasattr(shell, "state")


def test_attributes_of_parts(shell):
    shell.events = types.SimpleNamespace(callbacks={})
    slot = shell_attributes.of_parts(shell)
    assert slot.read() is MISSING
    shell.events.note, shell.events._cache, shell.events.helper = 1, 2, Library()
    assert slot.read() == {"events": {"note": 1}}
    slot.write({"events": {"other": 3}})
    assert slot.read() == {"events": {"other": 3}} and not hasattr(shell.events, "note")
    slot.write(MISSING)
    assert slot.read() is MISSING and shell.events._cache == 2 and shell.events.callbacks == {}


def test_objects_of_own_modules_are_the_notebooks_but_for_an_extensions(shell, monkeypatch):
    slot = shell_attributes.of_shell(shell)
    for name in ("own_helper", "own_extension"):
        module = types.ModuleType(name)
        module.__file__ = f"/nowhere/{name}.py"
        monkeypatch.setitem(sys.modules, name, module)
        setattr(shell, name, type("Thing", (), {"__module__": name})())
    assert slot.read() == {"own_helper": shell.own_helper}


def test_attributes_of_its_classes(shell):
    slot = shell_attributes.of_classes(shell)
    assert slot.read() is MISSING
    mine = lambda self: "mine"  # noqa: E731
    mine.__module__ = "__main__"
    run, Base.run, Base.extra, Base.other = Base.run, mine, property(mine), Library()
    try:
        carried = slot.read()
        assert carried == {1: {"run": mine, "extra": Base.extra}}
        slot.write(MISSING)
        assert Base.run is run and not hasattr(Base, "extra")
        slot.write(carried)
        assert shell.run() == shell.extra == "mine"
        slot.write(MISSING)
    finally:
        del Base.other
