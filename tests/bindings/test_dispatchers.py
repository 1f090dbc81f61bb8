"""What the notebook registers with libraries' single-dispatch functions (dispatchers.py)."""

import abc
import sys
import types

import pytest

import holdfast
from holdfast.carry.patches import MISSING
from holdfast.worker.settings.dispatchers import Dispatchers, in_library, in_own_module
from holdfast.worker.settings.library_state import library_state


LIBRARY = """
import functools
@functools.singledispatch
def show(x): return "any"
show.register(int, lambda x: "int")
def bytes_too(): show.register(bytes, lambda x: "bytes")
"""


def notebooks(one):
    one.__module__ = "__main__"
    return one


@pytest.fixture
def library(monkeypatch):
    module = types.ModuleType("dispatches_here")
    exec(LIBRARY, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def met(library):
    found = Dispatchers(has_others=True)
    found.meet(library.__name__, in_library(library))
    return found.slot()


Mine = notebooks(type("Mine", (), {}))


def test_what_a_library_registers_is_its_own(library, met):
    assert met.read() is MISSING
    library.bytes_too()
    assert met.read() is MISSING


def test_the_notebooks_are_carried_and_taken_back(library, met):
    library.show.register(Mine, lambda x: "mine")
    library.show.register(int, notebooks(lambda x: "my int"))
    carried = met.read()
    assert [key for key, _ in carried["dispatches_here", "show"]] == [int, Mine]
    assert library.show(Mine()) == "mine" and library.show(True) == "my int"
    met.write(MISSING)
    assert library.show(Mine()) == "any" and library.show(True) == "int"
    met.write(carried)
    assert library.show(Mine()) == "mine" and library.show(True) == "my int"
    assert met.read() == carried


def test_an_abstract_class_that_is_registered_elsewhere_counts_later(library, met):
    """The function forgets what it found once a class is registered with an abstract one."""
    kind = notebooks(abc.ABCMeta("Kind", (), {}))
    met.write({("dispatches_here", "show"): [(kind, lambda x: "kind")]})
    assert library.show(b"") == "any"
    kind.register(bytes)
    assert library.show(b"") == "kind"


def test_a_module_that_is_not_imported_waits(tmp_path, monkeypatch):
    (tmp_path / "dispatches_late.py").write_text(
        "import functools\n@functools.singledispatch\ndef show(x): return 'any'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    slot = Dispatchers(has_others=True).slot()
    entries = {("dispatches_late", "show"): [(Mine, notebooks(lambda x: "mine"))]}
    slot.write(entries)
    assert "dispatches_late" not in sys.modules and slot.read() == entries
    import dispatches_late

    assert dispatches_late.show(Mine()) == "mine" and slot.read() == entries
    del sys.modules["dispatches_late"]


def test_dasks_dispatch_is_such_a_function():
    """And a variable that is one is that of the other process."""
    sizes = pytest.importorskip("dask.sizeof").sizeof
    slot = library_state.begin(None)["dask: implementations for sizes"]
    assert slot.read() is MISSING
    sizes.register(Mine, repr)
    carried = slot.read()
    assert carried == {"sizeof": [(Mine, repr)]}
    slot.write(MISSING)
    assert sizes.dispatch(Mine) is not repr
    slot.write(carried)
    assert sizes.dispatch(Mine) is repr
    slot.write(MISSING)
    assert holdfast.loads(holdfast.dumps({"in": sizes}))["in"] is sizes


OWN = (
    LIBRARY
    + """
class Visitor:
    @functools.singledispatchmethod
    def visit(self, x): return "thing"
"""
)


def shape(x):
    return "shape"


def test_of_the_users_own_modules_everything_counts_that_they_have_not_registered(monkeypatch):
    def begin():
        module = types.ModuleType("dispatches_own")
        exec(OWN, vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        found = Dispatchers(has_others=False)
        found.meet(module.__name__, in_own_module(module))
        return module, found.slot()

    module, slot = begin()
    assert slot.read() is MISSING
    module.show.register(list, shape)
    module.show.register(int, shape)
    module.Visitor.visit.register(list, shape)
    found = slot.read()
    other, there = begin()
    assert other.show([]) == "any"  # which it remembers, too
    there.write(found)
    assert (other.show([]), other.show(1), other.show("")) == ("shape", "shape", "any")
    assert vars(other.Visitor)["visit"].dispatcher.dispatch(list) is shape
    there.write(MISSING)
    assert (other.show([]), other.show(1)) == ("any", "int")
    assert there.read() is MISSING
