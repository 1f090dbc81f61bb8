"""holdfast.commands.weights: known sizes of objects and buffers, each counted once, and no code of the user's run."""

import sys

import pytest

from holdfast import _store
from holdfast.commands.weights import _Ranges, weigh

MIB = 1 << 20


@pytest.fixture
def session():
    with _store.Session.create("weigh") as session:
        yield session
        session.destroy()


def test_ranges_count_once():
    ranges = _Ranges()
    assert ranges.add(10, 20) == [(10, 20)]
    assert ranges.add(30, 40) == [(30, 40)]
    assert ranges.add(12, 18) == []
    assert ranges.add(15, 35) == [(20, 30)]
    assert ranges.add(5, 50) == [(5, 10), (40, 50)]
    assert ranges.add(0, 5) == [(0, 5)] and ranges.add(0, 50) == []


def test_objects_are_what_the_interpreter_says(session):
    numbers = [float(n) for n in range(1000)]
    found = weigh({"numbers": numbers, "text": "x" * 5000}, ["numbers", "text"], session)
    gc_head = 16
    expected = sys.getsizeof(numbers) + sum(map(sys.getsizeof, numbers))
    assert found["numbers"].size == pytest.approx(expected, abs=gc_head)
    assert found["text"].size == sys.getsizeof("x" * 5000)
    assert found["numbers"].buffers == found["text"].buffers == 0


def test_what_names_share_counts_with_the_first(session):
    shared = [bytearray(3 * MIB)]
    found = weigh({"a": shared, "b": {"in": shared}, "c": shared}, ["a", "b", "c"], session)
    assert found["a"].buffers == 3 * MIB
    assert found["b"].buffers == found["c"].size == 0
    assert 0 < found["b"].size < 1000


def test_a_buffer_is_resident_where_it_was_touched(session):
    import mmap

    page = mmap.PAGESIZE
    mapped = mmap.mmap(-1, 8 * MIB)
    mapped[: 2 * MIB] = b"1" * (2 * MIB)
    found = weigh({"mapped": mapped}, ["mapped"], session)["mapped"]
    assert found.buffers == 8 * MIB
    if found.resident is None:
        pytest.skip("this system shows no pages")
    assert 2 * MIB <= found.resident <= 2 * MIB + found.objects + page
    assert (found.arena, found.copied) == (0, 0)


def test_arrays_their_views_and_the_arena(session):
    np = pytest.importorskip("numpy")
    _store.enable_numpy_allocator(session)
    try:
        held = np.ones(MIB)
    finally:
        _store.disable_numpy_allocator()
    plain = np.ones(MIB, dtype="u1")
    namespace = {
        "view": held[100:200],
        "held": held,
        "plain": plain,
        "parts": plain.reshape(1024, -1).T,
    }
    found = weigh(namespace, ["held", "view", "plain", "parts"], session)
    assert found["held"].buffers == 8 * MIB and found["held"].objects < 500
    assert found["view"].size < 500 and found["parts"].size < 500
    assert (found["plain"].buffers, found["plain"].arena) == (MIB, 0)
    if found["held"].resident is not None:
        assert found["held"].arena == 8 * MIB and found["held"].copied == 0
        assert found["plain"].resident >= MIB
    # A view first: the memory is the same.
    assert weigh(namespace, ["view", "held"], session)["view"].buffers == 8 * MIB


def test_an_array_of_a_class_of_the_users(session):
    np = pytest.importorskip("numpy")

    class Mine(np.ndarray):
        pass

    mine = np.zeros(MIB, dtype="u1").view(Mine)
    found = weigh({"mine": mine, "base": mine.base}, ["mine", "base"], session)
    assert found["mine"].buffers == MIB and found["base"].size < 500


def test_tables_and_columns(session):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": range(200_000), "y": 1.5})
    found = weigh({"table": table, "x": table["x"]}, ["table", "x"], session)
    assert found["table"].size == pytest.approx(3.2e6, rel=0.02)
    assert found["x"].size < 20_000


def test_columns_of_arrow(session):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"n": pa.array(range(100_000), pa.int64())})
    found = weigh({"table": table}, ["table"], session)["table"]
    assert found.size == pytest.approx(800_000, rel=0.05)


def test_tensors_share_their_storage(session):
    torch = pytest.importorskip("torch")
    whole = torch.ones(MIB, dtype=torch.float32)
    found = weigh({"whole": whole, "part": whole[5:]}, ["whole", "part"], session)
    assert found["whole"].buffers == 4 * MIB and found["part"].size < 500


def test_the_walk_is_bounded_and_says_so(session):
    namespace = {"many": [[n] for n in range(5000)], "other": [1, 2]}
    found = weigh(namespace, ["many", "other"], session, most=1000)
    assert not found["many"].is_whole and found["many"].size > 50_000
    assert found["other"].is_whole, "a name after one that took them all has some"


def test_neither_modules_nor_the_namespace_nor_code_of_the_users(session):
    ran = []

    class Odd:
        def __sizeof__(self):
            ran.append("sizeof")
            return 10**9

        @property
        def __class__(self):
            ran.append("class")
            return int

        def __getattr__(self, name):
            ran.append(name)
            raise AttributeError(name)

    namespace = {"__name__": "x", "odd": Odd(), "large": bytearray(MIB)}
    exec("def function():\n    return large", namespace)
    namespace["module"] = [sys, type(sys)]
    found = weigh(namespace, ["function", "module", "odd"], session)
    assert all(weight.size < 2000 for weight in found.values()) and ran == []
