"""The smallest kernel, examples/kernel_smallest: both halves of a kernel by the libraries."""

import json
import os
import re
import signal
import time
import unittest

import kernel_programs
import pytest
from waiting import begun, until

SOURCE = kernel_programs.ROOT / "examples/kernel_smallest/calculator.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("smallest") / "calculator"
    return kernel_programs.compiled(SOURCE, target)


@pytest.fixture
def calculator(program, start_kernel):
    return start_kernel(spec=kernel_programs.spec(program))


def test_it_is_small():
    """Without its comments: what each language would write again is the library's."""
    code = re.sub(r"/\*.*?\*/", "", SOURCE.read_text("utf-8"), flags=re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 150


def test_cells(calculator):
    assert calculator.run("x = 6\nx * 7").result == "42"
    outcome = calculator.run("print x\nprint -(x + 2) / 4\nx")
    assert (outcome.stream(), outcome.result) == ("6\n-2\n", "6")
    assert outcome.types == [
        "status",
        "execute_input",
        "stream",
        "execute_result",
        "status",
    ]
    failed = calculator.run("y")
    assert failed.status == "error" and failed.content["evalue"] == "no variable y"
    assert calculator.run("x = (1\nx").status == "error"
    assert calculator.run("x").result == "6"


def test_jupyters_own_suite(program, tmp_path, monkeypatch):
    suite = pytest.importorskip("jupyter_kernel_test")
    directory = tmp_path / "kernels" / "calculator"
    directory.mkdir(parents=True)
    spec = kernel_programs.spec(program) | {"language": "calculator"}
    (directory / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    class CalculatorTests(suite.KernelTests):
        kernel_name = "calculator"
        language_name = "calculator"
        file_extension = ".txt"
        code_execute_result = [{"code": "6 * 7", "result": "42"}]
        code_generate_error = "y"
        completion_samples = [{"text": "2 + x", "matches": set()}]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(CalculatorTests).run(result)
    failures = [text for _, text in [*result.errors, *result.failures]]
    assert not failures, "\n".join(failures)
    skipped = {case.id().rsplit(".", 1)[1] for case, _ in result.skipped}
    assert not skipped & {
        "test_kernel_info",
        "test_execute_result",
        "test_error",
        "test_completion",
    }


def test_completion(calculator):
    calculator.run("length = 1\nlever = 2")
    reply = calculator.client.complete("2 + le", 6, reply=True, timeout=60)["content"]
    assert reply["matches"] == ["length", "lever"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (4, 6)
    assert calculator.client.inspect("lever", reply=True, timeout=60)["content"]["found"] is False
    assert calculator.client.history(reply=True, timeout=60)["content"]["history"] == []


def test_an_interrupt_ends_the_cell_and_keeps_the_variables(calculator):
    calculator.run("x = 5")
    sent = begun(calculator, "print x\nsleep 600\nx = 6")
    calculator.manager.interrupt_kernel()
    assert calculator.finish(sent).content["ename"] == "Interrupted"
    assert calculator.run("x").result == "5"


def test_questions_while_a_cell_runs(calculator):
    """The assistant answers, from the last commit."""
    with kernel_programs.saved(calculator):
        calculator.run("length = 1")
    sent = begun(calculator, "other = 1\nprint other\nsleep 600")
    reply = calculator.client.complete("le", 2, reply=True, timeout=60)["content"]
    assert reply["matches"] == ["length"]
    calculator.manager.interrupt_kernel()
    assert calculator.finish(sent).status == "error"
    assert calculator.run("other").result == "1"


def test_variables_outlive_a_crash(calculator):
    with kernel_programs.saved(calculator):
        calculator.run("x = 5\ny = 7")
    died = calculator.run("crash")
    assert died.content["ename"] == "CellDied" and "SIGKILL" in died.content["evalue"]
    assert calculator.run("x * y").result == "35"
    with kernel_programs.saved(calculator):
        calculator.run("x = 6")
    killed = calculator.workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    while not calculator.workers() - killed:
        time.sleep(0.01)
    assert calculator.run("x * y").result == "42"


def test_the_fork_server_may_die(calculator):
    with kernel_programs.saved(calculator):
        calculator.run("x = 5")
    server = calculator.fork_server()
    os.kill(server, signal.SIGKILL)
    assert calculator.run("x").result == "5"
    until(lambda: calculator.fork_server() not in (0, server))  # its death is known
    assert calculator.run("crash").status == "error"
    assert calculator.run("x").result == "5"


@pytest.fixture
def commands(program, start_kernel, tmp_path):
    """A kernel that has the commands of holdfast-kernel, with the calculator's workers."""
    return start_kernel(python=kernel_programs.for_python(program, tmp_path))


RUN = "%%execute_with_scorep --run="


@pytest.mark.parametrize("mode", ["in-process", "forked", "isolated"])
def test_ways(commands, mode):
    commands.run("x = 6\ny = 1")
    outcome = commands.run(f"{RUN}{mode}\ny = x + 1\nprint y\nx * y")
    assert (outcome.stream(), outcome.result, outcome.status) == ("7\n", "42", "ok")
    assert outcome.cost["run"] == mode
    assert commands.run("y").result == "7"
    failed = commands.run(f"{RUN}{mode}\ny = 9\nnone")
    assert failed.content["evalue"] == "no variable none"
    assert commands.run("y").result == "9"  # what ran before the error has run
    commands.settle()  # else the crash may lose the cells of the last second, too
    died = commands.run(f"{RUN}{mode}\ny = 10\ncrash")
    assert died.content["ename"] == "CellDied" and "SIGKILL" in died.content["evalue"]
    assert commands.run("x * y").result == "54"


@pytest.mark.parametrize("mode", ["in-process", "forked", "isolated"])
def test_interrupts_in_each_way(commands, mode):
    commands.run("x = 6")
    sent = begun(commands, f"{RUN}{mode}\nx = 7\nprint x\nsleep 600")
    commands.manager.interrupt_kernel()
    assert commands.finish(sent).content["ename"] == "Interrupted"
    assert commands.run("x").result == "7"


def test_an_isolated_cell(commands):
    commands.run("x = 6")
    one = commands.run("%%isolated\nx = x + 1\nx")
    assert one.result == "7", one.content
    assert commands.run("x").result == "7"
    assert commands.run("%%isolated\ncrash").content["ename"] == "CellDied"
    assert commands.run("x").result == "7"


def test_the_history(calculator, tmp_path):
    calculator.run("%%isolated\nx = 1")
    calculator.run("%%isolated\nx = 2\nz = 3")
    outcome = calculator.run("%holdfast undo")
    assert outcome.status == "ok" and outcome.stream(), outcome.content
    assert calculator.run("x").result == "1"
    assert calculator.run("z").content["evalue"] == "no variable z"
    calculator.run("%%isolated\nx = 5")
    assert "x" in calculator.run("%holdfast diff").stream()
    file = tmp_path / "saved"
    assert calculator.run(f"%holdfast save {file}").status == "ok"
    calculator.run("%%isolated --run=forked\nx = 6")
    loaded = calculator.run(f"%holdfast load {file}")
    assert loaded.status == "ok", loaded.content
    assert calculator.run("x").result == "5"
    assert calculator.run(f"%holdfast load {tmp_path}/none").content["ename"] == "HistoryError"
    assert calculator.run("x").result == "5"
