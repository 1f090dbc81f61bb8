"""The tutorial: its page, its notebook and README.md have the same outputs, and a run gives them again."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needed import needed

nbformat = needed("nbformat")
needed("nbclient")

ROOT = Path(__file__).resolve().parent.parent

FIGURES = re.compile(r"[-+]?[\d,]*\d(\.\d+)?")
TABLE = re.compile(r"^function  ", re.MULTILINE)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def notebooks():
    """The program by which the tutorial is made."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    return notebooks


@pytest.fixture(scope="module")
def stored(notebooks):
    return nbformat.read(notebooks.NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def shown(stored, notebooks):
    return [notebooks.outputs(cell, "nowhere") for cell in code(stored)]


def test_the_notebook_is_the_page(stored, notebooks):
    built = notebooks.build(notebooks.PAGE)
    assert [cell.source for cell in stored.cells] == [cell.source for cell in built.cells]
    assert [cell.execution_count for cell in code(stored)] == list(range(1, len(code(built)) + 1))


def test_the_page_and_the_readme_quote_it(shown, notebooks):
    page = notebooks.PAGE.read_text("utf-8")
    assert page.count("```text\n") == 7 and notebooks.quoted(page, shown) == page
    readme = notebooks.README.read_text("utf-8")
    times = re.findall(r"^In \[\d+\].* ([\d.]+) (m?s)$", readme, re.MULTILINE)
    assert len(times) == 3 and notebooks.timed(readme, shown) == readme
    took = [float(time) * (1000 if unit == "s" else 1) for time, unit in times]
    assert took[0] > 3 * took[1] > 3 * took[2], "faster each time"


def plain(text):
    """An output without what another run, machine or version of Python may have otherwise.

    Of a table of functions the head and the first row, without the widths that other rows give them:
    the rows are sorted by time, and only the longest is longest in each run. Of the line below a cell
    the words, without the causes that only a slow hand-over has.
    """
    text = re.sub(r"^(cell In\[\d+\]: wall time).*", r"\1", text)
    if TABLE.search(text):
        title, head, first = text.splitlines()[:3]
        assert re.search(r"^(and \d+ more|The noise is unknown)", text, re.M)
        rows = (" ".join(row.split()) for row in (head, first))
        return FIGURES.sub("#", "\n".join([title, *rows]))
    if " cores; memory up to " in text:
        text = re.sub(r"; in .*, out ", "; in #, out ", text)
        text = re.sub(r"recording (took|not measured)[^;]*", "recording", text)
        return re.sub(r"# (ms|s|[KM]iB|B)\b", "#", FIGURES.sub("#", text))
    return re.sub(r"found in .*/scorep-\w+", "found in DIRECTORY", text)


def test_a_run_gives_the_same(shown, notebooks, tmp_path, monkeypatch):
    if shutil.which("holdfast-kernel", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("the package isn't installed here")
    command = [sys.executable, "-m", "holdfast.install", "--no-check"]
    command += ["--prefix", tmp_path, "--name", "hf-tut"]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("HOLDFAST_RECORDER", "builtin")
    notebook = notebooks.build(notebooks.PAGE)
    notebooks.run(notebook, tmp_path, kernel="hf-tut")
    again = [notebooks.outputs(cell, tmp_path) for cell in code(notebook)]
    assert sum(map(len, shown)) > 10
    for number, (expected, found) in enumerate(zip(shown, again, strict=True), 1):
        assert [plain(text) for text in found] == [plain(text) for text in expected], number
