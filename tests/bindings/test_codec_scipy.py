"""SciPy's sparse matrices, trees and curves: arrays inside of objects, shared as before."""

import pytest
from needed import needed

sp = needed("scipy.sparse")

# A fork is faster than a start with them; the test that asks `main.fresh` starts one.
LIBRARIES = ("scipy.sparse",)
FORMATS = ["csr", "csc", "coo", "bsr", "dia"]
PARTS = {"csr": "data indices indptr", "csc": "data indices indptr", "bsr": "data indices indptr",
         "coo": "data", "dia": "data offsets"}  # fmt: skip
MAKE = {
    "array": "sp.random_array((2000, 1500), density=.02, format={0!r}, random_state=1)",
    "matrix": "sp.random(2000, 1500, .02, {0!r}, random_state=1)",
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_mapped_and_shares_its_parts(main, form, kind):
    if kind == "array" and not hasattr(sp, "random_array"):
        pytest.skip("SciPy before 1.12")
    parts = PARTS[form].split()
    main.execute(
        f"import scipy.sparse as sp\nx = {MAKE[kind].format(form)}\n"
        + "".join(f"{part} = x.{part}\n" for part in parts)
    )
    assert main.commit()["unserializable"] == {}
    expected = float(main.ns["data"].sum())
    answer = main.other(
        "import numpy as np\nreport = names.bind(ns)\nx = ns['x']\n"
        f"same = [getattr(x, part) is ns[part] for part in {parts}]\n"
        "before = float(ns['data'].sum())\n"
        "payload = len(holdfast._store._encode(x)[2])\nns['data'][...] = 2\n"
        "answer(type=type(x).__name__, before=before, same=same, after=float(x.data.max()),"
        " mapped=report['bytes_mapped'], payload=payload,"
        " product=list((x @ np.ones(1500)).shape), saved=save(ns)['saved'])"
    )
    x = main.ns["x"]
    assert answer["type"] == type(x).__name__ and answer["before"] == pytest.approx(expected)
    assert all(answer["same"]) and answer["after"] == 2 and answer["product"] == [2000]
    assert answer["mapped"] >= x.data.nbytes and answer["payload"] < 40_000
    assert set(answer["saved"]) >= {"x", "data"}


def test_formats_of_python_objects(main):
    main.execute(
        "import scipy.sparse as sp\nlil = sp.random(90, 80, .1, 'lil', random_state=1)\n"
        "dok = sp.random(90, 80, .1, 'dok', random_state=1)\nrows = lil.rows"
    )
    assert main.commit()["unserializable"] == {}
    answer = main.fresh(
        "names.bind(ns)\nlil, dok = ns['lil'], ns['dok']\nlil[0, 0] = dok[0, 0] = 7\n"
        "answer(values=[lil[0, 0], dok[0, 0]], same=lil.rows is ns['rows'],"
        " types=[type(lil).__name__, type(dok).__name__], sums=[lil.nnz, dok.nnz])"
    )
    x, y = main.ns["lil"], main.ns["dok"]
    x[0, 0] = y[0, 0] = 7
    assert answer == {
        "values": [7, 7],
        "same": True,
        "types": [type(x).__name__, type(y).__name__],
        "sums": [x.nnz, y.nnz],
    }


def test_one_changed_element_writes_its_page(main):
    main.execute("import scipy.sparse as sp\nx = sp.random(3000, 3000, .05, 'csr', random_state=1)")
    main.commit()
    answer = main.other(
        "names.bind(ns)\nns['x'].data[7] = 5\nanswer(copied=save(ns)['bytes_copied'])"
    )
    assert answer["copied"] < 40_000


def test_trees_and_curves(main):
    main.execute(
        "import numpy as np\nfrom scipy import interpolate, spatial, stats\n"
        "points = np.random.default_rng(1).random((2000, 3))\ntree = spatial.KDTree(points)\n"
        "fast = spatial.cKDTree(points)\nhull = spatial.ConvexHull(points)\n"
        "spline = interpolate.CubicSpline(np.arange(50.), np.arange(50.) ** 2)\n"
        "linear = interpolate.RegularGridInterpolator((np.arange(9.),), np.arange(9.))\n"
        "normal = stats.norm(2, 3)"
    )
    report = main.commit()
    assert set(report["unserializable"]) <= {"hull"}  # Qhull's own memory, in older ones a file
    ask = (
        "seen = [int(tree.query([.5, .5, .5])[1]), int(fast.query([.1, .1, .1])[1]),"
        " float(spline(2.5)), float(linear([2.5])[0]), float(normal.mean())]"
    )
    answer = main.other(f"names.bind(ns)\nexec({ask!r}, ns)\nanswer(seen=ns['seen'])")
    main.execute(ask)
    assert answer["seen"] == pytest.approx(main.ns["seen"])
