"""What pyplot keeps for the notebook: colour maps that a library registers in each process."""

import warnings

import pytest

matplotlib = pytest.importorskip("matplotlib")


def test_colour_maps_that_are_there_already_come_without_a_warning():
    """As seaborn's, which its import registers in the notebook's process and in a cell's own."""
    from holdfast.worker.settings import pyplot

    slot = pyplot.slots()["Matplotlib's colour maps"]
    matplotlib.colormaps.register(matplotlib.colormaps["viridis"], name="a library's")
    try:
        carried = {"a library's": matplotlib.colormaps["plasma"]}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            slot.write(carried)
        assert slot.read() == carried
    finally:
        matplotlib.colormaps.unregister("a library's")
