"""pandas: every type of column is mapped, and copy-on-write knows what looks on after a hand-over."""

import effort
import numpy as np
import pytest
from needed import needed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import store

pd = needed("pandas")

# A fork is faster than a start with them; the test that asks `main.fresh` starts one.
LIBRARIES = ("pandas",)
START = "import numpy as np\nimport pandas as pd\nN = 20_000\n"
MAPPED = {
    "floats": "pd.DataFrame({'a': np.arange(N) / 3, 'b': np.arange(N)})",
    "one block": "pd.DataFrame(np.arange(3 * N).reshape(N, 3), columns=list('xyz'))",
    "series": "pd.Series(np.arange(N), name='s', index=np.arange(N) * 2.5)",
    "categories": "pd.Series(['a', 'b', None] * N, dtype='category')",
    "Int64": "pd.Series([1, None] * N, dtype='Int64')",
    "boolean": "pd.Series([True, None] * N, dtype='boolean')",
    "Float64": "pd.Series([1.5, None] * N, dtype='Float64')",
    "periods": "pd.Series(pd.period_range('2000', periods=N, freq='D'))",
    "intervals": "pd.Series(pd.interval_range(0, N))",
    "sparse": "pd.Series(pd.arrays.SparseArray([0, 0, 1.5] * N))",
    "zones": "pd.Series(pd.date_range('2000', periods=N, freq='h', tz='Europe/Berlin'))",
    "timedeltas": "pd.Series(pd.timedelta_range(0, periods=N, freq='s'))",
    "levels": "pd.Series(range(N), index=pd.MultiIndex.from_arrays([range(N), [1.5] * N]))",
    "dates": "pd.date_range('2000', periods=N, freq='h')",
}
ARROW = {
    "texts of Arrow": "pd.Series(['some text', None] * N, dtype='string[pyarrow]')",
    "numbers of Arrow": "pd.Series([1.5, None] * N, dtype='double[pyarrow]')",
    "lists of Arrow": "pd.Series([[1, 2]] * N, dtype=pd.ArrowDtype(__import__('pyarrow').list_("
    "__import__('pyarrow').int64())))",
}
OTHERS = {
    "texts of Python": "pd.Series(['a', None] * 50, dtype='string[python]')",
    "objects": "pd.DataFrame({'a': [1, 'x', None, [2]]})",
    "range": "pd.RangeIndex(5, name='r')",
    "empty": "pd.DataFrame()",
    "grouped": "pd.DataFrame({'a': [1, 2, 1], 'b': [1, 2, 3]}).groupby('a').sum()",
}


def check_kind(main, source, mapped):
    main.execute(f"{START}x = {source}")
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        f"report = names.bind(ns)\nx = ns['x']\n{START}expected = {source}\n"
        "answer(equal=x.equals(expected), type=type(x) is type(expected),"
        " name=getattr(x, 'name', None) == getattr(expected, 'name', None),"
        " dtype=str(getattr(x, 'dtypes', '')) == str(getattr(expected, 'dtypes', '')),"
        " payload=len(holdfast._store._encode(x)[2]), mapped=report['bytes_mapped'],"
        " saved=save(ns)['saved'])"
    )
    assert answer["equal"] and answer["type"] and answer["name"] and answer["dtype"]
    assert answer["saved"] == []
    if mapped:
        assert answer["mapped"] > 20_000 and answer["payload"] < 16384


@pytest.mark.parametrize("kind", [*MAPPED, *OTHERS])
def test_every_kind(main, kind):
    check_kind(main, (MAPPED | OTHERS)[kind], kind in MAPPED)


@pytest.mark.parametrize("kind", ARROW)
def test_every_kind_of_arrow(main, kind):
    pytest.importorskip("pyarrow")
    check_kind(main, ARROW[kind], True)


def test_looking_at_columns_changes_nothing(main):
    pytest.importorskip("pyarrow")
    main.execute(
        START + "p = pd.date_range('2000', periods=9)\nx = pd.DataFrame({'a': pd.array(range(9)),"
        " 'b': pd.Series(range(9), dtype='int64[pyarrow]'), 'c': p.to_period(), 'd': p}, index=p)"
    )
    main.commit()
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\n"
        "answer(kinds=[x[n].dtype.kind for n in x], shown=repr(x)[:1], unit=x.index.unit,"
        " known=['_cache' in vars(x[n].dtype) for n in 'ab'], saved=save(ns)['saved'])"
    )
    assert answer["kinds"] == ["i", "i", "O", "M"] and answer["known"] == [True, True]
    assert answer["saved"] == []


def test_chunks_of_arrow_stay_where_they_are(main):
    pytest.importorskip("pyarrow")
    main.execute(
        f"{START}x = pd.DataFrame({{'a': range(N)}}, dtype='int64[pyarrow]')\n"
        "x = pd.concat([x, x])\nwhole = pd.Series([None] * N, dtype='str')"
    )
    main.commit()
    assert main.commit()["prepared"] is None
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\nchunks = x['a'].array._pa_array.num_chunks\n"
        "x.iloc[3, 0] = -1\nanswer(chunks=chunks, saved=save(ns)['saved'], value=int(x.iloc[3, 0]))"
    )
    assert answer == {"chunks": 2, "saved": ["x"], "value": -1}


def test_attributes_flags_and_indexes_are_kept(main):
    main.execute(
        f"{START}x = pd.DataFrame({{'a': range(9)}})\nx.attrs['unit'] = ['m']\n"
        "x.flags.allows_duplicate_labels = False\nindex = x.index\nunit = x.attrs['unit']\n"
        "c = pd.Series(list('abc') * 9, dtype='category')\ncategories = c.cat.categories\n"
        "groups = x.groupby('a')"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.fresh(
        "names.bind(ns)\nx = ns['x']\n"
        "answer(attrs=x.attrs['unit'] is ns['unit'], flag=x.flags.allows_duplicate_labels,"
        " index=x.index is ns['index'], categories=ns['c'].cat.categories is ns['categories'],"
        " groups=ns['groups'].obj is x)"
    )
    assert answer == {
        "attrs": True,
        "flag": False,
        "index": True,
        "categories": True,
        "groups": True,
    }


def test_who_looks_on_is_not_changed(main):
    """Under copy-on-write a change is seen through nothing else, though the memory is shared."""
    main.execute(
        f"{START}x = pd.DataFrame({{'a': np.arange(N), 'b': np.arange(N)}})\ncolumn = x['a']\n"
        "rows = x.iloc[10:20]\nalone = pd.DataFrame({'a': np.arange(N)})\n"
        "index = pd.Index(column)\n"
    )
    main.commit()
    change = (
        "x.iloc[12, 0] = -1\ncolumn.iloc[13] = -2\nrows.iloc[4, 0] = -3\nalone.iloc[3, 0] = -4\n"
    )
    look = (
        "seen = [int(v) for v in (*x['a'][12:15], *column[12:15], *rows['a'][2:5], *index[12:15])]"
    )
    answer = main.other(
        "names.bind(ns)\nimport numpy as np\n"
        "before = np.shares_memory(ns['x']['a'].to_numpy(), ns['column'].to_numpy())\n"
        f"exec({change + look!r}, ns)\nalone = save({{'alone': ns['alone']}})\n"
        "answer(seen=ns['seen'], before=before, copied=alone['bytes_copied'])"
    )
    main.execute(change + look)
    assert answer["before"] and answer["seen"] == main.ns["seen"]
    assert answer["copied"] < 4 * 4096


def test_writing_a_column_writes_its_pages(main):
    main.execute(f"{START}x = pd.DataFrame(np.zeros((8, 64 * N)).T)")
    main.commit()
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\nx.iloc[:1000, 3] = 1.0\nsaved = save(ns)\n"
        "answer(copied=saved['bytes_copied'], columns=x.shape[1])"
    )
    assert answer["copied"] < 1000 * 8 + 4 * 4096


# ---- random edits, through several hand-overs --------------------------------------------

MAKE = [
    "{0} = pd.DataFrame({{'a': np.arange(3000.), 'b': np.arange(3000.)[::-1]}})",
    "{0} = pd.DataFrame(np.arange(9000).reshape(3000, 3), columns=list('abc'))",
    "{0} = pd.Series(range(3000), dtype='Int64')",
    "{0} = np.arange(6000.).reshape(3000, 2)",
    "{0} = np.ma.masked_less(np.arange(3000), 7)",
    "{0} = np.array([None, 'x', 2.5] * 9, dtype=object)",
    "{0} = np.array([None, [1], {{2}}] * 9, dtype=object)",
]
EDIT = [
    "{0} = {1}",
    "{0} = {1}[::2]",
    "{0} = {1}[5:]",
    "{0} = {1}['a']",
    "{0} = {1}.iloc[2:9]",
    "{0} = {1}.T",
    "{0} = {1}.to_numpy()",
    "{0} = {1}.reset_index(drop=True)",
    "{0} = {1}.set_index('a')",
    "{0} = pd.Index({1})",
    "{0} = pd.DataFrame({1})",
    "{0} = np.ma.getdata({1})",
    "{0} = {1}.mask",
    "{0}[3] = {2}",
    "{0}[2:5] += {2}",
    "{0}.iloc[3] = {2}",
    "{0}.iloc[4, 0] = {2}",
    "{0}['a'] = {2}",
    "{0}.flags.writeable = False",
    "{0} = {{'deep': [{1}]}}",
    "{0} = {1}['deep'][0]",
]


def attempt(namespace, source):
    """Run one edit; what raises (there is no such attribute) raises everywhere."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(source, {"np": np, "pd": pd}, namespace)
        except Exception as error:
            return type(error).__name__
    return None


def memories(value):
    """The arrays that hold a value's data, views as they are."""
    if isinstance(value, np.ma.MaskedArray):
        return [np.ndarray.view(value, np.ndarray), *memories(value._mask)]
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return memories(value["deep"][0])
    blocks = [block.values for block in value._mgr.blocks] if hasattr(value, "_mgr") else []
    if isinstance(value, pd.Index):
        blocks = [] if isinstance(value, pd.RangeIndex) else [value._values]
    return [
        part
        for block in blocks
        for part in ([block._data, block._mask] if hasattr(block, "_mask") else [block])
        if isinstance(part, np.ndarray)
    ]


def picture(namespace):
    """Types, contents, flags, identity, and which pairs of memories overlap."""
    parts = {name: memories(value) for name, value in sorted(namespace.items())}
    flat = [part for arrays in parts.values() for part in arrays]
    return {
        "text": {name: (type(value).__name__, repr(value)) for name, value in namespace.items()},
        "arrays": [
            (part.dtype, part.shape, part.flags.writeable, repr(part.tolist())) for part in flat
        ],
        "shares": [np.shares_memory(one, other) for one in flat for other in flat if one.size],
        "same": [one is other for one in namespace.values() for other in namespace.values()],
    }


edits = st.tuples(
    st.sampled_from(MAKE + EDIT * 2),
    st.sampled_from("uvwxyz"),
    st.sampled_from("uvwxyz"),
    st.integers(-9, 9),
)


@given(st.lists(st.lists(edits, min_size=1, max_size=8), min_size=2, max_size=5))
@settings(
    max_examples=effort.examples(20, 120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_edits_in_turn(cells):
    """Cells by turns in a main worker and in cell workers, against one namespace that stays."""
    lived = {}
    with store.Session.create() as session:
        main, live = store.Names(session), {}
        for number, cell in enumerate(cells):
            sources = [edit.format(*names) for edit, *names in cell]
            expected = [attempt(lived, source) for source in sources]
            here, names = live, main
            if number % 2:
                report = main.save(live)
                assert report["unserializable"] == {}
                if report["prepared"] is not None:
                    main.published(session.publish(report["prepared"]))
                    session.privatize(threads_stopped=True)
                here, names = {}, store.Names(session)
                assert names.bind(here)["absent"] == {}
            assert [attempt(here, source) for source in sources] == expected
            if number % 2:
                report = names.save(here)
                if report["prepared"] is not None:
                    session.publish(report["prepared"])
                    main.adopt(live)
                del here, names
            assert picture(dict(sorted(live.items()))) == picture(dict(sorted(lived.items())))
        live.clear()
        del main, live
        session.destroy()


def test_attributes_that_were_hung_on_them():
    column, index = pd.Series([1]), pd.date_range("2024", periods=2)
    column.unit, index.note = [column], "n"
    arrived, other = holdfast.loads(holdfast.dumps((column, index)))
    assert arrived.unit[0] is arrived and other.note == "n" and list(other) == list(index)
