"""The still picture: well-formed, of bounded size, and with what the data have."""

import math
import xml.etree.ElementTree
import zlib

import pytest

from holdfast.pages import page, picture

BEGIN = 1_000_000_000
HOSTILE = "</text><script>alert(1)</script>&"


def picture_of(data):
    return picture.draw(data).svg()


def texts(svg):
    tree = xml.etree.ElementTree.fromstring(svg)
    assert not [one for one in tree.iter() if one.tag.endswith("script")]
    return [one.text or "" for one in tree.iter() if one.tag.endswith("text")]


def sampled(count, span):
    times = [BEGIN + span * number // count for number in range(count)]
    values = [math.sin(number / 50) for number in range(count)]
    series = [{"name": "one", "values": values}, {"name": "off", "values": values, "hidden": True}]
    return {"name": "CPU", "unit": "%", "low": 0, "high": 100, "time": times, "series": series}


def test_tracks_and_their_axis():
    data = {
        "title": HOSTILE,
        "begin": BEGIN,
        "end": BEGIN + 3 * 10**9,
        "tracks": [sampled(100, 3 * 10**9)],
    }
    data["cells"] = [{"index": 7, "begin": BEGIN + 10**9, "end": None}]
    shown = texts(picture_of(data))
    assert HOSTILE in shown and "CPU (%)" in shown and "one" in shown and "off" not in shown
    assert {"0.0 s", "1.0 s", "3.0 s", "[7]", "0", "50", "100"} <= set(shown)


def test_axes_have_round_marks_and_begin_where_the_trace_did():
    span = 10**9
    track = {"name": "Memory", "time": [BEGIN], "series": [{"name": "used", "values": [0.1742]}]}
    data = {"origin": BEGIN - span, "begin": BEGIN, "end": BEGIN + span, "tracks": [track]}
    assert {"0", "0.05", "0.1", "0.15", "1.0 s", "2.0 s"} <= set(texts(picture_of(data)))
    for high, marks in (12, "0 5 10"), (4, "0 1 2 3 4"), (47, "0 20 40"):
        found = texts(picture_of({**data, "tracks": [{**track, "high": high}]}))
        assert set(marks.split()) <= set(found)


def test_many_samples_and_slices_are_as_small_as_few():
    span = 10**9
    count = 50_000
    location = {
        "thread": "main",
        "begin": [BEGIN + span * number // count for number in range(count)],
        "duration": [span // count // 2] * count,
        "depth": [0] * count,
        "region": [number % 2 for number in range(count)],
    }
    regions = {"name": ["a", "b"]}
    data = {"begin": BEGIN, "end": BEGIN + span, "tracks": [sampled(count, span)]}
    svg = picture_of({**data, "regions": regions, "locations": [location]})
    assert "main" in texts(svg)
    assert len(svg) < 60_000


def test_gaps_and_nothing_at_all():
    gap = {
        "name": "GPU",
        "time": [BEGIN, BEGIN + 5],
        "series": [{"name": "x", "values": [math.nan, None]}],
    }
    assert "GPU" in texts(picture_of({"begin": BEGIN, "end": BEGIN + 10, "tracks": [gap]}))
    assert texts(picture_of({"begin": BEGIN, "end": BEGIN}))


def test_where_there_is_no_timeline_the_table_is_drawn():
    table = {"region": [0, 1], "visits": [1, 2], "inclusive": [10**9, 10], "exclusive": [10**9, 0]}
    data = {
        "begin": BEGIN,
        "end": BEGIN + 10**9,
        "regions": {"name": ["slow", "quick"]},
        "table": table,
    }
    shown = texts(picture_of(data))
    assert any("slow" in text and "1.00 s" in text for text in shown)


def test_pdf_has_the_same_text_and_every_object_where_its_table_says():
    data = {"title": "a (b) \\ \x1b µ 漢", "begin": BEGIN, "end": BEGIN + 10**9}
    file = picture.draw({**data, "tracks": [sampled(100, 10**9)]}).pdf()
    place = int(file.rsplit(b"startxref", 1)[1].split()[0])
    assert file[place:].startswith(b"xref\n0 6\n")
    for number in range(1, 6):
        at = int(file[place:].split(b"\n")[2 + number].split()[0])
        assert file[at:].startswith(b"%d 0 obj" % number)
    content = zlib.decompress(file.split(b"stream\n")[1].split(b"\nendstream")[0])
    assert b"(a \\(b\\) \\\\   \xb5 ?) Tj" in content
    assert b"(0.2 s) Tj" in content


def test_nbconvert_makes_latex_of_it_without_inkscape(monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbconvert = pytest.importorskip("nbconvert")
    monkeypatch.setenv("PATH", "/nowhere")
    made = page.bundle({"begin": BEGIN, "end": BEGIN + 10**9, "tracks": [sampled(10, 10**9)]})
    cell = nbformat.v4.new_code_cell("1", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", data=made)]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    try:
        text, resources = nbconvert.LatexExporter().from_notebook_node(notebook)
    except ValueError as error:  # its templates lie elsewhere
        pytest.skip(str(error))
    (name,) = (name for name in resources["outputs"] if name.endswith(".pdf"))
    assert resources["outputs"][name].startswith(b"%PDF-1.4")
    assert name in text


def test_each_view_has_a_picture_and_names_the_others():
    deep = range(9)
    row = {"begin": [BEGIN] * 9, "duration": [10**9] * 9, "depth": [*deep], "region": [*deep]}
    table = {name: [*deep] for name in ("region", "visits", "inclusive")}
    tree = {**table, "depth": [0, 1, 1] * 3, "inclusive": [10**9, 10**8, 3 * 10**8] * 3}
    function = {"name": "fit", "line": 2, "last": 3, "calls": 1, "own": 0.75, "inclusive": 1.0}
    lines = {"line": [3], "samples": [9], "own": [0.5], "inclusive": [0.5], "share": [1.0]}
    file = {"name": "In[1]", "seconds": 1.0, "text": "a\nb\n  c = d()\n", "functions": [function]}
    data = {
        "begin": BEGIN,
        "end": BEGIN + 10**9,
        "regions": {"name": [f"m:f{at}" for at in deep]},
        "locations": [row],
        "paths": [{**tree, "name": "all"}],
        "table": {**table, "exclusive": [at * 10**8 for at in deep]},
        "source": {"kind": "called", "seconds": 1.0, "notes": [], "files": [file]},
    }
    data["previous"] = {"title": "run 1", "table": {**data["table"], "exclusive": [10**8] * 9}}
    expected = {
        "timeline": ["and 3 more levels"],
        "flame": ["call paths, together 3.00 s"],
        "callers": ["800 ms  m:f8"],
        "table": ["800 ms  m:f8"],
        "source": ["750 ms  In[1]:2  fit"],
        "compare": ["700 ms  more  m:f8", "100 ms  less  m:f0"],
    }
    labels = ["Timeline", "Flame graph", "Callers and callees", "Table", "Source", "Compare"]
    assert list(picture.offered(data).values()) == labels
    for (view, wanted), own in zip(expected.items(), labels, strict=True):
        shown = texts(picture.draw(data, view).svg())
        assert set(wanted) <= set(shown), view
        others = ", ".join(label for label in labels if label != own)
        assert shown[-1] == f"a still picture; other views of this output: {others}"
    file["lines"], data["source"]["kind"] = lines, "sampled"
    assert "500 ms  In[1]:3  c = d()" in texts(picture.draw(data, "source").svg())
