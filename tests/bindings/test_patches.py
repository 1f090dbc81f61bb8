"""Attributes that the notebook sets on modules: found in its code, carried as names, put back."""

import ast
import functools
import sys
import types

import pytest
from holdfast.carry import patches
from holdfast.carry.pickling import decode, encode


class Process:
    """One process's modules and variables; what a cell is to them."""

    def __init__(self, **variables):
        self.ns = variables
        self.patches = patches.Patches(self.ns)

    def cell(self, code):
        tree = ast.parse(code)
        self.patches.see(tree.body)
        for node in tree.body:
            self.patches.resolve()
            exec(compile(ast.Module([node], []), "<cell>", "exec"), self.ns)
        self.patches.collect()

    def carried(self):
        return {key[1:]: value for key, value in self.ns.items() if patches.is_patch(key)}


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("patched_here")
    made.n, made.inner = 1, types.SimpleNamespace(x=1)
    exec(
        "class Thing:\n    def f(self): return 1\n    g = f\ndef work(): return 'original'",
        vars(made),
    )
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made
    patches.current = None


def test_what_code_sets(module):
    process = Process(m=module)
    process.cell("m.n = 2; m.new, m.inner.x = 3, 4; m.Thing.f = None; setattr(m, 'by_name', 5)")
    assert process.carried() == {
        "patched_here:n": 2,
        "patched_here:new": 3,
        "patched_here:inner.x": 4,
        "patched_here:Thing.f": None,
        "patched_here:by_name": 5,
    }


@pytest.mark.parametrize(
    "code",
    [
        "m.n = m.n",
        "m.n = 2; m.n = 1",
        "x = m.n",
        "inner = m.inner; inner = 5",
        "class Own: pass\nOwn.x = 1",
        "import sys; sys.mark = 1; del sys.mark",
    ],
)
def test_what_is_none(module, code):
    process = Process(m=module, __name__="__main__")
    process.cell(code)
    assert process.carried() == {}


def test_what_ipython_has_is_carried_as_of_any_library(monkeypatch):
    import IPython.display

    monkeypatch.setattr(IPython.display, "display", IPython.display.display)
    process = Process()
    process.cell("import IPython.display as d\nd.display = 5")
    assert process.carried() == {"IPython.display:display": 5}
    patches.current = None


def test_a_part_of_a_function(module):
    exec(
        "def make(k):\n    def step(x, acc=[]): return k\n    return step\nstep = make(3)",
        vars(module),
    )
    assert patches._read(module.step.__closure__, "0") is module.step.__closure__[0]
    assert patches._read(module.step, "__defaults__") == ([],)
    assert patches._read(module.step, "__annotations__") == {}
    assert patches._read(module.step.__closure__, "1") is patches.MISSING
    assert patches._read(module.step.__closure__, "a") is patches.MISSING


def test_a_property_that_fails_is_the_cells_affair(module):
    exec("class Odd: x = property(lambda self: 1 / 0)\nodd = Odd()", vars(module))
    process = Process(m=module)
    process.cell("if False: m.odd.x = 1")
    assert process.carried() == {}


def test_a_function_sets_it_later(module):
    process = Process(m=module)
    process.cell("def later(): m.n = 7")
    assert process.carried() == {}
    process.cell("later()")
    assert process.carried() == {"patched_here:n": 7}


def test_a_module_that_is_imported_in_the_same_cell(module):
    process = Process()
    process.cell("import patched_here as other\nother.n += 1")
    assert process.carried() == {"patched_here:n": 2}


def test_there_and_back(module):
    """What one process found, another sets; and takes back what is no patch any more."""
    process = Process(m=module)
    process.patches.watch(["_patched_here:n", "_patched_here:new"])
    process.ns |= {
        "_patched_here:n": 5,
        "_patched_here:new": 6,
        "_patched_here:work": patches.Deleted,
    }
    process.patches.apply(list(process.ns))
    assert (module.n, module.new, hasattr(module, "work")) == (5, 6, False)
    process.patches.collect()
    assert len(process.carried()) == 3
    for key in process.carried():
        del process.ns["_" + key]
    process.patches.apply(["_patched_here:n", "_patched_here:new", "_patched_here:work"])
    assert (module.n, hasattr(module, "new"), module.work()) == (1, False, "original")


def test_what_was_taken_away(module):
    process = Process(m=module)
    process.cell("del m.n")
    assert process.carried() == {"patched_here:n": patches.Deleted}


def test_an_original_is_carried_as_what_it_is(module):
    """By its name it would be what replaced it."""
    original = module.work
    process = Process(m=module)
    process.cell("old = m.work\ndef new(): return 'new'\nm.work = new")
    data, _, _ = encode([original], None)
    assert decode(data, [])[0] is original and module.work is process.ns["new"]


def test_a_function_that_has_the_name_of_what_it_replaces_is_carried_by_value(module):
    """By that name another process has the original."""
    original = module.work
    process = Process(m=module, functools=functools)
    process.cell("m.work = functools.lru_cache(m.work)\nresult = m.work()")
    kept = module.work
    assert patches.replaces(kept) and not patches.replaces(original)
    data, _, _ = encode([kept], None)
    module.work = original  # as in another process
    made = decode(data, [])[0]
    assert made is not original and made.__wrapped__ is original
    assert made.cache_info() == kept.cache_info()


def test_a_property_that_was_replaced_is_carried_as_what_it_is(module):
    exec("Thing.size = property(lambda self: 1)", vars(module))
    original = module.Thing.size
    process = Process(m=module)
    process.cell("m.Thing.size = 5")
    data, _, _ = encode([original], None)
    assert decode(data, [])[0] is original


def test_what_can_not_be_set_costs_itself_alone(module, capsys):
    process = Process(m=module)
    process.ns |= {"_patched_here:none.x": 1, "_patched_here:n": 2}
    process.patches.apply(list(process.ns))
    assert module.n == 2
    assert "patched_here:none.x couldn't be carried over" in capsys.readouterr().err


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A module that nobody has imported."""
    (tmp_path / "imported_late.py").write_text("n = 1\ndef work(): return 'original'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "_imported_late:n"
    sys.modules.pop("imported_late", None)
    patches.current = None


def test_it_is_set_once_its_module_is_imported(late):
    process = Process()
    process.patches.watch([late])
    process.ns[late] = 5
    process.patches.apply([late])
    assert "imported_late" not in sys.modules and process.carried() == {}
    process.patches.collect()
    assert process.carried() == {"imported_late:n": 5}  # it is carried on
    process.patches.withdraw()
    process.cell("import imported_late as m")
    assert process.ns["m"].n == 5 and type(process.ns["m"].__loader__).__name__ != "_Loader"
    process.cell("m.n = 1")
    assert process.carried() == {}


def test_what_it_was_is_known_of_a_module_that_comes_late(late):
    process = Process()
    process.patches.watch([late])
    process.cell("def later():\n    import imported_late\n    imported_late.n = 7\nlater()")
    assert process.carried() == {"imported_late:n": 7}


def test_slots(capsys):
    """A setting behind functions, as a list that is made for each look."""
    state, shared = {"now": []}, [1]
    slot = patches.Slot(
        "sys",
        lambda: list(state["now"]) or patches.MISSING,
        lambda new: state.update(now=[] if new is patches.MISSING else new),
    )
    process = Process()
    process.patches = patches.Patches(process.ns, {"mine": slot})
    process.cell("")
    assert process.carried() == {}
    state["now"] = [shared]
    process.cell("")
    given = process.carried()[":mine"]
    process.patches.withdraw()
    process.cell("")
    assert process.carried()[":mine"] is given and given[0] is shared
    process.ns["_:mine"] = [2]
    process.patches.apply(["_:mine"])
    assert state["now"] == [2] and process.carried() == {}
    process.patches.apply(["_:mine"])
    assert state["now"] == [] and not capsys.readouterr().err


def test_reading_a_slot_may_import_what_adds_slots():
    process = Process()

    def read():
        process.patches.add({"other": patches.Slot("sys", lambda: [2], print)})
        return [1]

    process.patches = patches.Patches(process.ns, {"mine": patches.Slot("sys", read, print)})
    process.cell("")
    assert process.carried()[":mine"] == [1]
    process.cell("")
    assert process.carried()[":other"] == [2]
