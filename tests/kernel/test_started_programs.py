"""Programs that a recorded cell starts are in its trace, and nothing of that is left behind."""

import re
import sys

import pytest


@pytest.mark.parametrize("mode", ["in-process", "forked", "isolated"])
def test_a_cell_that_starts_python(shared_kernel, mode):
    outcome = shared_kernel.run(
        f"%%execute_with_scorep --run={mode}\n"
        "import os, subprocess\n"
        f"done = subprocess.run(['{sys.executable}', '-c', 'def child(): pass\\nchild()'])\n"
        f"code = os.system('{sys.executable} -c pass')\n"
    )
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    assert (
        "HOLDFAST_RECORDING"
        not in shared_kernel.run(
            "print(done.returncode, code, 'HOLDFAST_RECORDING' in os.environ)\n"
            "print(subprocess.run('env', capture_output=True, text=True).stdout)"
        ).stream()
    )
    found = shared_kernel.run(
        "from holdfast import views\n"
        "print([row['name'] for row in views.trace().table() if 'child' in row['name']])"
    )
    assert "__main__:child" in found.stream(), found.stream("stderr")


def test_what_other_processes_took_and_the_trace_lacks_is_in_the_line(shared_kernel):
    """Of a recorded program nothing; of others all."""
    shared_kernel.run(
        "import subprocess, sys\nburn = 'import time\\nwhile time.process_time() < 0.4: pass\\n'"
    )
    lines = [
        shared_kernel.run("%%execute_with_scorep\n" + code).summaries[0]["text/plain"]
        for code in (
            "_ = subprocess.run([sys.executable, '-c', burn])",
            "_ = subprocess.run([sys.executable, '-S', '-c', burn])",
            "_ = [subprocess.run([sys.executable, *how, '-c', burn]) for how in ([], ['-S'])]",
        )
    ]
    found = [re.search(r", without (\d+) ms of other processes", line) for line in lines]
    assert found[0] is None, lines
    assert all(400 <= int(one[1]) < 700 for one in found[1:]), lines


def test_a_program_that_gets_another_environment(start_kernel):
    """It names no directory, and so the program had a trace of its own."""
    kernel = start_kernel(env={"SCOREP_EXPERIMENT_DIRECTORY": "traces"})
    kernel.run("import os, subprocess, sys")
    kernel.run(
        "%%execute_with_scorep\n"
        "done = subprocess.run([sys.executable, '-c', 'def child(): pass\\nchild()'], env={})\n"
    )
    found = kernel.run(
        "from holdfast import views\n"
        "print([row['name'] for row in views.trace().table() if 'child' in row['name']])"
    )
    assert "__main__:child" in found.stream(), found.stream("stderr")
