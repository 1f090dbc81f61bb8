"""What becomes of a cell's trace: it is named, and opened in Vampir where the user asked."""

import os
import signal
import stat
import sys
from pathlib import Path

import effort
import pytest
from processes import fields_of
from waiting import trace_written, until

from tests.conftest import RUNS

sys.path.insert(0, str(Path(__file__).parents[1] / "bindings"))
from trace_reader import AVAILABLE, Trace  # noqa: E402

CELL = "%%execute_with_scorep\n"


def test_the_line_that_names_it(any_kernel, tmp_path):
    any_kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    outcome = any_kernel.run(CELL + "print('before')")
    assert outcome.stream() == "before\nInstrumentation results can be found in mine\n"
    assert trace_written(tmp_path / "mine").is_file()


def fake_vampir(tmp_path, monkeypatch):
    """Not Vampir, which isn't free: a script that notes what it was asked to open."""
    script = tmp_path / "bin" / "vampir"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$$ $1" > "{tmp_path}/opened.part"\n'
        f'mv "{tmp_path}/opened.part" "{tmp_path}/opened"\nsleep 30\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return script


ENABLE = "%%enable_vampir_launch_on_scorep_instrumented"


@pytest.mark.parametrize(("run_mode", "directory"), effort.in_turn(RUNS, [None, "here/trace"]))
def test_vampir_opens_the_trace(start_kernel, tmp_path, monkeypatch, directory, run_mode):
    fake_vampir(tmp_path, monkeypatch)
    kernel = start_kernel(env={"HOLDFAST_RUN": run_mode})
    if directory is not None:
        kernel.run(f"%%scorep_env\nSCOREP_EXPERIMENT_DIRECTORY={directory}")
    assert "Vampir opens" in kernel.run(ENABLE).stream()
    outcome = kernel.run(CELL + "1 + 1")
    until((tmp_path / "opened").exists)
    pid, path = (tmp_path / "opened").read_text().split()
    assert Path(path).is_file() and Path(path).name == "traces.otf2"
    assert f"Vampir opens {path}\n" in outcome.stream()
    status = fields_of(pid)
    assert int(status[3]) == int(pid)  # a session of its own, which nothing of the kernel's ends
    assert int(status[1]) in (1, kernel.pid)  # an orphan: the frontend waits for those
    os.kill(int(pid), signal.SIGKILL)


def test_a_vampir_that_went_away_is_reported(start_kernel, tmp_path, monkeypatch):
    script = fake_vampir(tmp_path, monkeypatch)
    kernel = start_kernel()
    kernel.run(ENABLE)
    script.unlink()
    outcome = kernel.run(CELL + "1 + 1")
    assert outcome.status == "ok" and outcome.result == "2"
    assert "Vampir is not started: cannot start vampir" in outcome.stream("stderr")
    assert kernel.run("%%disable_vampir_launch").stream() == "Vampir launching disabled.\n"
    outcome = kernel.run(CELL + "1 + 1")
    assert "Vampir" not in outcome.stream() + outcome.stream("stderr")
    outcome = kernel.run(ENABLE)  # gone from PATH: said, and nothing is tried
    assert "there is no program vampir in PATH" in outcome.stream("stderr")
    outcome = kernel.run(CELL + "1 + 1")
    assert "Vampir" not in outcome.stream() + outcome.stream("stderr")


@pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")
@pytest.mark.parametrize(
    ("end", "run_mode"),
    effort.in_turn(
        ["os.kill(os.getpid(), signal.SIGKILL)", "ctypes.string_at(0)", "os.abort()"], RUNS
    ),
)
def test_a_cell_that_dies_leaves_its_trace(lend, tmp_path, end, run_mode):
    kernel = lend(HOLDFAST_RUN=run_mode)
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run("import ctypes, os, signal\ndef f(): pass\ndef last(): pass")
    outcome = kernel.run(CELL + f"for _ in range(3000): f()\nlast()\n{end}")
    assert outcome.content["ename"] == "CellDied"
    assert f"; what was recorded until then is in {tmp_path / 'mine'}" in outcome.content["evalue"]
    trace = Trace(tmp_path / "mine")
    assert trace.calls().count("__main__:f") == 3000
    assert "__main__:last" in trace.calls()
    assert not list((tmp_path / "mine").glob("log-*"))
    assert kernel.run(CELL + "1 + 1").result == "2"
