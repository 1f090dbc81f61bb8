"""State of the process in isolated cells, in the main worker after them, and in a later main worker.

Each case sets something as a notebook would, and has an expression that shows it. The same must be
shown by an isolated cell, by a plain one after it, and by a plain one after the main worker's death.
"""

import effort
import pytest

from tests.conftest import RUNS

ISOLATED = "%%isolated\n"
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

PACKAGE = """import warnings
class ItsWarning(UserWarning): pass
warnings.simplefilter("ignore", ItsWarning)
"""

# What sets it, the expression that shows it, what that gives.
CASES = {
    "a package's warning": (
        "import sys; sys.path.insert(0, 'lib'); import its_package, warnings",
        "its_package.ItsWarning in {entry[2] for entry in warnings.filters}",
        "True",
    ),
    "a warning of the notebook's": (
        "import warnings\nclass Mine(UserWarning): pass\nwarnings.simplefilter('ignore', Mine)",
        "[entry[2] is Mine for entry in warnings.filters if entry[2].__name__ == 'Mine']",
        "[True]",
    ),
    "how NumPy shows arrays": (
        "import numpy as np; np.set_printoptions(override_repr=lambda a: f'<{a.size}>')",
        "repr(np.zeros(3))",
        "<3>",
    ),
    "NumPy's bit generator": (
        "import numpy as np; bits = np.random.PCG64(1); np.random.set_bit_generator(bits)",
        "np.random.get_bit_generator() is bits",
        "True",
    ),
    "decimal's context in a variable": (
        "import decimal; context = decimal.getcontext(); context.prec = 5",
        "context is decimal.getcontext(), decimal.Decimal(1) / 3",
        "True 0.33333",
    ),
    "a logger's handler and filters": (
        "import io, logging; log = logging.getLogger('mine'); text = io.StringIO()\n"
        "handler = logging.StreamHandler(text); log.addHandler(handler)\n"
        "class Odd(logging.Filter):\n    def filter(self, record): return len(record.msg) % 2\n"
        "log.addFilter(odd := Odd()); handler.addFilter(odd)",
        "text.truncate(0), text.seek(0), log.error('on'), log.error('off'), "
        "text.getvalue().strip(), log.handlers == [handler], log.filters == handler.filters == [odd]",
        "0 0 None None off True True",
    ),
    "an entry of sys.path that is none": (
        "import sys; sys.path.append(None)",
        "sys.path[-1]",
        "None",
    ),
    "a path among the arguments": (
        "import pathlib, sys; sys.argv.append(pathlib.Path('data'))",
        "sys.argv[-1]",
        "data",
    ),
    "a function among the arguments": (
        "import sys; sys.argv.append(lambda: 7)",
        "sys.argv[-1]()",
        "7",
    ),
}


@pytest.fixture
def notebook(start_kernel, tmp_path):
    """A kernel in a directory with a package."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "its_package.py").write_text(PACKAGE)
    return start_kernel(env={"HOLDFAST_RUN": "isolated"})


def shows(notebook, expression, expected, head=""):
    """The cell's answer, and that it was taken over as any."""
    outcome = notebook.run(f"{head}kept = 'shown'\nprint({expression})")
    text = "".join(m["content"]["text"] for m in outcome.messages if m["msg_type"] == "stream")
    assert outcome.status == "ok", outcome.content
    assert outcome.stream().splitlines()[0] == expected, text
    assert notebook.run("kept").result == "'shown'"
    return text


@pytest.mark.parametrize("case", CASES)
def test_what_was_set_is_there(notebook, case):
    setting, expression, expected = CASES[case]
    notebook.run("kept = None\n" + setting)
    shows(notebook, expression, expected)
    assert "couldn't" not in shows(notebook, expression, expected, ISOLATED)
    shows(notebook, expression, expected)
    notebook.settle()
    notebook.run(DIE)
    shows(notebook, expression, expected)


@pytest.mark.parametrize("case", CASES)
def test_what_a_cell_set_is_there(notebook, case):
    setting, expression, expected = CASES[case]
    notebook.run(f"{ISOLATED}kept = None\n{setting}")
    shows(notebook, expression, expected)
    shows(notebook, expression, expected, ISOLATED)


def test_what_can_not_be_carried_is_named_once(notebook):
    notebook.run("import sys, threading; kept, sys.argv[:] = None, [threading.Lock()]; x = 5")
    assert "sys.argv" in shows(notebook, "x", "5", ISOLATED)
    assert "sys.argv" not in shows(notebook, "x", "5", ISOLATED)
    shows(notebook, "len(sys.argv)", "1")
    notebook.settle()
    notebook.run(DIE)
    shows(notebook, "x", "5")


def test_patches_are_withdrawn_when_a_save_fails(notebook):
    """What stands for them in the namespace while it is saved isn't seen by the notebook's code."""
    notebook.run("import json; json.my_flag = 1")
    # The inputs are process state, and no codec carries this one.
    notebook.run("import threading; _ih.append(threading.Lock())")
    notebook.run("get_ipython().history_manager.input_hist_parsed.append(threading.Lock())")
    assert notebook.run(ISOLATED + "1").status == "error"
    assert notebook.run("[n for n in globals() if not n.isidentifier()]").result == "[]"


@pytest.mark.parametrize("head", ["", ISOLATED])
def test_a_result_without_its_dict_is_ipythons_error(notebook, head):
    """Its display hook looks for `_oh`, which the user has deleted; all else goes on."""
    assert notebook.run(head + "del _oh, Out").status == "ok"
    for x in (6, 7):
        outcome = notebook.run(ISOLATED + f"x = {x}; x")
        assert outcome.content["ename"] == "KeyError" and outcome.content["evalue"] == "'_oh'"
        outcome = notebook.run("print(x, '_oh' in globals(), 'Out' in globals())")
        assert outcome.stream() == f"{x} False False\n" and not outcome.stream("stderr")
        assert notebook.run("x").content["ename"] == "KeyError"
    assert notebook.run("_oh = Out = {}").status == "ok"
    for each in (ISOLATED, ""):
        assert notebook.run(each + "x").result == "7"


def test_an_extension_greets_once(either_kernel, tmp_path):
    """A clean process loads the notebook's extensions, and the main worker those of a cell."""
    (tmp_path / "greeter.py").write_text(
        "import sys\nfrom IPython.display import display\n"
        "def load_ipython_extension(shell):\n"
        "    print('hello'); print('careful', file=sys.stderr); display('shown')\n"
        "    shell.register_magic_function(lambda line: line, 'line', 'greet')\n"
    )
    cell = "%%execute_with_scorep\n"
    for extension in ("greeter", "jumper_extension"):
        first = either_kernel.run(f"%load_ext {extension}")
        assert first.stream() and ("display_data" in first.types) == (extension == "greeter")
    for _ in range(2):
        outcome = either_kernel.run(cell + "get_ipython().run_line_magic('greet', 'you')")
        assert outcome.result == "'you'" and "display_data" not in outcome.types
        assert "Instrumentation results" in outcome.stream()
        assert len(outcome.stream().splitlines()) == 1 and not outcome.stream("stderr")


def test_an_extension_that_a_cell_loads_greets_once(isolated_kernel, tmp_path):
    (tmp_path / "greeter.py").write_text("def load_ipython_extension(shell): print('hello')\n")
    outcome = isolated_kernel.run("%%execute_with_scorep\n%load_ext greeter")
    assert outcome.stream().splitlines()[0] == "hello"
    after = isolated_kernel.run("'greeter' in get_ipython().extension_manager.loaded")
    assert after.result == "True" and not after.stream()
    assert outcome.stream().count("hello") == 1


def test_what_libraries_count_goes_on(either_kernel):
    """Each diagram of an estimator has an id of its own, and no two of SymPy's dummies are equal."""
    pytest.importorskip("sklearn")
    pytest.importorskip("sympy")
    cells = ["%%execute_with_scorep\n", "%%execute_with_scorep\n", "", "%%execute_with_scorep\n"]
    either_kernel.run(
        "import re, sympy\nfrom sklearn.linear_model import LinearRegression\n"
        "ids, dummies = [], []\n"
        "def make():\n"
        "    shown = LinearRegression()._repr_html_()\n"
        "    ids.append(re.search(r'sk-container-id-[0-9]+', shown)[0])\n"
        "    dummies.append(sympy.Dummy('x'))"
    )
    for head in cells:
        assert either_kernel.run(head + "make()").status == "ok"
    assert either_kernel.run("len(set(ids)), len(set(dummies))").result == "(4, 4)"


@pytest.mark.parametrize("either_kernel", effort.sample(RUNS, 3), indirect=True)
def test_what_libraries_keep_for_the_notebook_goes_on(either_kernel):
    """A renderer, a current document and a theme are objects of libraries, not variables."""
    for name in ("plotly", "bokeh", "altair"):
        pytest.importorskip(name)
    head = "%%execute_with_scorep\n"
    either_kernel.run(
        head + "import plotly.io as pio, altair as alt\n"
        "from bokeh.io import output_notebook, curdoc\nfrom bokeh.io.state import curstate\n"
        "from bokeh.plotting import figure\noutput_notebook(hide_banner=True)\n"
        "alt.theme.enable('dark'); pio.templates['mine'] = dict(layout_width=300)\n"
        "p = figure(width=100); r = p.line([1, 2], [3, 4]); curdoc().add_root(p)"
    )
    look = (
        "len(pio.templates['mine'].layout.to_plotly_json()), alt.theme.active, curstate().notebook, "
        "p.document is curdoc(), r is p.renderers[0]"
    )
    for head in (head, "", head):
        outcome = either_kernel.run(head + look)
        assert outcome.result == "(1, 'dark', True, True, True)", outcome.stream("stderr")


def test_counters_of_any_library_go_on(either_kernel, tmp_path):
    """They are known by what they are; a number that is also taken from is no counter."""
    package = tmp_path / "site-packages" / "numbered.py"
    package.parent.mkdir()
    package.write_text(
        "import itertools\n_ids = itertools.count(1)\n_steps = itertools.count(0, 5)\n"
        "_made = _depth = 0\nclass Thing:\n    made = 0\n"
        "    def __init__(self): Thing.made += 1\n"
        "def make():\n    global _made, _depth\n    _made += 1\n    _depth += 1\n    Thing()\n"
        "    return next(_ids), next(_steps), _made, Thing.made\n"
        "def leave():\n    global _depth\n    _depth -= 1\n"
    )
    either_kernel.run(f"import sys; sys.path.insert(0, {str(package.parent)!r}); import numbered")
    cells = ["%%execute_with_scorep\n", "%%execute_with_scorep\n", "", "%%execute_with_scorep\n"]
    found = [either_kernel.run(head + "numbered.make()").result for head in cells]
    assert found == [f"({n + 1}, {5 * n}, {n + 1}, {n + 1})" for n in range(4)]
