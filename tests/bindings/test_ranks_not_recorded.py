"""Ranks of an MPI program don't wait for ranks that aren't recorded, at their begin and end.

The launcher is pretended: what it does is to set variables.
"""

import os
import subprocess
import sys

import pytest
from trace_reader import AVAILABLE, Trace

pytestmark = [
    pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc"),
]
RECORDED = [sys.executable, "-m", "holdfast.scorep", "--mpp=mpi", "program.py"]


@pytest.fixture
def start(tmp_path):
    (tmp_path / "program.py").write_text("def work(): pass\nwork()\n")
    started = []

    def start(rank, command, experiment="experiment"):
        variables = {"PMI_RANK": str(rank), "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**kept, **variables, "SCOREP_EXPERIMENT_DIRECTORY": experiment}
            | {"HOLDFAST_RECORDER": "builtin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "other",
    [
        [sys.executable, "-c", "input()"],  # goes on until rank 0 has ended
        [sys.executable, "-m", "holdfast.scorep", "-c", "input()"],  # recorded by itself
        ["cat"],
        None,
    ],
    ids=["python", "alone", "c", "ended"],
)
def test_it_ends_when_it_is_done(start, tmp_path, other):
    beside = other and start(1, other, "another")
    process = start(0, RECORDED)
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    assert beside is None or beside.poll() is None
    assert Trace(tmp_path / "experiment").calls() == ["__main__:<module>", "__main__:work"]
    assert not (tmp_path / "experiment" / "parts").exists()


@pytest.mark.parametrize("other", [["cat"], ["sh", "run.sh", *RECORDED]], ids=["c", "late"])
def test_rank_0_may_be_another_program(start, tmp_path, other):
    """Then the next one makes the experiment; a shell may become a recorded one."""
    (tmp_path / "run.sh").write_text('read line; exec "$@"\n')
    beside = start(0, other)
    process = start(1, RECORDED)
    if other != ["cat"]:
        assert "waits for the experiment" in process.stderr.readline()
        assert beside.communicate("go\n", timeout=120)[1] == ""
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    calls = Trace(tmp_path / "experiment").calls()
    assert calls.count("__main__:work") == (1 if other == ["cat"] else 2)
    assert not (tmp_path / "experiment" / "parts").exists()


def test_one_that_begins_late_is_waited_for(start, tmp_path):
    """Its shell doesn't say yet what it will run."""
    (tmp_path / "run.sh").write_text('read line; exec "$@"\n')
    late = start(1, ["sh", "run.sh", *RECORDED])
    process = start(0, RECORDED)
    assert "waits for ranks" in process.stderr.readline()
    late.communicate("go\n", timeout=120)
    process.communicate(timeout=120)
    assert (late.returncode, process.returncode) == (0, 0)
    assert Trace(tmp_path / "experiment").calls().count("__main__:work") == 2
