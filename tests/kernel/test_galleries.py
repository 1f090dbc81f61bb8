"""Example scripts of real libraries give in turns of plain and instrumented cells what they
give in ipykernel.

Each script is cut into cells as the libraries' own galleries cut it, and all cells are sent at
once. After each cell every variable is compared with ipykernel's, and its outputs are.
CI runs every third script. HOLDFAST_EFFORT=2 runs all, each three times: in turns, plain,
instrumented.
"""

import ast
import contextlib
import difflib
import importlib.metadata
import itertools
import json
import os
import queue
import shutil
import sys
import tempfile
import time
from pathlib import Path

import effort
import galleries
import pytest
from jupyter_client.manager import KernelManager
from normal import normal_tree

from tests.conftest import is_progress, is_summary, kernel_starter

TIMEOUT = 120.0
HEAD = "%%execute_with_scorep\n"
WAYS = ["turns", "plain", "instrumented"]
LOOK = "__import__('digest').each_name(globals())"

SEED = "import random, numpy\nrandom.seed(1); numpy.random.seed(1)"

# That give the same in two runs of ipykernel, and take seconds.
SCRIPTS = {
    "scikit-learn": """
        examples/covariance/plot_mahalanobis_distances.py
        examples/decomposition/plot_ica_blind_source_separation.py
        examples/linear_model/plot_lasso_lars_ic.py
        examples/linear_model/plot_ols_ridge.py
        examples/miscellaneous/plot_roc_curve_visualization_api.py
        examples/tree/plot_unveil_tree_structure.py
    """,
    "matplotlib": """
        galleries/tutorials/lifecycle.py
        galleries/tutorials/pyplot.py
        galleries/examples/images_contours_and_fields/pcolormesh_levels.py
        galleries/examples/lines_bars_and_markers/axline.py
        galleries/examples/lines_bars_and_markers/categorical_variables.py
        galleries/examples/mplot3d/imshow3d.py
        galleries/examples/statistics/boxplot.py
        galleries/examples/statistics/curve_error_band.py
        galleries/users_explain/colors/colorbar_only.py
    """,
    "networkx": """
        examples/algorithms/plot_subgraphs.py
        examples/drawing/plot_degree.py
        examples/graph/plot_karate_club.py
    """,
    "scipy": """
        doc/source/tutorial/examples/optimize_global_1.py
        doc/source/tutorial/examples/signal_Filtering_firwin_example.py
    """,
}
DOCSTRINGS = """
    pandas.DataFrame pandas.DataFrame.merge pandas.DataFrame.pivot_table pandas.DataFrame.apply
    pandas.DataFrame.fillna pandas.cut pandas.Categorical pandas.DataFrame.rolling
    scipy.optimize.minimize scipy.signal.find_peaks scipy.interpolate.CubicSpline
    scipy.integrate.solve_ivp scipy.sparse.csr_array scipy.spatial.KDTree
"""


class Run:
    """All cells of a script, sent at once, and what came back for each."""

    def __init__(self, client, cells):
        self.client, self.replies, self.outputs, self.idle = client, {}, {}, set()
        self.send("%matplotlib inline")
        self.cells = []
        for cell in cells:
            shown = self.send(cell)
            self.cells.append((shown, self.send("", silent=True, user_expressions={"all": LOOK})))
        deadline = time.monotonic() + TIMEOUT
        while self.idle != self.outputs.keys() or self.replies.keys() != self.outputs.keys():
            assert time.monotonic() < deadline, "the script doesn't end"
            self.receive()

    def send(self, code, **options):
        sent = self.client.execute(code, stop_on_error=False, allow_stdin=False, **options)
        self.outputs[sent] = []
        return sent

    def receive(self):
        try:
            message = self.client.get_iopub_msg(timeout=0.05)
            self.show(message, message["parent_header"].get("msg_id"))
        except queue.Empty:
            pass
        try:
            reply = self.client.get_shell_msg(timeout=0)
            if reply["parent_header"].get("msg_id") in self.outputs:
                self.replies[reply["parent_header"]["msg_id"]] = reply["content"]
        except queue.Empty:
            pass

    def show(self, message, parent):
        kind, content = message["msg_type"], message["content"]
        if parent not in self.outputs or kind == "execute_input":
            return
        if is_progress(message) or is_summary(message):
            return
        outputs = self.outputs[parent]
        if kind == "status":
            if content["execution_state"] == "idle":
                self.idle.add(parent)
        elif kind == "stream" and outputs and outputs[-1][:2] == ["stream", content["name"]]:
            outputs[-1][2] += content["text"]
        elif kind == "stream":
            outputs.append(["stream", content["name"], content["text"]])
        else:
            outputs.append([kind, "", content])

    def results(self):
        """For each cell: its outputs, made comparable, and the digest of every variable."""
        for shown, looked in self.cells:
            answer = self.replies[looked]["user_expressions"]["all"]
            assert answer["status"] == "ok", answer
            names = ast.literal_eval(answer["data"]["text/plain"])
            outputs = [entry for entry in map(comparable, self.outputs[shown]) if entry]
            yield normal_tree(outputs), names


def comparable(output):
    """Without the line that says where the trace is, and without line numbers, which the head of
    an instrumented cell moves."""
    kind, name, content = output
    if kind == "stream":
        content = content.partition("Instrumentation results can be found in")[0].rstrip("\n")
        return [kind, name, content] if content else None
    return [kind, name, {key: value for key, value in content.items() if key != "traceback"}]


@contextlib.contextmanager
def an_ipykernel(place, env):
    sockets = tempfile.mkdtemp()  # a short path
    # Not over tcp, where another test could take the port that was free a moment ago.
    manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
    manager.kernel_spec.argv[:] = [sys.executable, "-m", "ipykernel_launcher", "-f"]
    manager.kernel_spec.argv.append("{connection_file}")
    manager.start_kernel(cwd=str(place), env={**os.environ, **env})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        shutil.rmtree(sockets)


@contextlib.contextmanager
def two_kernels(place):
    """A function that runs cells in a kernel: run_in("ipykernel" or "holdfast", cells)."""
    support = str(Path(__file__).parents[1] / "support")
    env = {"PYTHONPATH": support, "PYTHONHASHSEED": "0", "HOLDFAST_RECORDER": "builtin"}
    with an_ipykernel(place, env) as theirs, kernel_starter(place) as start:
        clients = {
            "ipykernel": theirs,
            "holdfast": start(env=env | {"HOLDFAST_VERIFY": "1"}).client,
        }
        yield lambda kernel, cells: list(Run(clients[kernel], cells).results())


@pytest.fixture
def run_in(tmp_path):
    with two_kernels(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def run_in_turn(tmp_path_factory):
    """The same two kernels for all tests: most of the time goes into imports."""
    with two_kernels(tmp_path_factory.mktemp("docstrings")) as run:
        yield lambda kernel, cells: run(kernel, ["%reset -f", *cells])[1:]


def difference(cell, theirs, ours):
    """What a cell gave otherwise than in ipykernel; empty where nothing."""
    lines = [
        json.dumps(outputs, indent=1, ensure_ascii=False).splitlines()
        for outputs in (theirs[0], ours[0])
    ]
    text = "\n".join(line[:200] for line in difflib.unified_diff(*lines, "ipykernel", "holdfast"))
    names = sorted(name for name in theirs[1] | ours[1] if theirs[1].get(name) != ours[1].get(name))
    return f"{cell}\n{text}\nvariables: {names}" if text or names else ""


def compare(run_in, cells, way):
    """Run the cells here and there, and compare."""
    step = {"turns": 2, "plain": 0, "instrumented": 1}[way]
    heads = [HEAD if step and i % step == 0 else "" for i in range(len(cells))]
    ours = [head + cell for head, cell in zip(heads, cells, strict=True)]
    expected = run_in("ipykernel", [SEED, *cells])
    got = run_in("holdfast", [SEED, *ours])
    found = [difference(*each) for each in zip([SEED, *ours], expected, got, strict=True)]
    assert not any(found), next(entry for entry in found if entry)


@pytest.mark.parametrize(
    ("way", "project", "script"),
    effort.sample(
        [
            (way, project, script)
            for way in WAYS
            for project, scripts in SCRIPTS.items()
            for script in scripts.split()
        ],
        11,
    ),
)
def test_a_script_gives_what_it_gives_in_ipykernel(run_in, project, script, way):
    try:
        place = galleries.sources(project)
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        pytest.skip(f"no source distribution of {project}: {error}")
    compare(run_in, galleries.cells_of_script((place / script).read_text()), way)


@pytest.mark.parametrize(
    ("way", "name"), effort.sample(itertools.product(WAYS, DOCSTRINGS.split()), 11)
)
def test_a_docstring_gives_what_it_gives_in_ipykernel(run_in_turn, name, way):
    pytest.importorskip(name.partition(".")[0])
    module = name.partition(".")[0]
    first = f"import numpy as np, {module}\n" + (
        "import pandas as pd" if module == "pandas" else ""
    )
    compare(run_in_turn, [first, *galleries.cells_of_docstring(name)], way)
