"""Notebooks print in Holdfast what they print in ipykernel, however their cells are run.

The notebooks are in notebooks/, what is known to differ in differences.txt, and README.md says how to add to
either. The core runs those whose first line has a word `core=MODE`, in that mode. A long run (HOLDFAST_EFFORT=2)
runs every notebook in every mode, and more random notebooks and examples of libraries; `bench/oracle.py --all`
does the first part of that.
"""

import importlib.metadata
from pathlib import Path

import effort
import pytest
from differential import galleries, inventions, kernels, known, modes, notebooks, random_objects
from differential.examine import examine

HERE = Path(__file__).parent
NOTEBOOKS = notebooks.read_folder(HERE / "notebooks")
KNOWN = known.read(HERE / "differences.txt")
# Others are in the table; the list of differences is made for these.
MODES = [
    modes.MODES[name]
    for name in ("plain", "recorded", "unrecorded", "verified", "forked", "clean", "turns")
]
RANDOM = 40  # of each kind
CORE = {"invention_0", "random_objects_0"}
SCRIPTS = [
    (project, path) for project, paths in galleries.SCRIPTS.items() for path in paths.split()
]


@pytest.fixture(scope="session")
def reference():
    process = kernels.Reference()
    yield process
    process.close()


def check(notebook, chosen, reference):
    outcome = examine(notebook, chosen, KNOWN, reference)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert not outcome.troubles, "\n".join(outcome.troubles.values())


def by_name(cases, marks=()):
    return [pytest.param(notebook, id=notebook.name, marks=marks) for notebook in cases]


@pytest.mark.parametrize("notebook", by_name(filter(lambda one: one.core, NOTEBOOKS)))
def test_notebook(notebook, reference):
    check(notebook, [modes.MODES[notebook.core]], reference)


@pytest.mark.long
@pytest.mark.parametrize("notebook", by_name(NOTEBOOKS))
def test_notebook_in_every_mode(notebook, reference):
    check(notebook, MODES, reference)


def random_notebooks(make):
    made = [make(seed) for seed in range(RANDOM)]
    return by_name((one for one in made if one.name in CORE)) + by_name(
        (one for one in made if one.name not in CORE), pytest.mark.long
    )


@pytest.mark.parametrize("notebook", random_notebooks(inventions.notebook))
def test_invention(notebook, reference):
    check(notebook, [modes.MODES["mixed"]], reference)


@pytest.mark.parametrize(
    "notebook",
    random_notebooks(random_objects.objects) + random_notebooks(random_objects.tensors),
)
def test_random_objects(notebook, reference):
    check(notebook, [modes.MODES["shuffled"]], reference)


def modes_of_examples():
    names = ("verified",) if not effort.IS_LONG else ("verified", "plain", "recorded")
    return [modes.MODES[name] for name in names]


@pytest.mark.parametrize(
    ("project", "path"), effort.core(SCRIPTS, {("networkx", "examples/drawing/plot_degree.py")})
)
def test_script_of_a_gallery(project, path, reference):
    try:
        notebook = galleries.script(project, path)
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        pytest.skip(f"no source distribution of {project}: {error}")
    check(notebook, modes_of_examples(), reference)


@pytest.mark.long
@pytest.mark.parametrize("name", galleries.DOCSTRINGS)
def test_docstring(name, reference):
    pytest.importorskip(name.partition(".")[0])
    check(galleries.docstring(name), modes_of_examples(), reference)


def test_there_are_enough():
    assert len(NOTEBOOKS) >= 790


def test_the_core_has_each_file_and_each_mode():
    used = [notebook.core for notebook in NOTEBOOKS if notebook.core]
    assert set(used) == {mode.name for mode in MODES} and 35 <= len(used) <= 50
    assert all(used.count(mode.name) >= 4 for mode in MODES)
    for path in (HERE / "notebooks").glob("*.txt"):
        assert any(notebook.core for notebook in notebooks.read_text(path.read_text())), path.name


def test_the_list_names_what_is_there():
    names = {notebook.name for notebook in NOTEBOOKS}
    rows = known.documented((HERE.parents[1] / "docs/carried.md").read_text(encoding="utf-8"))
    known.check(KNOWN, names, set(modes.MODES), rows)
