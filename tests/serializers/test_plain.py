"""The plain codec by properties: what comes back equals what went in, type by type, with
the same objects shared; what can't be carried is named; bytes that lie break nothing."""

import copy
import json
import math
import os
import random
import struct
import subprocess
import sys

import effort
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**300), max_value=2**300)
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.text(alphabet=st.characters(min_codepoint=0xD700, max_codepoint=0xE000))
    | st.binary()
    | st.sampled_from([..., NotImplemented, "shared", "héé", b"", ()])
    | st.builds(range, st.integers(), st.integers(), st.integers(min_value=1))
)
keys = st.recursive(
    atoms,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    keys | st.builds(bytearray, st.binary()) | st.builds(slice, st.integers(), st.text()),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, min_size=1, max_size=2).map(lambda items: items * 3)
        | st.dictionaries(keys, inner, max_size=5)
        | st.sets(keys, max_size=5)
    ),
    max_leaves=20,
)


def canonical(value):
    """A text that doesn't depend on the order of sets."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(canonical, value))}"
    if isinstance(value, tuple):
        return f"tuple{list(map(canonical, value))}"
    return repr(value)


def same(a, b):
    """Equal in value and exact type, NaN bits and zero signs too; dict order counts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        # NaNs are equal to nothing: compare the sets by a canonical text.
        return canonical(a) == canonical(b)
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return a == b


@settings(deadline=None, max_examples=effort.examples(100, 400))
@given(value=values)
def test_round_trip(plain, value):
    payload = plain.dumps(value)
    assert same(plain.loads(payload, plain.meta(value)), value)
    singleton = value is None or value is ... or value is NotImplemented
    kind = repr(value) if singleton else type(value).__name__
    assert plain.describe(payload).replace(",", " ").split()[0] == kind


def sets_with_a_history():
    """Sets that grew, shrank, were joined, and whose elements collide."""
    random.seed(5)
    for size in (1, 2, 3, 5, 8, 20, 100, 1000, 5000):
        for stride in (1, 7, 8, 64, 4096, 2**61 - 1)[: None if size < 1000 else -1]:
            made = {random.randrange(4 * size) * stride for _ in range(size)}
            yield made
            for one in random.sample(sorted(made), len(made) // 2):
                made.discard(one)
            made |= {random.randrange(4 * size) * stride for _ in range(size // 3)}
            yield made
            yield frozenset(made)
            yield made.copy() | {str(one) for one in made}
            yield {("a", one) for one in made} ^ {("a", one) for one in range(size // 2)}


def test_sets_keep_their_order(plain):
    for made in sets_with_a_history():
        back = plain.loads(plain.dumps(made))
        assert list(back) == list(made) and back == made and type(back) is type(made)
        assert all(one in back for one in made)
        assert plain.dumps(back) == plain.dumps(made)
        if type(made) is set:
            others = random.sample(range(10**6), len(made))
            back.update(others)
            assert back == made.union(others) and all(one in back for one in others)
            back.difference_update(made)
            assert back == set(others).difference(made)


def test_sets_go_on_as_they_would_have(plain):
    words = {"".join(random.choices("abc", k=5)) for _ in range(300)}
    for one in sorted(words)[::3]:
        words.discard(one)
    back = plain.loads(plain.dumps([words]))[0]
    for number in range(600):
        words.add(str(number))
        back.add(str(number))
        assert list(back) == list(words)
        words.discard(str(number // 2))
        back.discard(str(number // 2))
    assert list(back) == list(words)


def test_places_that_lie(plain):
    """Such a set has its elements all the same, and none is equal to another."""
    made = {n * 8 for n in range(9)}
    payload = bytearray(plain.dumps(made))
    for place in range(len(payload)):
        for byte in (0, 1, 2, 7, 9, 63, 127, 128, 255):
            lie = bytes(payload[:place]) + bytes([byte]) + bytes(payload[place + 1 :])
            try:
                back = plain.loads(lie)
            except ValueError:
                continue
            if type(back) is set:
                assert len(set(list(back))) == len(back) and all(one in back for one in back)


def has_order_of_its_own(value):
    if isinstance(value, (set, frozenset)) and len(value) > 1:
        return True
    parts = value.items() if isinstance(value, dict) else value
    nested = isinstance(value, (list, tuple, dict, set, frozenset))
    return nested and any(map(has_order_of_its_own, parts))


@settings(deadline=None, max_examples=effort.examples(100, 400))
@given(value=values)
def test_canonical_unless_a_set_has_an_order(plain, value):
    meta, payload = plain.meta(value), plain.dumps(value)
    assert plain.is_canonical(meta) is not has_order_of_its_own(value)
    back = plain.loads(payload, meta)
    held = [back, value]  # references from outside, which must not show
    if plain.is_canonical(meta):
        assert plain.dumps(back) == payload and plain.meta(back) == meta
    del held


AGAIN = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("plain_module", sys.argv[1])
plain = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plain)
for line in sys.stdin:
    meta, payload = map(bytes.fromhex, json.loads(line))
    value = plain.loads(payload, meta)
    print(json.dumps([plain.meta(value).hex(), plain.dumps(value).hex()]))
"""


def test_canonical_in_another_process(plain):
    nan, name, text = float("nan"), sys.intern("a_name_of_its_own"), "".join(["two", " "])
    cases = [
        [nan, nan, float("nan"), {nan: nan}],
        [name, {name: name}, text, text, "".join(["two", " "])],
        ["é", "é", "", "", "x", b"", b"y", b"y", (), (), "ж", b"yy", frozenset()],
        [1, 1.0, True, 2**70, -(2**63), -0.0, 1j, ..., None, range(3), slice(1, "stop")],
        {"b": 1, "a": [{}, {1}], (1, (2, name)): bytearray(b"z")},
    ]
    shared = [cases[1], (text,)]
    shared += [shared, shared[1]]
    lines = [[plain.meta(one).hex(), plain.dumps(one).hex()] for one in [*cases, shared]]
    run = subprocess.run(
        [sys.executable, "-c", AGAIN, plain.__file__],
        input="\n".join(map(json.dumps, lines)),
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line) for line in run.stdout.splitlines()] == lines
    assert all(plain.is_canonical(bytes.fromhex(meta)) for meta, _ in lines)


def test_what_is_one_object_by_accident_leaves_no_trace(plain):
    # b"".join and str.join give new objects where a literal is CPython's only one.
    for one, other in [(b"x", bytes(bytearray(b"x"))), ("é", "aé"[1:]), (float("inf"), 1e999)]:
        assert plain.dumps([one, one]) == plain.dumps([one, other])


def test_meta_that_lies(plain):
    items = []
    payload = plain.dumps([items, items])
    assert plain.loads(payload, b"\2\2") == [[], []]
    with pytest.raises(ValueError, match="isn't there"):
        plain.loads(payload, b"\2\0")
    for meta in (b"", b"\2", b"\2\4", b"\2\0\0"):
        with pytest.raises(ValueError):
            plain.loads(payload, meta)
    with pytest.raises(RuntimeError, match="format 1"):
        plain.loads(payload, b"\1")
    assert not plain.is_canonical(b"\1\0") and not plain.is_canonical(b"")


@settings(deadline=None, max_examples=effort.examples(100, 400))
@given(value=values, data=st.data())
def test_mutated_bytes_never_crash(plain, value, data):
    payload = bytearray(plain.dumps(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    plain.describe(bytes(payload))
    try:
        back = plain.loads(bytes(payload))
    except ValueError:
        return
    # Other bytes may be another value (checksums are their keeper's, the store's or the stream's):
    # then it is a whole one, and the same bytes are the same value.
    whole, meta = plain.dumps(back), plain.meta(back)
    again = plain.loads(whole, meta)
    assert type(again) is type(back)
    assert plain.dumps(again) == whole or not plain.is_canonical(meta)
    if payload == plain.dumps(value):
        assert same(back, value)


@settings(deadline=None, max_examples=effort.examples(50, 100))
@given(value=values)
def test_every_prefix_is_refused(plain, value):
    payload = plain.dumps(value)
    for size in range(len(payload)):
        with pytest.raises(ValueError):
            plain.loads(payload[:size])
    with pytest.raises(ValueError, match="more than one value"):
        plain.loads(payload + b"\xc0")


@pytest.mark.parametrize(
    "value",
    [0, -1, 127, 128, -32, -33, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63)]
    + [-(2**63) - 1, -(2**64), 10**5000, -0.0, math.inf, "x" * 70000, b"x" * 70000]
    + [list(range(70000)), dict.fromkeys(range(70000)), tuple(range(15)), set(range(70000))],
    ids=lambda value: repr(type(value).__name__),
)
def test_width_boundaries(plain, value):
    assert same(plain.loads(plain.dumps(value)), value)


def test_nan_payload_and_identity(plain):
    (quiet,) = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEF1234))
    back = plain.loads(plain.dumps([quiet, quiet, {quiet: 1}]))
    assert struct.pack("<d", back[0]) == struct.pack("<Q", 0x7FF8DEADBEEF1234)
    assert back[0] is back[1] is next(iter(back[2]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1],
        lambda: {"a": 1},
        lambda: {1},
        lambda: frozenset({1}),
        lambda: (1, []),
        lambda: bytearray(b"x"),
        lambda: bytes(bytearray(b"a few bytes")),
        lambda: "a string " + str(random.random()),
        lambda: "\ud800" + str(random.random()),
        lambda: range(random.randrange(1000, 2000)),
        lambda: slice(1, "x"),
    ],
)
def test_shared_objects_stay_shared(plain, make):
    a, b = make(), make()
    back = plain.loads(plain.dumps([a, {"k": a}, (b, a), [1, b]]))
    assert back[0] is back[1]["k"] is back[2][1]
    assert back[2][0] is back[3][1]
    assert back[0] is not back[2][0]


def test_cycles(plain):
    items, table = [], {}
    pair = (items, table)
    items += [items, pair]
    table["self"], table["pair"] = table, pair
    back = plain.loads(plain.dumps(pair))
    assert back[0][0] is back[0] and back[0][1] is back
    assert back[1]["self"] is back[1] and back[1]["pair"] is back


def test_a_cycle_that_only_itself_holds(plain):
    items = []
    items.append(items)
    holder = [items]
    del items
    back = plain.loads(plain.dumps(holder.pop()))
    assert back[0] is back


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {1: x}])
def test_deep_nests(plain, wrap):
    value = None
    for _ in range(100_000):
        value = wrap(value)
    back, depth = plain.loads(plain.dumps(value)), 0
    while back is not None:
        back = back[1 if isinstance(back, dict) else 0]
        depth += 1
    assert depth == 100_000


def test_repeated_strings_are_written_once(plain):
    key = "a column's name"
    rows = [{key: number} for number in range(1000)]
    payload = plain.dumps(rows)
    assert payload.count(key.encode()) == 1
    back = plain.loads(payload)
    assert len({id(name) for row in back for name in row}) == 1


def test_interned_strings_are_interned(plain):
    name = sys.intern("an_identifier_of_its_own")
    assert plain.loads(plain.dumps({name: 1})).popitem()[0] is name


class Listish(list):
    pass


class Intish(int):
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"x": [1, 2, 3, (i for i in ())]}, "['x'][3]: generator"),
        ([Listish()], "[0]: Listish"),
        ({1: (True, Intish(3))}, "[1][1]: Intish"),
        ({("a", len): 1}, ".keys()[1]: builtin_function_or_method"),
        ([{len}], "[0]{...}: builtin_function_or_method"),
        (object(), "object"),
        ([slice([1])], "[0]: slice (of containers)"),
    ],
)
def test_declined_names_path_and_type(plain, value, words):
    with pytest.raises(TypeError) as caught:
        plain.dumps(value)
    assert str(caught.value) == words


DECLINED_AT_A_SIGNAL = """
import ctypes, functools, importlib.util, operator, signal, sys
spec = importlib.util.spec_from_file_location("plain_module", sys.argv[1])
plain = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plain)
value = {"".join(["outer", "key"]): {"".join(["inner", "key"]): object()}}
signal.signal(signal.SIGINT, lambda *_: value.clear())
dumps = functools.partial(plain.dumps, value)
try:  # without an instruction in between, at which the handler would run
    list(map(operator.call, (ctypes.pythonapi.PyErr_SetInterrupt, dumps)))
except TypeError as error:
    print(error, value)
"""


def test_a_signal_waits_until_the_path_is_named(plain):
    """A handler may drop what the path is about."""
    run = subprocess.run(
        [sys.executable, "-c", DECLINED_AT_A_SIGNAL, plain.__file__],
        env=os.environ | {"PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "['outerkey']['innerkey']: object {}\n", run.stderr


def test_declined_at_depth_is_short(plain):
    value = object()
    for _ in range(10_000):
        value = [value]
    with pytest.raises(TypeError, match=r"^(\[0\]){6}\.\.\.(\[0\])+: object$"):
        plain.dumps(value)


def test_accepts_looks_at_the_type_only(plain):
    assert all(map(plain.accepts, [None, 1, "", b"", [], (), {}, set(), range(3), ...]))
    assert not any(map(plain.accepts, [Listish(), Intish(), bytearray(), object(), len]))


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "c1",  # never used by msgpack
        "dd ffffffff",  # four billion items in five bytes
        "df ffffffff c0c0",
        "dd 00000005 " * 2 + "c0" * 6,  # each count fits, their sum doesn't
        "92 d40200 d40203",  # a reference to nothing
        "92 d40101 81 d40200 c0",  # an open tuple as key
        "93 d40101 93 d40101 d40200 c0 81 d40201 c0",  # through another tuple
        "92 d40102 90",  # a list in a set
        "93 d40102 01 01",  # an element given twice
        "82 01c0 01c0",  # a key given twice
        "81 90 c0",  # a list as key
        "92 d40103 d40200",  # a frozenset in itself
        "94 d40104 00 05 00",  # range with step 0
        "94 d40105 90 c0 c0",  # a slice of lists
        "94 d40104 d40200 01 01",  # a range in itself
        "92 d40109 c0",  # an unknown kind
        "d40101",  # a kind that stands alone
        "c70303 2d2d31",  # int "--1"
        "c70003",  # int without digits
        "a2 ff61",  # not UTF-8
        "d40700",  # an unknown singleton
        "d40a00",  # an object beside the payload, where nothing is
        "d47f00",  # an unknown type
        "d6ff00000000",  # a msgpack time stamp
    ],
)
def test_hostile_bytes_are_refused(plain, payload):
    with pytest.raises(ValueError):
        plain.loads(bytes.fromhex(payload))


def test_a_tower_of_shared_tuples_as_key_is_refused(plain):
    # [(1,), (ref,), (ref,), ...]: shallow to read, deep to hash.
    tower = [bytes.fromhex("92d4010101")]
    tower += [b"\x92\xd4\x01\x01\xd6\x02" + struct.pack(">I", n) for n in range(1, 20_000)]
    body = b"".join(tower) + b"\x81\xd6\x02" + struct.pack(">I", 20_000) + b"\xc0"
    payload = b"\xdd" + struct.pack(">I", 20_001) + body
    with pytest.raises(ValueError, match="hash"):
        plain.loads(payload)


def test_declined_where_the_key_would_be_refused(plain):
    key = ()
    for _ in range(600):
        key = (key,)
    with pytest.raises(TypeError, match="key too deep"):
        plain.dumps({key: 1})
    assert plain.loads(plain.dumps([key])) == [copy.copy(key)]


def test_the_collector_is_left_as_it_was(plain):
    import gc

    assert gc.isenabled()
    plain.loads(plain.dumps([[]]))
    with pytest.raises(TypeError):
        plain.dumps(object())
    with pytest.raises(ValueError):
        plain.loads(b"")
    assert gc.isenabled()


def test_tuples_of_atoms_are_no_concern_of_the_collector(plain):
    import gc

    inner, names = {}, {"a": 1}
    value = [(1, "two", b"3"), ((4, 5.0), None), (inner,), (names, 1), ([],), ()]
    back = plain.loads(plain.dumps(value), plain.meta(value))
    tracked = [gc.is_tracked(one) for one in back]
    assert tracked == [False, False, True, True, True, False]
    assert not gc.is_tracked(back[1][0]) and not gc.is_tracked(back[3][0])
    assert gc.is_tracked(back) and gc.is_tracked(back[4][0])


def test_a_cycle_through_tuples_is_collected(plain):
    import gc
    import weakref

    class Mark:
        pass

    table = {}
    value = ((table,), table)
    table["back"] = value
    back = plain.loads(plain.dumps(value), plain.meta(value))
    mark = Mark()
    back[1]["mark"], seen = mark, weakref.ref(mark)
    assert back[0][0] is back[1] and back[1]["back"] is back
    del back, mark
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 1000, 40_000])
def test_dicts_of_every_length_and_kind_of_value(plain, count):
    """Pairs go in by batches, which a container among keys or values ends."""
    value = {}
    for number in range(count):
        key = (number, str(number)) if number % 31 == 5 else f"key {number}"
        value[key] = [number] if number % 17 == 3 else number
    back = plain.loads(plain.dumps(value), plain.meta(value))
    assert list(back.items()) == list(value.items())


def test_a_key_given_twice_far_apart_is_refused(plain):
    for distance in (1, 31, 32, 33, 100):
        keys = [b"\xa3" + b"%03d" % (number % distance) for number in range(distance + 1)]
        body = b"".join(key + b"\xc0" for key in keys)
        with pytest.raises(ValueError, match="twice"):
            plain.loads(b"\xdf" + struct.pack(">I", distance + 1) + body)


def test_numbers_near_the_end_of_the_bytes(plain):
    """The last values are read another way than those with room behind them."""
    numbers = [0, 127, -32, 128, -33, 2**16, -(2**16), 2**32, -(2**40), 2**64 - 1, 0.5]
    for number in [*numbers, "ascii", "é", "x" * 31, None]:
        for more in range(12):
            value = [number] + [1] * more
            assert same(plain.loads(plain.dumps(value)), value)
