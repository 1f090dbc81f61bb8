"""What a cell used, shown after each cell, where the user wants that."""

import effort
import pytest

CELL = "%%execute_with_scorep\n"


def shown(outcome):
    """What a cell displayed, by MIME type."""
    return [m["content"]["data"] for m in outcome.messages if m["msg_type"] == "display_data"]


@pytest.mark.parametrize("run_mode", effort.core(["isolated", "in-process"], ["in-process"]))
def test_a_report_follows_each_cell(start_kernel, run_mode):
    kernel = start_kernel(env={"HOLDFAST_RUN": run_mode})
    out = kernel.run("%perfmonitor_enable_perfreports --interval 0.05 --text").stream()
    assert "A report follows each cell" in out and "Performance Report" not in out
    outcome = kernel.run("print('mine')")
    assert outcome.stream().startswith("mine\n" + "-" * 40 + "\nPerformance Report\n")
    assert "(cell 1, In [2])" in outcome.stream() and outcome.states[-1] == "idle"
    outcome = kernel.run(CELL + "x = 5")
    assert "(cell 2, In [3])" in outcome.stream()
    outcome = kernel.run("1 / 0")
    assert outcome.status == "error" and "Cell 3, In [4]: raised." in outcome.stream()
    assert "Report" not in kernel.run("%perfmonitor_resources\n# no code").stream()
    assert "Report" not in kernel.run("x", silent=True).stream()
    outcome = kernel.run(CELL + "import os; os.abort()")
    assert outcome.status == "error" and ": died." in outcome.stream()
    outcome = kernel.run("import os; os.abort()")
    assert outcome.status == "error" and ": died." in outcome.stream()
    assert "Performance Report" in kernel.run("y = 2").stream()
    kernel.run("%perfmonitor_enable_perfreports")
    (data,) = shown(kernel.run("y"))
    assert "Performance Report" in data["text/html"]
    kernel.run("%perfmonitor_disable_perfreports")
    outcome = kernel.run("y")
    assert outcome.result == "2" and not shown(outcome)


def test_a_main_worker_that_dies_of_the_report(start_kernel):
    kernel = start_kernel()
    kernel.run("%perfmonitor_enable_perfreports --interval 0.05 --text\nx = 5")
    dies = "import builtins, os\nbuiltins.print = lambda *words, **more: os._exit(7)"
    outcome = kernel.run(dies)
    assert outcome.status == "ok" and outcome.states[-1] == "idle"  # the cell itself went well
    assert "the notebook's process left with exit status 7" in outcome.stream("stderr")
    assert "its variables are" in outcome.stream("stderr")
    assert kernel.run("1 + 1").result == "2"
