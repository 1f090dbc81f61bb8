"""What functions of the user's own modules remember is put into the same functions of another process."""

import sys
import types

import pytest
from holdfast.base import after_import
from holdfast.carry.patches import MISSING
from holdfast.carry import cached_functions
from holdfast.worker.settings.function_results import FunctionResults

SOURCE = """
import functools
calls = []
@functools.lru_cache(maxsize=3)
def square(x, *, by=1): calls.append(x); return [x * x * by]
class Visitor:
    @functools.cache
    def twice(self, x): calls.append(x); return 2 * x
    @staticmethod
    @functools.cache
    def thrice(x): calls.append(x); return 3 * x
"""


@pytest.fixture
def process(monkeypatch):
    """A function that makes a process's module, as it was imported, and makes it the current one."""
    known = {}

    def make(name):
        if name not in known:
            module = types.ModuleType("hf_remembers")
            exec(SOURCE, vars(module))
            here = FunctionResults()
            here.imported(module)
            known[name] = module, here.slot(), here
        monkeypatch.setitem(sys.modules, "hf_remembers", known[name][0])
        return known[name][:2]

    return make


def test_nothing_at_first(process):
    module, slot = process("one")
    assert slot.read() is MISSING
    module.calls.append(1)
    assert slot.read() is MISSING


def test_results(process):
    module, slot = process("one")
    kept = module.square(3), module.square(2, by=5)
    module.square(3), module.Visitor.thrice(4)
    found = slot.read()
    assert slot.read()["hf_remembers"]["square"] is found["hf_remembers"]["square"]
    other, there = process("two")
    there.write(found)
    assert other.square(3) is kept[0] and other.square(2, by=5) is kept[1]
    assert other.Visitor.thrice(4) == 12 and other.calls == []
    assert other.square.cache_info()[:2] == (3, 2)  # two more than there
    assert there.read()["hf_remembers"].keys() == {"square", "Visitor.thrice"}


def test_results_that_are_forgotten(process):
    module, slot = process("one")
    module.square(3)
    found = slot.read()
    module.square.cache_clear()
    assert slot.read() is MISSING
    other, there = process("two")
    other.square(4)
    there.write(found)
    other.square(3)
    other.square(4)
    assert other.calls == [4, 4]  # only what was remembered there is
    there.write(MISSING)
    assert other.square.cache_info().currsize == 0


def test_a_method(process):
    module, slot = process("one")
    visitor = module.Visitor()
    visitor.twice(5)
    found = slot.read()
    other, there = process("two")
    there.write(found)
    other.Visitor.twice(visitor, 5)
    assert other.calls == []


def test_a_module_that_is_not_imported_yet(process, monkeypatch):
    module, slot = process("one")
    module.square(3)
    found = slot.read()
    other, there = process("two")
    there.write.__self__._modules.clear()
    waiting = []
    monkeypatch.setattr(after_import, "call_after_import", lambda name, call: waiting.append(call))
    monkeypatch.delitem(sys.modules, "hf_remembers")
    there.write(found)
    assert there.read() == found and len(waiting) == 1
    monkeypatch.setitem(sys.modules, "hf_remembers", other)
    there.write.__self__.imported(other)
    waiting[0]()
    other.square(3)
    assert other.calls == []


def test_without_the_places_in_memory(process, monkeypatch):
    module, slot = process("one")
    module.square(3)
    monkeypatch.setattr(cached_functions, "_places", lambda: None)
    assert slot.read() is MISSING
