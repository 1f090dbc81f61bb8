"""Arrays of objects: elements by the plain codec, the others shared with what is around."""

import decimal

import effort
import pytest

np = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from holdfast import _store, marshal  # noqa: E402

atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=0xE000))
    | st.binary()
    | st.sampled_from([..., NotImplemented, "shared text"])
)
others = st.sampled_from([[1], {"a": 2}, (3, [4]), decimal.Decimal(5), len, set()])
shapes = st.sampled_from([(12,), (1, 12), (3, 4), (2, 3, 2), (0,), (3, 0), (), (1,)])


def array_of(elements, shape, order="C"):
    array = np.empty(shape, object, order)
    for index, element in zip(np.ndindex(shape), elements):
        array[index] = element
    return array


def carried(value):
    return marshal.loads(marshal.dumps(value))


def same(one, other):
    return type(one) is type(other) and repr(one) == repr(other)


@settings(deadline=None, max_examples=effort.examples(50, 200))
@given(
    elements=st.lists(atoms | others, min_size=12, max_size=12),
    shape=shapes,
    order=st.sampled_from("CF"),
    writeable=st.booleans(),
)
def test_round_trip(elements, shape, order, writeable):
    array = array_of(elements, shape, order)
    array.flags.writeable = writeable
    back = carried(array)
    assert back.shape == shape and back.dtype == object and back.flags.forc
    assert back.flags.writeable is writeable
    assert back.flags.f_contiguous is array.flags.f_contiguous
    assert all(map(same, back.flat, array.flat))
    held = list(array.flat)
    for one, element in zip(back.flat, held):
        where = [i for i, other in enumerate(held) if other is element]
        if not isinstance(element, (int, float, complex)):  # by value, as in pickle
            assert all(back.flat[i] is one for i in where)


def test_what_is_shared_with_the_rest_stays_shared():
    items, text = [1], "a text"
    array = array_of([items, items, text, None], (4,))
    back, again, first = carried([array, array, items])
    assert again is back and back[0] is back[1] is first and back[2] == text
    first.append(2)
    assert back[0] == [1, 2]


def test_an_array_that_holds_itself():
    array = array_of([None, "x", [], 3], (4,))
    array[0] = array
    array[2].append(array)
    back = carried(array)
    assert back[0] is back and back[2][0] is back and back[1] == "x" and back[3] == 3


def test_views_stay_views():
    array = array_of([str(number) for number in range(12)], (3, 4))
    back, row, turned = carried([array, array[1], array.T])
    row[0] = turned[0, 0] = "new"
    assert back[1, 0] == back[0, 0] == "new"


def test_null_is_none():
    array = np.empty(4, object)
    assert list(carried(array)) == [None] * 4


def test_the_elements_are_one_block_out_of_band():
    array = np.array([f"text {number}" for number in range(5000)], dtype=object)
    _, _, payload, buffers = _store._encode(array)
    assert len(buffers) == 1 and len(payload) < 1000
    assert len(buffers[0][0]) < 5000 * 11 + 10


def test_a_text_is_written_once():
    array = np.array(["the same text", "other"] * 5000, dtype=object)
    _, _, _, buffers = _store._encode(array)
    assert bytes(buffers[0][0]).count(b"the same text") == 1


def test_layouts_that_are_no_block_go_the_old_way():
    array = np.empty((3, 4), object)
    assert _store._pack_elements(array[:, ::2]) is None
    assert _store._pack_elements(np.arange(3)) is None
    records = np.array([("a", 1), ("b", 2)], dtype=[("name", object), ("number", int)])
    assert carried(records).tolist() == records.tolist()


def test_pandas():
    pd = pytest.importorskip("pandas")
    texts = [f"row {number % 7}" for number in range(100)]
    frame = pd.DataFrame({"text": pd.Series(texts, dtype=object), "number": range(100)})
    frame["kind"] = pd.Categorical(texts, categories=pd.Index(sorted(set(texts)), dtype=object))
    frame["missing"] = pd.array(["a", pd.NA] * 50, dtype=pd.StringDtype("python"))
    back = carried(frame)
    pd.testing.assert_frame_equal(back, frame)
    assert back["missing"].array[1] is pd.NA
    assert back["kind"].cat.categories.dtype == object


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "90",  # another number
        "93 01 02 03",
        "92 01",  # ends too early
        "92 01 02 03",  # goes on
        "92 01 90",  # a list among them
        "92 01 d40101",  # a kind
        "92 01 d40a01",  # beside it is only one
        "92 01 d40200",  # the list itself
        "dd ffffffff 01 02",
        "81 01 02",
    ],
)
def test_hostile_bytes_are_refused(payload):
    array = np.empty(2, object)
    for flags in (b"\2\0", b"\2\2"):
        with pytest.raises(_store.CorruptError):
            _store._fill_elements(array, flags, bytes.fromhex(payload), ["outside"])
    _store._fill_elements(array, b"\2\0", bytes.fromhex("92 a26162 d40a00"), ["outside"])
    assert list(array) == ["ab", "outside"]


@settings(deadline=None, max_examples=effort.examples(75, 300))
@given(elements=st.lists(atoms | others, min_size=4, max_size=4), data=st.data())
def test_mutated_bytes_never_crash(elements, data):
    meta, memory, outside = _store._pack_elements(array_of(elements, (4,)))
    payload = bytearray(memory)
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    array, again = np.empty(4, object), np.empty(4, object)
    try:
        _store._fill_elements(array, meta, payload, outside)
    except _store.CorruptError:
        repr(array)  # a part of it may be filled
        return
    # As in test_plain.py: a whole array, and the old one where the bytes are.
    meta, again_memory, again_outside = _store._pack_elements(array)
    _store._fill_elements(again, meta, again_memory, again_outside)
    assert all(map(same, again, array))
    if payload == memory:
        assert all(map(same, array, elements))


def test_meta_and_array_that_do_not_fit():
    array, payload = np.empty(1, object), b"\x91\x01"
    for meta in (b"", b"\2", b"\2\x80"):
        with pytest.raises(_store.CorruptError):
            _store._fill_elements(array, meta, payload, [])
    with pytest.raises(_store.Error):
        _store._fill_elements(array, b"\1\0", payload, [])
    with pytest.raises(ValueError, match="block"):
        _store._fill_elements(np.empty(1), b"\2\0", payload, [])
