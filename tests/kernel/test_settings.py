"""Settings of the process in a later main worker, after undo, and when a save of them fails.

That each process has them is the subject of the notebooks in tests/oracle.
"""

import effort
import pytest

ISOLATED = "%%isolated\n"
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

PACKAGE = """import warnings
class ItsWarning(UserWarning): pass
warnings.simplefilter("ignore", ItsWarning)
"""

# What sets it, the expression that shows it, what that gives.
CASES = [
    (
        "sys.path.insert(0, 'lib'); import its_package, warnings",
        "its_package.ItsWarning in {entry[2] for entry in warnings.filters}",
        "True",
    ),
    (
        "class Mine(UserWarning): pass\nwarnings.simplefilter('ignore', Mine)",
        "[entry[2] is Mine for entry in warnings.filters if entry[2].__name__ == 'Mine']",
        "[True]",
    ),
    (
        "import numpy as np; np.set_printoptions(override_repr=lambda a: f'<{a.size}>')",
        "repr(np.zeros(3))",
        "<3>",
    ),
    (
        "bits = np.random.PCG64(1); np.random.set_bit_generator(bits)",
        "np.random.get_bit_generator() is bits",
        "True",
    ),
    (
        "import decimal; context = decimal.getcontext(); context.prec = 5",
        "context is decimal.getcontext(), decimal.Decimal(1) / 3",
        "True 0.33333",
    ),
    (
        "import io, logging; log = logging.getLogger('mine'); text = io.StringIO()\n"
        "handler = logging.StreamHandler(text); log.addHandler(handler)\n"
        "class Odd(logging.Filter):\n    def filter(self, record): return len(record.msg) % 2\n"
        "log.addFilter(odd := Odd()); handler.addFilter(odd)",
        "text.truncate(0), text.seek(0), log.error('on'), log.error('off'), "
        "text.getvalue().strip(), log.handlers == [handler], log.filters == handler.filters == [odd]",
        "0 0 None None off True True",
    ),
    ("sys.path.append(None)", "sys.path[-1]", "None"),
    ("import pathlib; sys.argv.append(pathlib.Path('data'))", "sys.argv[-2]", "data"),
    ("sys.argv.append(lambda: 7)", "sys.argv[-1]()", "7"),
]
SET = "import sys\n" + "\n".join(setting for setting, _, _ in CASES)
SHOW = "\n".join(f"print({expression})" for _, expression, _ in CASES)
SHOWN = [expected for _, _, expected in CASES]


@pytest.mark.fresh
@pytest.mark.parametrize("head", ["", ISOLATED], ids=["plain", "isolated"])
def test_a_later_main_worker_has_them(isolated_kernel, tmp_path, head):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "its_package.py").write_text(PACKAGE)
    assert isolated_kernel.run(head + SET).status == "ok"
    assert isolated_kernel.run(SHOW).stream().splitlines() == SHOWN
    isolated_kernel.settle()
    isolated_kernel.run(DIE)
    assert isolated_kernel.run(SHOW).stream().splitlines() == SHOWN


@pytest.mark.fresh
def test_arguments_that_cannot_be_carried_end_with_their_main_worker(isolated_kernel):
    isolated_kernel.run("import sys, threading; sys.argv[:] = [threading.Lock()]; x = 5")
    isolated_kernel.settle()
    isolated_kernel.run(DIE)
    assert isolated_kernel.run("x").result == "5"


def test_attributes_of_modules_go_back_with_the_history(isolated_kernel):
    def shown(code):
        return isolated_kernel.run(f"print({code})").stream().strip()

    run = isolated_kernel.run
    run("import json, textwrap; json.mark = kept = [1]; original = textwrap.fill")
    run(ISOLATED + "kept.append(2); textwrap.fill = lambda text: text + '!'")
    isolated_kernel.settle()
    run("kept.append(3); del json.mark; textwrap.fill = original")
    isolated_kernel.settle()
    asked = "hasattr(json, 'mark'), kept, textwrap.fill is original"
    assert shown(asked) == "False [1, 2, 3] True"
    run("%holdfast undo")  # to before json.mark was deleted
    assert shown("json.mark, textwrap.fill('a')") == "[1, 2] a!"
    run("del json.mark; textwrap.fill = original")


@pytest.mark.fresh
def test_patches_are_withdrawn_when_a_save_fails(isolated_kernel):
    """What stands for them in the namespace while it is saved isn't seen by the notebook's code."""
    isolated_kernel.run("import json; json.my_flag = 1")
    # The inputs are process state, and no codec carries this one.
    isolated_kernel.run("import threading; _ih.append(threading.Lock())")
    isolated_kernel.run("get_ipython().history_manager.input_hist_parsed.append(threading.Lock())")
    assert isolated_kernel.run(ISOLATED + "1").status == "error"
    assert isolated_kernel.run("[n for n in globals() if not n.isidentifier()]").result == "[]"


def test_the_recorders_own_extension_greets_once(isolated_kernel):
    assert isolated_kernel.run("%load_ext jumper_extension").stream()
    outcome = isolated_kernel.run("%%execute_with_scorep\n1")
    (line,) = outcome.stream().splitlines()
    assert "Instrumentation results" in line and not outcome.stream("stderr")


EXTENSION = """import threading
def load_ipython_extension(shell):
    shell.push({"first": 1, "second": 1, "third": threading.Lock()})
    shell.push({"hidden": 1}, interactive=False)
    shell.register_magic_function(lambda line: line, "line", "same_again")
def unload_ipython_extension(shell):
    shell.drop_by_id({"second": 1})
"""


@pytest.mark.parametrize("run", effort.core(["forked", "isolated"], ["isolated"]))
def test_an_extension_sets_its_variables_once(kernel, tmp_path, run):
    """A clean process loads it, too, as the notebook's does if a cell elsewhere has."""
    (tmp_path / "its_extension.py").write_text(EXTENSION)
    head = f"%%execute_with_scorep --run={run}\n"
    kernel.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n%load_ext its_extension")
    kernel.run("second = 2; del first")
    code = "print(sorted({'first', 'second', 'hidden'} & {*globals()}), second)\n%same_again x"
    for each in (head + code, code):
        assert kernel.run(each).stream().splitlines()[0] == "['hidden', 'second'] 2"
    kernel.run("%unload_ext its_extension\nsecond = 3")
    assert kernel.run(head + "second").result == "3"
    kernel.run(head + "second = 4\n%load_ext its_extension\nsecond = 3; del first")
    assert kernel.run(code).stream().splitlines()[0] == "['hidden', 'second'] 3"
