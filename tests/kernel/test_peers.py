"""Notebooks of several kinds, each run by ipykernel and by Holdfast: the outputs must agree.

Each runs four times: in ipykernel, in Holdfast as it is, and in Holdfast with every second
cell instrumented, on each of the two run modes. What is compared is what a reader of the notebook sees, in order, with
addresses and random ids made equal, and the values of the variables at the end.
"""

import re

import effort
import pytest

CELL = "%%execute_with_scorep\n"
IDS = [
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"Instrumentation results can be found in .*\n"), ""),
    (re.compile(r"\x1b\[[0-9;]*[mKA-H]"), ""),
    (re.compile(r"(?m)^.*# ?%%execute_with_scorep$\n?"), ""),
    (re.compile(r"line (\d+)"), "line N"),
    (re.compile(r"(?m)^(-+> ?| +)\d+ ?"), ""),
    (re.compile(r"(ipykernel_\d+/)?\d+\.py"), "FILE"),
    (re.compile(r"(?m)^(/.*\.py|FILE):N?\d*: (?=\w+Warning)"), ""),
    (re.compile(r"(?m)^ +warn(ings\.warn)?\(.*$"), ""),
    (re.compile(r"[\d.e+]+ (ns|[µμ]s|ms|s)\b"), "TIME"),
    (re.compile(r"\d+[:.]\d+(it/s|s/it|<|s\b)"), "TIME"),
]

PANDAS = [
    "import numpy as np, pandas as pd\nrng = np.random.default_rng(7)\npd.__name__",
    "df = pd.DataFrame({'g': pd.Categorical(list('abcd') * 250), 'x': rng.normal(size=1000),\n"
    "   'when': pd.date_range('2024-01-01', periods=1000, freq='h'), 't': ['s%d' % i for i in range(1000)]})\n"
    "df.head()",
    "df['y'] = df.x.cumsum()\nby = df.groupby('g', observed=True)\nby.y.agg(['mean', 'std', 'count'])",
    "df.query('x > @limit') if 'limit' in globals() else 'no limit'",
    "limit = 1.5",
    "len(df.query('x > @limit')), df.query('x > @limit').t.iloc[0]",
    "wide = df.pivot_table(index=df.when.dt.dayofweek, columns='g', values='y', observed=True)\nwide.round(6)",
    "wide.loc[0, 'a'] = -1; col = df['y']; df.loc[3, 'y'] = 99; wide.shape",
    "df.iloc[3].tolist()",
    "m = df.merge(by.x.max().rename('top').reset_index(), on='g'); m['far'] = m.top - m.x; m.far.describe()",
    "df.set_index('when', inplace=True); df.resample('D').x.sum().head(3)",
    "sorted(df.dtypes.astype(str).items()), df.index.freq",
    "missing = df.x.where(df.x > 0); missing.isna().sum(), missing.fillna(0).sum().round(8)",
    "df['nope']",
    "del m; s = pd.Series(['ä', None, '日本', '🙂'], dtype='string'); s.str.len()",
    "pd.concat([s, s.str.upper()], axis=1)",
    "df.style.format(precision=2)._repr_html_() is not None",
    "multi = pd.MultiIndex.from_product([[1, 2], ['a', 'b']]); pd.Series(range(4), multi).unstack()",
    "pd.options.display.max_rows = 6; np.set_printoptions(precision=2); df.x",
    "df.x, df.x.to_numpy()[:3]",
    "%xmode Minimal\nnp.set_printoptions(suppress=True); df.head(9)",
    "df.x.to_numpy()[:2] * 1e-6, df.head(9), df['nope']",
]

SKLEARN = [
    "import numpy as np\nfrom sklearn.datasets import load_iris\nfrom sklearn.pipeline import make_pipeline\n"
    "from sklearn.preprocessing import StandardScaler, FunctionTransformer\nfrom sklearn.linear_model import LogisticRegression",
    "X, y = load_iris(return_X_y=True); X.shape, y[:3]",
    "def widen(X):\n    return np.c_[X, X[:, 0] * factor]\nfactor = 2.0",
    "pipe = make_pipeline(FunctionTransformer(widen), StandardScaler(), LogisticRegression(max_iter=500))\npipe.fit(X, y)\nround(pipe.score(X, y), 6)",
    "pipe.named_steps['standardscaler'].mean_.round(8)",
    "from sklearn.model_selection import cross_val_score, GridSearchCV\ncross_val_score(pipe, X, y, cv=3).round(6)",
    "grid = GridSearchCV(pipe, {'logisticregression__C': [0.1, 1, 10]}, cv=3).fit(X, y); grid.best_params_",
    "best = grid.best_estimator_; best is grid.best_estimator_, best[-1].classes_",
    "from sklearn.tree import DecisionTreeClassifier, export_text\ntree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)\nprint(export_text(tree))",
    "tree.tree_.threshold.round(6), tree.predict(X[::50])",
    "from sklearn.ensemble import RandomForestClassifier\nforest = RandomForestClassifier(12, random_state=1).fit(X, y); forest.score(X, y)",
    "forest.feature_importances_.round(8)",
    "from sklearn.cluster import KMeans\nkm = KMeans(3, n_init=2, random_state=0).fit(X); np.sort(km.cluster_centers_[:, 0]).round(6)",
    "km.predict(X[:2]).shape, forest.estimators_[0].get_depth() > 0, best is grid.best_estimator_",
    "grid.predict(X[:2]); X[0, 0] = np.nan; pipe.predict(X)",
    "type(pipe).__name__, [name for name, _ in pipe.steps]",
]

PLOTS = [
    "%matplotlib inline\nimport matplotlib.pyplot as plt, numpy as np\nx = np.linspace(0, 6, 200)",
    "fig, ax = plt.subplots(figsize=(3, 2)); ax.plot(x, np.sin(x)); ax.set_title('sine')",
    "ax.plot(x, np.cos(x)); fig",
    "ax.set_title('both'); fig",
    "plt.hist(x, bins=7); plt.show()",
    "plt.imshow(np.arange(16).reshape(4, 4)); plt.colorbar();",
    "from IPython.display import display, HTML, Markdown, JSON, Latex, SVG, update_display\n"
    "h = display(HTML('<b>one</b>'), display_id='box'); display(Markdown('# m'), Latex('$x$'))",
    "update_display(HTML('<b>two</b>'), display_id='box')",
    "h.update(HTML('<b>three</b>'))",
    "display({'text/plain': 'raw', 'application/x-own': {'a': 1}}, raw=True)",
    "class Rich:\n    def _repr_html_(self): return '<i>rich</i>'\n    def _repr_mimebundle_(self, **kw): return {'text/x-own': 'own'}\nrich = Rich(); rich",
    "rich",
    "plt.rcParams['font.size'] = 6; plt.figure(figsize=(2, 1)); plt.text(0.1, 0.5, 'ä€')",
    "plt.rcParams['font.size'], plt.get_fignums()",
    "plt.style.use('ggplot'); plt.figure(figsize=(2, 1)); plt.plot(x, np.cos(x))",
    "plt.figure(figsize=(2, 1)); plt.plot(x, np.sin(x)); plt.plot(x, x)",
    "%config InlineBackend.figure_formats = {'svg'}\nplt.rcdefaults(); plt.rcParams['svg.hashsalt'] = 'x'",
    "type(fig).__name__, len(ax.lines)",
    "%config InlineBackend.figure_formats = {'png'}\nfig",
    "fig",
    "import seaborn_that_is_not_there",
    "from IPython.display import clear_output\nprint('gone'); clear_output(); print('here')",
]

LANGUAGE = [
    "import functools, enum, dataclasses, abc, typing, contextlib, collections, itertools, operator",
    "@dataclasses.dataclass(order=True, slots=True)\nclass P:\n    x: int\n    y: list = dataclasses.field(default_factory=list)\np = P(1, [2]); p",
    "p.y.append(3); p, P(0) < p, dataclasses.asdict(p)",
    "class Level(enum.IntFlag):\n    R = 4\n    W = 2\n    X = 1\nperm = Level.R | Level.W; perm, Level(4) is Level.R",
    "Level.W in perm, perm ^ Level.R, {Level.R: 'read'}[Level.R]",
    "calls = []\n@functools.lru_cache(maxsize=None)\ndef fib(n):\n    calls.append(n); return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(20)",
    "fib(21), len(calls)",
    "def traced(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        inner.count += 1; return f(*a, **k)\n    inner.count = 0; return inner\n@traced\ndef area(w, h=2): 'the area'; return w * h",
    "area(3), area(4, h=1), area.count, area.__doc__, area.__wrapped__.__name__",
    "area(5), area.count",
    "def make():\n    total = 0\n    def add(n):\n        nonlocal total; total += n; return total\n    return add\nadd = make(); add(5)",
    "add(6)",
    "add(7)",
    "class Shape(abc.ABC):\n    registry = []\n    def __init_subclass__(cls, **kw): super().__init_subclass__(**kw); Shape.registry.append(cls.__name__)\n    @abc.abstractmethod\n    def size(self): ...\n"
    "class Square(Shape):\n    def __init__(self, a): self.a = a\n    @property\n    def size(self): return self.a ** 2\n    @classmethod\n    def unit(cls): return cls(1)\n    @staticmethod\n    def name(): return 'square'",
    "sq = Square(3); sq.size, Square.unit().size, sq.name(), Shape.registry, isinstance(sq, Shape)",
    "class Meta(type):\n    def __call__(cls, *a):\n        one = super().__call__(*a); cls.made = getattr(cls, 'made', 0) + 1; return one\nclass Made(metaclass=Meta): pass\nmade = [Made(), Made()]; Made.made",
    "made.append(Made()); Made.made, [type(m) is Made for m in made], type(Made) is Meta",
    "class D(dict):\n    def __missing__(self, k): self[k] = k * 2; return self[k]\ndd = D(a=1); dd['zz'], dd",
    "dd['q'], dd, type(dd).__name__, collections.Counter('hello').most_common(2)",
    "N = typing.NamedTuple('N', [('a', int), ('b', str)]); n = N(1, 'b'); n._replace(a=5)",
    "n, n.b, isinstance(n, tuple), N._fields",
    "dq = collections.deque([1, 2, 3], maxlen=3); od = collections.OrderedDict(z=1, a=2); dflt = collections.defaultdict(list); dflt['k'].append(dq)",
    "dq.append(4); dflt['k'][0] is dq, dq, od, dflt, dict(dflt)",
    "part = functools.partial(operator.add, 10); part(5), [*map(part, range(3))], sorted(od, key=od.get)",
    "part.func is operator.add, part.args",
    "async def wait(n):\n    import asyncio\n    await asyncio.sleep(0.01); return n\nawait wait(3)",
    "import asyncio; await asyncio.gather(wait(1), wait(2))",
    "async with contextlib.AsyncExitStack() as stack: stack.push_async_callback(wait, 1)\n[i async for i in (await wait(j) for j in range(3))]",
    "try:\n    raise ExceptionGroup('g', [ValueError(1), TypeError(2)])\nexcept* ValueError as eg: caught = eg.exceptions\ncaught",
    "class MyError(Exception):\n    def __init__(self, code): super().__init__(f'code {code}'); self.code = code\nraise MyError(5)",
    "try:\n    raise MyError(6) from ValueError('inner')\nexcept MyError as e: held = e\nheld.code, repr(held.__cause__)",
    "held, isinstance(held, MyError), held.args",
    "def deep(n):\n    return deep(n - 1) if n else 1 / 0\ndeep(2)",
    "int('x')",
    "_ , __, len(Out) > 3",
    "import re, fractions, decimal, uuid, datetime, pathlib, random\nrandom.seed(5); r = random.random(); rx = re.compile('a+'); fr = fractions.Fraction(1, 3); dec = decimal.Decimal('1.10'); path = pathlib.Path('/tmp')",
    "random.random() == random.Random(5).random(), rx.match('aab'), fr * 2, dec + 1, path / 'x', datetime.timedelta(days=2)",
    "random.random(), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc).isoformat()",
    "big = 10 ** 60; z = 1 + 2j; inf = float('inf'); neg = -0.0; nan = float('nan'); f = frozenset({1, (2, 3)}); rng = range(0, 9, 2); sl = slice(1, 2)",
    "big + 1, z.conjugate(), inf, neg, nan, nan == nan, f, rng, sl, ..., NotImplemented",
    "lam = lambda x, /, *, k=big: x + k\nlam(1), lam.__kwdefaults__ == {'k': big}",
    "lam(2, k=1), [f(2) for f in [lambda x, i=i: x * i for i in range(3)]]",
    "def gen():\n    got = yield 1\n    yield got\ng = gen(); next(g)",
    "list(gen())",
    "x: int = 5\n__annotations__ if '__annotations__' in globals() else None",
    "match {'kind': 'p', 'at': [1, 2]}:\n    case {'kind': 'p', 'at': [a, *rest]}: print(a, rest)\nif (w := 5) > 3: print(f'{w=!r:>4}')",
    "print(a, rest, w)",
    "type(sq).__module__, P.__qualname__, __name__, globals() is locals()",
    "import types; mod = types.SimpleNamespace(a=[1], f=area); mod.f is area, mod",
    "mod.a.append(2); mod.f is area, mod.a",
    "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, v: T): self.v = v\nbox = Box[int](3); box.v, Box[int]",
    "box.v, type(box) is Box, box.__orig_class__ == Box[int]",
    "class Temp:\n    def __enter__(self): print('in'); return self\n    def __exit__(self, *a): print('out'); return True\nwith Temp(): 1 / 0\ntemp = Temp()",
    "with temp as same: print(same is temp)",
    "class Slots:\n    __slots__ = ('a', '__weakref__')\nimport weakref\nsl1 = Slots(); sl1.a = 1",
    "sl1.a, hasattr(sl1, '__dict__'), weakref.ref(sl1)() is sl1",
    "class Desc:\n    def __set_name__(self, o, n): self.n = n\n    def __get__(self, i, o): return (self.n, i is None)\nclass Uses: d = Desc()\nUses.d, Uses().d",
    "Uses.d, Uses().d, Uses.__dict__['d'].n",
    "class Tree:\n    def __init__(self, up=None): self.up = up; self.below = []; up and up.below.append(self)\nroot = Tree(); leaf = Tree(Tree(root)); leaf.up.up is root",
    "leaf.up.up is root, root.below[0].below[0] is leaf; leaf.mark = 1",
    "root.below[0].below[0].mark",
    "bound = sq.unit; meth = [].append; bound().a, operator.itemgetter(1)([1, 2])",
    "bound().a, bound.__self__ is Square",
    "singledisp = functools.singledispatch(lambda x: 'any')\nsingledisp.register(int, lambda x: 'int'); singledisp(1), singledisp('')",
    "singledisp(True), singledisp(2.5), len(singledisp.registry)",
    "class Kind(type):\n    made = []\n    def __new__(kind, name, bases, space):\n        cls = super().__new__(kind, name, bases, space); kind.made.append(name); return cls\n    def __init__(cls, name, bases, space): super().__init__(name, bases, space); cls.marked = len(cls.made)\nclass First(metaclass=Kind): pass\nclass Second(First): pass",
    "Kind.made, First.marked, Second.marked, type(Second) is Kind",
    "class Third(Second): pass\nKind.made, Third.marked",
    "class Record(dict):\n    def __init__(self, **k): super().__init__(**k); self.__dict__ = self\nrecord = Record(a=1); record.b = [2]; record",
    "record.c = 3; record['d'] = record.b; record",
    "record.d is record['b'], vars(record) is record, record.c",
    "import argparse; parser = argparse.ArgumentParser(prog='p'); _a = parser.add_argument('--n', type=int, default=3, help='how many')\noptions = parser.parse_args([]); table = vars(options)",
    "table['m'] = 5; options, parser.parse_args(['--n', '4']), vars(options) is table",
    "options.k = 6; print(sorted(table)); parser.print_help()",
    "ip = get_ipython(); ip.push({'pushed': [1]}); ip is get_ipython()",
    "ip.ev('pushed'), ip.user_ns['push' + 'ed'] is pushed, ip is get_ipython()",
    "ip.ex('push' + 'ed.append(2)')",
    "pushed",
    "class Cached:\n    @functools.cached_property\n    def slow(self): print('once'); return 5\nc = Cached(); c.slow",
    "c.slow",
]

SHELL = [
    "!echo from the shell; echo more >&2",
    "files = !printf 'a\\nb\\n'\nfiles",
    "files.n, type(files).__name__",
    "%%bash\necho bash $((1 + 2)); exit 0",
    "%%bash --out captured\necho kept",
    "captured",
    "%%sh\nexit 3",
    "%%capture cap\nprint('hidden'); 5",
    "cap.stdout, len(cap.outputs)",
    "%%writefile note.txt\nline one\nline two",
    "%pycat note.txt\nopen('note.txt').read()",
    "%cd -q ..\nimport os; here = os.getcwd(); os.path.basename(here) != ''",
    "os.getcwd() == here",
    "%env HOLDFAST_PEER=1\nos.environ['HOLDFAST_PEER']",
    "os.environ['HOLDFAST_PEER']",
    "%%python3\nprint('other process')",
    "%who_ls str",
    "word = 'x'; print('a' * 200_000)",
    "for i in range(3000): print(i, end=' ')",
    "import sys; print('err', file=sys.stderr); print('ü🙂\\ttab\\x00nul'); sys.stdout.write('no newline')",
    "list(range(2000))",
    "'y' * 300_000",
    "print('a', flush=True); os.write(1, b'') and None; print('b')",
    # A thread of ipykernel's reads what the child writes: it needs a moment before the cell's end.
    "import subprocess, time; ended = subprocess.run(['echo', 'child']); time.sleep(0.5); ended.returncode",
    "subprocess.check_output('echo $HOLDFAST_PEER', shell=True)",
    "def broken(:\n",
    "    indented = 1\n",
    "x = 'unterminated",
    "%nosuchmagic",
    "%%nosuchcellmagic\n1",
    "undefined_name",
    "print?",
    "%%timeit -n1 -r1 -q -o\nword + word",
    "_.loops",
    "%alias_magic -l say pylsmagic",
    "%%html\n<b>x</b>",
    "%%javascript\n1",
    "%pdb off",
    "%precision 3\n1/3",
    "1/3",
    "%load_ext nothing_like_this",
    "%xmode Minimal\n1/0",
    "1/0",
    "%xmode Context",
    "from IPython import get_ipython; type(get_ipython()).__name__, get_ipython().kernel is not None",
    "%config InlineBackend.figure_format",
    "%%time\npass",
    "a = 1; a; 2",
    "1;",
    "\n\n# only a comment",
    "print(1)\r\nprint(2)\r\n",
    "import logging; logging.basicConfig(format='%(message)s'); logging.warning('logged')",
    "import warnings; warnings.warn('careful')",
    "assert a == 2, 'a is one'",
    "raise KeyboardInterrupt",
    "import sys; sys.exit(4)",
    "%reset -f array",
    "a",
]

PROGRESS = [
    "import sys\nfrom tqdm import tqdm\nfor i in tqdm(range(3), file=sys.stdout, bar_format='{n_fmt}/{total_fmt}', mininterval=0, ncols=20): pass",
    "from tqdm.notebook import tqdm as bars\nfor i in bars(range(3)): pass",
    "for i in bars(range(4), desc='again'): pass",
    "from rich.progress import track\nfrom rich import print as rprint\nrprint('[bold]x[/bold]')",
    "from rich.table import Table\nt = Table('a', 'b'); t.add_row('1', '2'); rprint(t)",
    "import ipywidgets as w\ns = w.IntSlider(3, description='n')\ntype(s).__name__",
    "plain_value = 5",
    "out = w.Output()\nwith out: print('inside')\nlen(out.outputs) >= 0",
    "print(plain_value)",
    "w.HTML('<b>x</b>').value",
]

NOTEBOOKS = {
    "pandas": (PANDAS, ["limit", "wide.round(8).to_dict()", "df.x.sum().round(9)", "sorted(df)"], ["pandas"]),
    "sklearn": (SKLEARN, ["factor", "X.shape", "forest.score(X[1:], y[1:])"], ["sklearn"]),
    "plots": (PLOTS, ["x.sum()", "sorted(plt.rcParams['figure.figsize'])"], ["matplotlib_inline", "matplotlib"]),
    "language": (LANGUAGE, ["p", "calls[:3]", "area.count", "add(0)", "perm", "Made.made", "dd", "dq", "big", "leaf.mark"], []),
    "shell": (SHELL, ["word", "os.environ['HOLDFAST_PEER']"], []),
    "progress": (PROGRESS, ["plain_value"], ["tqdm", "rich", "ipywidgets"]),
}  # fmt: skip

# What an instrumented cell may show otherwise, by the beginning of the code.
DIFFERENCES = {
    "\n\n# only": "the magic says that there is no code below it",
}

# What a clean process names as not carried (docs/carried.md, 14): once, in the cell after.
NAMED = re.compile(
    r"^holdfast: the local variables in the traceback of \w+ couldn't be carried over: .*\n",
    re.MULTILINE,
)


def same(text):
    for pattern, by in IDS:
        text = pattern.sub(by, text)
    return text


def seen(outcome):
    """What a reader sees: streams joined, the other outputs in order."""
    shown = {"stdout": "", "stderr": ""}
    others = []
    for message in outcome.messages:
        content, kind = message["content"], message["msg_type"]
        if kind == "stream":
            shown[content["name"]] += content["text"]
        elif kind in ("display_data", "execute_result", "update_display_data"):
            data = {mime: same(str(value)) for mime, value in content["data"].items()}
            others.append((kind, data))
        elif kind == "error":
            others.append((kind, content["ename"], same(content["evalue"])))
        elif kind == "clear_output":
            others.append((kind, content))
    shown["stderr"] = NAMED.sub("", shown["stderr"])
    return {name: same(text) for name, text in shown.items()}, others


def replay(notebook, cells, final, instrumented):
    found = []
    for number, code in enumerate(cells):
        magic = code.startswith(("%%", "%load_ext"))
        head = CELL if instrumented and number % 2 and not magic else ""
        outcome = notebook.run(head + code, stop_on_error=False)
        found.append((code, *seen(outcome)))
    for expression in final:
        found.append((expression, notebook.run(expression).result))
    return found


@pytest.mark.parametrize("name", effort.sample(NOTEBOOKS, 2))
def test_cells_show_what_ipykernel_shows(peer, start_kernel, tmp_path, name):
    cells, final, modules = NOTEBOOKS[name]
    for module in modules:
        pytest.importorskip(module)
    shown = replay(peer, cells, final, instrumented=False)
    for way in ("plain", "isolated", "in-process"):
        instrumented = way != "plain"
        (tmp_path / way).mkdir()
        ours = start_kernel(env={"HOLDFAST_RUN": way} if instrumented else {}, cwd=tmp_path / way)
        for theirs, own in zip(shown, replay(ours, cells, final, instrumented)):
            if not (instrumented and own[0].startswith(tuple(DIFFERENCES))):
                assert (way, *own) == (way, *theirs)
        ours.close()
