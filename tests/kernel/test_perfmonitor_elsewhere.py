"""The %perfmonitor commands in kernels other than ours: plain ipykernel, IPython in a terminal."""

import os
import shutil
import subprocess
import sys
import tempfile

import pandas
import pytest
from jupyter_client.manager import KernelManager

from tests.conftest import Notebook

BURN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass"


def displays(outcome):
    """What a cell displayed."""
    return [m["content"]["data"] for m in outcome.messages if m["msg_type"] == "display_data"]


@pytest.fixture
def ipykernel(tmp_path):
    """A plain ipykernel."""
    place = tempfile.mkdtemp()  # a short path, for sockets
    manager = KernelManager(transport="ipc", ip=f"{place}/kernel")
    manager.kernel_spec.argv[:] = [sys.executable, "-m", "ipykernel_launcher", "-f"]
    manager.kernel_spec.argv.append("{connection_file}")
    manager.start_kernel(cwd=str(tmp_path))
    notebook = Notebook(manager)
    yield notebook
    notebook.close()
    shutil.rmtree(place)


def test_in_plain_ipykernel(ipykernel, tmp_path):
    kernel = ipykernel
    assert kernel.run("%load_ext jumper_extension").status == "error"
    assert "%perfmonitor_help" in kernel.run("%load_ext holdfast").stream()
    kernel.run("%perfmonitor_start 0.02 --pss")
    kernel.run(BURN.format(0.3))
    assert kernel.run("1 / 0").status == "error"
    text = kernel.run("%perfmonitor_perfreport --text --cell 1").stream()
    (line,) = (line for line in text.splitlines() if line.startswith("CPU Time (s)"))
    assert 0.29 <= float(line.split()[-1]) < 0.5  # with what IPython does around it
    assert "Memory, USS (GB)" in text
    for line in ("%perfmonitor_start x", "%perfmonitor_plot --sav a", "%perfmonitor_perfreport a"):
        assert kernel.run(line).stream("stderr").count("\n") == 1
    kernel.run(f"%perfmonitor_export_cell_history {tmp_path}/c.csv")
    assert pandas.read_csv(tmp_path / "c.csv")["outcome"].tolist()[:4] == [
        "ok",
        "ok",
        "error",
        "ok",
    ]
    kernel.run("%perfmonitor_enable_perfreports --text")
    assert "Performance Report" in kernel.run("x = 1").stream()
    assert displays(kernel.run("%perfmonitor_plot --cell 1"))
    assert kernel.run("%unload_ext holdfast").status == "ok"
    assert "Performance Report" not in kernel.run("x = 1").stream()
    assert kernel.run("%load_ext jumper_extension").status == "ok"  # from now on
    kernel.run("x = 2")
    (data,) = displays(kernel.run("%cell_history"))
    assert "x = 2" in data["text/plain"].splitlines()[-1]


def test_in_terminal_ipython(tmp_path):
    code = (
        "%load_ext jumper_extension\n%perfmonitor_start 0.02\nsum(range(3_000_000))\n"
        "%perfmonitor_perfreport --cell 1\n%cell_history\n%perfmonitor_plot --live\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        input=code, capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "HOLDFAST_JUMPER_ALIAS": "1"},
    )  # fmt: skip
    assert "CPU Util (Across CPUs)" in done.stdout and "Performance Report" in done.stdout
    assert "sum(range(3_000_000))" in done.stdout
    assert "a live plot needs a notebook" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
