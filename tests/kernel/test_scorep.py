"""Instrumented cells that a real Score-P records: its own tools read what it wrote."""

import re
import shutil
import subprocess

import pytest

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
        ["otf2-print", directory / "traces.otf2"], capture_output=True, text=True, check=True
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
    assert "cell In[4]" in found[0]
    assert (tmp_path / "mine" / "profile.cubex").exists()
    assert kernel.run("int(x[0]), y").result == "(99, 0)"
    told = kernel.run("%holdfast last").stream()
    assert "It was recorded by Score-P." in told and "(the map road): Score-P records" in told


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


def test_refused_options_are_told_before_the_cell_runs(kernel):
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
