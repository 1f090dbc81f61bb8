"""Every example is run as a test: the main job and the codecs here, store.c in test_pkgconfig.py."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needed import needed

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

nbformat = needed("nbformat")
needed("nbclient")
needed("sklearn")
report = pytest.importorskip("holdfast.report")
if shutil.which("holdfast-kernel", path=os.path.dirname(sys.executable)) is None:
    pytest.skip("the package isn't installed here", allow_module_level=True)


@pytest.fixture(scope="module")
def main_job(tmp_path_factory):
    """The main job run once, as ./run does: its output and the executed notebook."""
    directory = tmp_path_factory.mktemp("main_job")
    data = directory / "prefix"
    install = [sys.executable, "-m", "holdfast.install", "--no-check"]
    subprocess.run([*install, "--prefix", data, "--name", "hf-job"], check=True, timeout=120)
    command = [sys.executable, "-m", "holdfast.report", "--kernel", "hf-job"]
    done = subprocess.run(
        [*command, "--output", directory / "out", EXAMPLES / "main_job.ipynb"],
        env=os.environ | {"JUPYTER_PATH": str(data / "share/jupyter")},
        text=True,
        capture_output=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    executed = nbformat.read(directory / "out/main_job.ipynb", as_version=4)
    return done.stdout, executed, directory / "out"


def test_every_cell_ran(main_job):
    _, notebook, _ = main_job
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert "error" not in kinds
    assert {"execute_result", "display_data", "stream"} <= kinds


def test_results(main_job):
    # Known values of this data set: 442 patients, and a score that the split fixes.
    _, notebook, _ = main_job
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    everything = "\n".join(texts)
    assert "442 of 442 rows kept" in everything
    score = float(re.search(r"ridge +([\d.]+)\n", everything)[1])
    assert score == pytest.approx(0.506, abs=0.01)


def test_report_shows_what_cells_cost(main_job):
    out, notebook, _ = main_job
    recorded = [line for line in out.splitlines() if "  instrumented  " in line]
    sources = [cell.source for cell in notebook.cells]
    marked = [text for text in sources if text.startswith("%%execute_with_scorep")]
    assert len(recorded) == len(marked)
    # They run where the variables are: nothing is mapped. What plain cells have changed may be committed before.
    assert all(re.search(r"  0 B +[\d.]+ (B|KiB|MiB)$", line) for line in recorded), recorded


def test_trace_is_readable(main_job):
    out, _, directory = main_job
    archives = re.findall(r"^trace: (.+)$", out, flags=re.MULTILINE)
    assert len(archives) == len(set(archives)) == 3
    lines = report.trace_lines(directory / archives[0], 10**9)
    text = "\n".join(lines)
    for region in ("prepare", "fit ridge", "fit forest"):
        assert region in text
    enters = sum(line.startswith("ENTER") for line in lines)
    leaves = sum(line.startswith("LEAVE") for line in lines)
    assert enters == leaves > 100


# ---- codecs


@pytest.fixture
def codec_kernel(tmp_path, monkeypatch, start_kernel):
    """A kernel that finds an example's package, which was built as its README says."""

    def start(name):
        pytest.importorskip("mesonpy")
        target = tmp_path / "site"
        command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps"]
        command += ["--no-index", "--quiet", "--target", target, EXAMPLES / name]
        done = subprocess.run(command, text=True, capture_output=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        monkeypatch.setenv("PYTHONPATH", str(target))
        return start_kernel()

    return start


CELL = "%%execute_with_scorep --run=isolated\n"


def test_a_codec_in_python(codec_kernel):
    kernel = codec_kernel("codec_python")
    kernel.run(
        "from boards import Board\nboard = Board(1000, 1000); board[3, 4] = 7\n"
        "flat = board.reshaped(1, 1_000_000); kept = {'deep': [board]}"
    )
    outcome = kernel.run(CELL + "board[5, 6] = board[3, 4] + 1\nflat[0, 5006]")
    assert outcome.result == "8"
    cost = outcome.cost
    assert cost["bytes_mapped"] >= 10**6  # once for the three
    assert cost["bytes_copied"] < 10**6 + 100_000  # at the main worker, which mapped nothing before
    assert kernel.run("flat[0, 5006], kept['deep'][0] is board").result == "(8, True)"
    kernel.run("import boards; boards.set_edge('open')")
    assert (
        kernel.run(
            CELL + "import boards\nedge = boards.edge; boards.set_edge('torus'); edge"
        ).result
        == "'open'"
    )
    assert kernel.run("boards.edge").result == "'torus'"


def test_a_codec_in_c(codec_kernel):
    kernel = codec_kernel("codec_c")
    kernel.run("import samples\ns = samples.Series(1 << 17); s[5] = 1.5; fine = [1]")
    outcome = kernel.run(CELL + "s[6] = s[5] * 2\nmade = samples.Series(3); made[2] = 9\nlen(s)")
    assert outcome.result == "131072"
    assert outcome.cost["bytes_mapped"] >= 1 << 20
    assert kernel.run("s[5], s[6], made[2], len(made), fine").result == "(1.5, 3.0, 9.0, 3, [1])"
    copied = kernel.run(CELL + "s[0] = 1; s[0]").cost["bytes_copied"]
    assert copied < 1 << 17  # the page that was written, not the megabyte
