"""What a commit looks at after plain cells: no more than they can have touched, and no less.

The main worker is real; the test plays the frontend, as in test_worker_cell.py.
"""

import effort
import pytest

from test_worker_cell import kernel  # noqa: F401 - a fixture


def commit(kernel):  # noqa: F811
    """The report of a commit that is published, with what it saved."""
    return kernel.commit()["report"]


def settle(kernel, *cells):  # noqa: F811
    """Run cells, and commit until nothing is new."""
    for cell in cells:
        answer = kernel.plain(cell)
        assert answer.content["status"] == "ok", answer.content
    for _ in range(2):
        commit(kernel)


def stored(kernel, expression):  # noqa: F811
    """What the expression is in a fresh process: what the store has, not the main worker."""
    return kernel.instrumented(f"eval({expression!r})").result


def test_an_idle_main_worker_looks_at_nothing(kernel):  # noqa: F811
    settle(kernel, "a = [1]; b = {2: [3]}; n = 5\ndef f(x): return x")
    report = commit(kernel)
    assert (report["names_examined"], report["names_encoded"], report["reason"]) == (0, 6, "")
    # No names: the process's state, the shell's memory, which cells wrote what, whose encodings
    # these are, what was lost, and the history's session.


def test_a_cell_makes_its_names_looked_at(kernel):  # noqa: F811
    settle(kernel, "a, b, c = [1], [2], [3]\ndef f(): b.append(4)")
    kernel.plain("a.append(5)")
    assert commit(kernel)["names_examined"] == 1
    kernel.plain("f()")
    report = commit(kernel)
    assert (report["names_examined"], report["reason"]) == (2, "")  # f and b
    assert stored(kernel, "a, b, c") == "([1, 5], [2, 4], [3])"


def test_what_is_bound_stays_unlooked_at_after_a_cell_elsewhere(kernel):  # noqa: F811
    settle(kernel, "a, b, c = ([n] + [0] * 9999 for n in (1, 2, 3))")  # none that is bound unasked
    answer = kernel.instrumented("a.append(2)")
    assert answer.report["names_examined"] == 1
    kernel.plain("c.append(4)")
    assert commit(kernel)["names_examined"] == 1
    assert stored(kernel, "a[-1], b[-1], c[-1]") == "(2, 0, 4)"


def test_what_is_bound_unasked_is_looked_at(kernel):  # noqa: F811
    settle(kernel, "a, b = [1], [0] * 9999")
    assert kernel.instrumented("pass").report["names_examined"] == 1  # not b


# Each: cells that settle; cells between two commits; what the store must have for `x` then.
UNNAMED = {
    "an old function, rebound since": (
        ["x = [1]\ndef f(): x.append(2)"],
        ["f(); f = None"],
        "[1, 2]",
    ),
    "a function taken out of a container": (
        ["x = [1]; table = {'k': lambda: x.append(2)}"],
        ["table.pop('k')()"],
        "[1, 2]",
    ),
    "a method": (
        ["x = [1]\nclass A:\n  def m(self): x.append(2)\na = A()"],
        ["a.m()"],
        "[1, 2]",
    ),
    "a finalizer": (
        ["x = [1]\nclass A:\n  def __del__(self): x.append(2)\nimport sys\nsys.kept = A()"],
        ["import sys\ndel sys.kept"],
        "[1, 2]",
    ),
    "a reference of a library": (
        ["x = [1]\nimport sys\nsys.kept = x"],
        ["import sys\nsys.kept.append(2)"],
        "[1, 2]",
    ),
    "a part held by a library": (
        ["x = [[1]]\nimport sys\nsys.kept = x[0]"],
        ["import sys\nsys.kept.append(2)"],
        "[[1, 2]]",
    ),
    "an instance's dict held by a library": (
        ["class A: pass\nimport sys\nx = A(); x.n = 1; sys.kept = vars(x)"],
        ["import sys\nsys.kept['n'] = 2"],
        None,
    ),
    "an instance's dict with a name": (
        ["class A: pass\nx = A(); x.n = 1; d = vars(x)"],
        ["d['n'] = 2"],
        None,
    ),
    "a callback": (
        ["x = [1]\ndef f(): x.append(2)\nimport sys\nsys.call = f"],
        ["import sys\nsys.call()"],
        "[1, 2]",
    ),
    "a callback without a name": (
        ["x = [1]\nimport sys\nsys.call = lambda: x.append(2)"],
        ["import sys\nsys.call()"],
        "[1, 2]",
    ),
    "a bound method as callback": (
        ["x = [1]\nclass A:\n  def m(self): x.append(2)\nimport sys\nsys.call = A().m"],
        ["import sys\nsys.call()"],
        "[1, 2]",
    ),
    "a callback by way of a partial": (
        ["x = [1]\nimport functools, sys\nsys.call = functools.partial(x.append, 2)"],
        ["import sys\nsys.call()"],
        "[1, 2]",
    ),
    "a weak reference": (
        ["x = {1}\nimport sys, weakref\nsys.kept = weakref.ref(x)"],
        ["import sys\nsys.kept().add(2)"],
        "{1, 2}",
    ),
    "a handler of the shell's events": (
        ["x = [1]\nget_ipython().events.register('post_run_cell', lambda r: x.append(2))"],
        ["pass"],
        None,
    ),
    "a thread": (
        [
            "x = [1]\nimport threading, sys\nsys.go = threading.Event()\n"
            "def work():\n  sys.go.wait(); x.append(2)\n"
            "sys.thread = threading.Thread(target=work); sys.thread.start(); del work"
        ],
        ["import sys\nsys.go.set(); sys.thread.join()"],
        "[1, 2]",
    ),
    "a task": (
        [
            "x = [1]\nimport asyncio, sys\nsys.go = asyncio.Event()\n"
            "async def work():\n  await sys.go.wait(); x.append(2)\n"
            "sys.task = asyncio.ensure_future(work()); await asyncio.sleep(0)"
        ],
        ["import sys\nsys.go.set(); await sys.task"],
        "[1, 2]",
    ),
    "the last result": (["x = [1]\nx"], ["_.append(2)"], "[1, 2]"),
    "a numbered result": (["x = [1]\nx"], ["_1.append(2)"], "[1, 2]"),
    "Out": (["x = [1]\nx"], ["Out[1].append(2)"], "[1, 2]"),
    "globals": (["x = [1]"], ["globals()['x'].append(2)"], "[1, 2]"),
    "a name made at run time": (["x = [1]"], ["exec('x' + '.append(2)')"], "[1, 2]"),
    "the module itself": (
        ["x = [1]"],
        ["import sys\nsys.modules['__main__'].x.append(2)"],
        "[1, 2]",
    ),
    "a magic": (["x = [1]"], ["%timeit -n1 -r1 x.append(2)"], "[1, 2]"),
    "a cell magic": (["x = [1]"], ["%%time\nx.append(2)"], "[1, 2]"),
    "an attribute's property, completed": (
        ["x = [1]\nclass A:\n  @property\n  def p(self): x.append(2)\na = A()"],
        ["a.p"],
        "[1, 2]",
    ),
    "a view": (
        ["import numpy as np\nx = np.zeros(3); v = x[1:]"],
        ["v[0] = 1"],
        "array([0., 1., 0.])",
    ),
    "a view that a library holds": (
        ["import numpy as np, sys\nx = np.zeros(3); sys.kept = x[1:]"],
        ["import sys\nsys.kept[0] = 1"],
        "array([0., 1., 0.])",
    ),
    "shared memory of a tensor": (
        ["torch = __import__('torch')\nt = torch.zeros(3); x = t.numpy()"],
        ["t[1] = 1"],
        "array([0., 1., 0.], dtype=float32)",
    ),
    "linked since, then changed": (
        ["x = [1]; y = []"],
        ["y.append(x)", "y[0].append(2)"],
        "[1, 2]",
    ),
    "a class's attribute": (
        ["class A: n = 1\nimport sys\nsys.kept = A(); x = [A()]"],
        ["import sys\ntype(sys.kept).n = 2"],
        None,
    ),
    "rebound to an object of another name": (["y = [1]; x = [0]"], ["x = y"], "[1]"),
}


@pytest.mark.parametrize("way", effort.core(UNNAMED, lambda way: "tensor" not in way))
def test_a_change_is_found(kernel, way):  # noqa: F811
    before, between, expected = UNNAMED[way]
    if "torch" in before[0]:
        pytest.importorskip("torch")
    settle(kernel, *before)
    for cell in between:
        answer = kernel.plain(cell)
        assert answer.content["status"] == "ok", answer.content
        if cell is not between[-1]:
            commit(kernel)
    if expected is None:
        expected = "True"
        check = "x.n == 2 if hasattr(x, 'n') else len(x) > 1 or x[0].n == 2"
    else:
        check = "x"
    assert stored(kernel, check) == expected


def test_a_module_of_the_users_that_looks_into_main(kernel, tmp_path):  # noqa: F811
    (tmp_path / "looking.py").write_text("import __main__\ndef go(): __main__.x.append(2)\n")
    (tmp_path / "innocent.py").write_text("if __name__ == '__main__':\n    print(1)\n")
    settle(kernel, "x = [1]\nimport sys; sys.path.insert(0, '.')\nimport innocent")
    assert commit(kernel)["reason"] == ""
    settle(kernel, "import looking")
    kernel.plain("looking.go()")
    assert "looking" in commit(kernel)["reason"]
    assert stored(kernel, "x") == "[1, 2]"


FAILING = [
    "1 / 0",
    "f(1)",
    "(lambda: 1 / 0)()",
    "[1 / 0 for _ in (1,)]",
    "x[0].nothing",
    "syntax error",
]


@pytest.mark.parametrize("failing", effort.core(FAILING, ["f(1)", "syntax error"]))
def test_a_shown_error_leaves_the_notebook_as_it_is(kernel, failing):  # noqa: F811
    settle(kernel, "x = [1]; y = [2]\ndef f(n): return n / 0")
    kernel.plain(failing)
    commit(kernel)
    assert commit(kernel)["reason"] == ""
    kernel.plain("y.append(3)")
    assert commit(kernel)["reason"] == ""
    assert stored(kernel, "x, y") == "([1], [2, 3])"


def test_earlier_errors_hold_nothing(kernel):  # noqa: F811
    """Each goes with the next: the collector, which comes when it likes, has nothing to do."""
    settle(
        kernel,
        "import gc, weakref\nclass A: pass\ndef f(n): held = A(); seen.append(weakref.ref(held)); n / 0",
        "seen = []; gc.disable()",
    )
    for failing in ("f(1)", "[f(n) for n in range(2)]", "await g(1)", "raise SystemExit") * 3:
        kernel.plain(failing)
    kernel.plain("1 / 0")
    commit(kernel)
    assert commit(kernel)["reason"] == ""
    assert stored(kernel, "[one() for one in seen]") == repr([None] * 6)
    kernel.plain("gc.enable()")


def test_what_runs_in_the_shell_leaves_no_strays(kernel):  # noqa: F811
    settle(kernel, "x = [1]\ndef f(n): return n\nclass A: pass")
    for cell in (
        "f(1)",
        "x",
        "%timeit -n1 -r1 f(2)",
        "[f(i) for i in range(3)]",
        "import asyncio\nawait asyncio.sleep(0)",
        "sorted([3, 1], key=lambda v: -v)",
        "def g(): yield from x\nlist(g())",
        "A()",
        "f?",
        "print(x)",
    ):
        assert kernel.plain(cell).content["status"] == "ok"
        commit(kernel)
        assert commit(kernel)["reason"] == "", cell


def test_a_commit_that_nobody_published_is_made_up_for(kernel):  # noqa: F811
    settle(kernel, "x = [1]; y = [2]")
    kernel.plain("x.append(2)")
    kernel.main.send({"op": "commit", "id": 0})
    reply, _ = kernel.main.until("reply")
    assert reply["report"]["names_saved"] == 1
    kernel.plain("y.append(3)")
    assert commit(kernel)["names_saved"] == 2
    assert stored(kernel, "x, y") == "([1, 2], [2, 3])"
