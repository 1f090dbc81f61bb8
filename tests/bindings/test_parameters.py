"""The printers of figures, from one process's shell to another's (parameters.py)."""

import functools
import types

import pytest
from IPython.core import formatters, pylabtools
from needed import needed

from holdfast.libraries.matplotlib import parameters

figure = needed("matplotlib.figure")


@pytest.fixture
def make():
    """A function that makes what another process's shell shows results with."""
    return lambda: types.SimpleNamespace(display_formatter=formatters.DisplayFormatter())


def test_printers_that_ipython_has_made(make):
    one, other = make(), make()
    pylabtools.select_figure_formats(one, {"svg", "retina"}, bbox_inches="tight")
    pylabtools.select_figure_formats(other, {"png"}, dpi=50)
    found = parameters._printers(one)
    assert found.keys() == {"image/svg+xml", "image/png"}
    parameters._set_printers(found, other)
    assert parameters._printers(other) == found
    png = other.display_formatter.formatters["image/png"].type_printers[figure.Figure]
    assert png.func is pylabtools.retina_figure
    parameters._set_printers({}, other)
    assert not parameters._printers(other)


def test_printers_of_the_notebook_are_left_to_the_registry(make):
    one = make()
    png = one.display_formatter.formatters["image/png"]
    for printer in (repr, functools.partial(repr)):
        png.for_type(figure.Figure, printer)
        parameters._set_printers({}, one)
        assert png.type_printers[figure.Figure] is printer


def test_arguments_that_are_no_plain_values_are_not_carried(make):
    one = make()
    pylabtools.select_figure_formats(one, {"png"}, metadata=object())
    assert parameters._printers(one) == {}
