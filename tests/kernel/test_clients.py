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

import effort
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


@pytest.mark.parametrize("how", effort.core(["tcp", "curve", "ipc"], ["tcp"]))
def test_jupyters_own_suite(place, monkeypatch, how):
    from jupyter_client.manager import KernelManager

    if how == "curve":
        monkeypatch.setattr(KernelManager.transport_encryption, "default_value", "required")
    elif how == "ipc":
        monkeypatch.setattr(KernelManager.transport, "default_value", "ipc")
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
        supported_history_operations = ("tail", "range", "search")
        completion_samples = [{"text": "zi", "matches": {"zip"}}]
        complete_code_samples = ["1", "print('hello')", "def f(x):\n  return x\n\n"]
        incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
        invalid_code_samples = ["import = 7q"]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(HoldfastTests).run(result)
    failures = [text for _, text in [*result.errors, *result.failures]]
    assert not failures, "\n".join(failures)
    skipped = {case.id().rsplit(".", 1)[1] for case, _ in result.skipped}
    assert not skipped and result.testsRun >= 12


def test_nbclient(place):
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    write_notebook(place / "in.ipynb", ["input('who?')", *CELLS])
    notebook = nbformat.read(place / "in.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, kernel_name="holdfast")
    client.allow_error_names = ["StdinNotImplementedError"]
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        client.execute()
    errors = [
        output["ename"]
        for cell in notebook.cells
        for output in cell.outputs
        if output["output_type"] == "error"
    ]
    assert errors == ["StdinNotImplementedError", "ZeroDivisionError"]
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4, None]


def test_as_vs_code_starts_it(place):
    """It writes the connection file itself, starts argv, and keeps the sockets to itself."""
    from jupyter_client import BlockingKernelClient
    from jupyter_client.connect import write_connection_file
    from jupyter_client.kernelspec import KernelSpecManager

    path = str(place / "kernel-v2-1234.json")
    write_connection_file(path, key=b"9d1ebd25-56ba-4a1e-a8e5-cf1d5b3e9a3f", kernel_name="")
    spec = KernelSpecManager().get_kernel_spec("holdfast")
    argv = [part.replace("{connection_file}", path) for part in spec.argv]
    env = {k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"}
    process = subprocess.Popen(argv, cwd=place, env=env, stdin=subprocess.DEVNULL)
    client = BlockingKernelClient(connection_file=path)
    try:
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(CELL + "x = 6 * 7", timeout=60, output_hook=lambda m: 0)
        assert reply["content"]["status"] == "ok"
        sent = client.execute("import time; print('go', flush=True); time.sleep(1000)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        client.control_channel.send(client.session.msg("interrupt_request", {}))
        assert client.get_control_msg(timeout=60)["content"]["status"] == "ok"
        reply = client.get_shell_msg(timeout=60)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        client.shutdown()
        assert process.wait(timeout=60) == 0
    finally:
        client.stop_channels()
        process.kill()
        process.wait()


def test_in_a_jupyterhub(start_kernel, tmp_path):
    """What a hub's single-user server gives its kernels is the notebook's, in every process."""
    hub = {"JUPYTERHUB_USER": "ada", "JUPYTERHUB_API_TOKEN": "t", "JPY_API_TOKEN": "t"}
    hub |= {"JUPYTERHUB_SERVICE_PREFIX": "/user/ada/", "HOME": str(tmp_path)}
    kernel = start_kernel(env=hub)
    look = "import os\nsorted((k, v) for k, v in os.environ.items() if k[:3] in ('JUP', 'JPY'))"
    plain = kernel.run(look)
    assert all(repr(name) in plain.result for name in list(hub)[:-1])
    assert kernel.run(CELL + look).result == plain.result


def test_history_is_there_at_the_next_start(start_kernel, tmp_path):
    env = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    first = start_kernel(env=env)
    first.run("plain = 'of the first'")
    first.run(CELL + "recorded = 'of the first'")
    first.close()
    client = start_kernel(env=env).client

    def history(**options):
        client.history(**options)
        reply = client.get_shell_msg(timeout=60)
        return [entry[2] for entry in reply["content"]["history"]]

    tail = history(hist_access_type="tail", n=2)
    assert tail == ["plain = 'of the first'", CELL + "recorded = 'of the first'"]
    assert history(hist_access_type="search", pattern="plain*", n=5) == tail[:1]
    assert history(hist_access_type="range", session=-1, start=1, stop=3) == tail


def test_a_short_soak(place):
    """bench/soak.py with a few rounds."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    try:
        import soak
    finally:
        del sys.path[0]
    from jupyter_client.manager import KernelManager

    rounds = 200 if effort.IS_LONG else 2
    counts = soak.soak(KernelManager(kernel_name="holdfast"), 1, rounds)
    assert counts["rounds"] == rounds
