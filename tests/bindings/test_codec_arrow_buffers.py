"""Arrow: buffers are mapped, shared as before, and born where a save needn't copy them."""

import numpy as np
import pytest
from needed import needed
from store_process import hand_over

pa = needed("pyarrow")
# A fork is faster than a start with them; the test that asks `main.fresh` starts one.
LIBRARIES = ("pyarrow", "pandas")  # which `pa.array` imports
MANY = 20_000

KINDS = {
    "numbers": f"pa.array(range({MANY}))",
    "nulls": f"pa.array([1, None] * {MANY})",
    "texts": f"pa.array(['x' * 9, None] * {MANY})",
    "large texts": f"pa.array(['x'] * {MANY}, pa.large_string())",
    "views of texts": f"pa.array(['a' * 40] * {MANY}, pa.string_view())",
    "booleans": f"pa.array([True, None] * {MANY * 10})",
    "lists": f"pa.array([[1, 2], None] * {MANY})",
    "structs": f"pa.array([{{'a': 1, 'b': 'x'}}] * {MANY})",
    "dictionary": f"pa.array(['a', 'b'] * {MANY}).dictionary_encode()",
    "union": f"pa.UnionArray.from_sparse(pa.array([0, 1] * {MANY}, pa.int8()),"
    f" [pa.array([1] * {2 * MANY}), pa.array(['x'] * {2 * MANY})])",
    "runs": f"pa.RunEndEncodedArray.from_arrays(range(1, {MANY}), range(1, {MANY}))",
    "decimals": f"pa.array([None] * {MANY}, pa.decimal128(20, 3))",
    "timestamps": f"pa.array([0] * {MANY}, pa.timestamp('ns', 'Europe/Berlin'))",
    "extension": f"pa.array([b'0' * 16] * {MANY}, pa.uuid())",
    "no nulls in a bitmap": f"pa.array([1] * {MANY} + [None])[:{MANY}]",
    "structs of such": f"pa.array([{{'a': 'x'}}] * {MANY} + [{{'a': None}}])[:{MANY}].filter(pa.array([True] * {MANY}))",
    "slice": f"pa.array(['x' * 9] * {MANY})[7:{MANY - 7}]",
    "chunked": f"pa.chunked_array([range({MANY}), range({MANY})])",
    "batch": f"pa.record_batch({{'a': range({MANY}), 'b': ['x'] * {MANY}}})",
    "table": f"pa.table({{'a': range({MANY})}}).replace_schema_metadata({{'k': 'v'}})",
    "table of a slice": f"pa.table({{'a': range({MANY})}}).slice(5, 100)",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_mapped(main, kind):
    try:
        eval(KINDS[kind], {"pa": pa})
    except (AttributeError, TypeError):
        pytest.skip(f"pyarrow {pa.__version__} has none")
    main.execute(f"import pyarrow as pa\nx = {KINDS[kind]}")
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        "report = names.bind(ns)\nimport pyarrow as pa\n"
        f"expected = {KINDS[kind]}\nx = ns['x']\nx.validate(full=True)\n"
        "rest = len(holdfast._store._encode(x)[2])\n"
        "sizes = [] if 'view' in str(getattr(x, 'type', '')) else [\n"
        "    (one.nbytes, one.get_total_buffer_size()) for one in (x, expected)]\n"
        "answer(equal=x.equals(expected), type=type(x) is type(expected), payload=rest,"
        " sizes=sizes, mapped=report['bytes_mapped'], saved=save(ns)['saved'])"
    )
    x = main.ns["x"]
    assert answer["equal"] and answer["type"] and answer["saved"] == []
    assert answer["payload"] < 20_000
    assert not answer["sizes"] or answer["sizes"][0] == answer["sizes"][1]
    # A null's bitmap may be too small for a buffer of its own.
    size = x.get_total_buffer_size()
    if "views" not in kind:  # of those pyarrow 18 can't tell the size
        size = min(x.nbytes, size)
    assert answer["mapped"] >= 0.8 * size


def test_slices_and_tables_share_what_they_shared(main):
    main.execute(
        f"import pyarrow as pa\nx = pa.array(range({MANY}))\npart = x[10:20]\n"
        "table = pa.table({'x': x, 'again': x})\ncolumn = table['x']\nlater = [table.slice(5)]"
    )
    report = main.commit()
    assert report["bytes_copied"] < 1.2 * MANY * 8 + 4096
    answer = main.fresh(
        "report = names.bind(ns)\n"
        "x, part, table, column = (ns[k] for k in ('x', 'part', 'table', 'column'))\n"
        "at = lambda array: array.buffers()[1].address\n"
        "same = {at(x), at(part), at(table['again'].chunk(0)), at(column.chunk(0)),"
        " at(ns['later'][0]['x'].chunk(0))}\n"
        "answer(addresses=len(same), mapped=report['bytes_mapped'],"
        " offset=part.offset, copied=save(ns)['bytes_copied'])"
    )
    assert answer == {"addresses": 1, "mapped": MANY * 8, "offset": 10, "copied": 0}


def test_memory_is_shared_with_numpy_both_ways(main):
    main.execute(
        f"import numpy as np\nimport pyarrow as pa\nn = np.arange({MANY}.0)\na = pa.array(n)\n"
        f"b = pa.array(range({MANY}))\nm = b.to_numpy()\n"
        f"buffer = pa.allocate_buffer({8 * MANY})\nview = np.frombuffer(buffer, 'i8')\nview[:] = 5"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "n, a, b, m, view = (ns[k] for k in ('n', 'a', 'b', 'm', 'view'))\n"
        "n[7] += 1; view[3] += 1\n"
        "seen = [a[7].as_py(), memoryview(ns['buffer']).cast('q')[3]]\n"
        "shares = [m.ctypes.data == b.buffers()[1].address, m.flags.writeable,"
        " ns['buffer'].is_mutable]\n"
    )
    answer = main.other(
        f"names.bind(ns)\n{check}publish(save(ns))\nanswer(seen=seen, shares=shares)"
    )
    assert answer == {"seen": [8, 6], "shares": [True, False, True]}
    main.names.adopt(main.ns)
    ns = {"ns": main.ns}
    exec(check, ns)
    assert ns["seen"] == [9, 7] and ns["shares"] == [True, False, True]


def test_a_numpy_view_of_a_slice_is_one_again(main):
    main.execute(
        f"import pyarrow as pa\nb = pa.array(range({MANY}))\nm = b[100:9000].to_numpy()\n"
        f"part = m[5:]\nlone = pa.array(range({MANY}))[7:].to_numpy()\n"
        "table = pa.table({'x': b})\nk = table['x'].chunk(0).slice(50).to_numpy()"
    )
    check = (
        "at = b.buffers()[1].address\n"
        "value = [m.ctypes.data - at, part.ctypes.data - at, k.ctypes.data - at, int(m[0]),"
        " int(lone[0]), m.flags.writeable]\ndel at\n"
    )
    for turn in range(3):
        assert main.commit()["unserializable"] == {}
        answer = hand_over(main, check + f"m.flags.writeable = False\nchanged = {turn}")
        main.execute(check)
        assert answer["value"] == main.ns["value"] == [800, 840, 400, 100, 7, False]
        # What changed is one name; the memory is written once, and mapped.
        assert answer["copied"] < 4096 and main.ns["changed"] == turn
        main.execute("b = b.slice(0)")


def test_changed_pages_of_a_buffer_alone_are_written(main):
    main.execute(
        "import pyarrow as pa\nx = pa.allocate_buffer(1 << 20)\ny = pa.py_buffer(b'1' * 99999)"
    )
    main.commit()
    answer = main.other(
        "names.bind(ns)\nmemoryview(ns['x'])[5000] = 7\nsaved = save(ns)\n"
        "answer(copied=saved['bytes_copied'], saved=saved['saved'], fixed=ns['y'].is_mutable)"
    )
    assert answer["copied"] < 3 * 4096 and answer["saved"] == ["x"] and not answer["fixed"]


def test_tensors_and_types(main):
    main.execute(
        "import numpy as np\nimport pyarrow as pa\nn = np.arange(30000.).reshape(100, -1)\n"
        "x = pa.Tensor.from_numpy(n, ['row', 'column'])\n"
        "schema = pa.schema([pa.field('a', pa.list_(pa.int8()), metadata={'k': 'v'})])\n"
        "scalar = pa.scalar([1, 2])\nempty = pa.table({'a': pa.array([], pa.int8())})"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\nns['n'][3, 4] = -1\n"
        "answer(value=float(x.to_numpy()[3, 4]), names=x.dim_names, schema=str(ns['schema']),"
        " scalar=ns['scalar'].as_py(), empty=ns['empty'].num_rows)"
    )
    assert answer == {
        "value": -1,
        "names": ["row", "column"],
        "schema": str(main.ns["schema"]),
        "scalar": [1, 2],
        "empty": 0,
    }


def test_types_of_the_notebook(main):
    main.execute(
        "import pyarrow as pa\n"
        "class Metre(pa.ExtensionType):\n"
        "    def __init__(self): super().__init__(pa.float64(), 'metre'); self.unit = 'm'\n"
        "    def __arrow_ext_serialize__(self): return b''\n"
        "    @classmethod\n"
        "    def __arrow_ext_deserialize__(cls, storage, serialized): return cls()\n"
        "Metre.__module__ = '__main__'\n"
        "x = pa.ExtensionArray.from_storage(Metre(), pa.array([1.5] * 9000))"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\n"
        ""
        "answer(type=type(x.type) is ns['Metre'], value=x.storage[8999].as_py(),"
        " cast=x.cast(ns['Metre']()).equals(x), unit=x.type.unit)"
    )
    assert answer == {"type": True, "value": 1.5, "cast": True, "unit": "m"}


def test_readers_are_declined_by_name(main, tmp_path):
    main.execute(
        "import pyarrow as pa\nimport pyarrow.ipc\nt = pa.table({'a': [1]})\n"
        "reader = t.to_reader()\n"
        f"stream = pa.OSFile({str(tmp_path / 'file')!r}, 'wb')"
    )
    report = main.commit()
    assert set(report["unserializable"]) == {"reader", "stream"}
    assert "RecordBatchReader" in report["unserializable"]["reader"]


def test_what_has_no_bytes_shares_nothing():
    from holdfast import _store

    first, second = pa.array([], pa.int8()), pa.array([], pa.int64())
    assert _store.groups({"a": first, "b": second}) == [["a"], ["b"]]
    whole = pa.array(np.arange(5))
    assert _store.groups({"a": whole, "b": whole[1:], "c": second}) == [["a", "b"], ["c"]]
