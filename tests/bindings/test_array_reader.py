"""Arrays and columns that a program in C reads and writes by holdfast/array.h.

HOLDFAST_BUILD names the meson build directory; ./test sets it.
"""

import os

import numpy as np
import pytest
from foreign_reader import Reader, build
from holdfast import store

if not os.environ.get("HOLDFAST_BUILD"):
    pytest.skip("HOLDFAST_BUILD isn't set", allow_module_level=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("reader"))


@pytest.fixture
def reader(program):
    reader = Reader(program)
    yield reader
    assert reader.close() == 0


@pytest.fixture
def mapping(session, reader):
    with store.Session.open(session.name) as opened:
        assert reader("open", session.name) == session.name
        yield opened


def test_arrays_of_all_types(mapping, reader):
    mapping["floats"] = np.arange(6000.0).reshape(60, 100)
    mapping["small"] = np.arange(6, dtype="<i4").reshape(2, 3)[:, ::-1]
    mapping["turned"] = np.asfortranarray(mapping["floats"])
    mapping["times"] = np.arange(5).view("M8[25us]")
    mapping["long"] = np.arange(5, dtype="q")
    mapping["rows"] = np.zeros(4, dtype=[("a", "<i4"), ("b", "<f8")])
    mapping["noted"] = np.arange(4, dtype=np.dtype("<f8", metadata={"unit": "m"}))
    mapping["texts"] = np.array(["ab", "c"])
    mapping["point"] = np.array(7.0)
    mapping["none"] = np.zeros((0, 3))
    mapping["objects"] = np.array([[], 1], dtype=object)
    mapping["words"] = ["a"]
    mapping.commit()
    total = 6000 * 5999 // 2
    assert reader("of", "floats") == f"<f8[] (60 100) {total}"
    assert reader("of", "turned") == f"<f8[] (60 100) {total}"
    assert reader("of", "small") == "<i4[] (2 3) 15"
    assert reader("of", "times") == "<M8[25us] (5) 10"
    assert reader("of", "long") == "<i8[] (5) 10"
    assert reader("of", "rows") == "|V12[] (4) 0"
    assert reader("of", "noted") == "<f8[] (4) 6"
    assert reader("of", "texts") == "<U8[] (2) 0"
    assert reader("of", "point") == "<f8[] () 7"
    assert reader("of", "none") == "<f8[] (0 3) 0"
    assert reader("of", "missing") == "HF_NOT_FOUND"
    assert reader("of", "words") == "HF_DECLINED it is no array but plain data of codec 17"
    assert reader("of", "objects").startswith("HF_DECLINED it is no array but a numpy.ndarray")


def test_types_of_other_packages(mapping, reader):
    """NumPy's type string of bfloat16 is that of two bytes, and that of a float of one byte is no type."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e5m2", "int4"):
        numbers = np.arange(7).astype(getattr(ml_dtypes, name))
        mapping.update(alone=numbers, listed=[numbers, numbers[2:]], scalar=numbers[3])
        mapping.update(whole=numbers.repeat(5000), none=numbers[:0])
        mapping["part"] = mapping["whole"][5000:]
        generation = mapping.commit()
        said = f"|V{numbers.itemsize}[]"
        assert reader("of", "alone") == f"{said} (7) 0"
        assert reader("of", "whole") == f"{said} (35000) 0"
        assert reader("of", "part") == f"{said} (30000) 0"
        with store.Session.open(mapping.name) as other:
            for key in ("alone", "scalar", "whole", "none", "part"):
                assert other[key].dtype == numbers.dtype and np.all(other[key] == mapping[key])
            assert other["listed"][1].dtype == numbers.dtype
            assert other.commit() == generation


def test_arrays_that_share_memory(mapping, reader):
    mapping["table"] = np.arange(100_000.0)
    mapping["part"] = mapping["table"][10:20]
    mapping["back"] = mapping["table"][::-2]
    mapping["both"] = [mapping["part"]]
    mapping.commit()
    assert reader("of", "table") == f"<f8[] (100000) {100_000 * 99_999 // 2}"
    assert reader("private").split()[1] == "0"
    assert reader("of", "part") == "<f8[] (10) 145"
    assert reader("of", "back") == f"<f8[] (50000) {sum(range(1, 100_000, 2))}"
    assert reader("of", "both").startswith("HF_DECLINED it is no array but a list")


def test_small_arrays_that_share_memory(mapping, reader):
    mapping["few"] = np.arange(100.0)
    mapping["part"] = mapping["few"][50:]
    mapping["bytes"] = np.frombuffer(b"\1\0\2\0" * 10, dtype="<i2")
    mapping["halves"] = mapping["bytes"][::2]
    mapping["list"] = [mapping["few"]]
    mapping.commit()

    def check():
        for name in ("few", "part", "bytes", "halves"):
            value = mapping[name]
            said = f"{value.dtype.str}[] ({value.size}) {int(value.astype(float).sum())}"
            assert reader("of", name) == said

    assert reader("of", "few") == "<f8[] (100) 4950"
    check()
    # Another member grows, and the places in the payload move.
    mapping["list"][0:0] = ["a text before"] * 50
    mapping["few"][60] = 1000.0
    mapping.commit()
    check()
    # An equal value that may be encoded in another way: texts that were one object are two.
    mapping["list"][1] = " before".join(["a text", ""])
    mapping.commit()
    check()
    with store.Session.open(mapping.name) as other:  # whose own encoding may be another one
        other["few"][0] = 1.0
        other.commit()
    assert reader("of", "few") == f"<f8[] (100) {4950 + 940 + 1}"
    assert reader("of", "part") == f"<f8[] (50) {sum(range(50, 100)) + 940}"


def test_memory_that_begins_as_other_bytes_do(mapping, reader):
    """It is searched for by its first bytes, which are found in many places before."""
    few = np.zeros(300)
    few[-1] = 7
    mapping.update(before=[bytes(5000), few], few=few, part=few[200:])
    mapping.commit()
    assert reader("of", "few") == "<f8[] (300) 7"
    assert reader("of", "part") == "<f8[] (100) 7"


def test_a_group_of_another_process_is_unchanged(mapping):
    """What the entries of its members say is no change, although that process encodes anew."""
    mapping["few"] = np.arange(100.0)
    mapping["part"] = mapping["few"][50:]
    generation = mapping.commit()
    with store.Session.open(mapping.name) as other:
        assert other["part"].base is not None
        assert other.commit() == generation


def test_reading_copies_nothing_and_outlives_all(session, program):
    reader = Reader(program)
    with store.Session.create() as mapping:
        mapping["table"] = np.arange(1_000_000.0)
        mapping["part"] = mapping["table"][1:]
        mapping.commit()
        assert reader("open", mapping.name) == mapping.name
        total = f"<f8[] (1000000) {1_000_000 * 999_999 // 2}"
        assert reader("of", "table") == total
        resident, copied = map(int, reader("private").split())
        assert resident >= 7800 and copied == 0
        mapping["table"][:] = 1.0
        mapping.commit()
        assert reader("again") == total
        mapping.destroy()
    assert reader("again") == total
    assert reader("private").split()[1] == "0"
    assert reader.close() == 0


def test_an_array_of_a_program_in_c_is_mapped_in_python(program):
    reader = Reader(program)
    name = reader("open")
    assert reader("put", "x") == "put"
    with store.Session.open(name) as mapping:
        value = mapping["x"]
        assert value.shape == (1000, 100) and value.dtype == "<f8"
        assert value.sum() == 99_999 * 100_000 // 2
        assert value.flags.writeable
        with open("/proc/self/smaps") as file:
            kept, inside = 0, False
            address = value.__array_interface__["data"][0]
            for line in file:
                words = line.split()
                if "-" in words[0]:
                    first, end = (int(part, 16) for part in words[0].split("-"))
                    inside = first <= address < end
                elif inside and words[0] == "Anonymous:":
                    kept = int(words[1])
                    break
        assert kept == 0
        mapping.destroy()
    assert reader.close() == 0


def test_columns_of_pandas(mapping, reader):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.arange(30_000.0).reshape(10_000, 3), columns=["a", "b", "c"])
    frame["n"] = np.arange(10_000)
    frame["when"] = pandas.to_datetime(np.arange(10_000), unit="s")
    frame["text"] = ["x"] * 10_000
    frame["kind"] = pandas.Categorical(frame["text"])
    frame["zone"] = frame["when"].dt.tz_localize("UTC")
    frame["some"] = pandas.array([1, None] * 5000, dtype="Int64")
    mapping["frame"] = frame
    mapping.commit()
    unit = np.datetime_data(frame["when"].dtype)[0]
    assert reader("table", "frame") == (
        "a f8 10000, b f8 10000, c f8 10000, n i8 10000, when M8 10000, text O0 10000, "
        "kind O0 10000, zone O0 10000, some i8 10000"
    )
    for name in "abc":
        assert reader("of", "frame", name) == f"<f8[] (10000) {int(frame[name].sum())}"
        assert reader("private").split()[1] == "0"
    assert reader("of", "frame", "n") == f"<i8[] (10000) {9999 * 5000}"
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert reader("of", "frame", "when") == f"<M8[{unit}] (10000) {9999 * 5000 * scale:.17g}"
    assert reader("of", "frame", "some") == "<i8[] (10000) 5000"
    assert reader("of", "frame", "zone").startswith("HF_DECLINED a column of datetime64[")
    assert reader("of", "frame", "other") == "HF_NOT_FOUND the table has no such column"
    assert reader("of", "frame") == "HF_DECLINED it is a table: read its columns"
    assert reader("table", "missing") == "HF_NOT_FOUND"
    # The frame shares memory with one of its columns.
    mapping["column"] = frame["b"].to_numpy()
    mapping.commit()
    assert reader("of", "frame", "b") == f"<f8[] (10000) {int(frame['b'].sum())}"
    assert reader("of", "column") == f"<f8[] (10000) {int(frame['b'].sum())}"


def test_small_tables_and_labels(mapping, reader):
    pandas = pytest.importorskip("pandas")
    mapping["small"] = pandas.DataFrame({"x": [1.0, 2.0], "y": [3, 4]})
    mapping["numbers"] = pandas.DataFrame(np.ones((3, 2)))
    mapping["none"] = pandas.DataFrame()
    mapping["twice"] = pandas.DataFrame(np.ones((3, 2)), columns=["a", "a"])
    mapping["alike"] = pandas.DataFrame(np.ones((3, 2)), columns=[1, "1"])
    mapping["pairs"] = pandas.DataFrame(
        np.ones((3, 2)), columns=pandas.MultiIndex.from_tuples([(1, 2), (1, 3)])
    )
    mapping["half"] = pandas.DataFrame([[1.0]], columns=pandas.Index(["\ud800"], dtype=object))
    mapping["wide"] = pandas.DataFrame(np.ones((2, 1000))).add_prefix("column_")
    mapping["wider"] = pandas.DataFrame(np.ones((2, 20_000))).add_prefix("column_")
    mapping.commit()
    assert reader("of", "small", "x") == "<f8[] (2) 3"
    assert reader("of", "small", "y") == "<i8[] (2) 7"
    assert reader("of", "numbers", "1") == "<f8[] (3) 3"
    assert reader("table", "none") == ""
    assert reader("of", "wide", "column_999") == "<f8[] (2) 2"
    assert reader("of", "wider", "column_19999") == "<f8[] (2) 2"
    for name in ("twice", "alike", "pairs", "half"):
        said = "HF_DECLINED it is no table that is described, but a DataFrame"
        assert reader("table", name) == said
    # An unchanged table is none of the changes, although another process encodes it anew.
    with store.Session.open(mapping.name) as other:
        assert other["small"]["x"].sum() == 3
        assert other.commit() == mapping.commit()


def test_columns_of_arrow_and_polars(mapping, reader):
    pa = pytest.importorskip("pyarrow")
    some = [None if i % 3 == 0 else i for i in range(9000)]
    total = sum(one or 0 for one in some)
    table = pa.table({"some": pa.array(some), "text": ["a"] * 9000})
    mapping["table"] = table.append_column("all", pa.array(range(9000)))
    mapping["slice"] = mapping["table"].slice(8, 80)
    mapping["crooked"] = pa.table({"some": pa.array(some)}).slice(3, 80)
    mapping["chunks"] = pa.concat_tables([table, table])
    mapping["small"] = pa.table({"x": pa.array([1, None, 3], "i2"), "bits": [True, None, False]})
    mapping.commit()
    assert reader("table", "table") == "some i8 9000, text O0 9000, all i8 9000"
    assert reader("of", "table", "some") == f"<i8[] (9000) {total}"
    assert reader("of", "table", "all") == f"<i8[] (9000) {8999 * 4500}"
    assert reader("of", "slice", "some") == f"<i8[] (80) {sum(one or 0 for one in some[8:88])}"
    assert reader("of", "crooked", "some") == f"<i8[] (80) {sum(one or 0 for one in some[3:83])}"
    assert reader("of", "chunks", "some") == f"<i8[] (18000) {2 * total}"
    said = "HF_DECLINED a column of Arrow's type u can't be mapped"
    assert reader("of", "table", "text") == said
    assert reader("of", "small", "x") == "<i2[] (3) 4"
    assert reader("table", "small") == "x i2 3, bits b1 3"
    pl = pytest.importorskip("polars")
    mapping["frame"] = pl.DataFrame({"some": some, "words": ["a"] * 9000})
    mapping.commit()
    assert reader("table", "frame") == "some i8 9000, words O0 9000"
    assert reader("of", "frame", "some") == f"<i8[] (9000) {total}"
    assert reader("private").split()[1] == "0"


@pytest.mark.parametrize("rows", [40, 4000])
def test_a_snapshot_is_of_one_generation(mapping, reader, rows):
    """An array, a view of it and columns are read while their numbers change: in each snapshot they agree."""
    pandas = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    numbers = np.arange(rows, dtype=float)
    mapping.update(x=numbers, view=numbers[10:])

    def commit():
        parts = pa.array(numbers[: rows // 3]), pa.array(numbers[rows // 3 :])
        mapping["frame"] = pandas.DataFrame({"n": numbers.copy(), "text": ["a"] * rows})
        mapping["chunks"] = pa.table({"n": pa.chunked_array(parts)})
        mapping.commit()

    commit()
    for table in ("frame", "chunks"):
        reader.send("compare", "x", "view", table, "n", "1000")
        while not reader.has_answered():
            numbers += 1
            commit()
        assert int(reader.answer()) >= 20
