"""What Python runs, ``python -m holdfast.scorep`` runs: with the same names, paths and arguments."""

import os
import py_compile
import subprocess
import sys
import zipfile

import pytest
from trace_reader import AVAILABLE, Trace

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

PROGRAM = """
import sys
import beside
def work(): return beside.VALUE
if __name__ == "__main__":
    work()
    spec = __spec__
    print(sys.argv, sys.path[0], globals().get("__file__"), __package__, spec and spec.name)
"""
KINDS = ["directory", "archive.zip", "app.pyz", "script.py", "script.pyc", "-", "fifo"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with one of each kind."""
    place = tmp_path_factory.mktemp("programs")
    (place / "directory").mkdir()
    for name in ("directory/__main__.py", "script.py"):
        (place / name).write_text(PROGRAM)
    for name in ("directory/beside.py", "beside.py"):
        (place / name).write_text("VALUE = 7\n")
    for name in ("archive.zip", "app.pyz"):
        with open(place / name, "wb") as file:
            file.write(b"#!/usr/bin/env python3\n" * name.endswith("pyz"))
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("__main__.py", PROGRAM)
                archive.writestr("beside.py", "VALUE = 7\n")
    py_compile.compile(place / "script.py", place / "script.pyc", doraise=True)
    os.mkfifo(place / "fifo")
    return place


def run(place, arguments, kind, **environment):
    if kind == "fifo":
        subprocess.Popen(["sh", "-c", "cat script.py > fifo"], cwd=place)
    return subprocess.run(
        [sys.executable, *arguments, kind, "one", "--two"],
        cwd=place,
        env=environment,
        input=PROGRAM if kind == "-" else None,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_as_by_python(programs, python_environment, kind):
    experiment = programs / ("experiment-" + kind)
    plain = run(programs, [], kind, **python_environment)
    recorded = run(
        programs,
        ["-m", "holdfast.scorep"],
        kind,
        **python_environment,
        SCOREP_EXPERIMENT_DIRECTORY=str(experiment),
    )
    assert plain.returncode == 0 and plain.stdout
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (plain.stdout, "", 0)
    assert Trace(experiment).calls()[-1] == "__main__:work"


@pytest.fixture
def python_environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
    return kept | {"HOLDFAST_RECORDER": "builtin"}


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("empty", None, "can't find '__main__' module in empty"),
        (
            "old.pyc",
            b"\\x01\\x02\\r\\n" + bytes(12),
            "old.pyc was compiled by another version of Python",
        ),
        ("absent", b"", "can't read absent"),
    ],
)
def test_what_is_no_program(tmp_path, python_environment, name, content, message):
    if content is None:
        (tmp_path / name).mkdir()
    elif content:
        (tmp_path / name).write_bytes(content)
    done = run(tmp_path, ["-m", "holdfast.scorep"], name, **python_environment)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_processes_of_an_archive(programs, python_environment, tmp_path):
    """A spawned child imports the program's main module once more."""
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "__main__.py").write_text(
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work.job, [1, 2]))\n"
    )
    (tmp_path / "pool" / "work.py").write_text("def job(x): return x\n")
    done = run(
        tmp_path,
        ["-m", "holdfast.scorep"],
        "pool",
        **python_environment,
        SCOREP_EXPERIMENT_DIRECTORY="experiment",
    )
    assert (done.stdout, done.returncode) == ("[1, 2]\n", 0), done.stderr
    assert Trace(tmp_path / "experiment").calls(prefix="work:job") == ["work:job"] * 2


# Score-P is loaded by a start of Python anew; the recorder is the built-in one, so that none is needed.
STARTED_ANEW = """
import os
from holdfast.scorep import __main__ as program, loading
loading.is_chosen = lambda: "AGAIN" not in os.environ
loading.configure = lambda options: None
loading.is_mpi = lambda: True
loading.restarted = lambda environ: False
loading.restart = lambda environ: environ.update(AGAIN="1")
program.main(["-", "one"])
"""


@pytest.mark.parametrize("source", ["pipe", "file"])
def test_a_program_from_stdin_survives_a_start_anew(tmp_path, python_environment, source):
    (tmp_path / "driver.py").write_text(STARTED_ANEW)
    text = (
        "import os, sys\nprint(os.environ['AGAIN'], sys.argv, sys.stdin.read())\n" + "#" * 100_000
    )
    (tmp_path / "typed.py").write_text(text)
    command = (
        "cat typed.py | $PYTHON driver.py" if source == "pipe" else "$PYTHON driver.py < typed.py"
    )
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**python_environment, "PYTHON": sys.executable},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "1 ['-', 'one'] \n"), done.stderr


def test_an_interrupted_program_ends_as_by_python(programs, python_environment):
    code = ["-c", "def f(): raise KeyboardInterrupt\nf()"]
    plain = run(programs, code, "", **python_environment)
    environment = {**python_environment, "SCOREP_EXPERIMENT_DIRECTORY": "interrupted"}
    recorded = run(programs, ["-m", "holdfast.scorep", *code], "", **environment)
    # Python 3.13 itself also shows the lines of -c.
    places = [line for line in plain.stderr.splitlines() if not line.startswith("    ")]
    assert (recorded.returncode, recorded.stderr.splitlines()) == (plain.returncode, places)


def test_a_file_in_the_experiments_place_stays(programs, python_environment):
    environment = {**python_environment, "SCOREP_EXPERIMENT_DIRECTORY": "beside.py"}
    done = run(programs, ["-m", "holdfast.scorep"], "script.py", **environment)
    assert done.returncode == 2 and "beside.py: Not a directory" in done.stderr
    assert (programs / "beside.py").read_text() == "VALUE = 7\n"
