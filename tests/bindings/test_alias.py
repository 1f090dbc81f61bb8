"""``import scorep`` and ``python -m scorep``: ours where it was asked for, another one's always."""

import importlib.util

import pytest
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

ASKED = {"HOLDFAST_SCOREP_ALIAS": "1"}
SHOW = "import scorep.user, scorep; print(scorep.__name__, scorep.user.__name__)"


def test_nowhere_unasked(python):
    done = python("-c", SHOW)
    assert done.returncode == 1 and "No module named 'scorep'" in done.stderr
    assert "No module named scorep" in python("-m", "scorep", "-c", "pass").stderr


def test_where_the_variable_asks(python, tmp_path):
    done = python("-c", SHOW, **ASKED)
    assert (done.stdout, done.stderr) == ("holdfast.scorep holdfast.scorep.user\n", "")
    done = python("-m", "scorep", "--noinstrumenter", "-c", SHOW, **ASKED)
    assert (done.stdout, done.stderr) == ("holdfast.scorep holdfast.scorep.user\n", "")
    assert (tmp_path / "experiment" / "traces.otf2").exists()


@pytest.mark.parametrize("asked", [ASKED, {}], ids=["asked", "unasked"])
def test_a_subinterpreter_starts_in_silence(python, asked):
    names = ("_interpreters", "_xxsubinterpreters")  # from 3.13 on, before
    name = next(name for name in names if importlib.util.find_spec(name))
    code = f"import {name} as all; all.run_string(all.create(), 'print(1, flush=True)')"
    done = python("-c", code, **asked)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_in_programs_that_a_recorded_one_starts(record_script, tmp_path):
    trace = record_script(
        f"""
        import os, subprocess, sys
        os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = "other"
        inner = [sys.executable, "-m", "scorep", "-c", {SHOW!r} + "; (lambda: 1)()"]
        print(subprocess.run(inner, check=True, capture_output=True, text=True).stdout)
        """
    )
    assert trace.done.stdout.strip() == "holdfast.scorep holdfast.scorep.user"
    assert Trace(tmp_path / "other").nested() == "<module>(<lambda>())"


def test_an_installed_one_is_never_shadowed(python, tmp_path):
    (tmp_path / "scorep").mkdir()
    (tmp_path / "scorep" / "__init__.py").write_text("mark = 'upstream'\n")
    (tmp_path / "scorep" / "__main__.py").write_text("import scorep; print(scorep.mark)\n")
    assert python("-m", "scorep", **ASKED).stdout == "upstream\n"
    code = "import scorep, subprocess, sys; print(scorep.mark, flush=True)\n"
    inner = "subprocess.run([sys.executable, '-m', 'scorep'])"
    done = python("-m", "holdfast.scorep", "-c", code + inner)
    assert (done.stdout, done.stderr) == ("upstream\nupstream\n", "")


JUMPER = {"HOLDFAST_JUMPER_ALIAS": "1"}


def test_jumpers_extension_where_the_variable_asks(python, tmp_path):
    show = (
        "import jumper_extension as one; print(one.__name__, callable(one.load_ipython_extension))"
    )
    assert "No module named 'jumper_extension'" in python("-c", show, **ASKED).stderr
    assert "No module named 'scorep'" in python("-c", SHOW, **JUMPER).stderr
    done = python("-c", show, **JUMPER)
    assert (done.stdout, done.stderr) == ("holdfast.monitor.extension True\n", "")
    (tmp_path / "jumper_extension.py").write_text("load_ipython_extension = None\n")
    assert python("-c", show, **JUMPER).stdout == "jumper_extension False\n"


def test_a_start_of_python_is_as_it_was(python):
    """No finder unless a variable asks, and nothing of the package is imported before it is asked for."""
    code = "import sys; print('oldfast' in repr(sys.meta_path), *(m for m in sys.modules if 'oldfast' in m))"
    assert python("-c", code).stdout == "False\n"
    for asked in (ASKED, JUMPER):
        assert python("-c", code, **asked).stdout == "True _holdfast_start\n"
