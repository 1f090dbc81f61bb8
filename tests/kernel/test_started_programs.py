"""Programs that a recorded cell starts are in its trace, and nothing of that is left behind."""

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
