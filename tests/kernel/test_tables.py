"""Tables, arrays and images over the real kernel: a cell gets them, changes them, gives them back.

The main worker uses each library before the cell does, and after it: threads of the one's pools
must not matter to the other.
"""

import pytest

CELL = "%%execute_with_scorep --run=isolated\n"

ARROW = (
    "import pyarrow as pa, pyarrow.compute as pc\n"
    "t = pa.table({'k': [i % 7 for i in range(50_000)], 'v': range(50_000)})\n"
    "part = t.slice(10, 20)\nt.group_by('k').aggregate([('v', 'sum')]).num_rows",
    "g = t.group_by('k').aggregate([('v', 'sum')])\nt = t.append_column('w', pc.multiply(t['v'], 2))\n"
    "g.num_rows",
    "t['w'][49_999].as_py(), g.num_rows, part['v'][0].as_py(), t.filter(pc.equal(t['k'], 3)).num_rows",
    "(99998, 7, 10, 7143)",
)
POLARS = (
    "import polars as pl\ndf = pl.DataFrame({'k': [i % 7 for i in range(50_000)], 'v': range(50_000)})\n"
    "col = df['v']\ndf.group_by('k').agg(pl.col('v').sum()).height",
    "g = df.lazy().group_by('k').agg(pl.col('v').sum()).sort('k').collect()\n"
    "df = df.join(g, on='k', suffix='_sum')\ncol[3] = -3\ng.height",
    "df.width, g.height, col[3], df.group_by('k').len().height",
    "(3, 7, -3, 7)",
)
PANDAS = (
    "import numpy as np, pandas as pd\n"
    "df = pd.DataFrame({'k': np.arange(50_000) % 7, 'v': np.arange(50_000.)})\nv = df['v']\n"
    "df['s'] = pd.Series(['x'] * 50_000, dtype='string')\nlen(df.groupby('k').v.sum())",
    "g = df.groupby('k').v.sum()\ndf.loc[3, 'v'] = -3\ndf['w'] = df.v * 2\nlen(g)",
    # Before pandas 3 a column is a view, which sees what is written.
    "len(g), float(df.v[3]), float(v[3]) == (3 if pd.__version__ >= '3' else -3), float(df.w[4]),"
    " df.s[7], len(df.merge(g, on='k'))",
    "(7, -3.0, True, 8.0, 'x', 50000)",
)
SPARSE = (
    "import numpy as np, scipy.sparse as sp\nfrom scipy import spatial, interpolate\n"
    "m = sp.random(2000, 2000, .01, 'csr', random_state=1)\ndata = m.data\n"
    "tree = spatial.KDTree(np.arange(3000.).reshape(-1, 3))\n"
    "curve = interpolate.CubicSpline(range(9), range(9))\nm.nnz",
    "data[:] = 1\nm2 = (m @ m).tocsc()\nnear = tree.query([0, 1, 2])[0]\nm2.shape",
    "float(m.sum()), m.data is data, m2.format, float(near), round(float(curve(2.5)), 6)",
    "(40000.0, True, 'csc', 0.0, 2.5)",
)
PILLOW = (
    "from PIL import Image\nim = Image.new('RGBA', (300, 200), (1, 2, 3, 4))\nim.size",
    "im.putpixel((5, 6), (9, 9, 9, 9))\nsmall = im.resize((30, 20))\nsmall.size",
    "im.getpixel((5, 6)), im.getpixel((0, 0)), small.size, im.convert('L').mode",
    "((9, 9, 9, 9), (1, 2, 3, 4), (30, 20), 'L')",
)
NUMPY = (
    "import numpy as np\nm = np.ma.masked_less(np.arange(50_000), 3)\nr = np.rec.fromarrays([[1, 2]],"
    " names='a')\no = np.array([[1], None], dtype=object)\nv = o[::-1]\nrng = np.random.default_rng(1)\n"
    "twin = np.random.default_rng(1)\nint(m.sum())",
    "m[10] = np.ma.masked\nr.a[0] = 7\nv[1] = 'new'\ndraw = rng.random()\nint(m.sum())",
    "bool(m.mask[10]), int(r.a[0]), o[0], twin.random() == draw, twin.random() == rng.random()",
    "(True, 7, 'new', True, True)",
)


@pytest.mark.parametrize(
    "library, cells",
    [
        ("pyarrow", ARROW),
        ("polars", POLARS),
        ("pandas", PANDAS),
        ("scipy", SPARSE),
        ("PIL", PILLOW),
        ("numpy", NUMPY),
    ],
)
def test_a_cell_gets_changes_and_gives_back(kernel, library, cells):
    pytest.importorskip(library)
    before, inside, after, expected = cells
    for turn in range(2):  # the second time with what a standby has imported by then
        for source in (before, CELL + inside):
            outcome = kernel.run(source)
            assert outcome.status == "ok", outcome.content
            assert "not carried" not in outcome.stream("stderr")
        assert kernel.run(after).result == expected, turn
