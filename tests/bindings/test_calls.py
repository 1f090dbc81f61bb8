"""Calls that are made again in another process (calls.py)."""

import sys
import types

from holdfast._patches import MISSING
from holdfast.worker.settings import calls


class Kind:
    def __init__(self, name):
        self.extension_name = name


def made(monkeypatch, back):
    module = types.ModuleType("called_here")
    module.known = {}
    module.register = lambda kind: module.known.update({kind.extension_name: kind})
    setattr(module, back, module.known.pop)
    monkeypatch.setitem(sys.modules, "called_here", module)
    one = calls._Calls("called_here", "register", back, globals())
    one.install()
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


def test_a_function_that_this_version_lacks_is_passed_over(monkeypatch):
    module = types.ModuleType("called_here")
    monkeypatch.setitem(sys.modules, "called_here", module)
    one = calls._Calls("called_here", "register", "", globals())
    one.install()
    assert one.slot().read() is MISSING and not hasattr(module, "register")


def test_calls_that_are_only_counted(monkeypatch):
    module = types.ModuleType("called_here")
    module.seed = lambda number: None
    monkeypatch.setitem(sys.modules, "called_here", module)
    monkeypatch.setattr(calls, "_NOTED", ())
    monkeypatch.setattr(calls, "_COUNTED", (("called_here", "seed"),))
    assert calls.slots(globals()) == {} and calls.count("called_here", "seed") == 0
    module.seed(3)
    assert calls.count("called_here", "seed") == 1
