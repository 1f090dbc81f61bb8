"""Which names a cell can reach, and when the code doesn't show them."""

import pytest

from holdfast.worker.analysis.reach import Reach, bind
from IPython.core.inputtransformer2 import TransformerManager

transform = TransformerManager().transform_cell


def reached(code):
    reach = Reach(code, transform)
    return reach.names, reach.reason


def defined(source):
    """The namespace of a notebook whose only cell was `source`."""
    namespace = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("x", {"x"}),
        ("y = x + 1", {"x"}),
        ("def f():\n    return [a for b in c]", {"a", "c"}),
        ("class A(B):\n    z = w\n    def m(self): return v", {"B", "w", "v"}),
        ("lambda: (lambda: deep)", {"deep"}),
        ("await g(x)", {"g", "x"}),
        ("f'{a} {b!r}'", {"a", "b"}),
        ("del x", {"x"}),
        ("global x; x += 1", {"x"}),
        ("%timeit f(x)", {"f", "x"}),
        ("%%time\ny = f(x)", {"f", "x", "y"}),
        ("!echo $name {other + 1}", {"name", "other"}),
        ("z = !ls {directory}", {"directory"}),
        ("%%bash\necho hi", set()),
        ("ols('y ~ f(x)', data)", {"ols", "y", "f", "x", "data"}),
    ],
)
def test_names(code, names):
    found, reason = reached(code)
    assert names <= found
    assert reason == ""


@pytest.mark.parametrize(
    "code",
    [
        "globals()['x']",
        "def f(): return locals()",
        "eval('x')",
        "exec(code)",
        "dir()",
        "vars()",
        "import inspect",
        "import sys; sys._getframe()",
        "import __main__",
        "import sys; sys.modules['__main__'].x",
        "df.query('a > @x')",
        "pl.sql('select * from x')",
        "pl.SQLContext(register_globals=True)",
        "df.eval('a + @x')",
        "get_ipython().user_ns['x']",
        "get_ipython().ev('x')",
        "Out[3]",
        "%who",
        "%run script.py",
        "%timeit eval('x')",
        "%some_magic_of_the_user x",
        "%%time\nglobals()",
    ],
)
def test_everything_where_code_is_opaque(code):
    assert reached(code)[1] != ""


def test_broken_code_reaches_nothing():
    assert reached("x = (") == (set(), "")
    assert reached("\0") == (set(), "")


def test_a_function_behind_a_value_may_look_at_everything():
    reach = Reach("pass", transform)
    reach.add_functions(defined("def f(): return g() + x\nclass A: pass").values())
    assert {"g", "x"} <= reach.names and reach.reason == ""
    reach.add_functions(defined("def f(): return globals()").values())
    assert "globals" in reach.reason


class FakeNames:
    """A store that gives the names it is asked for."""

    def __init__(self, stored):
        self.stored = stored
        self.asked = []

    def bind(self, namespace, *, names=None, budget=0):
        chosen = set(self.stored) if names is None else set(names) & set(self.stored)
        self.asked.append(None if names is None else chosen)
        for name in chosen - namespace.keys():
            value = self.stored[name]
            namespace[name] = value
        code = {name: [self.stored[name]] for name in chosen}
        left = len(set(self.stored) - namespace.keys())
        return {
            "bound": len(chosen),
            "decoded": len(chosen),
            "skipped": left,
            "bytes_mapped": 0,
            "seconds": 0.0,
            "absent": {},
            "code": code,
        }


class FakeShell:
    transform_cell = staticmethod(transform)

    def __init__(self):
        self.user_ns = {}


def test_bind_grows_until_nothing_new_is_reached():
    stored = defined("def f(): return g()\ndef g(): return x\nx = 1\nother = 2")
    stored.pop("__builtins__")
    names, shell = FakeNames(stored), FakeShell()
    report, reason = bind(names, shell, "f()")
    assert shell.user_ns.keys() >= {"f", "g", "x"}
    assert "other" not in shell.user_ns
    assert reason == ""
    assert report["decoded"] == 3
    assert report["skipped"] == 2  # other and __name__


def test_bind_everything_says_why():
    names, shell = FakeNames({"x": 1}), FakeShell()
    _, reason = bind(names, shell, "globals()")
    assert "globals" in reason
    assert shell.user_ns == {"x": 1}
    assert names.asked[-1] is None
