"""Programs that people run kernels with, and Jupyter's own suite for kernels."""

import json
import os
import pty
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path

import pytest

from tests.conftest import write_kernelspec

CELL = "%%execute_with_scorep\n"
CELLS = [
    "import numpy as np\nx = np.arange(5)",
    CELL + "x[0] = 10\nprint('instrumented', x.sum())",
    "1 / 0",
    "print('after', x.sum())",
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory, and a kernelspec `holdfast` that every program finds."""
    write_kernelspec(tmp_path / "share" / "kernels")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_notebook(path, cells):
    spec = {"name": "holdfast", "display_name": "Holdfast", "language": "python"}
    metadata = {"kernelspec": spec}
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {"tags": ["parameters"]} if number == 0 else {},
            "source": code,
            "outputs": [],
            "execution_count": None,
        }
        for number, code in enumerate(cells)
    ]
    path.write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})
    )


def texts(path):
    cells = json.loads(path.read_text())["cells"]
    return [
        "".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in cells
    ]


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=120
    )


def test_nbconvert(place):
    pytest.importorskip("nbconvert")
    write_notebook(place / "in.ipynb", CELLS)
    convert = (
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "in.ipynb",
        "--output",
        "out.ipynb",
    )
    stopped = call(*convert)
    assert stopped.returncode != 0 and "ZeroDivisionError" in stopped.stderr
    assert call(*convert, "--allow-errors").returncode == 0
    shown = texts(place / "out.ipynb")
    assert "instrumented 20" in shown[1] and shown[3] == "after 20\n"


def test_papermill(place):
    pytest.importorskip("papermill")
    write_notebook(place / "in.ipynb", ["n = 1", CELL + "n += 1", "print('n is', n)"])
    done = call("papermill", "in.ipynb", "out.ipynb", "-p", "n", "41")
    assert done.returncode == 0, done.stderr
    assert texts(place / "out.ipynb")[-1] == "n is 42\n"


def test_jupyter_run(place):
    (place / "script.py").write_text("x = 6\nprint('answer', x * 7)\n")
    done = call("jupyter_client.runapp", "--kernel", "holdfast", "script.py")
    assert done.returncode == 0 and "answer 42" in done.stdout, done.stderr


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(argv[0], argv)

    def wait(self, words, seconds=60):
        seen, deadline = "", time.monotonic() + seconds
        while words not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([self.fd], [], [], 0.2)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def type(self, line):
        os.write(self.fd, line.encode() + b"\r")


def test_jupyter_console(place):
    pytest.importorskip("jupyter_console")
    command = ["-m", "jupyter_console", "--kernel", "holdfast", "--simple-prompt"]
    terminal = Terminal([sys.executable, *command])
    try:
        terminal.wait("In [1]:")
        terminal.type("print(6 * 7)")
        assert "42" in terminal.wait("In [2]:")
        terminal.type("who = input('name? ')")
        terminal.wait("name?")
        terminal.type("bob")
        terminal.wait("In [3]:")
        terminal.type("print(who * 2)")
        assert "bobbob" in terminal.wait("In [4]:")
        terminal.type("1 / 0")
        assert "ZeroDivisionError" in terminal.wait("In [5]:")
    finally:
        terminal.type("exit")
        os.waitpid(terminal.pid, 0)
        os.close(terminal.fd)


def test_jupyters_own_suite(place):
    suite = pytest.importorskip("jupyter_kernel_test")

    class HoldfastTests(suite.KernelTests):
        kernel_name = "holdfast"
        language_name = "python"
        file_extension = ".py"
        code_hello_world = "print('hello, world')"
        code_stderr = "import sys; print('test', file=sys.stderr)"
        code_execute_result = [
            {"code": "6 * 7", "result": "42"},
            {"code": CELL + "6 * 7", "result": "42"},
        ]
        code_display_data = [
            {"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))",
             "mime": "text/html"},
        ]  # fmt: skip
        code_generate_error = "raise ValueError('x')"
        code_inspect_sample = "zip"
        code_page_something = "zip?"
        code_clear_output = "from IPython.display import clear_output; clear_output()"
        code_history_pattern = "6 ? 7"
        # Of a range IPython says session 0, where the suite wants the number.
        supported_history_operations = ("tail", "search")
        completion_samples = [{"text": "zi", "matches": {"zip"}}]
        complete_code_samples = ["1", "print('hello')", "def f(x):\n  return x\n\n"]
        incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
        invalid_code_samples = ["import = 7q"]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(HoldfastTests).run(result)
    told = [text for _, text in [*result.errors, *result.failures]]
    assert not told, "\n".join(told)
    skipped = {case.id().rsplit(".", 1)[1] for case, _ in result.skipped}
    assert result.testsRun - len(skipped) >= 11, skipped


def test_a_short_soak(place):
    """bench/soak.py with a few rounds of two seeds; longer ones are run by hand."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    try:
        import soak
    finally:
        del sys.path[0]
    from jupyter_client.manager import KernelManager

    for seed in (1, 2):
        counts = soak.soak(KernelManager(kernel_name="holdfast"), seed, rounds=30)
        assert counts["rounds"] == 30
