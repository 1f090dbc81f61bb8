"""Figures: those that are open stay open, once, and the notebook's callbacks go with them."""

import warnings

import pytest

pytestmark = pytest.mark.fresh


def test_callbacks_of_the_notebook(isolated_kernel):
    pytest.importorskip("matplotlib")
    isolated_kernel.run(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "figure = plt.figure(); clicks = []\n"
        "figure.canvas.mpl_connect('draw_event', lambda event: clicks.append(1))"
    )
    outcome = isolated_kernel.run("%%isolated\nclicks.clear(); figure.canvas.draw(); len(clicks)")
    assert outcome.result == "1" and not outcome.stream("stderr")
    assert isolated_kernel.run("clicks.clear(); figure.canvas.draw(); len(clicks)").result == "1"


def test_no_figure_is_opened_by_its_encoding(isolated_kernel):
    pytest.importorskip("matplotlib")
    isolated_kernel.run(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "figure, axes = plt.subplots(); plt.figure()"
    )
    shown = (
        "plt.get_fignums(), plt.figure(1) is figure, axes.figure is figure, plt.figure(1).number"
    )
    for head in ("%%isolated --run=forked\n", "%%isolated\n", "", "%%isolated\n"):
        outcome = isolated_kernel.run(head + "axes.set_title(axes.get_title() + 'x'); " + shown)
        assert outcome.result == "([1, 2], True, True, 1)", head
        assert outcome.stream("stderr") == ""
    assert isolated_kernel.run("axes.get_title()").result == "'xxxx'"


def test_colour_maps_that_are_there_already_come_without_a_warning():
    """As seaborn's, which its import registers in the notebook's process and in a cell's own."""
    matplotlib = pytest.importorskip("matplotlib")
    from holdfast.worker.settings.library_state import library_state

    slot = library_state.begin(None)["matplotlib: colour maps"]
    matplotlib.colormaps.register(matplotlib.colormaps["viridis"], name="a library's")
    try:
        carried = {"a library's": matplotlib.colormaps["plasma"]}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            slot.write(carried)
        assert slot.read() == carried
    finally:
        matplotlib.colormaps.unregister("a library's")
