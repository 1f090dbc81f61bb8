"""`holdfast demo`: the notebook is written beside what is there, and shows what it says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from holdfast import demo

NOTEBOOK = Path(demo.__file__).with_name("demo.ipynb")
PROGRAM = shutil.which("holdfast", path=os.path.dirname(sys.executable))
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="the package isn't installed here")


def call(*arguments, directory, **environment):
    return subprocess.run(
        [PROGRAM, "demo", *arguments],
        cwd=directory,
        env=os.environ | environment,
        text=True,
        capture_output=True,
        timeout=200,
    )


def test_nothing_is_overwritten(tmp_path):
    for name in ("holdfast-demo.ipynb", "holdfast-demo-2.ipynb", "holdfast-demo-3.ipynb"):
        done = call(directory=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[:2] == [f"wrote {name}", f"Open it: jupyter lab {name}"]
        assert (tmp_path / name).read_bytes() == NOTEBOOK.read_bytes()
        (tmp_path / name).write_text("mine")
    assert {path.read_text() for path in tmp_path.iterdir()} == {"mine"}


def test_its_keys_are_those_of_the_timeline():
    """It said that dragging zooms; dragging moves."""
    text = " ".join(
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text())["cells"]
        if cell["cell_type"] == "markdown"
    )
    views = (Path(__file__).parents[2] / "docs/views.md").read_text()
    assert "dragging moves" in text and "| drag | move" in views
    for key in ("`w` `s`", "`0`"):
        assert key in views
    assert "`w` and `s` zoom" in text and "`0` shows all" in text


def test_where_nothing_can_be_written(tmp_path):
    (gone := tmp_path / "gone").mkdir()
    command = f"rmdir {gone}; exec {PROGRAM} demo"
    done = subprocess.run(["sh", "-c", command], cwd=gone, text=True, capture_output=True)
    assert done.returncode == 1 and done.stdout == ""


def test_without_the_kernel(tmp_path):
    done = call("--run", "--kernel", "none-such", directory=tmp_path)
    assert done.returncode == 1 and "python -m holdfast.install" in done.stderr


def test_it_runs(tmp_path):
    """The executed notebook and the table of what its cells cost."""
    pytest.importorskip("nbclient")
    prefix = tmp_path / "prefix"
    command = [sys.executable, "-m", "holdfast.install", "--no-check"]
    command += ["--prefix", prefix, "--name", "demo"]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    path = str(prefix / "share" / "jupyter")
    done = call("--run", "--kernel", "demo", directory=tmp_path, JUPYTER_PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    executed = tmp_path / "holdfast-demo" / "holdfast-demo.ipynb"
    assert str(executed) in done.stdout
    cells = json.loads(executed.read_text())["cells"]
    outputs = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    shown = [
        "".join("".join(output.get("text", [])) for output in cell)
        + "".join("".join(output.get("data", {}).get("text/plain", [])) for output in cell)
        for cell in outputs
    ]
    start, record, trace, explain, crash, after, clean, undo, back, report, stop = shown
    assert start == "The monitor takes a sample every 0.05 s\n"
    assert "9996.870394" in record and record.endswith("; ran in-process")
    assert any("text/html" in output["data"] for output in outputs[2])
    assert trace.startswith("cell In[2]: ")
    assert explain.startswith("The line below cell In[2]:\n")
    assert outputs[4][-1]["ename"] == "CellDied" and "as they were" in outputs[4][-1]["evalue"]
    assert after == "(['a', 'list'], 20000)"
    assert "(['a', 'list', 20000], 0)" in clean
    assert clean.endswith("; ran isolated")
    assert undo.startswith("Cell 7 is undone") and "Changed: kept, lines." in undo, undo
    assert back == "(['a', 'list'], 20000)"
    assert "Performance Report" in report and stop.startswith("The monitor has stopped")
