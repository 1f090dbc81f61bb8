"""Tables by Arrow's interfaces: hf_table_export, and Session in a program without the table's library."""

import datetime
import gc
import subprocess
import sys

import numpy as np
import pytest

from holdfast import codecs, store

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

LARGE, SMALL = (2500, 7)  # rows: most columns have a buffer each, or all are in the payload


def of_pandas(rows):
    numbers = np.arange(rows)
    frame = pd.DataFrame({"f": numbers * 1.0, "n": numbers, "short": numbers.astype("f4")})
    frame["when"] = pd.to_datetime(numbers, unit="s")
    frame.loc[1, "when"] = pd.NaT
    frame["long"] = pd.to_timedelta(numbers, unit="s")
    frame["zone"] = frame["when"].dt.tz_localize("Europe/Berlin")
    frame["flag"] = numbers % 2 == 0
    frame["text"] = [f"a text {i}" if i % 3 else None for i in range(rows)]
    frame["kind"] = pd.Categorical([["x", "y", None][i % 3] for i in range(rows)])
    frame["digit"] = pd.Categorical(numbers % 4, ordered=True)
    frame["some"] = pd.array([None if i % 2 else i for i in range(rows)], dtype="Int32")
    frame["maybe"] = pd.array(
        [None if i % 5 == 0 else i % 2 == 0 for i in range(rows)], dtype="boolean"
    )
    lists = pd.ArrowDtype(pa.list_(pa.int64()))
    frame["lists"] = pd.Series([[i, i + 1] for i in range(rows)], dtype=lists)
    return frame


def of_arrow(rows):
    numbers = range(rows)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "n": pa.array([None if i % 3 == 0 else i for i in numbers]),
            "text": ["é" * (i % 5) for i in numbers],
            "views": pa.array([f"a text that isn't inline {i}" for i in numbers], pa.string_view()),
            "both": [{"x": i, "y": str(i)} for i in numbers],
            "lists": [[str(i)] * (i % 3) for i in numbers],
            "pairs": pa.array([[1, 2]] * rows, pa.list_(pa.int8(), 2)),
            "map": pa.array([[("k", i)] for i in numbers], pa.map_(pa.string(), pa.int64())),
            "code": pa.array([None, *(str(i % 3) for i in range(1, rows))]).dictionary_encode(),
            "when": pa.array([datetime.datetime(2020, 1, 1)] * rows, pa.timestamp("us", "UTC")),
            "lowest": pa.array([-(2**63)] * rows).cast(pa.timestamp("ns")),
            "day": pa.array([day] * rows),
            "price": pa.array([None] * rows, pa.decimal128(10, 2)),
            "flag": [None if i % 4 == 0 else i % 2 == 0 for i in numbers],
            "nothing": pa.nulls(rows),
        }
    )


def of_polars(rows):
    numbers = range(rows)
    return pl.DataFrame(
        {
            "n": [None if i % 3 == 0 else i for i in numbers],
            "text": [f"a{i}" if i % 2 else None for i in numbers],
            "long": [f"some long text with {i}" for i in numbers],
            "lists": [[i] * (i % 3) for i in numbers],
            "both": [{"a": i, "b": "x"} for i in numbers],
            "when": [datetime.datetime(2020, 1, 1)] * rows,
            "flag": [[True, None, False][i % 3] for i in numbers],
            "bytes": [b"x"] * rows,
        }
    )


@pytest.fixture
def mapping(session):
    with store.Session.open(session.name) as opened:
        yield opened


def exported(mapping, name):
    table = pa.table(mapping._names.table(name))
    table.validate(full=True)
    return table


def check(mapping, name, expected):
    got = exported(mapping, name)
    assert got.column_names == expected.column_names
    for column in got.column_names:
        if column != "lowest":  # Python has no such time
            assert got[column].to_pylist() == expected[column].to_pylist(), (name, column)
        assert got[column].null_count == expected[column].null_count


def test_columns_of_all_kinds(mapping):
    large = of_pandas(LARGE)
    frames = {
        "large": large,
        "small": of_pandas(SMALL),
        "every_other": large[["f", "n"]][::2],
        "part": large[100:200],
        "empty": large.iloc[:0],
        "text_index": of_pandas(SMALL).set_index("text"),
        "times": pd.DataFrame({"v": [1.0, 2.0]}, index=pd.to_datetime([1, 2], unit="s")),
        "kinds": pd.DataFrame({"v": [1.0, 2.0]}, index=pd.CategoricalIndex(["a", "b"], name="k")),
    }
    others = {
        "arrow": of_arrow(LARGE),
        "arrow_small": of_arrow(SMALL),
        "slice": of_arrow(LARGE).slice(11, 100),
    }
    others |= {
        "no_rows": of_arrow(SMALL).slice(0, 0),
        "frame": of_polars(LARGE),
        "frame_small": of_polars(8),
    }
    mapping.update(frames | others)
    mapping["batch"] = others["arrow_small"].to_batches()[0]
    mapping.commit()

    def check_all():
        for name, frame in frames.items():
            check(mapping, name, pa.Table.from_pandas(frame))
        for name, table in others.items():
            check(mapping, name, table if isinstance(table, pa.Table) else table.to_arrow())
        check(mapping, "batch", others["arrow_small"])

    check_all()
    # In groups: columns that share memory with other variables.
    mapping["column"] = large["f"].to_numpy()
    mapping["texts"] = others["arrow"]["text"]
    mapping["series"] = others["frame"]["n"]
    mapping.commit()
    check_all()


def test_the_index_is_named_as_pyarrow_names_it(mapping):
    frame = pd.DataFrame({"v": [1.0, 2.0]}, index=[5, 7])
    mapping["plain"] = frame
    mapping["named"] = frame.rename_axis("row")
    mapping["taken"] = frame.rename_axis("v")
    mapping["counted"] = frame.reset_index(drop=True)
    mapping.commit()
    assert exported(mapping, "plain").column_names == ["v", "__index_level_0__"]
    assert exported(mapping, "named")["row"].to_pylist() == [5, 7]
    assert exported(mapping, "taken").column_names == ["v", "__index_level_0__"]
    assert exported(mapping, "counted").column_names == ["v"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: pd.DataFrame({"v": [1], "o": pd.Series([{}], dtype=object)}),
            "column o .* of object",
        ),
        (lambda: pd.DataFrame({"s": pd.arrays.SparseArray([0, 0, 1])}), "column s .* of Sparse"),
        (lambda: pd.DataFrame({"p": pd.period_range("2020", periods=2)}), "column p .* of period"),
        (lambda: pd.DataFrame({"i": pd.interval_range(0, 2)}), "column i .* of interval"),
        (lambda: pd.DataFrame({"c": [1j]}), "column c .* of complex128"),
        (
            lambda: pd.DataFrame({"v": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 4)])),
            "MultiIndex",
        ),
        (
            lambda: pa.table({"x": pa.array([b"0" * 16]).cast(pa.binary(16)).cast(pa.uuid())}),
            "extension type",
        ),
        (
            lambda: pl.DataFrame({"c": pl.Series(["a"], dtype=pl.Categorical)}),
            "column c .* Categorical",
        ),
    ],
)
def test_what_has_no_form_is_named(mapping, make, said):
    mapping["table"] = make()
    mapping.commit()
    with pytest.raises(BufferError, match=said):
        mapping._names.table("table")


def test_a_table_of_20_000_columns(mapping):
    columns = [pa.array([1, 2]), pa.array(["a text", None])] * 10_000
    table = pa.table(columns, names=[f"column_{i}" for i in range(20_000)])
    mapping["arrow"] = table
    mapping["frame"] = pd.DataFrame(np.arange(40_000).reshape(2, 20_000)).add_prefix("column_")
    mapping.commit()
    assert exported(mapping, "arrow").equals(table)
    assert exported(mapping, "frame")["column_19999"].to_pylist() == [19_999, 39_999]


def of_slices(whole):
    places = [(0, 30_000), (0, 5_000), (2_500, 5_000), (0, 5_000), (20_000, 10_000), (0, 30_000)]
    columns = []
    for start, count in places:
        part = whole.slice(8 * start, 8 * count)
        columns.append(pa.Array.from_buffers(pa.int64(), 5_000, [None, part], -1, count - 5_000))
    return pa.table(columns, names=list("abcdef"))


def test_columns_whose_buffers_overlap(mapping):
    mapping["table"] = table = of_slices(pa.py_buffer(np.arange(30_000).tobytes()))
    mapping.commit()
    assert exported(mapping, "table").equals(table)
    with store.Session.open(mapping.name) as other:
        first = other["table"]
        assert first.equals(table)
        other["again"] = of_slices(first["a"].chunk(0).buffers()[1])  # all in one mapping
        other.commit()
    mapping.refresh()
    assert exported(mapping, "again").equals(table)
    for name, is_whole in ("table", False), ("again", True):
        with store.Session.open(mapping.name) as other:
            at = [one.chunk(0).buffers()[1].address for one in other[name].columns]
        assert at[0] == at[5] and at[1] == at[3]  # what was one piece of memory is one
        assert not is_whole or (at[1] == at[0] and at[2] == at[0] + 20_000)


def test_descriptions_that_are_too_large(mapping):
    long = "x" * (9 << 20)
    both = pa.array([{long: 1}])
    mapping["fields"] = pa.table({"n": [1], "one": both, "other": both})
    mapping["names"] = pa.table({f"{i}{long}": [i] for i in range(2)})
    mapping.commit()
    with pytest.raises(BufferError, match="the table's description would be too large"):
        mapping._names.table("fields")
    assert mapping._names.table("names") is None
    with store.Session.open(mapping.name) as other:
        assert other["names"].num_columns == 2 and other["fields"]["n"].to_pylist() == [1]


def test_a_table_outlives_its_session(session):
    with store.Session.open(session.name) as opened:
        opened["frame"] = of_pandas(LARGE)
        opened["words"] = ["none"]
        opened.commit()
        names = store.Names(opened)
        names.bind({}, names=(), budget=-1)
        assert names.table("words") is None and names.table("other") is None
        table = names.table("frame")
        schema, array = table.__arrow_c_array__()
        stream = table.__arrow_c_stream__(requested_schema=None)
        column = table.column("f")
        taken = pa.table(table)["text"]  # a child that is moved out
        opened["frame"] = 1
        opened.commit()
    del names, opened
    gc.collect()
    assert table.num_rows == LARGE and table.column_names[:2] == ["f", "n"]
    assert column.format == "d" and column.readonly and column[LARGE - 1] == LARGE - 1
    del table, schema, array, stream, column
    gc.collect()
    assert taken[LARGE - 2].as_py() == "a text 2498"


def test_columns_as_memoryviews(mapping):
    mapping["frame"] = of_pandas(LARGE)
    mapping["table"] = of_arrow(LARGE)
    mapping.commit()
    table = mapping._names.table("frame")
    assert table.column("n").tolist() == list(range(LARGE))
    for name in ("when", "flag", "text", "kind", "some"):
        with pytest.raises(BufferError, match=f"column {name} is no memoryview"):
            table.column(name)
    with pytest.raises(BufferError, match="missing values"):
        mapping._names.table("table").column("n")
    with pytest.raises(KeyError):
        table.column("other")


PROGRAM = """
import sys
for name in sys.argv[3:]:
    sys.modules[name] = None
from holdfast import store
with store.Session.open(sys.argv[1], readonly=True) as session:
    table = session["frame"]
    assert isinstance(table, store.Table), table
    assert table.num_rows == 2500 and sum(table.column("n")) == 2499 * 1250
    try:
        session["objects"]
    except store.Error as error:
        assert "column o can't be exported: of object" in str(error), error
    else:
        raise AssertionError
{}
    print("read")
"""
READERS = {
    "duckdb": """
    import duckdb
    said = duckdb.sql("select sum(n), count(\\"when\\"), count(text), max(kind) from table").fetchall()
    assert said == [(2499 * 1250, 2499, 1666, "y")], said
""".replace("from table", "from rows").replace("import duckdb", "import duckdb; rows = table"),
    "polars": """
    import polars
    frame = polars.DataFrame(table)
    assert frame["n"].sum() == 2499 * 1250 and frame["text"].null_count() == 834
""",
    "pyarrow": """
    import pyarrow
    read = pyarrow.RecordBatchReader.from_stream(table).read_all()
    assert read["lists"][10].as_py() == [10, 11]
    # All pages of a mapped column are the store's.
    for name in ("f", "n", "text", "lists"):
        column = read[name].chunk(0)
        buffer = column.values.buffers()[-1] if name == "lists" else column.buffers()[-1]
        assert sum(memoryview(buffer).cast("B")) > 0
        inside = False
        for line in open("/proc/self/smaps"):
            words = line.split()
            if "-" in words[0]:
                first, end = (int(one, 16) for one in words[0].split("-"))
                inside = first <= buffer.address < end
            elif inside and words[0] in ("Rss:", "Anonymous:"):
                assert (words[1] == "0") == (words[0] == "Anonymous:"), (name, line)
                break
        else:
            pass
""",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_program_without_the_library(mapping, reader):
    if reader == "duckdb":
        pytest.importorskip("duckdb")
    mapping["frame"] = of_pandas(LARGE)
    mapping["objects"] = pd.DataFrame({"o": pd.Series([{}], dtype=object)})
    mapping.commit()
    blocked = {"pandas", "polars", "pyarrow"} - {reader}
    argv = [sys.executable, "-c", PROGRAM.format(READERS[reader]), mapping.name, reader, *blocked]
    ran = subprocess.run(argv, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout == "read\n", ran.stderr


def test_a_description_is_no_change(mapping):
    """An unchanged table isn't encoded, nor is an equal one of another process a change."""
    mapping.update(frame=of_pandas(LARGE), table=of_arrow(SMALL))
    generation = mapping.commit()
    assert mapping.commit() == generation
    with store.Session.open(mapping.name) as other:
        assert other["frame"]["n"].sum() and other["table"].num_rows == SMALL
        assert other.commit() == generation


def test_a_table_that_memory_is_too_short_to_describe(mapping, monkeypatch):
    """Alone or in a group: it is carried all the same, and so is the rest."""
    exports = []

    class Column:
        def __arrow_c_stream__(self, requested_schema=None):
            exports.append(self)
            raise MemoryError

    table = (1, ["text"], [], [(0, Column(), None)])
    monkeypatch.setattr(codecs, "table_of", lambda value: table)
    mapping.update(alone=pd.DataFrame({"text": ["a"]}), frame=pd.DataFrame({"text": ["b"]}), n=7)
    mapping["same"] = mapping["frame"]
    mapping.commit()
    assert len(exports) == 3
    with store.Session.open(mapping.name) as other:
        assert (other["alone"].text[0], other["frame"].text[0], other["n"]) == ("a", "b", 7)
        assert other["same"] is other["frame"]
        assert other._names.table("alone") is None and other._names.table("same") is None


def test_an_unchanged_table_isnt_described_again(mapping, monkeypatch):
    """Alone or in a group: a commit that finds it unchanged looks at no column."""
    described = []
    table_of = codecs.table_of
    monkeypatch.setattr(
        codecs, "table_of", lambda value: described.append(type(value)) or table_of(value)
    )
    mapping.update(alone=pd.DataFrame({"text": ["a", "b"]}), frame=of_pandas(SMALL))
    mapping["same"] = mapping["frame"]
    generation = mapping.commit()
    assert described == 3 * [pd.DataFrame]
    assert mapping.commit() == generation
    with store.Session.open(mapping.name) as other:  # whose encodings have other bytes
        other["alone"]
        other["same"]
        assert other.commit() == generation
    assert described == 3 * [pd.DataFrame]
    mapping["alone"].loc[0, "text"] = "c"
    mapping.commit()
    assert described == 4 * [pd.DataFrame]
