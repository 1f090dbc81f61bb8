"""What the notebook registers with libraries' single-dispatch functions (dispatchers.py)."""

import abc
import sys
import types

import pytest

import holdfast
from holdfast.carry.patches import MISSING
from holdfast.worker.settings.dispatchers import Dispatchers


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
    found = Dispatchers()
    found.meet(library)
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
    slot = Dispatchers().slot()
    entries = {("dispatches_late", "show"): [(Mine, notebooks(lambda x: "mine"))]}
    slot.write(entries)
    assert "dispatches_late" not in sys.modules and slot.read() == entries
    import dispatches_late

    assert dispatches_late.show(Mine()) == "mine" and slot.read() == entries
    del sys.modules["dispatches_late"]


def test_dasks_dispatch_is_such_a_function(monkeypatch):
    """What it notes of bases isn't registered; and a variable that is it, is that of the other process."""
    utils = pytest.importorskip("dask.utils")
    module = types.ModuleType("dispatches_here")
    module.size = utils.Dispatch("size")
    module.size.register(object, len)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    dispatchers = Dispatchers()
    dispatchers.meet(module)
    slot = dispatchers.slot()
    assert module.size([1]) == 1 and module.size.dispatch(Mine) is len
    assert Mine in module.size._lookup and slot.read() is MISSING
    module.size.register(Mine, repr)
    carried = slot.read()
    assert carried == {("dispatches_here", "size"): [(Mine, repr)]}
    slot.write(MISSING)
    assert module.size.dispatch(Mine) is len
    slot.write(carried)
    assert module.size.dispatch(Mine) is repr
    assert holdfast.loads(holdfast.dumps({"in": module.size}))["in"] is module.size
