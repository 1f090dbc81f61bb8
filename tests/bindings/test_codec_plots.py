"""Bokeh's models, HoloViews' objects, Plotly's figures and rich's consoles, encoded and decoded."""

import holdfast
import pytest

from holdfast import _store


def carried(value):
    codec, meta, payload, buffers = _store._encode(value)
    return _store._decode(codec, meta, payload, [bytearray(view) for view, _ in buffers])


def test_bokehs_models_keep_their_ids_and_what_they_share():
    plotting = pytest.importorskip("bokeh.plotting")
    source = pytest.importorskip("bokeh.models").ColumnDataSource({"x": [1, 2], "y": [3, 4]})
    figure = plotting.figure(title="first")
    line = figure.line("x", "y", source=source)
    heard = []
    figure.on_change("renderers", lambda attribute, old, new: heard.append(len(new)))
    copy, copied_line, copied_heard = carried((figure, line, heard))
    assert copy.id == figure.id and copied_line is copy.renderers[0]
    assert {one.id for one in copy.references()} == {one.id for one in figure.references()}
    assert copied_line.data_source.data == source.data and copy.title.text == "first"
    copy.renderers.append(copied_line)  # a container knows whose property it is
    assert copied_heard == [2] and not heard


def test_a_document_of_bokehs_has_its_models():
    document = pytest.importorskip("bokeh.document").Document(title="mine")
    figure = pytest.importorskip("bokeh.plotting").figure()
    document.add_root(figure)
    document.theme = "dark_minimal"
    copy, copied_figure = carried((document, figure))
    assert copied_figure.document is copy and copy.roots == [copied_figure]
    assert copy.title == "mine" and copy.theme._json == document.theme._json
    assert copy.template is document.template


def test_options_of_holoviews_go_with_their_object():
    """Under a number that is free; another object's options stay."""
    hv = pytest.importorskip("holoviews")
    hv.extension("bokeh")
    one, other = (hv.Curve([1, 2]).opts(color=color) for color in ("red", "green"))
    both = carried([one, other, one])
    colors = [hv.Store.lookup_options("bokeh", each, "style").kwargs["color"] for each in both]
    assert colors == ["red", "green", "red"] and both[0] is both[2]
    both[0].opts(color="blue")
    assert hv.Store.lookup_options("bokeh", one, "style").kwargs["color"] == "red"


def test_a_part_of_a_plotly_figure_is_its_figure_s():
    go = pytest.importorskip("plotly.graph_objects")
    figure = go.Figure([go.Scatter(y=[1, 2]), go.Bar(y=[3])])
    figure.add_annotation(text="a")
    marker, note, loose = figure.data[0].marker, figure.layout.annotations[0], go.Bar(y=[1])
    copy, *parts = carried((figure, figure.data[1], marker, note, figure.layout))
    assert parts[0] is copy.data[1] and parts[1] is copy.data[0].marker
    assert parts[2] is copy.layout.annotations[0] and parts[3] is copy.layout
    parts[1].color = "red"
    assert copy.data[0].marker.color == "red" and marker.color is None
    assert carried(loose).y == (1,)


def test_an_environment_that_has_rendered_templates():
    jinja2 = pytest.importorskip("jinja2")
    loader = jinja2.DictLoader(
        {
            "base": "{% block a %}{% endblock %}!",
            "p": "{% extends 'base' %}{% block a %}{{ x }}{% endblock %}",
        }
    )
    environment = jinja2.Environment(loader=loader)
    template = environment.get_template("p")
    assert template.render(x=1) == "1!"
    copy, same = holdfast.loads(holdfast.dumps((environment, template)))
    assert copy.get_template("p") is same and same.render(x=2) == "2!" and same.environment is copy
