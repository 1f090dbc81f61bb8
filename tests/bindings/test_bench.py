"""`python -m holdfast.bench` on a small notebook with something in it that a peer loses."""

import contextlib
import io
import json

import pytest
from needed import needed

nbformat = needed("nbformat")

CELLS = [
    "import numpy as np\nvalues = np.arange(200_000.0)\nclass Mine:\n    pass\nmine = Mine()",
    "%%time\nvalues[0] = len(open('beside.txt').read())",
    "%%execute_with_scorep\nlast = values[:3].tolist()",
    "steps = (i for i in range(3)); 1 / 0",
    "next(steps)",
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Of one run: the figures, what was said, and what is in the notebook's directory then."""
    from holdfast import bench

    directory = tmp_path_factory.mktemp("bench")
    (directory / "beside.txt").write_text("four")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    path = directory / "small.ipynb"
    nbformat.write(notebook, path)
    figures = directory / "figures.json"
    said, shown = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "PAUSE_SECONDS", 0.1)
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
            assert bench.main([str(path), "--json", str(figures)]) == 1
    names = sorted(entry.name for entry in directory.iterdir())
    return json.loads(figures.read_text()), said.getvalue(), shown.getvalue(), names


def test_every_way_has_a_figure_for_every_cell(outcome):
    cells = outcome[0]
    assert [cell["number"] for cell in cells] == [1, 2, 3, 4, 5]
    for cell in cells:
        assert {"Holdfast", "dill", "cloudpickle", "pickle 5"} <= cell["ms"].keys()
        assert all(cell["ms"][peer] > 0 for peer in ("dill", "cloudpickle", "pickle 5"))
    # A cell with a magic of its own stays where it is: nothing is handed over for it.
    assert cells[0]["ms"]["Holdfast"] > 0 and cells[2]["ms"]["Holdfast"] > 0
    assert cells[1]["ms"]["Holdfast"] is None


def test_what_a_peer_loses_is_named(outcome):
    cells = outcome[0]
    assert cells[0]["lost"] == {"pickle 5": ["Mine", "mine"]}


def test_the_notebook_s_own_directory_is_left_as_it_was(outcome):
    assert outcome[3] == ["beside.txt", "figures.json", "small.ipynb"]


def test_the_table_sums_what_was_handed_over():
    from holdfast import bench

    cells = [
        bench.CellHandOver(1, "one", {"Holdfast": 1.0, "dill": 10.0}, copied=2048),
        bench.CellHandOver(2, "two", {"Holdfast": None, "dill": 20.0}, lost={"dill": ["f"]}),
    ]
    table = bench.format_table(cells)
    total = next(line for line in table.splitlines() if line.split()[:1] == ["all"])
    assert total.split()[1:] == ["1.0", "10.0", "2.0", "KiB", "0.0"]
    assert "dill can't carry f (from cell 2 on)" in table


def test_a_notebook_that_is_not_there_is_an_error(tmp_path, capsys):
    from holdfast import bench

    with pytest.raises(SystemExit):
        bench.main([str(tmp_path / "none.ipynb")])
    assert "No such file" in capsys.readouterr().err


def test_a_failing_cell_is_reported_and_the_next_one_runs(outcome):
    _, said, shown, _ = outcome
    for where in ("Holdfast", "an ordinary shell"):
        assert f"cell 4 failed in {where}: ZeroDivisionError: division by zero" in said
    assert "cell 5 failed in Holdfast: NameError" in said
    assert said.count(" failed in ") == 3
    assert "5  next(steps)" in shown
