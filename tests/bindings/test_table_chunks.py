"""Columns in several chunks: other programs get each in one piece, as pyarrow's `combine_chunks` makes it."""

import os
import random

import pytest

from holdfast import store

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

TEXTS = ["", "a", "é" * 5, "a text that isn't inline", "x" * 40]
KINDS = {
    "bool": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.uint16(),
    "half": pa.float16(),
    "long": pa.int64(),
    "float": pa.float64(),
    "when": pa.timestamp("us"),
    "zone": pa.timestamp("ns", "Europe/Berlin"),
    "lasted": pa.duration("ms"),
    "price": pa.decimal128(12, 2),
    "text": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "bytes": pa.binary(),
    "byte_views": pa.binary_view(),
    "same_size": pa.binary(3),
    "nothing": pa.null(),
    "lists": pa.list_(pa.string()),
    "large_lists": pa.large_list(pa.bool_()),
    "pairs": pa.list_(pa.int16(), 2),
    "both": pa.struct([("flag", pa.bool_()), ("words", pa.list_(pa.string_view()))]),
    "map": pa.map_(pa.string(), pa.int32()),
}


def value_of(kind, chosen):
    """A random value of a type of Arrow."""
    types = pa.types
    if types.is_boolean(kind):
        return chosen.random() < 0.5
    if types.is_null(kind):
        return None
    if types.is_decimal(kind) or types.is_floating(kind):
        return chosen.randrange(100)
    if types.is_integer(kind) or types.is_temporal(kind):
        return chosen.randrange(120)
    if types.is_fixed_size_binary(kind):
        return bytes(chosen.choices(range(256), k=kind.byte_width))
    if kind in (pa.binary(), pa.binary_view()):
        return chosen.choice(TEXTS).encode()
    if types.is_fixed_size_list(kind):
        return [value_or_none(kind.value_type, chosen) for _ in range(kind.list_size)]
    if types.is_map(kind):
        return [(text, chosen.randrange(9)) for text in chosen.sample(TEXTS, chosen.randrange(3))]
    if types.is_list(kind) or types.is_large_list(kind):
        return [value_or_none(kind.value_type, chosen) for _ in range(chosen.randrange(4))]
    if types.is_struct(kind):
        return {field.name: value_or_none(field.type, chosen) for field in kind}
    return chosen.choice(TEXTS)


def value_or_none(kind, chosen):
    return None if chosen.random() < 0.2 else value_of(kind, chosen)


def chunk_of(kind, rows, chosen):
    """So many rows of a longer array: they begin anywhere, and perhaps none is missing."""
    before, after = chosen.randrange(20), chosen.randrange(20)
    make = chosen.choice([value_of, value_or_none])
    values = [make(kind, chosen) for _ in range(before + rows + after)]
    if pa.types.is_float16(kind):
        import numpy as np

        values = [None if one is None else np.float16(one) for one in values]
    return pa.array(values, kind).slice(before, rows)


def in_chunks(kind, rows, chosen):
    """A column of so many rows, in a random number of chunks."""
    places = sorted(chosen.choices(range(rows + 1), k=chosen.randrange(6)))
    ends = zip([0, *places], [*places, rows])
    return pa.chunked_array([chunk_of(kind, end - at, chosen) for at, end in ends], kind)


def check_chunks(mapping, name, wanted):
    got = pa.table(mapping._names.table(name))
    got.validate(full=True)
    assert got.column_names == wanted.column_names
    for column in wanted.column_names:
        assert got[column].num_chunks <= 1
        assert got[column].combine_chunks().equals(wanted[column].combine_chunks()), column
        assert got[column].null_count == wanted[column].null_count, column


@pytest.fixture
def mapping(session):
    with store.Session.open(session.name) as opened:
        yield opened


@pytest.mark.parametrize("rows", [40, 3000])
def test_random_chunks(mapping, rows):
    for seed in range(6 if rows == 40 else 1):
        chosen = random.Random(seed)
        tables = {
            "apart": pa.table({name: in_chunks(kind, rows, chosen) for name, kind in KINDS.items()})
        }
        alike = [
            pa.table({name: chunk_of(kind, rows // 3, chosen) for name, kind in KINDS.items()})
            for _ in range(3)
        ]
        tables["alike"] = pa.concat_tables(alike)
        tables["slice"] = tables["apart"].slice(rows // 4, rows // 2)
        mapping.update(tables)
        mapping.commit()
        for name, table in tables.items():
            check_chunks(mapping, name, table)
    mapping["column"] = tables["apart"]["long"]  # and in a group
    mapping.commit()
    check_chunks(mapping, "apart", tables["apart"])


def test_polars_and_pandas_after_concat(mapping):
    pd = pytest.importorskip("pandas")
    numbers = range(700)
    frame = pl.DataFrame(
        {
            "n": [None if i % 3 == 0 else i for i in numbers],
            "text": [f"some long text with {i}" if i % 2 else None for i in numbers],
            "flag": [[True, None, False][i % 3] for i in numbers],
            "lists": [[i] * (i % 3) for i in numbers],
        }
    )
    frames = {
        "concat": pl.concat([frame, frame.slice(3, 500)], rechunk=False),
        "vstack": frame.slice(1, 9).vstack(frame.slice(13, 40)),
        "uneven": pl.concat([frame, frame], rechunk=False).with_columns(
            pl.Series("more", [1.5] * 1400)
        ),
    }
    assert set(frames["uneven"].n_chunks("all")) == {1, 2}
    words = pd.DataFrame({"word": pd.array(["a", None, "b"] * 50, "string[pyarrow]"), "n": 1})
    mapping.update(frames, words=pd.concat([words, words]))
    mapping.commit()
    for name, one in frames.items():
        check_chunks(mapping, name, one.to_arrow(compat_level=pl.CompatLevel.newest()))
    assert pa.table(mapping._names.table("words"))["word"].to_pylist() == ["a", None, "b"] * 100


def test_dictionaries(mapping):
    grown = [["a", "b", "a"], ["b", None, "c", "a"]]
    first, more = (pa.array(one).dictionary_encode() for one in grown)
    one = pa.DictionaryArray.from_arrays(first.indices, pa.array(["a", "b"]))
    other = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 2, 0], "i4"), pa.array(["a", "b", "c"])
    )
    mapping["grown"] = pa.table({"d": pa.chunked_array([one, other])})
    mapping["different"] = pa.table({"n": range(7), "d": pa.chunked_array([first, more])})
    mapping.commit()
    got = pa.table(mapping._names.table("grown"))["d"]
    assert got.to_pylist() == [*grown[0], *grown[1]]
    assert got.chunk(0).dictionary.to_pylist() == ["a", "b", "c"]
    with pytest.raises(BufferError, match="column d .* different dictionaries: unify them first"):
        mapping._names.table("different")
    mapping["different"] = mapping["different"].unify_dictionaries()
    mapping.commit()
    assert pa.table(mapping._names.table("different"))["d"].to_pylist() == [*grown[0], *grown[1]]


@pytest.mark.skipif(not os.environ.get("HOLDFAST_BUILD"), reason="HOLDFAST_BUILD isn't set")
def test_columns_of_a_program_in_c(mapping, tmp_path):
    from foreign_reader import Reader, build

    chosen = random.Random(7)
    kinds = ("bool", "byte", "short", "long", "when", "lasted", "text")
    rows = 2500
    table = pa.table({name: in_chunks(KINDS[name], rows, chosen) for name in kinds})
    table = table.append_column("crooked", chunk_of(pa.int64(), rows, chosen))
    frame = pl.concat([pl.DataFrame({"n": [1, None, 3]}), pl.DataFrame({"n": [5]})], rechunk=False)
    mapping.update(table=table, frame=frame)
    mapping.commit()
    read = Reader(build(tmp_path))
    assert read("open", mapping.name) == mapping.name
    assert read("table", "table") == (
        "bool b1 2500, byte i1 2500, short u2 2500, long i8 2500, when M8 2500, lasted m8 2500, "
        "text O0 2500, crooked i8 2500"
    )
    for name in ("byte", "long", "when", "crooked"):
        values = [one or 0 for one in table[name].cast("i8").to_pylist()]
        assert read("of", "table", name).endswith(f" (2500) {sum(values)}"), name
    for name in table.column_names[:-2]:
        valid = [one is not None for one in table[name].to_pylist()]
        read("of", "table", name)
        assert read("valid") == "".join(map(str, map(int, valid)))
    read("of", "table", "bool")
    flags = "".join("01"[bool(one)] for one in table["bool"].to_pylist())
    assert read("bools") == flags
    assert read("of", "table", "text") == "HF_DECLINED a column of Arrow's type u can't be mapped"
    assert read("of", "frame", "n") == "<i8[] (4) 9"
    assert read.close() == 0
