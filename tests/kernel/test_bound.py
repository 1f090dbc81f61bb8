"""Values that no codec carries, in a cell that runs in a fork: what it changes of them is named (worker/bound.py)."""

import pytest

FORKED = "%%execute_with_scorep --run=forked\n"
MODULE = """
import functools, sqlite3
from threading import Lock
box = [Lock(), [0]]
@functools.lru_cache
def base(): return sqlite3.connect(":memory:")
"""

# What makes it, what a cell does with it, and the name that the message has.
CHANGES = {
    "class": ("class Pool: lock = Lock(); used = 0", "Pool.used = 5", "Pool"),
    "class with a metaclass": (
        "class Meta(type): pass\nclass Pool(metaclass=Meta): lock = Lock(); used = 0",
        "Pool.used = 5",
        "Pool",
    ),
    "abstract class": ("class Pool(abc.ABC): lock = Lock()", "Pool.register(int)", "Pool"),
    "class in a class": (
        "class Pool:\n    lock = Lock()\n    class Options:\n        class Sizes: used = 0",
        "Pool.Options.Sizes.used = 5",
        "Pool",
    ),
    "class without a name": (
        "def make():\n    class Pool: lock = Lock(); used = 0\n    return Pool()\npool = make()",
        "type(pool).used = 5",
        "pool",
    ),
    "module": ("m = types.ModuleType('m'); m.lock = Lock(); m.used = 0", "m.used = 5", "m"),
    "module in a list": ("box = [Lock(), types.ModuleType('n')]", "box[1].used = 5", "box"),
    "attribute of a module": ("mine.more = Lock(), [1]", "mine.more[1].append(5)", "mine:more"),
    "part of a module": ("mine.box = [Lock(), [0]]", "mine.box[1].append(5)", "mine:box"),
    "cached function": (
        "@functools.lru_cache\ndef base(): return sqlite3.connect(':memory:')\n"
        "base().execute('create table t(a)');",
        "base().execute('insert into t values (1)');",
        "base",
    ),
    "first call of a cached function": (
        "@functools.lru_cache\ndef base(): return sqlite3.connect(':memory:')",
        "base();",
        "base",
    ),
    "cached function of a module": (
        "mine.base().execute('create table t(a)');",
        "mine.base().execute('insert into t values (1)');",
        "mine.base",
    ),
}


@pytest.fixture
def notebook(shared_kernel, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    code = "import sys; sys.modules.pop('mine', None); sys.path.insert(0, '')\n"
    code += "import abc, functools, sqlite3, types, mine\nfrom threading import Lock"
    assert shared_kernel.run(code).status == "ok"
    return shared_kernel


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_named(notebook, case):
    make, change, name = CHANGES[case]
    for code in (make, FORKED + "pass"):
        outcome = notebook.run(code)
        assert (outcome.status, outcome.stream("stderr")) == ("ok", "")
    said = notebook.run(FORKED + change).stream("stderr")
    assert f"not carried out of this cell: {name} (" in said


def test_what_a_cell_only_uses_is_not_named(notebook):
    codes = [make for make, _, name in CHANGES.values() if "base" not in name]
    assert notebook.run("\n".join(codes)).status == "ok"
    used = (
        FORKED + "seen = Pool.used, pool, type(pool).used, m.used, box[1], mine.more[1]; del seen"
    )
    assert notebook.run(used).stream("stderr") == ""


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_a_variable_bound_anew_leaves_what_a_generator_reads(shared_kernel, run):
    kernel = shared_kernel
    assert kernel.run("rows = [1]; reads = (list(one) for one in [rows] * 9)").status == "ok"
    outcome = kernel.run(f"%%isolated --run={run}\nrows.append(2); first = rows")
    assert outcome.status == "ok" and kernel.run("next(reads), first is rows").result == (
        "([1, 2], True)"
    )
    assert kernel.run(f"%%isolated --run={run}\nrows = [5, first]").status == "ok"
    found = kernel.run("rows, next(reads), rows[1] is first").result
    assert found == "([5, [1, 2]], [1, 2], True)"


def test_a_group_that_is_bound_when_it_is_asked_for(shared_kernel):
    """All of it counts as bound before, not only the name that code asks for."""
    code = (
        "one = [0.5] * 100_000; two = [one]; reads = (len(each) for each in [two] * 9)\n"
        "import sys; main, names = '__ma' + 'in__', ['on' + 'e', 'tw' + 'o']"
    )
    assert shared_kernel.run(code).status == "ok"
    cell = "for name in names: getattr(sys.modules[main], name).append(1)"
    outcome = shared_kernel.run("%%isolated --run=isolated\n" + cell)
    assert outcome.status == "ok" and outcome.cost["names_skipped"] >= 2
    assert shared_kernel.run("next(reads), len(one), two[0] is one").result == "(2, 100001, True)"


def test_an_adoption_that_fails_knows_what_was_bound_anew(shared_kernel):
    """It is tried again before the next cell's code runs."""
    code = (
        "rows = [1]; reads = (one[:] for one in [rows] * 9)\nfrom holdfast.worker import adopting\n"
    )
    code += "def fail(*_, apply=adopting.state.apply):\n"
    code += "    adopting.state.apply = apply; raise OSError('full')\nadopting.state.apply = fail"
    assert shared_kernel.run(code).status == "ok"
    shared_kernel.run("%%isolated --run=isolated\nrows = [5]")
    found = "next(reads), rows, adopting.state.apply is not fail"
    assert shared_kernel.run(found).result == "([1], [5], True)"
