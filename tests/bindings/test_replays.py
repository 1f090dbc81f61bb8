"""Calls that are made again in another process (replays.py)."""

import contextlib
import sys
import types

import pytest

from holdfast.carry.patches import MISSING
from holdfast.libraries import Replay
from holdfast.worker.settings import replays
from holdfast.worker.settings.replays import Replays


class Kind:
    def __init__(self, name):
        self.extension_name = name


@pytest.fixture(autouse=True)
def shell(monkeypatch):
    """Calls are made again as in a cell."""
    shell = types.SimpleNamespace(builtin_trap=contextlib.nullcontext())
    monkeypatch.setattr(replays, "get_ipython", lambda: shell)


def noting(monkeypatch, module, **about):
    monkeypatch.setitem(sys.modules, "called_here", module)
    replay = Replay("calls", (("called_here", "register"),), **about)
    one = Replays(replay, "called_here", globals())
    assert one.awaits("called_here") and not one.awaits("called_there")
    one.imported("called_here")
    return one


def made(monkeypatch, back):
    module = types.ModuleType("called_here")
    module.known = {}
    module.register = lambda kind: module.known.update({kind.extension_name: kind})
    setattr(module, back, lambda name: module.known.pop(name))
    one = noting(monkeypatch, module, back=back, key=lambda kind: kind.extension_name)
    return module, one.slot()


def test_a_call_may_be_taken_back_by_a_name(monkeypatch):
    module, slot = made(monkeypatch, "unregister_extension_type")
    first, second = Kind("a"), Kind("b")
    module.register(first)
    module.register(second)
    carried = slot.read()
    assert [args for _, args, _ in carried] == [(first,), (second,)]
    module.unregister_extension_type("a")
    assert [args for _, args, _ in slot.read()] == [(second,)]
    slot.write(MISSING)
    assert module.known == {} and slot.read() is MISSING
    slot.write(carried)
    assert module.known == {"a": first, "b": second}


def test_a_function_that_this_version_lacks_is_named(monkeypatch):
    module = types.ModuleType("called_here")
    with pytest.raises(LookupError, match="called_here has no register"):
        noting(monkeypatch, module)
    assert not hasattr(module, "register")


def test_calls_of_a_library_count_if_they_may(monkeypatch):
    """Where the notebook's code leads to them."""
    for through in (False, True):
        module = types.ModuleType("called_here")
        module.register = lambda one: None
        one = noting(monkeypatch, module, through=through)
        library = {"__file__": sys.modules["json"].__file__, "module": module}
        exec("def call(): module.register(3)", library)
        library["call"]()
        assert [args for _, args, _ in one.made] == [(3,)] * through


def test_a_call_of_one_that_another_makes_is_not_made_again(monkeypatch):
    module = types.ModuleType("called_here")
    module.register = lambda one: one and module.register(one - 1)
    one = noting(monkeypatch, module, through=True)
    module.register(3)
    assert [args for _, args, _ in one.made] == [(3,)]
