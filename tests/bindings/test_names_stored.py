"""Values that were decoded and are saved again: what counts as a change, and what it takes."""

import pytest

# Each: how the main worker makes `x`; in another process, what is done with it, whether that is a
# change, and how many entries are decoded a second time to find out.
CASES = {
    "plain, read": ("x = {'a': [1, (2,)], 'b': 'text'}", "x['a'][1]", False, 0),
    "plain, written": ("x = {'a': [1, (2,)]}", "x['a'].append(2)", True, 0),
    "set, read": ("x = {str(i) for i in range(500)}", "'3' in x", False, 1),
    "set, written": ("x = {str(i) for i in range(500)}", "x.add('new')", True, 1),
    "pickle, read": ("import pathlib; x = [pathlib.Path('/a')]", "str(x[0])", False, 0),
    "pickle, written": ("import decimal; x = [decimal.Decimal(1)]", "x.append(2)", True, 1),
    "pickle, with a set": (
        "import decimal; x = [decimal.Decimal(1), {str(i) for i in range(500)}]",
        "len(x[1])",
        False,
        1,
    ),
    "texts that were one object": (
        "import collections; t = 't' * 9; x = collections.OrderedDict(a=t, b=t)",
        "x['b'] = 't' * 4 + 't' * 5",
        False,
        0,
    ),
    "lists that were one object": (
        "import collections; t = [1]; x = collections.OrderedDict(a=t, b=t); del t",
        "x['b'] = [1]",
        True,
        1,
    ),
    "bytes for a text": (
        "import collections; x = collections.OrderedDict(a='t', b=b't')",
        "x['a'] = b't'",
        True,
        1,
    ),
    "array of objects": (
        "import numpy as np; x = np.array(['a', 'b', None], dtype=object)",
        "x[1]",
        False,
        0,
    ),
    "large array of objects": (
        "import numpy as np; x = np.array([f'text {i}' for i in range(5000)], dtype=object)",
        "x[1]",
        False,
        0,
    ),
    "large array of objects, written": (
        "import numpy as np; x = np.array([f'text {i}' for i in range(5000)], dtype=object)",
        "x[1] = 'another'",
        True,
        1,
    ),
    "small array": ("import numpy as np; x = np.arange(5)", "x[2] = 9", True, 1),
    "instances": (
        "class P:\n  def __init__(self, v): self.v = v\nx = [P(i) for i in range(9)]",
        "x[3].v",
        False,
        0,
    ),
    "instance, with a set": (
        "class P: pass\nx = [P(), {str(i) for i in range(500)}]",
        "len(x[1])",
        False,
        1,
    ),
    "instances of two classes, with a set": (
        "class P: pass\nclass Q(P): pass\nx = [P(), Q(), {str(i) for i in range(500)}]",
        "len(x[2])",
        False,
        1,
    ),
    "function": ("def x(a, b=[1]): return a", "x(1)", False, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_change(main, case):
    make, use, changed, decoded = CASES[case]
    main.execute(make)
    main.commit()
    assert main.other(f"""
names.bind(ns)
exec({use!r}, ns)
report = save(ns)
answer(saved=report["saved"], again=report["decoded_again"])
""") == {"saved": ["x"] if changed else [], "again": decoded}


def test_what_was_found_unchanged_is_known(main):
    main.execute("x = {str(i) for i in range(500)}")
    main.commit()
    assert main.other("""
names.bind(ns)
counts = [save(ns)["decoded_again"] for _ in range(3)]
ns["x"].add("new")
answer(counts=counts, saved=save(ns)["saved"])
""") == {"counts": [1, 0, 0], "saved": ["x"]}


def test_the_notebooks_own_unpickling_runs_once(main):
    main.execute("""
class Loud:
    def __setstate__(self, state): self.__dict__.update(state, loaded=1 + state.get("loaded", 0))
x = [Loud(), {str(i) for i in range(500)}]
x[0].v = 1
""")
    main.commit()
    assert main.other("""
names.bind(ns)
report = save(ns)
answer(loaded=ns["x"][0].loaded, again=report["decoded_again"], saved=report["saved"])
""") == {"loaded": 1, "again": 0, "saved": ["x"]}


def test_binding_encodes_nothing(main):
    """A value whose encoding would be noticed: its own pickling counts itself."""
    main.execute("""
pickled = []
class Counted:
    def __getstate__(self): pickled.append(1); return {}
x = [Counted()]
""")
    main.commit()
    assert main.other("names.bind(ns); answer(pickled=len(ns['pickled']))") == {"pickled": 0}


# Each: how `x` is made and saved, and a change of it. A small one is compared with what the
# store has, then with its digest; a large one with the digest of its save.
SAVED = {
    "plain": ("x = {'a': [1, (2,)]}", "x['a'].append(2)"),
    "long text": ("x = ['t' * 100_000]", "x[0] = 't' * 99_999 + 'u'"),
    "large text": ("x = ['t' * 3_000_000]", "x[0] = 't' * 2_999_999 + 'u'"),
    "set": ("x = {str(i) for i in range(500)}", "x.add('new')"),
    "pickle": ("import decimal; x = [decimal.Decimal(1), {'a', 'b'}]", "x[1].add('c')"),
    "memory born elsewhere": ("x = bytearray(9 << 20)", "x[5 << 20] = 1"),
    "view of it": (
        "import numpy as np; m = bytearray(9 << 20); x = [np.frombuffer(m, 'u1')]; del m",
        "x[0][-1] = 1",
    ),
    "small array": ("import numpy as np; x = np.arange(5)", "x[2] = 9"),
}


@pytest.mark.parametrize("case", SAVED)
@pytest.mark.parametrize("looks", [0, 1, 2])
def test_what_was_saved_is_known(main, case, looks):
    make, change = SAVED[case]
    main.execute(make)
    main.commit()
    for _ in range(looks):
        report = main.save()
        assert report["prepared"] is None and report["decoded_again"] == 0
    main.execute(change)
    assert "x" in main.save()["saved"]
