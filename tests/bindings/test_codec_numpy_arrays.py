"""Arrays that are more than memory: subclasses, masks, memmaps, views of objects, generators."""

import hashlib

import holdfast
import numpy as np
import pytest
from store_process import hand_over

from holdfast import _store

# A fork is faster than a start with it; the test that asks `main.fresh` starts one.
LIBRARIES = ("numpy",)
NUMPY_2 = int(np.__version__.partition(".")[0]) >= 2
DEFINE = "import numpy as np\n"


def carry(main, source):
    """Run and commit; nothing may be unserializable."""
    main.execute(DEFINE + source)
    report = main.commit()
    assert report["unserializable"] == {}
    return report


@pytest.mark.parametrize(
    "source",
    [
        "x = np.matrix(np.arange(90000.).reshape(300, 300))",
        "x = np.rec.fromarrays([np.arange(9000), np.arange(9000.)], names='a,b')",
        "x = np.char.array(['abc'] * 9000)",
        "x = np.ma.masked_less(np.arange(90000.), 3)",
        "x = np.ma.masked_array(np.arange(90000), mask=False, hard_mask=True, fill_value=7)",
        "x = np.ma.zeros(9000, dtype=[('a', float), ('b', int)])",
    ],
)
def test_subclasses_are_mapped(main, source):
    carry(main, source)
    answer = main.other(
        "report = names.bind(ns)\nx = ns['x']\nimport numpy as np\n"
        "saved = save(ns)\nflat = np.ndarray.view(x, np.ndarray).reshape(-1).view('u1')\n"
        "flat[5000] ^= 1\nchanged = save(ns)\n"
        "answer(type=type(x).__name__, dtype=repr(x.dtype), mapped=report['bytes_mapped'],"
        " text=repr(x)[:300], saved=saved['saved'], copied=changed['bytes_copied'])"
    )
    x = main.ns["x"]
    assert answer["type"] == type(x).__name__ and answer["dtype"] == repr(x.dtype)
    assert answer["text"] == repr(x)[:300]
    assert answer["mapped"] >= x.nbytes
    assert answer["saved"] == [] and answer["copied"] < 4 * 4096


def test_a_masked_array_shares_data_and_mask(main):
    carry(
        main,
        "data = np.arange(9000.)\nmask = data > 5\n"
        "x = np.ma.array(data, mask=mask, copy=False, fill_value=-1, hard_mask=True)\n"
        "assert x._mask is mask\n",
    )
    answer = main.other(
        "names.bind(ns)\nx, data, mask = ns['x'], ns['data'], ns['mask']\n"
        "data[0] = 42\nmask[1] = True\n"
        "answer(first=x[0], masked=bool(x.mask[1]), fill=x.fill_value, hard=x.hardmask,"
        " same=x._mask is mask)"
    )
    assert answer == {"first": 42, "masked": True, "fill": -1, "hard": True, "same": True}


def test_the_masked_constant_is_one(main):
    carry(main, "x = np.ma.masked\ny = [np.ma.masked]")
    source = "names.bind(ns)\nimport numpy as np\nx, y = ns['x'], ns['y'][0]\n"
    assert main.other(source + "answer(same=x is np.ma.masked and y is np.ma.masked)")["same"]


def test_attributes_of_subclasses_are_carried(main):
    main.execute(
        DEFINE + "class Info(np.ndarray):\n"
        "    __slots__ = ('slot',)\n"
        "class Named(np.ndarray):\n"
        "    def __array_finalize__(self, of):\n"
        "        self.info = getattr(of, 'info', None)\n"
        "Info.__module__ = Named.__module__ = '__main__'\n"
        "base = np.arange(9000.)\nx = base.view(Named)\nx.info = ['seconds']\nunit = x.info\n"
        "y = base.view(Info)\ny.slot = 3"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.fresh(
        "names.bind(ns)\nx, y = ns['x'], ns['y']\nns['base'][1] = 77\n"
        "answer(info=x.info, same=x.info is ns['unit'], shares=[x[1], y[1]], slot=y.slot,"
        " inherits=x[2:].info)"
    )
    assert answer["info"] == answer["inherits"] == ["seconds"] and answer["same"]
    assert answer["shares"] == [77, 77] and answer["slot"] == 3


def test_a_row_looks_at_its_array(main):
    carry(
        main,
        "s = np.zeros((2, 3), dtype=[('x', 'f8'), ('v', 'i4', (2,))])\nrow = s[1, 2]\n"
        "part = s[::-1, 1:][0, 0]\nalone = s[0, 0].copy()\nrec = s.view(np.recarray)[0, 1]",
    )
    answer = main.other(
        "names.bind(ns)\nrow, s = ns['row'], ns['s']\nrow['x'] = 4\ns[1, 1]['v'] = [7, 8]\n"
        "s['x'][0, 1] = 3\nanswer(seen=s['x'][1, 2], part=ns['part']['v'].tolist(),"
        " same=row.base is s, alone=ns['alone'].base is not s, rec=ns['rec'].x)"
    )
    assert answer == {"seen": 4, "part": [7, 8], "same": True, "alone": True, "rec": 3}


def test_a_part_of_a_subclass_knows_its_whole(main):
    main.execute(
        DEFINE + "class Units(np.ndarray):\n    pass\n"
        "Units.__module__ = '__main__'\nu = np.arange(9000.).view(Units)\nu.unit = 'km'\n"
        "part = u[5:]\npart.unit = 'm'\nassert part.base is u"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.fresh(
        "names.bind(ns)\nu, part = ns['u'], ns['part']\npart[0] = 77\n"
        "answer(same=part.base is u, seen=u[5], units=[u.unit, part.unit],"
        " kind=type(part).__name__)"
    )
    assert answer == {"same": True, "seen": 77, "units": ["km", "m"], "kind": "Units"}


# ---- memmaps ---------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "numbers"
    np.arange(50000.0).tofile(path)
    return path


def test_memmaps_and_their_views_stay_the_file(main, file):
    report = carry(
        main,
        f"m = np.memmap({str(file)!r}, dtype=float, mode='r+')\n"
        "part, plain, back = m[10:20], np.asarray(m)[100:], m[::-1]\nm[3] = 33\n"
        f"alone = np.asarray(np.memmap({str(file)!r}, dtype='u1', mode='r', offset=80))\n",
    )
    assert report["bytes_copied"] < 4096
    answer = main.other(
        "names.bind(ns)\nm, part, plain, back = (ns[k] for k in ('m', 'part', 'plain', 'back'))\n"
        "m[10], plain[1] = 1, 2\n"
        "answer(types=[type(v).__name__ for v in (m, part, plain, back, ns['alone'])],"
        " seen=[m[3], part[0], m[101], back[-11]], same=part._mmap is m._mmap,"
        " writeable=ns['alone'].flags.writeable, alone=ns['alone'][:8].tolist())"
    )
    kinds = ["memmap", "memmap", "ndarray", "memmap", "ndarray"]
    assert answer["types"] == kinds and answer["same"]
    assert answer["seen"] == [33, 1, 2, 1] and not answer["writeable"]
    assert main.ns["m"][10] == 1 and main.ns["m"][101] == 2  # it is the same file
    assert np.array(answer["alone"], "u1").view(float)[0] in (1.0, 10.0)


def test_a_memmap_without_its_file_is_declined_or_absent(main, file):
    main.execute(
        DEFINE + f"import tempfile\nm = np.memmap({str(file)!r}, dtype=float, mode='r')\n"
        "nameless = np.memmap(tempfile.TemporaryFile(), dtype=float, shape=10)\nfine = 1"
    )
    report = main.commit()
    assert set(report["unserializable"]) == {"nameless"}
    assert "without a name" in report["unserializable"]["nameless"]
    file.unlink()
    np.zeros(50000).tofile(file)
    absent = main.other("answer(**names.bind(ns)['absent'])")
    assert set(absent) == {"m"} and "replaced by another" in absent["m"]
    file.unlink()
    main.execute("m = m[:]")  # looked at again
    assert "is gone" in main.commit()["unserializable"]["m"]


# ---- views of objects ---------------------------------------------------------------------


def test_views_of_objects_stay_views(main):
    texts = "np.array(['a', 'b' * 50, 'c'], dtype=np.dtypes.StringDType())" if NUMPY_2 else "o[:3]"
    carry(
        main,
        "o = np.array([1, 'a', None, [1], 2.5, ()], dtype=object)\n"
        "back, grid, last = o[::-1], o.reshape(2, 3).T, o.reshape(2, 3)[1:, ::2]\n"
        "s = np.zeros(4, [('a', 'O'), ('b', 'f8')])\nfield, rows = s['a'], s[1::2]\n"
        f"t = {texts}\ntail = t[1:]\nbackwards = t[::-1]",
    )
    source = (
        "o[5] = 'x'; s['a'][1] = 'y'; t[2] = 'z'\n"
        "seen = [back[0], grid[2, 1], last[0, 1], field[1], rows[0]['a'], tail[1], backwards[0]]\n"
        "kept = o[3] is back[2] and not back.flags.owndata"
    )
    answer = main.other(
        f"names.bind(ns)\nexec({source!r}, ns)\nfirst = ns['seen']\npublish(save(ns))\n"
        "answer(seen=first, kept=ns['kept'])"
    )
    assert answer == {"seen": ["x", "x", "x", "y", "y", "z", "z"], "kept": True}
    main.names.adopt(main.ns)
    main.execute("o[5] = 'again'\nafter = [back[0], grid[2, 1], last[0, 1]]")
    assert main.ns["after"] == ["again"] * 3


def test_views_of_objects_of_any_axes(main):
    """No axis, one of length 1 whose stride says nothing, and a field of several objects."""
    carry(
        main,
        "alone = np.array(None, dtype=object)\nof_alone = alone.T\n"
        "column = np.array([[1], [None], [3]], dtype=object)\nof_column = column[1:]\n"
        "s = np.zeros(3, [('a', 'f8'), ('b', 'O', (2,))])\npairs, seconds = s['b'], s['b'][1:, 1]",
    )
    source = (
        "alone[()] = 'x'; column[2] = 'y'; s['b'][1] = 'p', 'q'\n"
        "seen = [of_alone[()], of_column[1, 0], pairs[1, 0], seconds[0]]"
    )
    answer = main.other(
        f"names.bind(ns)\nexec({source!r}, ns)\nanswer(seen=ns['seen'])\npublish(save(ns))"
    )
    assert answer == {"seen": ["x", "y", "p", "q"]}
    main.names.adopt(main.ns)
    main.execute("alone[()] = 1; s['b'][1, 1] = 2\nafter = [of_alone[()], seconds[0]]")
    assert main.ns["after"] == [1, 2]


def test_views_of_objects_keep_whether_they_may_be_written(main):
    texts = "np.array(['a', 'b'], dtype=np.dtypes.StringDType())" if NUMPY_2 else "o[:2]"
    carry(
        main,
        "o = np.array([1, 'a', [1]], dtype=object)\nback, tail = o[::-1], o[1:]\n"
        f"t = {texts}\nrest = t[1:]\nfor one in o, tail, t: one.flags.writeable = False",
    )
    answer = main.other(
        "names.bind(ns)\nns['back'][2] = 'x'\n"
        "flags = [ns[name].flags.writeable for name in ('o', 'back', 'tail', 't', 'rest')]\n"
        "answer(flags=flags, seen=ns['o'][0])\npublish(save(ns))"
    )
    assert answer == {"flags": [False, True, False, False, True], "seen": "x"}
    main.names.adopt(main.ns)
    assert main.ns["back"].flags.writeable and not main.ns["o"].flags.writeable


OWNERS = {
    "no axis": "np.array(3.5)",
    "no element": "np.zeros((0, 3), 'i2')",
    "Fortran": "np.ones((4, 3), order='F')",
    "other order": "np.arange(24.).reshape(2, 3, 4).transpose(1, 0, 2).copy('K')",
    "padded": "np.ones(9, np.dtype([('a', 'i1'), ('b', 'f8')], align=True))",
    "read-only": "np.arange(9)\nx.flags.writeable = False",
    "dates": "np.array(['2000', 'NaT'], 'M8[D]')",
}


@pytest.mark.parametrize("kind", OWNERS)
def test_little_arrays_own_their_memory(main, kind):
    carry(main, f"x = {OWNERS[kind]}\nview = np.arange(9)[1:]")
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\n"
        "answer(own=x.flags.owndata and x.base is None, view=ns['view'].flags.owndata,"
        " x=repr(x), strides=x.strides, writeable=x.flags.writeable, saved=save(ns)['saved'])"
    )
    here = main.ns["x"]
    assert answer == {
        "own": True,
        "view": False,
        "x": repr(here),
        "strides": list(here.strides),
        "writeable": kind != "read-only",
        "saved": [],  # all bytes are as they were, those between fields, too
    }


# ---- everything NumPy has -------------------------------------------------------------------

KINDS = {
    "zero-dimensional": "np.array(3.5)",
    "empty": "np.zeros((0, 3), 'i2')",
    "broadcast": "np.broadcast_to(np.arange(9000.), (50, 9000))",
    "broadcast scalar": "np.broadcast_to(np.float64(3), (1000, 1000))",
    "negative strides": "np.arange(90000.).reshape(300, 300)[::-1, ::-2]",
    "Fortran": "np.asfortranarray(np.arange(90000.).reshape(300, 300))",
    "structured": "np.zeros(9000, [('a', 'i4'), ('b', 'f8', (2, 2)), ('c', 'S3')])",
    "overlapping": "np.zeros(9000, {'names': ['a', 'b'], 'formats': ['u4', 'u2'],"
    " 'offsets': [0, 2], 'titles': ['A', 'B'], 'itemsize': 8})",
    "titles and metadata": "np.zeros(9000, np.dtype('f8', metadata={'unit': 'm'}))",
    "datetime": "np.array(['2000', 'NaT'] * 9000, 'M8[25s]')",
    "timedelta": "np.array([1, 'NaT'] * 9000, 'm8[us]')",
    "bytes": "np.array([b'abc'] * 9000)",
    "text": "np.array(['abc'] * 9000)",
    "swapped": "np.arange(9000).astype('>f8')",
    "swapped text": "np.array(['abc'] * 9000).astype('>U3')",
    "longdouble": "np.arange(9000).astype(np.longdouble)",
    "clongdouble": "np.arange(9000).astype(np.clongdouble)",
    "half": "np.arange(9000).astype('f2')",
    "void": "np.zeros(9000, 'V7')",
    "boolean": "np.arange(90000) % 2 == 0",
    "read-only": "np.arange(90000).view().reshape(300, -1)[1:]",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype_and_stride_goes_out_of_band(main, kind):
    carry(main, f"x = {KINDS[kind]}\nassert x.size < 10 or x.strides[0] == 0 or x.nbytes > 16384")
    x = main.ns["x"]
    answer = main.other(
        "report = names.bind(ns)\nx = ns['x']\nimport hashlib\n"
        "answer(dtype=repr(x.dtype), meta=repr(x.dtype.metadata), shape=x.shape,"
        " strides=x.strides, flags=str(x.flags.writeable),"
        " digest=hashlib.sha1(x.tobytes()).hexdigest())"
    )
    assert answer == {
        "dtype": repr(x.dtype),
        "meta": repr(x.dtype.metadata),
        "shape": list(x.shape),
        "strides": list(x.strides),
        "flags": str(x.flags.writeable),
        "digest": hashlib.sha1(x.tobytes()).hexdigest(),
    }
    for value in (x, [x]):  # by itself, and inside of another object
        assert len(_store._encode(value)[2]) < 16384


def test_long_long_stays_another_type_than_long(main):
    carry(
        main,
        "a = np.ones(9000, 'q'); b = np.arange(3, dtype='Q'); c = np.longlong(4); d = np.dtype('q')\n"
        "e = [c, np.int64(4), a[5:], d]; f = np.ones(9000, '>q')",
    )
    answer = main.other(
        "names.bind(ns)\nanswer(chars=[ns[n].dtype.char for n in 'abc'] + [ns['d'].char],"
        " inner=[ns['e'][i].dtype.char for i in range(3)], swapped=ns['f'].dtype.str)"
    )
    assert answer["chars"] == ["q", "Q", "q", "q"]
    assert answer["inner"] == ["q", np.dtype(np.int64).char, "q"]
    assert answer["swapped"] == ">i8"


def test_texts_of_variable_width(main):
    if not NUMPY_2:
        pytest.skip("NumPy 1 has no StringDType")
    carry(
        main,
        "x = np.array(['a', 'b' * 100, None], dtype=np.dtypes.StringDType(na_object=None))\n",
    )
    answer = main.other(
        "names.bind(ns)\nx = ns['x']\nx[0] = 'changed' * 9\n"
        "answer(items=x.tolist(), same=x.dtype.na_object is None)"
    )
    assert answer == {"items": ["changed" * 9, "b" * 100, None], "same": True}


def test_generators_go_on_and_stay_shared(main):
    carry(
        main,
        "g = np.random.default_rng(7)\nsame = g\nbits = g.bit_generator\n"
        "other = np.random.Generator(bits)\nold = np.random.RandomState(3)\n"
        "g.random(5); old.normal()\nmany = [np.random.Generator(np.random.SFC64(1))]\n"
        "import copy\ntwin, old_twin = copy.deepcopy(g), copy.deepcopy(old)\n",
    )
    answer = main.other(
        "names.bind(ns)\ng, same, other, old = (ns[k] for k in ('g', 'same', 'other', 'old'))\n"
        "answer(first=g.random(), then=other.random(), same=g is same,"
        " bits=g.bit_generator is ns['bits'] is other.bit_generator, old=old.normal())"
    )
    twin = main.ns["twin"]
    assert answer == {
        "first": twin.random(),
        "then": twin.random(),
        "same": True,
        "bits": True,
        "old": main.ns["old_twin"].normal(),
    }


def test_iterators_are_declined_by_name(main):
    main.execute(
        DEFINE + "x = np.arange(9)\nit = np.nditer(x)\nflat = x.flat\npoly = np.poly1d([1, 2])"
    )
    report = main.commit()
    assert set(report["unserializable"]) == {"it", "flat"}
    assert "nditer" in report["unserializable"]["it"]
    assert main.other("names.bind(ns)\nanswer(y=int(ns['poly'](3)))") == {"y": 5}


def test_memoryviews_stay_views_of_their_object(main):
    carry(
        main,
        "x = np.arange(9000.).reshape(90, 100)\nwhole, part = x.data, [memoryview(b'0123')[1:3]]\n"
        "fixed = memoryview(bytearray(b'ab')).toreadonly()",
    )
    answer = main.other(
        "names.bind(ns)\nx, whole, part = ns['x'], ns['whole'], ns['part'][0]\nx[3, 4] = -1\n"
        "answer(seen=whole[3, 4], shape=whole.shape, part=bytes(part).decode(),"
        " kinds=[type(v).__name__ for v in (whole, part, ns['fixed'])],"
        " readonly=[whole.readonly, part.readonly, ns['fixed'].readonly])"
    )
    assert answer == {
        "seen": -1,
        "shape": [90, 100],
        "part": "12",
        "kinds": ["memoryview"] * 3,
        "readonly": [False, True, True],
    }
    carry(
        main,
        "y = bytearray(b'0123456'); steps, back, odd = (memoryview(y)[i] for i in "
        "(slice(1, 6, 2), slice(None, None, -1), slice(2, 2)))\n"
        "wide = memoryview(y)[1:5].cast('H')",
    )
    answer = main.other(
        "names.bind(ns)\nns['y'][3] = 65\n"
        "answer(seen=[ns[n].tobytes().decode() for n in ('steps', 'back', 'odd', 'wide')],"
        " same=[ns[n].obj is ns['y'] for n in ('steps', 'back', 'odd', 'wide')],"
        " wide=[ns['wide'].format, len(ns['wide'])])"
    )
    assert answer == {"seen": ["1A5", "654A210", "", "12A4"], "same": [True] * 4, "wide": ["H", 2]}
    main.execute("apart = memoryview(b'01234567').cast('H')[::2]")
    assert "isn't contiguous" in main.commit()["unserializable"]["apart"]


def test_a_class_of_a_module_that_nobody_imported_is_the_library_s(main):
    main.execute(
        "import sys, numpy as np; _ = sys.modules.pop('numpy.rec', None)\n"
        "rec = np.zeros(3, [('a', 'i4')]).view(np.recarray)"
    )
    main.commit()
    answer = hand_over(main, "import numpy\nvalue = [type(rec) is numpy.recarray, int(rec[2].a)]")
    assert answer["value"] == [True, 0]


def test_views_by_strides_share_their_array(main):
    main.execute(
        "import numpy as np; a = np.arange(10)\n"
        "s = np.lib.stride_tricks.as_strided(a, (4, 4), (8, 8))"
    )
    main.commit()
    answer = hand_over(main, "a[2] = 50; value = [int(s[0, 2]), int(s[1, 1])]")
    assert answer["value"] == [50, 50]


def test_a_polynomial_has_the_array_that_is_a_variable_too(main):
    main.execute("import numpy as np; p = np.polynomial.Polynomial([1.0, 2.0]); c = p.coef")
    main.commit()
    answer = hand_over(main, "c[0] = 9; value = [float(p(0)), p.coef is c]")
    assert answer["value"] == [9.0, True]


def test_a_vectorized_function_after_use():
    vectorized = np.vectorize(lambda a: a + 1)
    assert vectorized([1]).tolist() == [2]
    assert holdfast.loads(holdfast.dumps(vectorized))([1, 2]).tolist() == [2, 3]
