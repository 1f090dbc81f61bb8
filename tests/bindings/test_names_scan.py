"""Which names a save looks at, if it knows which ones code can have touched."""

import pytest


def commit(main, touched=(), **options):
    """A save of what was touched, published; its report."""
    touched = None if touched is None else set(touched)
    report = main.names.save(main.ns, hidden={"__name__"}, touched=touched, **options)
    if report["prepared"] is not None:
        main.names.published(main.session.publish(report["prepared"]))
        main.session.privatize(threads_stopped=True)
    return report


def watch(main):
    main.names.watch(main.ns)
    assert main.names.strays() == 0


def examined(main, source):
    """How many names the third save looks at, where nothing was touched."""
    main.execute(source)
    for _ in range(2):
        commit(main)
    return commit(main)["names_examined"]


CLOSED = [
    "x = [1, [2], {'a': {3}}, (4, [5])]",
    "x = []; x.append(x)",
    "a = [1]; b = a; c = {'k': a}",
    "x = {f'k{i}': [i] for i in range(1000)}",
    "b = bytearray(b'abc'); m = memoryview(b)",
    "import collections; x = collections.OrderedDict(a=[1]), collections.deque([[2]])",
    "import collections; x = collections.Counter('abca'), collections.defaultdict(list)",
    "import collections; x = collections.Counter('abca'); x.seen = [1]",
    "import datetime, pathlib; x = [datetime.datetime(2000, 1, 1), pathlib.Path('/a')]",
    "import numpy as np; a = np.arange(50000.0); v = a[5:]; t = a.reshape(100, 500).T",
    "import numpy as np; a = np.array(['b', 'a', None], dtype=object)",
    "import pandas as pd; x = pd.DataFrame({0: [1.0, 2.0], 1: [1, 2]}); y = x[0] + 1",
    "def f(x, d={}): return g(x)\ng = lambda x: x",
    "def outer():\n  n = 0\n  def up():\n    nonlocal n\n    n += 1\n  return up\nup = outer()",
    "e = ValueError('a', [1])",
    "import functools; p = functools.partial(print, [1])",
]


@pytest.mark.parametrize("source", CLOSED)
def test_closed_values_are_passed_over(main, source):
    assert examined(main, source) == 0


LOOKED_AT = {
    "a weak reference may lead to it": "import weakref\nx = {1}\nkept.append(weakref.ref(x))",
    "somebody holds it": "x = [1]\nkept.append(x)",
    "somebody holds a part": "x = [[1]]\nkept.append(x[0])",
    "somebody holds a tuple with a part": "x = [([1],)]\nkept.append(x[0])",
    "a bound method": "x = [1]\nkept.append(x.append)",
    "a generator": "def each(x):\n  yield from x\nx = [[1]]\nkept.append(each(x))\nnext(kept[-1])",
    "memory is looked at": "x = bytearray(b'abc')\nkept.append(memoryview(x))",
    "an array is looked at": "import numpy as np\nx = np.zeros(9)\nkept.append(x[1:])",
    "elements of an array": "import numpy as np\nx = np.array([[1], None], dtype=object)",
    "C code that may do anything": "import random, threading\nx = [memoryview(b'a'), iter([1])]",
}


@pytest.mark.parametrize("why", LOOKED_AT)
def test_what_can_change_unnamed_is_looked_at(main, why):
    kept = []
    main.ns["__builtins__"] = __builtins__
    main.execute("x = 0")
    main.ns["kept"] = kept
    exec(LOOKED_AT[why], main.ns)  # noqa: S102
    del main.ns["kept"]
    for _ in range(2):
        commit(main)
    assert commit(main)["names_examined"] >= 1
    if kept:
        kept.clear()
        commit(main, ["x"])
        assert commit(main)["names_examined"] == 0


def test_touched_names_alone_are_encoded(main):
    main.execute("a, b, c, n = [1], {2: [3]}, (4, [5]), 6")
    commit(main)
    main.ns["b"][2].append(7)
    report = commit(main, ["b", "n", "unknown"])
    assert (report["names_examined"], report["names_encoded"]) == (1, 1)
    assert report["saved"] == ["b"]
    main.other('names.bind(ns); assert ns["b"] == {2: [3, 7]} and ns["a"] == [1]')


def test_a_group_is_looked_at_as_a_whole(main):
    main.execute("a = [1]; b = [a]; c = [a, b]; alone = [2]")
    commit(main)
    main.ns["a"].append(2)
    report = commit(main, ["a"])
    assert (report["names_examined"], report["saved"]) == (3, ["a", "b", "c"])
    main.other("""
names.bind(ns)
assert ns["c"][0] is ns["a"] is ns["b"][0] and ns["c"][1] is ns["b"] and ns["a"] == [1, 2]
""")


def test_a_name_that_is_bound_anew_is_looked_at(main):
    main.execute("a = [1]; b = [2]")
    commit(main)
    main.ns["b"] = main.ns["a"]  # nothing reported that `a` was touched, nor `b`
    assert commit(main)["saved"] == ["b"]
    main.ns["b"] = main.ns["a"] = [3]
    assert set(commit(main)["saved"]) == {"a", "b"}
    main.other('names.bind(ns); assert ns["a"] is ns["b"] and ns["a"] == [3]')


def test_a_name_that_leaves_a_group_does_not_drag_it_along(main):
    main.execute("import numpy as np; a = [np.zeros(100000)]; b = a[0][5:]; c = [1]")
    commit(main)
    main.execute("del a")
    report = commit(main, ["a"])
    assert report["removed"] == ["a"] and report["names_examined"] == 1
    assert not any(item["name"].startswith("\0g") for item in main.names.listing())
    main.execute("b = 0")
    commit(main, ["b"])
    assert sum(item["bytes"] for item in main.names.listing()) < 1000


def test_classes_are_always_looked_at(main):
    main.execute("class A:\n  n = 0\nx = [A()]; y = [1]")
    commit(main)
    main.ns["A"].n = 1  # as a library would that has an instance
    assert commit(main)["names_examined"] == 1
    main.other('names.bind(ns); assert type(ns["x"][0]).n == 1')


def test_the_shells_own_references_are_known(main):
    main.execute("x = [1, [2]]")
    memory = {5: main.ns["x"]}
    commit(main, holders=(memory,))
    assert commit(main, holders=(memory,))["names_examined"] == 0
    main.ns["_hidden"] = main.ns["x"]
    options = {"touched": {"x"}, "holders": (memory,)}
    for _ in range(2):
        report = main.names.save(main.ns, hidden={"__name__", "_hidden"}, **options)
        assert report["prepared"] is None
        options["touched"] = set()
    assert report["names_examined"] == 0


def test_a_dropped_commit_is_made_up_for(main):
    main.execute("a = [1]; b = [2]")
    commit(main)
    main.ns["a"].append(2)
    dropped = main.names.save(main.ns, hidden={"__name__"}, touched={"a"})
    assert dropped["saved"] == ["a"]
    assert commit(main, ["a"])["saved"] == ["a"]


def test_after_binding_plain_values_are_closed(main):
    main.execute("import numpy as np; a = [1]; b = a; c = {'k': [2]}; x = np.zeros(50000)")
    main.execute("import collections; o = collections.OrderedDict(k=[3])")
    commit(main)
    assert main.other("""
names.bind(ns)
ns["c"]["k"].append(3)
report = names.save(ns, hidden={"__name__"}, touched={"c"})
answer(examined=report["names_examined"], saved=report["saved"])
""") == {"examined": 2, "saved": ["c"]}  # `o` was made by what unpickling called


# ---- code


def test_code_behind_names(main):
    watch(main)
    main.execute("""
class A:
    def m(self): return 1
def f(): return 2
table = {"k": [lambda: 3], "a": A()}
plain = [1]
""")
    code = commit(main, None)["code"]
    functions = {key: {one.__name__ for one in found} for key, found in code.items()}
    cls = next(key for key in functions if key.startswith("\0c"))
    assert functions.pop(cls) == {"A", "m"}
    assert functions == {"A": {"A"}, "f": {"f"}, "table": {"<lambda>", "A"}}


def test_code_that_somebody_holds(main):
    watch(main)
    main.execute("def f(): pass\nhandlers = [lambda: 1, lambda: 2]\nx = [1]")
    report = commit(main, None)
    assert (report["held"], main.names.strays()) == ([], 0)
    del report  # it has the functions
    kept = [main.ns["f"], main.ns["handlers"].pop()]
    report = commit(main, ["f", "handlers"])
    assert (report["held"], main.names.strays()) == (["f"], 1)
    del kept, report
    report = commit(main, ["f"])
    assert (report["held"], main.names.strays()) == ([], 0)


def test_strays_of_deleted_names_and_classes(main):
    watch(main)
    main.execute("class A:\n  def m(self): pass\n  def n(self): pass\na = A()\ndef f(): pass")
    commit(main, None)
    assert main.names.strays() == 0
    kept = main.ns.pop("a").m
    commit(main, ["a", "A"])
    assert main.names.strays() == 0  # the class is there, and its methods
    del main.ns["A"], main.ns["f"]
    commit(main, ["A", "f"])
    assert main.names.strays() == 2
    del kept


def test_functions_of_this_process_are_counted_after_adopting(main):
    watch(main)
    main.execute("def f(): return 1\nx = [1]")
    commit(main, None)
    main.other("""
names.bind(ns)
exec("def g(): return 2\\ndef f(): return 3", ns)
publish(save(ns))
""")
    main.names.adopt(main.ns)
    assert main.ns["f"]() == 3
    report = commit(main)
    assert main.names.strays() == 0 and report["prepared"] is None


def test_verify_looks_at_what_is_passed_over(main):
    main.execute("import numpy as np\nx = [1]; g = [2]; h = [g]; a = np.arange(50000.0); n = 5")
    for _ in range(2):
        commit(main)
    report = commit(main, verify=True)
    assert report["saved"] == report["overlooked"] == [] and report["pages_overlooked"] == 0
    main.execute("x.append(2); g.append(3); a[7] = 0")
    assert commit(main)["saved"] == []  # nobody says that it was touched
    report = commit(main, touched=["x"], verify=True)
    assert sorted(report["saved"]) == ["a", "g", "h", "x"]
    assert sorted(report["overlooked"]) == ["a", "g", "h"]
    assert report["pages_overlooked"] == 0  # the system knew
    assert commit(main, verify=True)["saved"] == []


def test_a_stand_in_is_saved(main):
    """By the id of a list or dict; every other value is saved itself."""
    main.execute("x = [1]; y = [1]; z = {'a': 1}; n = 5")
    stand_ins = {id(main.ns["x"]): "for x", id(main.ns["n"]): "for n"}
    assert set(commit(main, stand_ins=stand_ins)["saved"]) == set("xyzn")
    assert commit(main, touched=None, stand_ins=stand_ins)["saved"] == []
    assert main.ns["x"] == [1]
    fresh = main.fresh("names.bind(ns); answer(found=[ns[name] for name in 'xyzn'])")
    assert fresh["found"] == ["for x", [1], {"a": 1}, 5]


def test_a_name_that_is_given_back_leaves_the_store(main):
    main.execute("x = [1]; y = 2")
    commit(main, None)
    hidden = {"__name__", "x", "z"}
    report = main.names.save(main.ns, hidden=hidden, given_back={"x", "z"})
    assert report["removed"] == ["x"]
    main.names.published(main.session.publish(report["prepared"]))
    assert "x" in main.ns, "only the store has lost it"
    found = main.fresh("names.bind(ns); answer(found=sorted(ns))")["found"]
    assert found == ["__name__", "y"], "a hidden name that was not given back stays"
