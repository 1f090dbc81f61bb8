"""Which memory code visibly writes and reads, found without running it."""

import ast
import types

import numpy as np
import pytest
from holdfast.worker.analysis.writes import Uses

MIB = 1 << 20


def uses(code, **names):
    """The names whose memory is written and read, with the MiB that are touched."""
    namespace = {"np": np, "__name__": "__main__"}
    namespace |= {"a": np.ones(MIB), "b": np.ones(MIB), "i": 5, **names}
    setup, _, cell = code.rpartition("#--\n")
    compiled = compile(setup, "<setup>", "exec")
    remember_source("<setup>", setup)
    exec(compiled, namespace)
    before = {name: str(value) for name, value in namespace.items()}
    found = Uses(namespace)
    found.look_at(ast.parse(cell))
    assert {name: str(value) for name, value in namespace.items()} == before
    return names_of(found.written, namespace), names_of(found.read, namespace)


def remember_source(name, text):
    import linecache

    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def names_of(spans, namespace):
    from holdfast.worker.analysis.spans import spans as memory

    starts = {}
    for name, value in namespace.items():
        if not isinstance(value, (types.ModuleType, types.FunctionType)):
            for span in memory(value):
                starts.setdefault(span.address, name)
    return {
        starts.get(address, "?"): round(span.touched / MIB, 2)
        for address, span in spans.items()
        if span.touched > 65536
    }


WHOLE = {"a": 8.0}


@pytest.mark.parametrize(
    "code",
    [
        "a += 1",
        "a[:] = 0",
        "a[...] = 0",
        "a[:] += b",
        "a[a > 3] = 0",
        "a[~(b > 3) & (a < 1)] = 0",
        "a.sort()",
        "a.fill(3)",
        "a.byteswap(inplace=True)",
        "a.byteswap(True)",
        "a.reshape(2, -1)[...] = 1",
        "a.flat[:] = 0",
        "a.T.sort()",
        "np.copyto(a, b)",
        "np.add(b, 1, a)",
        "np.add(b, 1, out=a)",
        "np.multiply(b, 1, out=(a,))",
        "np.add.at(a, a > 1, 1)",
        "np.random.default_rng().shuffle(a)",
        "c = a\nc += 1",
        "c = a[:]; d = c.view('u8')\nd ^= 1",
        "if i > 3:\n    a *= 2",
        "for k in range(len(a)):\n    a[k] = k",
        "for k in range(a.shape[0]):\n    a[k] = k",
        "for row in a.reshape(8, -1):\n    row += 1",
        "for k, row in enumerate(a.reshape(8, -1)):\n    row[:] = k",
        "with np.errstate(all='ignore'):\n    a /= b",
        "try:\n    a += 1\nfinally:\n    pass",
        "def f(x):\n    x += 1\n#--\nf(a)",
        "def f(x, k):\n    g(x[k:])\ndef g(x):\n    x[:] = 0\n#--\nf(a, k=0)",
        "def f():\n    global a\n    a -= 1\n#--\nf()",
        "def f(x):\n    x += 1\nf(a)",
        "f = lambda x: np.negative(x, x)\nf(a)",
        "class C:\n    def __init__(self, w):\n        self.w = w\n    def step(self):\n"
        "        self.w[:] = 0\nc = C(a)\n#--\nc.step()",
        "d = {'k': [a]}\n#--\nd['k'][0] += 1",
    ],
)
def test_written_as_a_whole(code):
    written, _ = uses(code)
    assert written == pytest.approx(WHOLE, rel=0.01)


@pytest.mark.parametrize(
    "code",
    [
        "a[5] = 1",
        "a[i] += 1",
        "a[-1], b[3] = 1, 2",
        "a[len(a) // 2] += 1",
        "a[10:20] = 0",
        "for k in range(10):\n    a[k] = k",
        "a = a * 2\na += 1",
        "a = a + 1",
        "c = a.copy()\nc += 1",
        "i += 1",
        "x = unknown(a)\nx += 1",
        "a[np.argmax(a)] = 0",
        "a[np.array([1, 2, 3])] = 0",
        "def f(x):\n    x = x * 2\n    x += 1\n#--\nf(a)",
        "a.copy().sort()",
        "np.sort(a)",
        "print(a)",
        "d = {}\nd.update(k=a)",
        "import random\nrandom.shuffle([a, b])",
        "def f(x):\n    f(x)\nf(a)",
    ],
)
def test_hardly_written(code):
    assert uses(code)[0] == {}


@pytest.mark.parametrize(
    ("code", "mib"),
    [
        ("a[: len(a) // 2] = 0", 4),
        ("a[::2] = 0", 8),  # every page
        ("a[::1024] = 0", 4),  # every other page
        ("for k in range(0, 1 << 18):\n    a[k] = 1", 2),
    ],
)
def test_how_much_is_written(code, mib):
    assert uses(code)[0]["a"] == pytest.approx(mib, rel=0.01)


def test_a_column_of_many_touches_all_pages():
    m = np.ones((1024, 1024))
    written, _ = uses("m[:, 3] = 0", m=m)
    assert written == {"m": pytest.approx(4, rel=0.01)}  # a page in each row of two
    assert uses("m[3] = 0", m=m)[0] == {}


@pytest.mark.parametrize(
    "code",
    [
        "a.sum()",
        "x = a * 2",
        "np.sort(a)",
        "f(a)",
        "-a",
        "a > 3",
        "for x in a: pass",
        "[x for x in a]",
    ]
    + ["x = a.mean() + 1", "b[5] = a.max()", "x = {'k': a @ a}", "y = a[:].std()"],
)
def test_read_as_a_whole(code):
    assert uses(code)[1] == pytest.approx(WHOLE, rel=0.01)


@pytest.mark.parametrize(
    "code",
    ["a[5]", "a", "len(a)", "x = a[i] + 1", "print(a)", "a.shape", "a.reshape(2, -1)", "c = a"],
)
def test_hardly_read(code):
    assert uses(code) == ({}, {})


def test_pandas():
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame(np.ones((MIB // 8, 8)), columns=list("abcdefgh"))
    assert uses("df.loc[df['a'] > 1, 'b'] = 0", df=df)[0] == {"df": 1.0}
    assert uses("df.iloc[:, :] = 0", df=df)[0] == {"df": 8.0}
    assert uses("df.fillna(0, inplace=True)", df=df)[0] == {"df": 8.0}
    assert uses("df.iloc[5, 3] = 0; df['x'] = 1; df.at[5, 'a'] = 2", df=df)[0] == {}
    assert uses("df.sum()", df=df)[1] == {"df": 8.0}


def test_torch():
    torch = pytest.importorskip("torch")
    v = torch.ones(2 * MIB)
    assert uses("v += 1", v=v)[0] == {"v": 8.0}
    assert uses("v.add_(1)", v=v)[0] == {"v": 8.0}
    assert uses("v.view(2, -1)[0].zero_()", v=v)[0] == {"v": 4.0}
    assert uses("v[5] += 1", v=v)[0] == {}
    assert uses("v.sum()", v=v)[1] == {"v": 8.0}
    net = torch.nn.Linear(1024, 1024)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    assert uses("optimizer.step()", net=net, optimizer=optimizer)[0] == {"net": 4.0}
    assert uses("y = net(v)", net=net, v=v)[1] == {"net": 4.0, "v": 8.0}


def test_an_array_of_a_tensor_s_memory():
    torch = pytest.importorskip("torch")
    written, _ = uses("c += 1", c=torch.zeros(MIB).numpy())
    assert written == {"c": 4}


def test_nothing_of_the_users_is_run():
    class Trap(np.ndarray):
        def __getitem__(self, index):
            raise AssertionError("ran")

        def __eq__(self, other):
            raise AssertionError("ran")

    class Other:
        def __getattr__(self, name):
            raise AssertionError("ran")

        def __len__(self):
            raise AssertionError("ran")

        __eq__ = __len__

    trap = np.ones(MIB).view(Trap)
    code = "t[3] = 0; t[:] = 0; t += 1; o.x += 1; o[3] = 1; o.f(t); t(o); len(o); o.step(); t.at(o)"
    namespace = {"np": np, "t": trap, "o": Other()}
    Uses(namespace).look_at(ast.parse(code))


def test_a_long_program_is_left():
    code = "a[5] = 1\n" * 4000 + "a += 1"
    assert uses(code)[0] == {}
