"""Whatever namespaces share, they share after a hand-over, and nothing changed on the way."""

import os
import sys
import types

import numpy as np
import effort
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import store
from store_process import hand_over


def shape(value, seen):
    """A value as nested tuples in which an object that was met before is its number."""
    if isinstance(value, (int, float, str, type(None))):
        return value
    if isinstance(value, np.ndarray):
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = value.__array_interface__["data"][0]
        # Two views share where the differences of their addresses are the same.
        memory = seen.setdefault(("memory", id(owner if owner.base is None else owner.base)), start)
        return ("array", start - memory, value.strides, value.tolist())
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return ("dict", *((key, shape(item, seen)) for key, item in value.items()))
    return (type(value).__name__, *(shape(item, seen) for item in value))


@st.composite
def namespaces(draw):
    """Names over a pool of objects that refer to each other, in cycles too."""
    pool = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["list", "dict", "tuple", "array", "view"]))
        children = draw(st.lists(st.integers(0, len(pool) - 1), max_size=3)) if pool else []
        parts = [pool[i] for i in children]
        arrays = [item for item in pool if isinstance(item, np.ndarray)]
        if kind == "tuple":
            pool.append((draw(st.integers(0, 9)), *parts))
        elif kind == "dict":
            pool.append({str(i): part for i, part in enumerate(parts)})
        elif kind == "view" and arrays:
            pool.append(draw(st.sampled_from(arrays))[:: draw(st.sampled_from([1, 2, -1]))])
        elif kind in ("array", "view"):
            pool.append(np.arange(draw(st.sampled_from([3, 5000]))))
        else:
            pool.append([draw(st.text(max_size=2)), *parts])
    for item in pool:
        if isinstance(item, list) and draw(st.booleans()):
            item.append(draw(st.sampled_from(pool)))
    count = draw(st.integers(1, 6))
    return {f"n{i}": draw(st.sampled_from(pool)) for i in range(count)}


@given(namespaces())
@settings(
    max_examples=effort.examples(40, 150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_sharing_survives(namespace):
    with store.Session.create() as session:
        names = store.Names(session)
        names.published(session.publish(names.save(namespace)["prepared"]))
        session.privatize(threads_stopped=True)
        back, other = {}, store.Names(session)
        report = other.bind(back)
        assert report["absent"] == {}
        assert shape(dict(sorted(back.items())), {}) == shape(namespace, {})
        assert other.save(back)["saved"] == []
        assert names.save(namespace)["saved"] == []
        del back, other, names
        session.destroy()


def test_one_owner_of_two_memories(main):
    main.execute("""
import ctypes
import numpy as np
class Owner:
    def __init__(self):
        self.parts, self.now = [bytearray(80000), bytearray(160000)], 0
    @property
    def __array_interface__(self):
        part = self.parts[self.now]
        address = ctypes.addressof((ctypes.c_char * len(part)).from_buffer(part))
        return {"version": 3, "shape": (len(part) // 8,), "typestr": "<f8", "data": (address, False)}
owner = Owner()
one = np.asarray(owner)
owner.now = 1
two = np.asarray(owner)
view = two[5:]
assert one.base is two.base is owner
one[:], two[:] = 1, np.arange(20000)
del owner
""")
    main.commit()
    assert main.other("""
names.bind(ns)
one, two, view = ns["one"], ns["two"], ns["view"]
view[0] = -5
one[0] = 7
answer(sizes=[len(one), len(two)], sums=[one.sum(), two.sum()], shared=two[5])
""") == {"sizes": [10000, 20000], "sums": [10006, 19999 * 10000 - 10], "shared": -5}


def test_trees_with_several_memories_predict_the_same(main):
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(3)
    x = rng.random((400, 8))
    forest = ensemble.RandomForestRegressor(20, random_state=1).fit(x, x.sum(axis=1))
    main.ns.update(forest=forest, x=x, expected=forest.predict(x))
    main.commit()
    assert main.other("""
names.bind(ns)
same = (ns["forest"].predict(ns["x"]) == ns["expected"]).all()
answer(same=bool(same), saved=save(ns)["saved"])
""") == {"same": True, "saved": []}


def test_metaclasses_do_not_run_again(main):
    main.execute(
        "class Kind(type):\n"
        "    made = []\n"
        "    def __new__(kind, name, bases, space, **options):\n"
        "        kind.made.append(name); return super().__new__(kind, name, bases, space)\n"
        "    def __init__(cls, name, bases, space, **options): cls.options = options\n"
        "class First(metaclass=Kind, tag=1): pass\n"
        "class Second(First): pass\nvalue = None"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "class Third(Second, tag=3): pass\nvalue = Kind.made")
    assert answer["value"] == ["First", "Second", "Third"]
    assert main.ns["Kind"].made == ["First", "Second", "Third"]
    assert main.ns["First"].options == {"tag": 1} and main.ns["Third"].options == {"tag": 3}


def test_a_dict_that_is_an_instance_s_own(main):
    main.execute(
        "class Record(dict):\n"
        "    def __init__(self, **items): super().__init__(**items); self.__dict__ = self\n"
        "class Options: pass\nrecord = Record(a=1)\noptions = Options(); options.n = [1]\n"
        "table = vars(options); value = None"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "record.b = 2; record['c'] = 3; table['m'] = 4; options.k = 5\n"
        "value = [record.c, record['b'], options.m, table['k'], vars(options) is table]",
    )
    assert answer["value"] == [3, 2, 4, 5, True]
    main.execute("record.d = 4; table['z'] = 6; value = record, options.z, vars(record) is record")
    assert main.ns["value"] == ({"a": 1, "b": 2, "c": 3, "d": 4}, 6, True)


def test_a_cell_with_none_of_a_library_s_function(main):
    """A `lru_cache` without a limit has one."""
    main.execute(
        "import functools\n@functools.lru_cache(maxsize=None)\ndef same(x): return x\nvalue = None"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "value = same.cache_parameters()")
    assert answer["value"] == {"maxsize": None, "typed": False}


def test_a_function_that_says_it_is_another_module_s(main):
    """functools.wraps() gives it the name and the module of what it wraps."""
    main.execute(
        "import functools\nstep = 3\n@functools.wraps(len)\ndef longer(x): return len(x) + step\n"
        "same = longer\nclass Sized: length = longer\nvalue = None"
    )
    main.commit()
    answer = hand_over(main, "value = [longer is same, Sized.length is same, longer('ab')]")
    assert answer["value"] == [True, True, 5]


def test_functions_over_globals_of_their_own(main):
    """A dict or module that the notebook fills with code: what is bound there is what they see."""
    main.execute(
        "import types\nspace = {'y': 1}; exec('def g(): return y', space); g = space['g']\n"
        "made = types.ModuleType('hf_made'); value = None\n"
        "exec('x = 1\\ndef f(): return x\\nclass K:\\n    def get(self): return x', vars(made))\n"
        "f, k = made.f, made.K()\n"
        "own = {'__builtins__': {'len': lambda x: 'mine'}}; exec('def h(): return len(1)', own)\n"
        "loose = {'n': 2, 'unused': (i for i in 'ab')}; exec('def twice(x): return n * x', loose)\n"
        "twice = loose['twice']; del loose['twice'], loose\n"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "space['y'] = made.x = 5; import builtins\n"
        "value = [g(), f(), k.get(), type(k) is made.K, g.__globals__ is space, own['h'](),\n"
        "    f.__globals__ is vars(made), space['__builtins__'] is vars(builtins), list(own), twice(4)]",
    )
    assert answer["value"] == [5, 5, 5, True, True, "mine", True, True, ["__builtins__", "h"], 8]
    main.execute("made.x = space['y'] = 7; value = g(), f(), k.get(), made.K.get(k)")
    assert main.ns["value"] == (7, 7, 7, 7)


def test_a_function_that_a_module_s_function_made(main, tmp_path, monkeypatch):
    """It has the globals of that module, not a copy of what it uses."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hf_tallies.py").write_text(
        "total = 0\ndef make():\n    def add(n):\n        global total\n        total += n\n"
        "        return total\n    return add\n"
    )
    main.execute("import hf_tallies\nadd, value = hf_tallies.make(), None")
    assert not main.commit()["unserializable"]
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), path))))
    answer = hand_over(
        main, "value = add(2), hf_tallies.total, add.__globals__ is vars(hf_tallies)"
    )
    monkeypatch.delitem(sys.modules, "hf_tallies")
    assert answer["value"] == [2, 2, True]


def test_a_class_that_a_module_s_function_made_is_not_filled_to_be_compared(main, monkeypatch):
    """What is read to be compared is thrown away; by its identifier it would be the class that is there."""
    made = types.ModuleType("hf_kinds")
    monkeypatch.setitem(sys.modules, "hf_kinds", made)
    exec("def make(): return type('A', (), {'count': 0})", vars(made))
    main.execute("import hf_kinds\nkinds = {'a': hf_kinds.make()}; value = None")
    main.commit()
    main.execute("kinds['a'].count = 1")
    main.commit()
    assert main.ns["kinds"]["a"].count == 1
    assert hand_over(main, "value = kinds['a'].count")["value"] == 1


def test_instances_that_are_keys_in_their_class(main):
    """With a hash of their own, which the class has before its dicts and sets are filled."""
    main.execute(
        "class P:\n    made, all = {}, set()\n"
        "    def __init__(self, n): self.n = n; P.made[self] = n; P.all.add(self)\n"
        "    def __eq__(self, o): return self.n == o.n\n    def __hash__(self): return hash(self.key())\n"
        "    def key(self): return self.n\np, value = P(3), None\norder = [n for n in vars(P) if n[0] != '_']"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(
        main,
        "value = P.made[p], P.made[P(3)], len(P.all), [n for n in vars(P) if n[0] != '_'] == order",
    )
    assert answer["value"] == [3, 3, 1, True]
    main.execute(
        "P(4); value = P.made[p], len(P.all), [n for n in vars(P) if n[0] != '_'] == order"
    )
    assert main.ns["value"] == (3, 2, True)


def test_what_has_been_finalized_is_not_finalized_again(main):
    main.execute(
        "saved = []; runs = []\n"
        "class Phoenix:\n    def __del__(self): runs.append(1); saved.append(self)\n"
        "p = Phoenix(); p.n = 1; del p"
    )
    main.commit()
    answer = hand_over(main, "n = saved[0].n; saved.clear(); value = [n, len(runs), len(saved)]")
    assert answer["value"] == [1, 1, 0]
