"""Notebooks print in Holdfast what they print in ipykernel, however their cells are run.

The notebooks are in notebooks/, what is known to differ in differences.txt, and README.md tells how to add to
either. All notebooks in all modes take an hour, so each commit has a share of the notebooks, each in one mode;
the next commit has another share, and in turn each notebook meets each mode. HOLDFAST_EFFORT=2 takes everything, as
`bench/oracle.py --all` does.
"""

from pathlib import Path

import effort
import pytest
from differential import compare, inventions, kernels, known, modes, notebooks

HERE = Path(__file__).parent
NOTEBOOKS = notebooks.read_folder(HERE / "notebooks")
KNOWN = known.read(HERE / "differences.txt")
# Others are in the table; the list of differences is made for these.
MODES = [
    modes.MODES[name]
    for name in ("plain", "recorded", "isolated", "verified", "forked", "clean", "turns")
]
SHARES = 6 if effort.EFFORT == 1 else 1
INVENTIONS = [inventions.notebook(seed) for seed in range(effort.examples(6))]


SHARE = effort.sample(NOTEBOOKS, SHARES)


@pytest.fixture(scope="session")
def reference():
    process = kernels.Reference()
    yield process
    process.close()


def examine(notebook, chosen, reference):
    if notebook.missing:
        pytest.skip(f"{notebook.missing} isn't installed")
    expected = kernels.run(notebook, reference=reference)
    assert not expected.trouble
    troubles = []
    for mode in chosen:
        found = kernels.run(notebook, mode)
        differing = compare.differing(notebook, expected, found)
        troubles.append(known.trouble(KNOWN, notebook.name, mode.name, differing))
    assert not any(troubles), "\n".join(troubles)


@pytest.mark.parametrize("place", range(len(SHARE)), ids=lambda place: SHARE[place].name)
def test_notebook(place, reference):
    turn = place + effort.TURN // SHARES
    chosen = [MODES[turn % len(MODES)]] if effort.EFFORT == 1 else MODES
    examine(SHARE[place], chosen, reference)


@pytest.mark.parametrize("invention", INVENTIONS, ids=lambda notebook: notebook.name)
def test_invention(invention, reference):
    examine(invention, [modes.MODES["mixed"]], reference)


def test_there_are_enough():
    assert len(NOTEBOOKS) >= 150


def test_the_list_names_what_is_there():
    names = {notebook.name for notebook in [*NOTEBOOKS, *INVENTIONS]}
    rows = known.documented((HERE.parents[1] / "docs/carried.md").read_text(encoding="utf-8"))
    known.check(KNOWN, names, set(modes.MODES), rows)
