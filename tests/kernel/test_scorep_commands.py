"""The Score-P kernel's commands over the real kernel, as a notebook's user meets them.

The sessions below are ours, of the kinds that the published kernel tests itself with: binding
arguments, plain cells, state carried both ways, multi-cell mode, write mode. What they compare
is what that kernel's tests compare: the lines of stdout, stderr and execute_result, stripped.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import effort
import pytest
from waiting import trace_written

from holdfast.worker import commands
from tests.conftest import RUNS

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


class Ran:
    """What one cell brought."""

    def __init__(self, outcome):
        self.reply, self.messages = outcome.content, outcome.messages
        self.out, self.err = outcome.stream(), outcome.stream("stderr")

    def _contents(self, kind):
        return [m["content"] for m in self.messages if m["msg_type"] == kind]

    @property
    def results(self):
        return [c["data"]["text/plain"] for c in self._contents("execute_result")]

    @property
    def displayed(self):
        return [c["data"].get("text/plain", "") for c in self._contents("display_data")]

    @property
    def errors(self):
        return self._contents("error")

    @property
    def traceback(self):
        text = "\n".join(line for error in self.errors for line in error["traceback"])
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def lines(self):
        """All output lines in the order in which they came.

        Neighbouring pieces of one stream are one text: where they are cut is a matter of time.
        """
        texts = []
        for message in self.messages:
            content = message["content"]
            if message["msg_type"] == "stream":
                if texts and texts[-1][0] == content["name"]:
                    texts[-1][1] += content["text"]
                else:
                    texts.append([content["name"], content["text"]])
            elif message["msg_type"] == "execute_result":
                texts.append(["result", content["data"]["text/plain"]])
        return [line.strip() for _, text in texts for line in text.splitlines()]


class Notebook:
    """A kernel whose working directory is `directory`."""

    def __init__(self, kernel, directory):
        self.kernel, self.directory = kernel, directory

    def run(self, code, **options):
        return Ran(self.kernel.run(code, **options))

    def run_all(self, *cells):
        """Run cells that must not fail; the last one's outcome."""
        for cell in cells:
            ran = self.run(cell)
            assert not ran.errors, ran.traceback
        return ran


@pytest.fixture
def notebook_of(lend, tmp_path):
    """A function that gives a notebook whose recorded cells take one run mode."""
    given = []

    def notebook_of(run_mode):
        kernel = lend(
            SCOREP_ENABLE_TRACING="1",
            SCOREP_ENABLE_PROFILING="0",
            SCOREP_TOTAL_MEMORY="64M",
            SCOREP_EXPERIMENT_DIRECTORY="traces",
            HOLDFAST_RUN=run_mode,
            # The published kernel's own variables are set in many notebooks: not a word about them.
            SCOREP_JUPYTER_DISABLE_PROCESSING_ANIMATIONS="1",
        )
        given.append(kernel)
        return Notebook(kernel, tmp_path)

    yield notebook_of
    for kernel in given:
        kernel.run("%%scorep_python_binding_arguments\n")
        kernel.codes.clear()


@pytest.fixture(params=RUNS)
def in_each_run_mode(notebook_of, request):
    return notebook_of(request.param)


@pytest.fixture(params=effort.core(RUNS, ["in-process"]))
def notebook(notebook_of, request):
    return notebook_of(request.param)


TRACE = "Instrumentation results can be found in traces"
ENABLED = "Multicell mode enabled. The following cells will be marked for instrumented execution."
MARKED = "Cell marked for multicell mode. It will be executed at position "
WITH = "Python commands with instrumentation recorded."
WITHOUT = "Python commands without instrumentation recorded."


def marshaller(name, mode):
    return f"Kernel uses '{name}' marshaller in '{mode}' mode."


SESSIONS = {
    "binding arguments": [
        (
            "%%scorep_python_binding_arguments\n--noinstrumenter --keep-files",
            [
                "Score-P Python binding arguments set successfully: "
                "['--noinstrumenter', '--keep-files']"
            ],
        ),
    ],
    "plain cells": [
        ("%%bash\nWORD=quoted\necho word: $WORD", ["word: quoted"]),
        ("left = 6\nright = 7", []),
        ("print('product:', left * right)\nright", ["product: 42", "7"]),
    ],
    "marshalling": [
        (
            "%%marshalling_settings\nMODE=disk",
            [marshaller("dill", "disk")],
        ),
        ("%%execute_with_scorep\nn = 12\nprint('n:', n)", ["n: 12", TRACE]),
        (
            "%%marshalling_settings\nMARSHALLER=cloudpickle\nMODE=memory",
            [marshaller("cloudpickle", "memory")],
        ),
        (
            "%%execute_with_scorep\nimport scorep\n"
            "with scorep.instrumenter.enable():\n    n += 1\nprint('n:', n)",
            ["n: 13", TRACE],
        ),
        ("n", ["13"]),
    ],
    "state both ways": [
        ("%env FROM_HOME=here", ["env: FROM_HOME=here"]),
        (
            "import numpy as np\nimport sys\nsys.path.append('/added/at/home')\n"
            "def double(x):\n    return 2 * x\nv = np.arange(4)",
            [],
        ),
        (
            "%%execute_with_scorep\nimport os, sys\nimport pandas as pd\n"
            "def triple(x):\n    return np.multiply(x, 3)\n"
            "print(double(21), os.environ['FROM_HOME'], '/added/at/home' in sys.path)\n"
            "m = np.outer(v, v)\nos.environ['FROM_CELL'] = 'there'\n"
            "sys.path.append('/added/in/cell')",
            ["42 here True", TRACE],
        ),
        ("print(m[3])\nprint(triple(v).tolist())", ["[0 3 6 9]", "[0, 3, 6, 9]"]),
        ("pd.Series(v, name='s').sum().item()", ["6"]),
        ("%env FROM_CELL", ["'there'"]),
        ("'/added/in/cell' in sys.path", ["True"]),
    ],
    "multi-cell mode": [
        ("%%enable_multicellmode", [ENABLED]),
        ("never = 1", [MARKED + "0"]),
        ("%%abort_multicellmode", ["Multicell mode aborted."]),
        ("%%enable_multicellmode", [ENABLED]),
        ("total = sum(range(5))", [MARKED + "0"]),
        (
            "%%execute_with_scorep\nimport scorep\n"
            "with scorep.instrumenter.enable():\n    total *= 2",
            [MARKED + "1"],
        ),
        ("print('total =', total)", [MARKED + "2"]),
        (
            "%%finalize_multicellmode",
            [
                *("Executing cell 0", "total = sum(range(5))", "-" * 21, "", ""),
                *("Executing cell 1", "import scorep", "with scorep.instrumenter.enable():"),
                *("total *= 2", "-" * 34, "", ""),
                *("Executing cell 2", "print('total =', total)", "-" * 23, "total = 20"),
                *("", "", TRACE),
            ],
        ),
        ("total, 'never' in globals()", ["(20, False)"]),
    ],
}


@pytest.mark.parametrize("session", SESSIONS)
def test_session(notebook, session):
    for cell, wanted in SESSIONS[session]:
        ran = notebook.run(cell)
        assert not ran.errors, ran.traceback
        assert ran.lines() == wanted, cell


@pytest.mark.fresh  # the settings are those of the start
def test_marshalling_says_what_it_means(notebook):
    ran = notebook.run("%%marshalling_settings")
    (note,) = ran.displayed
    assert "existing notebooks" in note and "shared memory" in note
    assert ran.lines() == [marshaller("dill", "memory")]


def test_environment_for_every_process(notebook):
    ran = notebook.run("%%scorep_env\nHOLDFAST_TEST=a b\nnonsense")
    assert ran.out == "env: HOLDFAST_TEST=a b\n"
    assert "nonsense" in ran.err and ran.reply["status"] == "ok"
    show = "import os; print(os.environ['HOLDFAST_TEST'])"
    assert notebook.run(show).out == "a b\n"
    assert notebook.run("%%execute_with_scorep\n" + show).lines()[0] == "a b"


def test_isolated_carries_state_and_records_nothing(in_each_run_mode):
    in_each_run_mode.run_all("import os\nmain = os.getpid()\nx = [1]")
    ran = in_each_run_mode.run("%%isolated\nx.append(2)\nfresh = os.getpid() != main")
    assert ran.lines() == [] and not ran.errors
    assert in_each_run_mode.run("x, fresh").results == ["([1, 2], True)"]
    assert not (in_each_run_mode.directory / "traces").exists()


@pytest.mark.parametrize("head", ["%%execute_with_scorep", "\n# why\n%%isolated"])
def test_line_numbers_stay_true(notebook, head):
    line = head.count("\n") + 4
    ran = notebook.run(head + "\n\nx = 1\n1 / 0")
    assert ran.reply["ename"] == "ZeroDivisionError"
    assert re.search(rf"-> {line} 1 / 0", ran.traceback), ran.traceback


def test_instrumented_cells_in_quick_succession(in_each_run_mode):
    """Each is sent before the process for it has had time to get ready."""
    in_each_run_mode.run_all("total = 0")
    for number in range(1, 9):
        ran = in_each_run_mode.run_all("%%execute_with_scorep\ntotal += 1\ntotal")
        assert ran.results == [str(number)]


def test_magics_and_displays_in_an_instrumented_cell(notebook):
    ran = notebook.run("%%execute_with_scorep\n%%capture held\nprint('inside')")
    assert not ran.errors and "inside" not in ran.out
    ran = notebook.run_all(
        "%%execute_with_scorep\nfrom IPython.display import display\n"
        "display(1)\n!echo shell\n%time y = 2\ny"
    )
    assert ran.displayed[0] == "1" and "shell\n" in ran.out.replace("\r", "")
    assert ran.results == ["2"]


@pytest.mark.skipif(shutil.which("otf2-print") is None, reason="otf2-print is not installed")
@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ("--noinstrumenter", {"user:r": True, "__main__:f": False, "time:sleep": False}),
        ("--c-functions", {"user:r": True, "__main__:f": True, "time:sleep": True}),
        ("--instrumenter-type=dummy", {"user:r": False, "__main__:f": False}),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_binding_arguments_reach_the_recorder(notebook, tmp_path, arguments, seen, together):
    notebook.run_all(f"%%scorep_python_binding_arguments\n{arguments}")
    cell = "import time, scorep.user\ndef f(): time.sleep(0)\nwith scorep.user.region('r'): f()"
    if together:
        notebook.run_all("%%enable_multicellmode", cell, "%%finalize_multicellmode")
    else:
        notebook.run_all(f"%%execute_with_scorep\n{cell}")
    read = ["otf2-print", str(trace_written(tmp_path / "traces"))]
    events = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    assert {name: f'"{name}"' in events for name in seen} == seen


def test_a_command_ignores_and_tells(notebook):
    ran = notebook.run("%%enable_multicellmode\nx = 1")
    assert "ignored" in ran.err and ran.reply["status"] == "ok"
    assert "x" not in notebook.run_all("%%abort_multicellmode", "print(dir())").out.split("'")


HARD_CELLS = {
    "quotes": r"""print('\'', "\"", '''"''', "\\n", 'a\tb', "ä€😀")""",
    "triple": 'text = """\n%no magic\n  \'\'\'\n"""\nprint(repr(text))',
    "raw": r"import re; print(re.escape('\d{2}'), r'\x')",
    "continued": "print(1 + \\\n      2)",
    "comment": "# nothing but this",
    "empty": "",
    "shell": "%%bash\necho \"it's\" '\\n'",
    "future": "from __future__ import annotations\ndef f(x: nope): ...\nprint(f.__annotations__)",
    "await": "import asyncio\nprint(await asyncio.sleep(0, 'slept'))",
    "shadow": "max = len = print_ = enumerate = compile = None",
    "indented": "  a = 1\n  print(a)",
    "line magic": "%time z = 5\nprint(z)",
}


@pytest.mark.parametrize("together", [False, True])
def test_any_cell_works_in_multicell_mode(notebook, together):
    """Every hard cell prints what it prints as a plain cell, alone and after the others."""
    plain = {name: notebook.run_all(cell) for name, cell in HARD_CELLS.items()}
    notebook.run_all("%reset -f")
    groups = [list(HARD_CELLS)] if together else [[name] for name in HARD_CELLS]
    for group in groups:
        notebook.run_all("%%enable_multicellmode", *(HARD_CELLS[name] for name in group))
        ran = notebook.run_all("%%finalize_multicellmode")
        parts = re.split(r"^Executing cell \d+\n", ran.out, flags=re.MULTILINE)[1:]
        assert len(parts) == len(group)
        for name, part in zip(group, parts, strict=True):
            if name == "line magic":
                continue  # prints a time
            cell = HARD_CELLS[name]
            rule = "-" * max(map(len, cell.split("\n")))
            assert part.startswith(f"{cell}\n{rule}\n{plain[name].out}\n\n"), name


def test_last_expressions_show_in_multicell_mode(notebook):
    notebook.run_all("%%enable_multicellmode", "6 * 7", "1;", "'b'")
    assert notebook.run_all("%%finalize_multicellmode").results == ["42", "'b'"]


def test_a_syntax_error_is_named_by_its_position(notebook):
    notebook.run_all("%%enable_multicellmode", "ran = True", "x = (", "y = 1")
    ran = notebook.run("%%finalize_multicellmode")
    assert ran.reply["ename"] == "SyntaxError"
    assert "multi-cell position 1" in ran.traceback
    assert "Executing" not in ran.out, "no cell runs if one can't be compiled"
    assert notebook.run("'ran' in globals()").results == ["False"]


def test_an_exception_is_named_by_its_position(notebook):
    notebook.run_all("%%enable_multicellmode", "a = 1", "b = 2\na / 0", "c = 3")
    ran = notebook.run("%%finalize_multicellmode")
    assert ran.reply["ename"] == "ZeroDivisionError"
    assert re.search(r"multi-cell position 1>:2", ran.traceback), ran.traceback
    assert "Executing cell 1" in ran.out and "Executing cell 2" not in ran.out
    # The next run starts anew.
    assert notebook.run("1").results == ["1"]
    assert notebook.run("%%enable_multicellmode").out == ENABLED + "\n"
    assert notebook.run("a").out == MARKED + "0\n"
    notebook.run("%%abort_multicellmode")


def record(notebook, name, *cells):
    """Record cells in write mode; the lines that each of them answered."""
    answers = [notebook.run(f"%%start_writefile {name}").lines()]
    answers += [notebook.run(cell).lines() for cell in cells]
    answers.append(notebook.run("%%end_writefile").lines())
    return answers


def test_write_mode(notebook):
    here = notebook.directory
    (here / "out").mkdir()
    (here / "else where").mkdir()
    answers = record(
        notebook,
        "out/script",
        "%env SCOREP_EXPERIMENT_DIRECTORY=traces\n%env SCOREP_ENABLE_TRACING=1",
        "%%scorep_python_binding_arguments\n--noinstrumenter",
        "word = '''two\n    lines'''\nif word:\n    print(repr(word))",
        "%%execute_with_scorep\nimport scorep\nwith scorep.instrumenter.enable():\n    n = 20",
        "%%enable_multicellmode",
        "n += 1",
        "%%finalize_multicellmode",
        "print('n =', n,\nflush=True)",
    )
    assert answers == [
        [
            "Started converting to Python script. See files:",
            f"{here}/out/script_run.sh",
            f"{here}/out/script.py",
        ],
        [],
        ["Score-P bindings arguments recorded."],
        [WITHOUT],
        [WITH],
        [],
        [WITH],
        [],
        [WITHOUT],
        ["Finished converting to Python script."],
    ]
    assert not (here / "traces").exists(), "recorded cells don't run"
    ran = notebook.run("%%bash\ncd 'else where' && ../out/script_run.sh")
    assert ran.lines() == [r"'two\n    lines'", "n = 21"], ran.err
    assert (here / "else where" / "traces").is_dir()


def test_aborted_write_mode_leaves_nothing(notebook):
    notebook.run_all("%%start_writefile", "x = 1", "%%abort_writefile")
    assert not list(notebook.directory.glob("jupyter_to_script*"))
    assert notebook.run("'x' in globals()").results == ["False"]


def test_a_script_needs_a_directory(notebook):
    ran = notebook.run("%%start_writefile nowhere/x")
    assert f"no directory {notebook.directory}/nowhere" in ran.err and not ran.out
    assert notebook.run("1").results == ["1"], "the mode did not begin"


def test_the_shell_knows_the_commands(kernel):
    completed = kernel.client.complete("%%exe", 5, reply=True, timeout=60)["content"]["matches"]
    assert "%%execute_with_scorep" in completed
    outcome = kernel.run("get_ipython().run_cell_magic('isolated', '', '1')")
    assert outcome.status == "error" and "first line of a cell" in outcome.stream("stderr")
    known = (pathlib.Path(__file__).parents[2] / "kernel/commands/command.c").read_text()
    assert sorted(commands.COMMANDS) == sorted(re.findall(r'^    {"%%(\w+)"', known, re.M))


def test_magics_that_run_their_body_may_stand_above(kernel):
    outcome = kernel.run("# timed\n%%time\n%%execute_with_scorep --run=isolated\nmade = 1")
    assert outcome.cost["run"] == "isolated" and "Wall time" in outcome.stream()
    outcome = kernel.run("%%capture kept\n%%execute_with_scorep --run=isolated\nprint(made)")
    assert outcome.cost["run"] == "isolated"
    assert kernel.run("kept.stdout").result == r"'1\n'"


def test_silent_requests_are_not_marked(notebook):
    notebook.run_all("%%enable_multicellmode")
    assert notebook.run("marked = 1", silent=True).out == ""
    assert notebook.run("x = 1").out == MARKED + "0\n"
    notebook.run("%%abort_multicellmode")


@pytest.mark.parametrize("name", ["multicell_program.py.golden", "written_script.py.golden"])
def test_generated_python_compiles(name):
    compile((GOLDEN / name).read_text(encoding="utf-8"), name, "exec")


def test_generated_shell_is_valid():
    path = GOLDEN / "written_script_run.sh.golden"
    subprocess.run(["sh", "-n", path], check=True)


def test_generated_script_runs(tmp_path):
    """The approved script under a `scorep` that only says when events would be off."""
    (tmp_path / "scorep.py").write_text(
        "import contextlib\nclass instrumenter:\n    off = 0\n    @contextlib.contextmanager\n"
        "    def disable():\n        instrumenter.off += 1\n        yield\n"
        "        instrumenter.off -= 1\n    enable = contextlib.nullcontext\n"
    )
    shutil.copy(GOLDEN / "written_script.py.golden", tmp_path / "written.py")
    check = "import runpy, scorep; runpy.run_path('written.py'); print(scorep.instrumenter.off)"
    ran = subprocess.run(
        [sys.executable, "-c", check, "argument"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        r"'a\n  b\n%no magic\n' 16",
        "5 2 ['argument']",
        "0",
    ]
    assert ran.stderr == ""


def test_what_a_setting_doesnt_do_is_said_once(any_kernel):
    """In whatever process the next cell runs."""
    any_kernel.run("%%scorep_env\nSCOREP_NONSENSE=1\nSCOREP_ENABLE_TRACING=maybe")
    any_kernel.run("%%scorep_python_binding_arguments\n--nonsense")
    first, *others = [any_kernel.run("%%execute_with_scorep\n1 + 1") for _ in range(3)]
    for word in ("SCOREP_NONSENSE", "SCOREP_ENABLE_TRACING='maybe'", "--nonsense"):
        assert first.stream("stderr").count(word) == 1
    assert all(outcome.result == "2" and not outcome.stream("stderr") for outcome in others)
    any_kernel.run("%env SCOREP_MORE_NONSENSE=1")
    said = any_kernel.run("%%execute_with_scorep\n1 + 1").stream("stderr")
    assert said.rstrip().endswith("ignores: SCOREP_MORE_NONSENSE")


@pytest.mark.parametrize("command", ["%%execute_with_scorep", "%%isolated"])
def test_an_unknown_option_is_an_error(kernel, command):
    kernel.run("x = 1")
    refused = kernel.run(f"{command} --raod=isolated\nx = 2")
    assert refused.status == "error" and refused.content["ename"] == "UsageError"
    assert "--raod=isolated" in refused.content["evalue"] and "error" in refused.types
    assert "--run=auto|in-process|forked|isolated" in refused.content["evalue"]
    assert kernel.run("x").result == "1"
    assert kernel.run(f"{command} --run=isolated\nx = 3; x").result == "3"
