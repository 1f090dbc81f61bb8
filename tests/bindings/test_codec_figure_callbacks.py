"""Callbacks of the notebook that a figure calls go with the figure."""

import pytest


def test_callbacks_of_the_notebook(map_kernel):
    pytest.importorskip("matplotlib")
    map_kernel.run(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "figure = plt.figure(); clicks = []\n"
        "figure.canvas.mpl_connect('draw_event', lambda event: clicks.append(1))"
    )
    outcome = map_kernel.run("%%isolated\nclicks.clear(); figure.canvas.draw(); len(clicks)")
    assert outcome.result == "1" and not outcome.stream("stderr")
    assert map_kernel.run("clicks.clear(); figure.canvas.draw(); len(clicks)").result == "1"
