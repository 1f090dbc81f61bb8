"""Names between two processes: saving, binding, adopting, and what must not be copied."""

import datetime
import decimal
import os
import signal
import zoneinfo

import numpy as np
import pandas as pd
import pytest

from holdfast import store


def test_values_of_every_codec_arrive(main):
    main.execute("""
import math, array, collections
whole, text, nothing, many = 7, "t" * 70000, None, {"a": [1, (2, 3)], "b": {4}}
blob, room = b"b" * 70000, bytearray(b"r" * 70000)
numbers = array.array("d", range(20000))
window = memoryview(bytearray(b"m" * 70000))
ordered = collections.OrderedDict(a=1)
""")
    main.commit()
    main.other("""
report = names.bind(ns)
assert report["absent"] == {}, report
import math
assert ns["math"] is math
assert ns["whole"] == 7 and ns["text"] == "t" * 70000 and ns["nothing"] is None
assert ns["many"] == {"a": [1, (2, 3)], "b": {4}}
assert ns["blob"] == b"b" * 70000 and type(ns["room"]) is bytearray
assert ns["numbers"].typecode == "d" and ns["numbers"][19999] == 19999
assert bytes(ns["window"]) == b"m" * 70000 and not ns["window"].readonly
assert type(ns["ordered"]).__name__ == "OrderedDict"
""")


ARRAYS = {
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "small": np.arange(7, dtype=np.int16),
    "booleans": np.arange(100_000) % 3 == 0,
    "big_endian": np.arange(20_000, dtype=">i4"),
    "halves": np.arange(20_000, dtype="f2"),
    "complexes": np.arange(20_000) * 1j,
    "dates": np.arange("2000-01-01", "2100-01-01", dtype="M8[D]"),
    "spans": np.arange(20_000).astype("m8[ns]"),
    "texts": np.array(["ä", "bcd"] * 10_000),
    "bytes": np.array([b"x", b"yz"] * 10_000),
    "records": np.zeros(5_000, dtype=[("a", "i4"), ("b", "f8", (2,)), ("c", "U3")]),
    "aligned": np.zeros(5_000, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "voids": np.zeros(5_000, dtype="V7"),
    "fortran": np.asfortranarray(np.arange(20_000.0).reshape(100, 200)),
    "reversed": np.arange(20_000.0)[::-1],
    "strided": np.arange(30_000.0).reshape(100, 300)[::3, 1::7],
    "broadcast": np.broadcast_to(np.arange(5_000.0), (50, 5_000)),
    "transposed": np.arange(24_000).reshape(20, 30, 40).transpose(2, 0, 1),
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(9_000.0), 10),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_array(main, name):
    array = ARRAYS[name]
    main.ns["x"] = array
    main.commit()
    names, ns = store.Names(main.session), {}
    names.bind(ns)
    back = ns["x"]
    assert back.dtype == array.dtype and back.dtype.isalignedstruct == array.dtype.isalignedstruct
    assert back.shape == array.shape and back.strides == array.strides
    assert back.flags.writeable == array.flags.writeable
    np.testing.assert_array_equal(back, array)
    assert names.save(ns)["prepared"] is None  # and what arrived is what is there


def test_array_of_objects(main):
    shared = [1]
    main.ns.update(x=np.array([shared, "a", None], dtype=object), shared=shared)
    main.commit()
    main.other('names.bind(ns); assert ns["x"][0] is ns["shared"]')


def test_memmap_is_opened_again(main, tmp_path):
    path = tmp_path / "data"
    np.arange(10_000.0).tofile(path)
    main.ns["x"] = np.memmap(path, dtype="f8", mode="r+", shape=(100, 100))
    main.commit()
    main.other('names.bind(ns); ns["x"][0, 0] = 42; ns["x"].flush()')
    assert np.fromfile(path)[0] == 42


def test_matrix_stays_a_matrix(main):
    main.ns["x"] = np.matrix(np.arange(40_000.0).reshape(200, 200))
    main.commit()
    main.other(
        'names.bind(ns); assert type(ns["x"]).__name__ == "matrix"; assert ns["x"][1, 1] == 201'
    )


def test_order_of_names(main):
    for name in ("zebra", "ant", "mule", "bee"):
        main.ns[name] = [name]
    main.commit()
    assert main.other('names.bind(ns); answer(order=[n for n in ns if n != "__name__"])') == {
        "order": ["zebra", "ant", "mule", "bee"]
    }


def test_order_of_names_in_groups_and_after_adopting(main):
    main.execute("""
first = [1]; number = 2; text = "t" * 70000; alias = first
class Point: shared = first
last = Point(); word = "w"; pair = (last, 5)
""")
    main.commit()
    main.execute("later = number; late = [first]")  # a group changes, then joins a name
    main.commit()
    order = [name for name in main.ns if not name.startswith("__")]
    assert order[:2] == ["first", "number"] and order[-1] == "late"
    assert main.other("""
names.bind(ns)
bound = [n for n in ns if n != "__name__"]
ns["new"] = ns["first"]; ns["number"] = 3; ns["newer"] = 1; ns["newest"] = ns["new"]
ns["first"].append(2)
publish(save(ns))
answer(order=bound)
""") == {"order": order}
    main.names.adopt(main.ns)
    assert main.ns["newest"] is main.ns["first"]
    assert [n for n in main.ns if not n.startswith("__")] == [*order, "new", "newer", "newest"]


# ---- what changed, and what it costs


def test_unchanged_is_no_commit(main):
    main.execute("""
import numpy as np
import pandas as pd
a, lst, word, s = np.arange(50000.0), [1, 2.5, "x"], "w", {"q", "r", "s"}
class Point:
    def __init__(self, x): self.x = x
p = Point([1])
f = lambda x: x + word
""")
    assert main.commit()["prepared"] is not None
    assert main.commit()["prepared"] is None
    assert main.other("""
names.bind(ns)
report = save(ns)
answer(saved=report["saved"], prepared=report["prepared"] is not None,
       copied=report["bytes_copied"])
""") == {"saved": [], "prepared": False, "copied": 0}


def test_changed_pages_alone_are_copied(main):
    main.ns["x"] = np.zeros(1_000_000)
    main.commit()
    assert main.other("""
names.bind(ns)
ns["x"][[0, 1, 2, 5000, 999999]] = 1
report = save(ns)
publish(report)
answer(pages=report["pages_changed"], copied=report["bytes_copied"], saved=report["saved"])
""") == {"pages": 3, "copied": 3 * 4096, "saved": ["x"]}
    assert main.names.adopt(main.ns)["changed"] == ["x"]
    assert main.ns["x"].nonzero()[0].tolist() == [0, 1, 2, 5000, 999999]


def test_sets_and_identity_of_strings_are_no_change(main):
    main.execute("""
words = ["alpha", "beta", "alp" + "ha"]
names_set = {str(i) for i in range(1000)}
frozen = frozenset(names_set)
""")
    main.commit()
    assert main.other('names.bind(ns); answer(x=save(ns)["saved"])') == {"x": []}


def test_skipped_names_are_kept(main):
    main.execute("import numpy as np; a = np.ones(50000); keep = [1]; use = [2]; go = [3]")
    main.commit()
    assert main.other("""
report = names.bind(ns, names=["use", "go"])
assert set(ns) >= {"a", "use", "go"} and "keep" not in ns, ns.keys()
ns["use"].append(5)
del ns["go"]
saved = save(ns)
publish(saved)
answer(skipped=report["skipped"], saved=saved["saved"], removed=saved["removed"])
""") == {"skipped": 2, "saved": ["use"], "removed": ["go"]}
    kept = main.ns["keep"]
    report = main.names.adopt(main.ns)
    assert (report["changed"], report["removed"]) == (["use"], ["go"])
    assert main.ns["keep"] is kept and main.ns["use"] == [2, 5] and "go" not in main.ns


def test_code_comes_with_names_asked_for(main):
    main.execute("from collections import deque\ndef f(): pass\nd = deque([f])")
    main.commit()
    assert main.other("""
behind = names.bind(ns, names=["d"])["code"]
answer(asked=sorted(behind), found=behind["d"] == [ns["d"][0]], all=Names(session).bind({})["code"])
""") == {"asked": ["d", "f"], "found": True, "all": {}}


def test_a_skipped_name_that_is_bound_anew(main):
    main.execute("a = [1]; b = a; other = [2]")
    main.commit()
    main.other("""
names.bind(ns, names=())
assert "a" not in ns
ns["a"] = "new"
publish(save(ns))
fresh = {}
Names(session).bind(fresh)
assert fresh["a"] == "new" and fresh["b"] == [1] and fresh["other"] == [2]
""")


def test_later_binding_of_more_names(main):
    main.execute("a = [1]; b = [2]")
    main.commit()
    main.other("""
names.bind(ns, names=["a"])
first = ns["a"]
names.bind(ns)
assert ns["a"] is first and ns["b"] == [2]
""")


def test_hidden_names_and_extra(main):
    main.ns.update(seen=1, _hidden=2)
    report = main.names.save(main.ns, hidden={"_hidden"}, extra={"state": {"cwd": "/"}})
    assert "_hidden" not in report["saved"]
    main.names.published(main.session.publish(report["prepared"]))
    assert main.names.extra("state") == {"cwd": "/"} and main.names.extra("none") is None
    main.other("""
assert names.extra("state") == {"cwd": "/"}
names.bind(ns)
assert "_hidden" not in ns and ns["seen"] == 1
""")
    again = main.names.save(main.ns, hidden={"_hidden"}, extra={"state": {"cwd": "/"}})
    assert again["prepared"] is None


def test_listing(main):
    main.execute("import numpy as np; a = np.ones(50000); b = a[1:]; c = 1")
    main.commit()
    listed = {item["name"]: item for item in main.names.listing()}
    assert listed["a"]["codec"] == "member" and listed["a"]["type"] == "numpy.ndarray"
    assert listed["a"]["where"] == listed["b"]["where"]
    assert listed[listed["a"]["where"]]["bytes"] >= 400_000
    assert listed["c"]["generation"] == 1


# ---- identity


def test_aliases_views_and_shared_containers(main):
    main.execute("""
import numpy as np
import pandas as pd
a = np.arange(100000.0); b = a; view = a[10:20]; flip = a[::-1]
small = np.arange(5); part = small[1:]
row = [1]; table = {"row": row}; pair = (row, table)
loop = []; loop.append(loop)
""")
    main.commit()
    main.other("""
import numpy as np
import pandas as pd
names.bind(ns)
assert ns["b"] is ns["a"]
ns["a"][12] = -1
assert ns["view"][2] == -1 and ns["flip"][100000 - 13] == -1
ns["part"][0] = 9
assert ns["small"][1] == 9
assert ns["table"]["row"] is ns["row"] is ns["pair"][0] and ns["pair"][1] is ns["table"]
assert ns["loop"][0] is ns["loop"]
ns["row"].append(2)
publish(save(ns))
""")
    main.names.adopt(main.ns)
    assert main.ns["view"][2] == -1 and main.ns["b"] is main.ns["a"]
    assert main.ns["table"]["row"] is main.ns["row"] == [1, 2]


def test_the_base_of_a_view_is_the_array_itself(main):
    main.execute("""
import numpy as np
import pandas as pd
rows = np.arange(100000.0); every = rows[::2]; flip = rows[::-1]
columns = np.arange(6000.0).reshape(60, 100).copy(order="F"); block = columns.T[3:5]
days = np.arange(9000).astype("M8[s]"); later = days[5:]
records = np.zeros(3000, dtype=[("x", "f8"), ("y", "i4")]); field = records["y"]
""")
    main.commit()
    main.other("""
names.bind(ns)
pairs = "every rows flip rows block columns later days field records".split()
for view, base in zip(pairs[::2], pairs[1::2]):
    assert ns[view].base is ns[base], view
ns["rows"][4] = 7
publish(save(ns))
""")
    main.names.adopt(main.ns)
    assert main.ns["every"].base is main.ns["flip"].base is main.ns["rows"]
    assert main.ns["every"][2] == 7


def test_cycle_across_names(main):
    main.execute("x = {}; y = {'x': x}; x['y'] = y")
    main.commit()
    main.other('names.bind(ns); assert ns["x"]["y"] is ns["y"] and ns["y"]["x"] is ns["x"]')


def test_groups_are_exactly_what_is_shared():
    shared, text, array = [1], "t" * 100, np.arange(10.0)
    namespace = {
        "a": shared,
        "b": [shared],
        "c": text,
        "d": [text],
        "e": array,
        "f": array[2:].reshape(2, 4),
        "g": (1, 2),
        "h": np.float64,
        "i": [np.float64, os, os.path.join],
        "j": [np.sum, os],
    }
    assert store.groups(namespace) == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e", "f"],
        ["g"],
        ["h"],
        ["i"],
        ["j"],
    ]


class Zone(datetime.tzinfo):
    """One of the notebook's own, whose dates are subtracted as they are written."""

    def utcoffset(self, when):
        return datetime.timedelta(hours=when.month if when else 0)


def test_dates_of_one_zone_are_a_group():
    zone, hour = Zone(), datetime.timezone(datetime.timedelta(hours=1))
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    stamp = pd.Timestamp("2021-01-01", tz=berlin)
    namespace = {
        "a": datetime.datetime(2021, 1, 1, tzinfo=zone),
        "b": [datetime.time(12, tzinfo=zone)],
        "c": datetime.datetime(2021, 1, 1, tzinfo=Zone()),
        "d": datetime.datetime(2021, 1, 1, tzinfo=hour),
        "e": datetime.datetime(2021, 7, 1, tzinfo=hour),
        "f": datetime.datetime(2021, 7, 1, tzinfo=berlin),
        "g": [stamp, berlin],
        "h": stamp,
        "i": datetime.datetime(2021, 1, 1),
        "j": {"zone": zone},
    }
    assert store.groups(namespace) == [["a", "b", "j"], *[[name] for name in "cdefghi"]]


class Tagged(decimal.Decimal):
    """A number that has attributes."""


def test_numbers_and_dates_of_own_classes_hold_what_they_have():
    box = [1]
    number, day = Tagged("1"), type("Day", (datetime.date,), {})(2021, 1, 1)
    number.box = day.box = box
    namespace = {"number": number, "day": day, "box": box, "other": decimal.Decimal("1")}
    assert store.groups(namespace) == [["number", "day", "box"], ["other"]]


def test_a_group_falls_apart(main):
    main.execute("a = [1]; b = [a]")
    main.commit()
    main.execute("b = [2]")
    main.commit()
    assert not any(item["name"].startswith("\0g") for item in main.names.listing())
    main.other('names.bind(ns); assert ns["a"] == [1] and ns["b"] == [2]')


# ---- functions and classes of the notebook


def test_functions_see_the_namespace(main):
    main.execute("""
factor = 2
def scale(x, by=1): "words"; return x * factor * by
def count(n): return 0 if n == 0 else 1 + count(n - 1)
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def get(): return n
    return up, get
up, get = counter()
up()
anonymous = lambda: scale(1)
""")
    main.commit()
    main.other("""
names.bind(ns)
assert ns["scale"].__globals__ is ns and ns["scale"].__doc__ == "words"
assert ns["scale"](3) == 6 and ns["count"](5) == 5
ns["factor"] = 10
assert ns["scale"](3, by=2) == 60 and ns["anonymous"]() == 10
assert ns["up"]() == 2 and ns["get"]() == 2
""")


def test_a_name_is_decoded_later_into_the_same_globals(main):
    main.execute("k = 1\ndef f(): return k\ndef g(): return f() + k")
    main.commit()
    main.other("""
names.bind(ns, names=["g", "f"])
ns["k"] = 5
assert ns["g"]() == 10
""")


def test_classes_keep_their_identity(main):
    main.execute("""
class Base:
    def who(self): return type(self).__name__
class Point(Base):
    made = 0
    def __init__(self, x):
        super().__init__()
        self.x = x
        Point.made += 1
    def twin(self): return Point(self.x)
p, q = Point(1), Point(2)
""")
    cls, p = main.ns["Point"], main.ns["p"]
    main.commit()
    assert main.other("""
names.bind(ns)
assert type(ns["p"]) is type(ns["q"]) is ns["Point"]
assert isinstance(ns["p"].twin(), ns["Base"]) and ns["p"].who() == "Point"
ns["q"].x = 5
ns["Point"].extra = "new"
del ns["Base"].who
report = save(ns)
publish(report)
answer(saved=report["saved"])
""") == {"saved": ["q"]}
    main.names.adopt(main.ns)
    assert main.ns["Point"] is cls and main.ns["p"] is p
    assert type(main.ns["q"]) is cls and main.ns["q"].x == 5
    assert cls.made == 3 and cls.extra == "new" and not hasattr(cls, "who")


def test_a_class_without_a_name(main):
    main.execute("""
def make():
    class Hidden:
        shared = registry
        def __init__(self): self.v = 1
    return Hidden()
registry = []
one = make()
two = type(one)()
""")
    main.commit()
    main.other("""
names.bind(ns, names=["one"])
names.bind(ns)
assert type(ns["one"]) is type(ns["two"])
assert type(ns["one"]).shared is ns["registry"]
""")
    main.execute("del one, two, make")
    main.commit()
    assert [i["name"] for i in main.names.listing() if i["name"].startswith("\0")] == []


def test_a_class_that_is_defined_anew(main):
    main.execute("class C: v = 1\nold = C()")
    main.commit()
    main.execute("class C: v = 2\nnew = C()")
    main.commit()
    main.other("""
names.bind(ns)
assert type(ns["new"]) is ns["C"] is not type(ns["old"])
assert ns["old"].v == 1 and ns["new"].v == 2
""")


def test_dataclass_enum_and_named_tuple(main):
    main.execute("""
import dataclasses, enum, collections, typing
@dataclasses.dataclass
class D:
    x: int
    y: list = dataclasses.field(default_factory=list)
class E(enum.Enum):
    ONE = 1
T = collections.namedtuple("T", "a b")
d, e, t = D(1), E.ONE, T(1, 2)
""")
    main.commit()
    main.other("""
names.bind(ns)
assert ns["d"] == ns["D"](1) and ns["e"] is ns["E"].ONE and ns["t"].b == 2
assert type(ns["t"]) is ns["T"]
""")


# ---- what isn't carried


def test_declined_names_say_why_and_stay(main):
    main.execute("""
import threading
numbers = [1, 2]
stream = (n for n in numbers)
holder = {"deep": [threading.Lock()]}
fine = 1
""")
    report = main.commit()
    assert set(report["unserializable"]) == {"stream", "holder"} == set(main.names.reasons)
    assert report["unserializable"]["stream"].startswith("generator at stream")
    assert report["unserializable"]["holder"].startswith("lock at holder['deep'][0]")
    stream = main.ns["stream"]
    main.other("""
names.bind(ns)
assert "stream" not in ns and ns["numbers"] == [1, 2]
ns["fine"] = 2
publish(save(ns))
""")
    main.names.adopt(main.ns)
    assert main.ns["stream"] is stream and next(stream) == 1 and main.ns["fine"] == 2
    assert set(main.names.reasons) == {"stream", "holder"}
    del main.ns["holder"], main.ns["stream"]
    main.commit()
    assert main.names.reasons == {}


def test_a_value_that_becomes_declined_leaves_the_store(main):
    main.ns["x"] = [1]
    main.commit()
    main.ns["x"] = (i for i in ())
    assert "x" in main.commit()["unserializable"]
    main.other('names.bind(ns); assert "x" not in ns')


def test_a_value_that_raises(main):
    main.execute("""
class Angry:
    def __reduce__(self): raise ValueError("no")
angry = Angry()
calm = 1
""")
    report = main.commit()
    assert "ValueError: no" in report["unserializable"]["angry"] and "calm" in report["saved"]


def test_a_module_that_is_missing_there(main, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("class T: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    main.execute("import only_here; t = only_here.T(); n = 1")
    main.commit()
    assert main.other("""
report = names.bind(ns)
assert ns["n"] == 1
assert save(ns)["prepared"] is None
answer(absent=sorted(report["absent"]))
""") == {"absent": ["only_here", "t"]}


# ---- commits


def test_removal(main):
    main.execute("a = 1; b = [2]; c = b")
    main.commit()
    main.execute("del a, c")
    assert sorted(main.commit()["removed"]) == ["a", "c"]
    main.other('names.bind(ns); assert set(ns) == {"__name__", "b"}, ns.keys()')


def test_conflict(main):
    main.ns["x"] = 1
    main.commit()
    main.ns["x"] = 2
    prepared = main.save()["prepared"]
    main.other('names.bind(ns); ns["y"] = 1; publish(save(ns))')
    with pytest.raises(store.ConflictError):
        main.session.publish(prepared)
    with pytest.raises(store.ConflictError):
        main.save()
    assert main.names.adopt(main.ns)["changed"] == ["y"]
    assert main.commit()["saved"] == ["x"]


def test_a_prepared_commit_dies_with_its_process(main):
    main.ns["x"] = [1]
    main.commit()
    done = main.other(
        """
import os, signal
names.bind(ns)
ns["x"].append(2)
print(save(ns)["prepared"].hex(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    main.session.reap()
    with pytest.raises(store.Error):
        main.session.publish(bytes.fromhex(done.stdout.strip()))
    assert main.session.generation == 1
    main.session.verify()
    main.other('names.bind(ns); assert ns["x"] == [1]')


def test_a_save_that_is_dropped_is_repeated(main):
    main.ns["x"] = [1]
    first = main.save()
    second = main.save()
    assert first["saved"] == second["saved"] == ["x"]
    main.names.published(main.session.publish(second["prepared"]))
    assert main.commit()["prepared"] is None


def test_adopt_without_news(main):
    main.ns["x"] = [1]
    main.commit()
    report = main.names.adopt(main.ns)
    assert report["changed"] == [] and report["bound"] == 0


def test_immutable_values_of_the_library(main):
    main.ns.update(
        when=datetime.datetime(2026, 1, 2), price=decimal.Decimal("1.10"), fr=frozenset({1})
    )
    main.commit()
    main.other("""
import datetime, decimal
names.bind(ns)
assert ns["when"].day == 2 and ns["price"] == decimal.Decimal("1.10") and ns["fr"] == {1}
assert save(ns)["prepared"] is None
""")


def test_what_the_pickler_knows_is_forgotten_after_each_call(main):
    """A stream that is written afterwards must not refer to the store's classes."""
    from holdfast.carry import context

    main.execute("x = [object]")
    main.commit()
    assert not context.in_store() and context.current_namespace() is None
    main.names.adopt(main.ns)
    assert not context.in_store()


def test_a_name_that_is_asked_for_again_gets_the_stored_value(main):
    """Of names that share objects, too, whose other names keep what the namespace has bound anew."""
    main.execute("a = [1]; b = [a]; c = (a,)")
    main.commit()
    answer = main.other(
        "names.bind(ns, names=(), budget=-1)\n"
        "ns['a'], ns['b'] = 'mine', 'mine too'\n"
        "report = names.bind(ns, names=['a'])\n"
        "answer(a=ns['a'], b=ns['b'], c=ns['c'], absent=report['absent'])"
    )
    assert answer == {"a": [1], "b": "mine too", "c": [[1]], "absent": {}}
