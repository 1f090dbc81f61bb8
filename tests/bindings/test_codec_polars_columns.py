"""Polars: columns are mapped; what Arrow doesn't carry unchanged goes by Polars's own pickling."""

import pytest
from needed import needed

import holdfast

pl = needed("polars")
pa = needed("pyarrow")

LIBRARIES = ("polars", "pyarrow")  # a fork is faster than a start with them
IMPORTS = ""
START = "import datetime, decimal\nimport polars as pl\nN = 20_000\n"
MAPPED = {
    "numbers": "pl.Series('x', range(N), dtype=pl.Int32)",
    "nulls": "pl.Series('x', [1.5, None] * N)",
    "texts": "pl.Series('x', [str(i) * 9 for i in range(N)])",
    "bytes": "pl.Series('x', [b'x' * 20, None] * N)",
    "booleans": "pl.Series('x', [True, None, False] * N * 10)",
    "dates": "pl.Series('x', [datetime.date(2000, 1, 1)] * N)",
    "datetimes": "pl.Series('x', [datetime.datetime(2000, 1, 1)] * N,"
    " dtype=pl.Datetime('ms', 'Europe/Berlin'))",
    "durations": "pl.Series('x', [datetime.timedelta(1)] * N)",
    "times": "pl.Series('x', [datetime.time(3)] * N)",
    "lists": "pl.Series('x', [[1, 2], [3], None] * N)",
    "arrays": "pl.Series('x', [[1, 2]] * N, dtype=pl.Array(pl.Int64, 2))",
    "structs": "pl.Series('x', [{'a': 1, 'b': 'x'}] * N)",
    "lists of texts": "pl.Series('x', [['a']] * N)",
    "decimals": "pl.Series('x', [decimal.Decimal('1.5')] * N, dtype=pl.Decimal(20, 3))",
    "frame": "pl.DataFrame({'a': range(N), 's': ['x' * 20] * N})",
    "slice": "pl.DataFrame({'a': range(N), 's': ['x' * 20] * N}).slice(5, 9000)",
}
COPIED = {
    "categories": "pl.Series('x', ['a', 'b', None] * N, dtype=pl.Categorical)",
    "enumeration": "pl.Series('x', ['a', 'b'] * N, dtype=pl.Enum(['b', 'a']))",
    "wide numbers": "pl.Series('x', [2**100, None] * 100, dtype=pl.Int128)",
    "lists of categories": "pl.Series('x', [['a', 'b']] * 9, dtype=pl.List(pl.Categorical))",
    "frame of categories": "pl.DataFrame({'a': pl.Series(['u', 'v'], dtype=pl.Categorical)})",
    "nothing": "pl.DataFrame()",
    "schema": "pl.Schema({'a': pl.Int8})",
}
SAME = (
    "same = type(x) is type(expected) and (x.equals(expected, null_equal=True)"
    " if hasattr(x, 'equals') else x == expected)\n"
    "same = same and (x.schema == expected.schema if isinstance(x, pl.DataFrame)"
    " else not isinstance(x, pl.Series) or (x.dtype, x.name) == (expected.dtype, expected.name))\n"
)


@pytest.mark.parametrize("kind", [*MAPPED, *COPIED])
def test_every_kind(library_main, kind):
    main = library_main
    source = (MAPPED | COPIED)[kind]
    main.execute(f"{START}x = {source}")
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        f"report = names.bind(ns)\nx = ns['x']\n{START}expected = {source}\n{SAME}"
        "answer(same=same, payload=len(holdfast._store._encode(x)[2]),"
        " mapped=report['bytes_mapped'], saved=save(ns)['saved'])"
    )
    assert answer["same"] and answer["saved"] == []
    if kind in MAPPED and hasattr(pa, "string_view"):  # else by Polars's own pickling
        assert answer["payload"] < 40_000 and answer["mapped"] > 10_000


def test_chunks_order_and_columns_are_as_they_were(main):
    main.execute(
        f"{START}x = pl.concat([pl.DataFrame({{'a': range(N)}})] * 2, rechunk=False)\n"
        "up = pl.Series('u', range(N)).set_sorted()\ndown = up.sort(descending=True)\n"
        "column = x['a']\nlazy = x.lazy().filter(pl.col('a') > 5)\nplus = pl.col('a') + 1"
    )
    report = main.commit()
    assert report["unserializable"] == {}
    answer = main.other(
        "report = names.bind(ns)\nx, column = ns['x'], ns['column']\n"
        "from holdfast.libraries.polars.columns import _series\n"
        "answer(chunks=x.n_chunks(), up=ns['up'].flags, down=ns['down'].flags,"
        " shares=set(_series.shares(x['a'])) == set(_series.shares(column)) != set(),"
        " lazy=ns['lazy'].select(ns['plus']).collect().height)"
    )
    assert answer["chunks"] == 2 and answer["shares"] and answer["lazy"] == 2 * (20_000 - 6)
    assert answer["up"]["SORTED_ASC"] and answer["down"]["SORTED_DESC"]


def test_changes_in_place_stay_with_their_process_and_are_saved(main):
    main.execute(f"{START}x = pl.Series('x', range(N))\nframe = x.to_frame()")
    main.commit()
    main.other(
        "names.bind(ns)\nns['x'][3] = 42\nns['frame'][0, 'x'] = 7\npublish(save(ns))\nanswer()"
    )
    assert main.ns["x"][3] == 3
    main.names.adopt(main.ns)
    assert main.ns["x"][3] == 42 and main.ns["frame"]["x"].to_list()[:4] == [7, 1, 2, 3]


def test_objects_are_declined_alone(main):
    main.execute(
        START + "good = pl.Series('g', [1])\nbad = pl.Series('o', [object()], dtype=pl.Object)\n"
        "frame = pl.DataFrame([good, bad])"
    )
    report = main.commit()
    assert set(report["unserializable"]) == {"bad", "frame"}
    assert "Object" in report["unserializable"]["bad"]


def test_without_pyarrow_polars_pickles(main, monkeypatch):
    from holdfast.libraries.polars import columns

    monkeypatch.setattr(columns, "_pyarrow", lambda: None)
    main.execute(f"{START}x = pl.DataFrame({{'a': range(N)}})\ny = x['a']")
    assert main.commit()["unserializable"] == {}
    assert main.other("names.bind(ns)\nanswer(last=ns['x']['a'][-1])") == {"last": 19_999}


def test_a_plan_with_a_python_function_is_declined(main):
    main.execute(
        START + "good = pl.LazyFrame({'a': [1]}).select(pl.col('a') + 1)\ncalls = []\n"
        "bad = good.with_columns(pl.col('a').map_batches(lambda s: calls.append(1) or s))"
    )
    report = main.commit()
    assert set(report["unserializable"]) == {"bad"}
    assert "its plan has a Python function" in report["unserializable"]["bad"]
    found = main.other("names.bind(ns)\nanswer(found=ns['good'].collect()['a'].to_list())")
    assert found == {"found": [2]}


def test_attributes_that_were_hung_on_them():
    values = pl.DataFrame({"a": [1]}), pl.DataFrame(), pl.col("a")
    for one in (*values, values[0].lazy()):
        one.note = [one]
        arrived = holdfast.loads(holdfast.dumps(one))
        assert arrived.note[0] is arrived and type(arrived) is type(one)
