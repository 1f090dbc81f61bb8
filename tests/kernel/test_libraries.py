"""What libraries show in recorded cells, where they look for the kernel that they know."""

import itertools
import json

import effort
import pytest

from tests.conftest import RUNS

CELL = "%%execute_with_scorep\n"

# How libraries ask: by name, by module, by text and by class.
ASKS = """\
import sys, ipykernel.iostream, ipykernel.ipkernel, ipykernel.kernelapp, ipykernel.zmqshell
shell = get_ipython()
for thing in (shell, shell.kernel, shell.kernel.parent, shell.displayhook, shell.display_pub, sys.stdout):
    print(type(thing).__module__, type(thing).__name__, type(thing).__qualname__)
print(type(shell) is ipykernel.zmqshell.ZMQInteractiveShell, str(type(shell)), type(shell).__mro__[-1])
print(isinstance(sys.stdout, ipykernel.iostream.OutStream), sys.stdout.parent_header["msg_type"])
print(isinstance(shell.kernel, ipykernel.ipkernel.IPythonKernel))
print(ipykernel.kernelapp.IPKernelApp.instance() is shell.kernel.parent)
print("IPKernelApp" in shell.config, sys.argv[0].endswith("ipykernel_launcher.py"))
"""
# A library and two cells: the first imports, the second shows something, which doesn't depend on how
# long it took.
SHOWS = {
    "altair": (
        "import altair, pandas",
        "altair.Chart(pandas.DataFrame({'x': [1, 2]})).mark_bar().encode(x='x')",
    ),
    "bokeh": (
        "from bokeh.plotting import figure, show\nimport bokeh.io; bokeh.io.output_notebook()",
        "p = figure(); _ = p.line([1, 2], [3, 4]); show(p)",
    ),
    "click": ("import click", "click.secho('done', fg='green')"),
    "hvplot": (
        "import hvplot.pandas, pandas",
        "pandas.DataFrame({'x': [1, 3], 'y': [2, 4]}).hvplot.line(x='x', y='y')",
    ),
    "holoviews": ("import holoviews; holoviews.extension('bokeh')", "holoviews.Curve([1, 2])"),
    "ipympl": (
        "%matplotlib widget\nimport matplotlib.pyplot as plt",
        "fig = plt.figure(); _ = plt.plot([1, 2]); plt.show()",
    ),
    "ipywidgets": ("import ipywidgets", "ipywidgets.IntSlider(3)"),
    "plotly": ("import plotly.graph_objects as go", "go.Figure(go.Scatter(y=[1, 2]))"),
    "rich": ("from rich import print as rich_print", "rich_print('[bold red]x[/]')"),
    "seaborn": ("import seaborn, pandas", "seaborn.lineplot(pandas.DataFrame({'x': [1, 2]}))"),
    "tqdm": ("from tqdm.auto import tqdm", "for i in tqdm(range(3), mininterval=0): pass"),
}


def sizes(outcome):
    """Each output's kind, and the size of each of its formats; a widget's state may hold a time."""
    shown = [outcome.stream("stderr")]
    for kind, message in zip(outcome.types, outcome.messages):
        if kind.startswith("comm_"):
            shown.append(kind)
        elif kind in ("display_data", "execute_result"):
            data = message["content"]["data"]
            shown.append((kind, {name: len(json.dumps(one)) for name, one in data.items()}))
    text = [line for line in outcome.stream().splitlines() if "Instrumentation" not in line]
    return [*shown, text]


def test_libraries_find_ipykernels_classes(peer, either_kernel):
    theirs = peer.run(ASKS)
    assert theirs.status == "ok"
    for head in ("", CELL):
        outcome = either_kernel.run(head + ASKS)
        lines = outcome.stream().splitlines()
        assert outcome.status == "ok" and lines[: theirs.stream().count("\n")] == (
            theirs.stream().splitlines()
        )


def test_the_shell_and_its_streams_are_found_again(isolated_kernel):
    """A variable that holds them: each process has its own."""
    isolated_kernel.run("import sys; shell, out, hook = get_ipython(), sys.stdout, sys.displayhook")
    same = "shell is get_ipython(), out is sys.stdout, hook is get_ipython().displayhook"
    assert isolated_kernel.run(CELL + same).result == "(True, True, True)"
    assert isolated_kernel.run(same).result == "(True, True, True)"


_theirs = {}  # by library: the sizes in ipykernel, which are asked for once


@pytest.mark.parametrize(
    ("either_kernel", "library"),
    effort.sample(itertools.product(RUNS, SHOWS), 4),
    indirect=["either_kernel"],
)
def test_outputs_are_of_the_same_size(request, either_kernel, library):
    """In each run mode: both cells are recorded, so what the first one set up is carried, too."""
    pytest.importorskip(library)
    if library not in _theirs:
        peer = request.getfixturevalue("peer")
        outcomes = [peer.run(cell) for cell in SHOWS[library]]
        assert all(outcome.status == "ok" for outcome in outcomes)
        _theirs[library] = [sizes(outcome) for outcome in outcomes]
    for cell, theirs in zip(SHOWS[library], _theirs[library], strict=True):
        ours = either_kernel.run(CELL + cell)
        assert ours.status == "ok", ours.content
        assert sizes(ours) == theirs
