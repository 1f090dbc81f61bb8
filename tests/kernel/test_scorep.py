"""Recorded cells that a real Score-P records: its own tools read what it wrote."""

import re
import shutil
import subprocess

import pytest
from waiting import trace_written

pytestmark = pytest.mark.skipif(
    shutil.which("scorep-config") is None, reason="there is no scorep-config on PATH"
)

CELL = "%%execute_with_scorep\n"


@pytest.fixture
def kernel(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_RECORDER": "auto", "SCOREP_ENABLE_TRACING": "true"})
    kernel.run("def count(n):\n    return n and count(n - 1)")
    return kernel


def regions(directory):
    shown = subprocess.run(
        ["otf2-print", trace_written(directory)], capture_output=True, text=True, check=True
    )
    assert not shown.stderr
    return re.findall(r'^ENTER +\d+ +\d+ +Region: "(.*)" <', shown.stdout, re.MULTILINE)


def test_cell_finds_its_data_and_changes_it(kernel, tmp_path):
    kernel.run("import numpy as np\nx = np.arange(10)")
    kernel.run("%%scorep_env\nSCOREP_EXPERIMENT_DIRECTORY=mine")
    outcome = kernel.run(CELL + "x[0] = 99\ny = count(4)\nint(x.sum())")
    assert outcome.result == "144"
    assert outcome.stream() == "Instrumentation results can be found in mine\n"
    found = regions(tmp_path / "mine")
    assert found.count("__main__:count") == 5
    assert found[0] == "cell In[4]" and found.count("cell In[4]") == 1
    assert (tmp_path / "mine" / "profile.cubex").exists()
    assert kernel.run("int(x[0]), y").result == "(99, 0)"
    text = kernel.run("%holdfast last").stream()
    assert "It was recorded by Score-P." in text and "(forked): Score-P records" in text


def test_the_cell_has_what_the_notebook_has(kernel):
    """A fork of the notebook's process runs it, and Score-P is loaded there, in each anew."""
    kernel.run(
        "import collections, decimal, threading\ncollections.mine = object()\n"
        "lock = threading.Lock(); decimal.getcontext().prec = 3\n"
        "steps = (i for i in range(9)); known = [1]; alias = known"
    )
    for turn in range(3):
        outcome = kernel.run(
            CELL + "seen = count(2), next(steps), lock.locked(), str(decimal.Decimal(1) / 3)\n"
            f"known.append({turn}); seen, hasattr(collections, 'mine'), known is alias"
        )
        assert outcome.result == "((0, 0, False, '0.333'), True, True)"
        assert outcome.cost["run"] == "forked" and outcome.cost["names_decoded"] == 0
        assert "steps (generator" in outcome.stream("stderr")
    assert kernel.run("known, alias is known, next(steps)").result == "([1, 0, 1, 2], True, 0)"


def test_a_notebook_with_a_thread(kernel):
    """Which a fork wouldn't have: a clean process runs its cells, and says so."""
    kernel.run(
        "import threading; stop = threading.Event()\n"
        "thread = threading.Thread(target=stop.wait); thread.start()"
    )
    outcome = kernel.run(CELL + "count(2)")
    assert outcome.result == "0" and outcome.cost["run"] == "isolated"
    assert "a fork lacks the thread" in outcome.cost["run_reason"]
    kernel.run("stop.set(); thread.join()")
    assert kernel.run(CELL + "count(2)").cost["run"] == "forked"


def test_environment_stays_the_users(kernel):
    before = kernel.run("import os; dict(os.environ)").result
    kernel.run(CELL + "count(1)")
    assert kernel.run("dict(os.environ)").result == before


def test_each_cell_is_an_experiment(kernel, tmp_path):
    for number in (1, 2):
        kernel.run(f"%env SCOREP_EXPERIMENT_DIRECTORY=e{number}")
        kernel.run(CELL + f"count({number})")
        assert regions(tmp_path / f"e{number}").count("__main__:count") == number + 1


def test_arguments_and_threads(kernel, tmp_path):
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run("%%scorep_python_binding_arguments\n--noinstrumenter --nocompiler")
    outcome = kernel.run(
        CELL + "import threading\nfrom holdfast.scorep import user, instrumenter\n"
        "with user.region('only'):\n    count(3)\n"
        "with instrumenter.enable():\n"
        "    thread = threading.Thread(target=count, args=(5,))\n"
        "    thread.start(); thread.join()\ndel thread"
    )
    assert outcome.status == "ok", outcome.content
    found = regions(tmp_path / "mine")
    assert found.count("user:only") == 1
    assert found.count("__main__:count") == 6


def test_multicell(kernel, tmp_path):
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run("%%enable_multicellmode")
    kernel.run("count(1)")
    kernel.run("count(2)")
    kernel.run("%%finalize_multicellmode")
    assert regions(tmp_path / "mine").count("__main__:count") == 5


def test_refused_options_are_reported_before_the_cell_runs(kernel):
    kernel.run("%%scorep_python_binding_arguments\n--mpp=carrier-pigeon")
    outcome = kernel.run(CELL + "touched = True")
    assert outcome.status == "error"
    assert "scorep-config refuses" in outcome.content["evalue"]
    assert kernel.run("'touched' in globals()").result == "False"


def test_builtin_recorder_by_choice(kernel, tmp_path):
    kernel.run("%env HOLDFAST_RECORDER=builtin")
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run(CELL + "count(3)")
    assert regions(tmp_path / "mine").count("__main__:count") == 4
    assert not (tmp_path / "mine" / "MANIFEST.md").exists()


@pytest.mark.parametrize("option", ["--io=posix", "--io=runtime:posix"])
def test_files_that_a_cell_opens(kernel, tmp_path, option):
    """Score-P must be there before libc is: the cell's process starts anew."""
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run("%env SCOREP_IO_POSIX=true")
    kernel.run(f"%%scorep_python_binding_arguments\n{option} --noinstrumenter")
    kernel.run("import os\nlines = ['text']\nmain = os.getpid(), os.environ.get('LD_PRELOAD')")
    outcome = kernel.run(
        CELL + "with open('file', 'w') as file:\n    file.writelines(lines)\n"
        "lines.append(os.environ.get('LD_PRELOAD'))\nos.getpid() == main[0]"
    )
    assert outcome.status == "ok", outcome.content
    assert outcome.result == "False" and outcome.cost["run"] == "isolated"
    assert "must be loaded when a process starts" in outcome.cost["run_reason"]
    assert kernel.run("lines, main[1]").result == "(['text', None], None)"
    events = subprocess.run(
        ["otf2-print", tmp_path / "mine" / "traces.otf2"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    opened = re.findall(r'^IO_CREATE_.*: "\[POSIX I/O\](?:file://)?(.*?)"', events, re.MULTILINE)
    assert str(tmp_path / "file") in opened
    assert not [name for name in opened if "IPython" in name]  # read before the cell began
    before = kernel.run("del os.environ['SCOREP_EXPERIMENT_DIRECTORY']; dict(os.environ)").result
    text = kernel.run(CELL + "lines.clear()").stream()
    (named,) = re.findall(r"results can be found in (.*)\n", text)
    assert "scorep-" in named and (tmp_path / named / "traces.otf2").exists()
    assert kernel.run("dict(os.environ)").result == before


def test_mpi_in_a_cell(kernel, tmp_path):
    """A world of one process, whose results are there when the cell has ended."""
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run("%%scorep_python_binding_arguments\n--mpp=mpi")
    outcome = kernel.run(
        CELL + "from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\ncount(2)\ndel MPI"
    )
    assert outcome.status == "ok", outcome.content
    found = regions(tmp_path / "mine")
    assert found.count("MPI_Barrier") == 1
    assert found.count("__main__:count") == 3
    shown = kernel.run("%trace --text").stream()
    assert re.search(r"\nMPI_Barrier +1 ", shown) and re.search(r"\n__main__:count +3 ", shown)
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=without")
    outcome = kernel.run(CELL + "count(1)")
    assert outcome.status == "ok"
    assert "has not initialised MPI" in outcome.stream("stderr")
