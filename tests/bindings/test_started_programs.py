"""Python programs that a recorded one starts are recorded with it, however they are started."""

import sys

import pytest
from trace_reader import AVAILABLE
from waiting import until

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

CHILD = "def child(): pass\\nchild()\\n"
BEGIN = f"""
import os, subprocess, sys
open("child.py", "w").write("{CHILD}")
program = [sys.executable, "child.py"]
"""
STARTS = {
    "run": "subprocess.run(program, check=True)",
    "environment": "subprocess.run(program, env={**os.environ, 'A': 'b'}, check=True)",
    "system": "assert os.system(f'{sys.executable} child.py') == 0",
    "shell": "subprocess.run(f'({sys.executable} child.py)', shell=True, check=True)",
    "environment without closing": "subprocess.run(program, env={**os.environ, 'A': 'b'},"
    " check=True, close_fds=False)",
    "posix_spawn": "os.waitpid(os.posix_spawn(program[0], program, os.environ), 0)",
    "posix_spawnp, bytes": "os.waitpid(os.posix_spawnp(program[0], program, os.environb), 0)",
    "spawnve": "os.spawnve(os.P_WAIT, program[0], program, os.environ)",
    "execve": "pid = os.fork()\nif not pid: os.execve(program[0], argv=program, env=os.environ)\n"
    "os.waitpid(pid, 0)",
    "exec": "pid = os.fork()\nif not pid: os.execv(sys.executable, program)\nos.waitpid(pid, 0)",
    "grandchild": "subprocess.run([sys.executable, '-c', 'import subprocess, sys; "
    'subprocess.run([sys.executable, "child.py"], check=True)\'], check=True)',
}


def test_each_way_to_start_one(record_script):
    ways = "\n".join(STARTS.values())
    trace = record_script(BEGIN + ways + "\nassert 'HOLDFAST_RECORDING' not in os.environ\n")
    assert trace.done.stderr == ""
    called = [
        location >> 32 for location in trace.locations for _ in trace.calls(location, "__main__:child")
    ]  # fmt: skip
    assert len(called) == len(set(called)) == len(STARTS) and 0 not in called


def test_workers_of_joblib(record_script):
    pytest.importorskip("joblib")
    trace = record_script(
        """
        import joblib
        from joblib.externals.loky import get_reusable_executor
        def job(x): return x
        print(joblib.Parallel(n_jobs=2)(joblib.delayed(job)(i) for i in range(4)))
        get_reusable_executor().shutdown(wait=True)
        """
    )
    assert trace.done.stdout == "[0, 1, 2, 3]\n"
    called = [
        location for location in trace.locations for _ in trace.calls(location, "__main__:job")
    ]
    assert len(called) == 4 and all(location >> 32 for location in called)


@pytest.mark.parametrize(
    "option, starts, expected",
    [
        ("--noinstrumenter", "subprocess.run(program, check=True)", 0),
        # One that records for itself, and one that is started when nobody records any more.
        ("--verbose", "subprocess.run([sys.executable, '-m', 'holdfast.scorep', 'child.py'],"
         " env={**os.environ, 'SCOREP_EXPERIMENT_DIRECTORY': 'other'}, check=True)", 0),
        ("--verbose", "import scorep\nsubprocess.run(program)\nscorep.close()\n"
         "subprocess.run(program, check=True)", 1),
    ],
)  # fmt: skip
def test_those_that_are_not(record_script, option, starts, expected):
    trace = record_script(BEGIN + starts + "\n", option)
    assert trace.calls(prefix="__main__:child") == ["__main__:child"] * expected
    assert "isn't recorded" not in trace.done.stderr


def test_no_file_without_one(record_script, tmp_path):
    """Nothing is shared before a program is started."""
    record_script("import os, subprocess\nassert os.listdir('experiment') == ['log-0']\n")


@pytest.mark.skipif(sys.platform != "linux", reason="an orphan goes to init")
def test_one_that_outlives_it(python, tmp_path):
    (tmp_path / "script.py").write_text(
        BEGIN
        + "open('child.py', 'a').write('input()\\n')\n"
        + "import time\n"
        + "subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,\n"
        "    stderr=subprocess.DEVNULL, start_new_session=True)\n"
        + "while len(os.listdir('experiment/parts')) < 3: time.sleep(0.01)\n"
    )
    from trace_reader import Trace

    assert python("-m", "holdfast.scorep", "script.py").returncode == 0
    until(lambda: not (tmp_path / "experiment" / "parts").exists())
    assert "__main__:child" in Trace(tmp_path / "experiment").calls()
