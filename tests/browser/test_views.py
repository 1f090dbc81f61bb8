"""The views in JupyterLab, as a person uses them: drawn, zoomed, moved, searched, in both themes.

What is on a canvas is looked at by its pixels, and the range by the name that the view gives to screen readers.
"""

import json
import re

import pytest

from holdfast.monitor import history, sampled

DATA = """
from array import array
from holdfast.pages import page

SECOND = 10**9
BEGIN = 7 * SECOND
HOSTILE = "</script><b>hostile</b>"
steps = range(101)
cell = {"index": 1, "begin": BEGIN, "end": BEGIN + 2 * SECOND, "kind": "instrumented", "outcome": "ok"}
tracks = [
    {
        "name": name,
        "unit": unit,
        "time": array("q", [BEGIN + step * SECOND // 50 for step in steps]),
        "series": [{"name": name.lower(), "values": [step % 7 for step in steps]}],
    }
    for name, unit in [("CPU", "%"), ("Memory", "GB")]
]
table = {
    "region": [0, 1, 2],
    "visits": [1, 40, 3],
    "inclusive": [2 * SECOND, SECOND, SECOND // 2],
    "exclusive": [SECOND // 2, SECOND, SECOND // 2],
}
data = {
    "title": "cell [1]",
    "begin": BEGIN,
    "end": BEGIN + 2 * SECOND,
    "cells": [{**cell, "source": "def fit():\\n    pass\\n"}],
    "tracks": tracks,
    "regions": {
        "name": ["main", "fit", HOSTILE],
        "file": ["", "", "other.py"],
        "line": [1, 2, 9],
        "cell": [1, 1, 0],
    },
    "locations": [
        {
            "process": "process 1",
            "thread": thread,
            "begin": [BEGIN, BEGIN + SECOND // 2, BEGIN + SECOND],
            "duration": [2 * SECOND, SECOND // 4, SECOND // 2],
            "depth": [0, 1, 1],
            "region": [0, 1, 2],
            "count": [1, 40, 1],
            "busy": [0, SECOND // 5, 0],
            "longest": [0, SECOND // 100, 0],
        }
        for thread in ("MainThread", "helper")
    ],
    "paths": [
        {
            "name": "all threads",
            "depth": [0, 1, 1],
            "region": [0, 2, 1],
            "visits": [1, 3, 40],
            "inclusive": [2 * SECOND, SECOND // 2, SECOND],
        }
    ],
    "table": table,
    "seconds": 2.0,
    "previous": {"title": "run 1", "seconds": 1.6, "table": {**table, "exclusive": [SECOND, SECOND // 2, SECOND // 2]}},
}
"""
SHOW = "display(page.bundle(data), raw=True)\nprint('shown')"

# The colours of a canvas, the most frequent first, as #rrggbb.
COLOURS = """canvas => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const colour = "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1]).slice(0, 40).map(([colour]) => colour);
}"""
FOUND = "#ffcc33"


class Views:
    """The views that a cell shows."""

    def __init__(self, notebook, number):
        self.notebook = notebook
        self.page = notebook.page
        self.root = notebook.cell(number).locator(".holdfast-views .views")
        self.root.wait_for()

    def shown(self, text):
        """Wait until the name of the view is this."""
        self.page.wait_for_function(
            "([root, text]) => root.getAttribute('aria-label') === text",
            arg=[self.root.element_handle(), text],
        )

    def span(self):
        """Begin and end of what is shown, in seconds."""
        words = re.findall(r"([\d.]+) (m?)s", self.root.get_attribute("aria-label"))
        return [float(number) / (1000 if milli else 1) for number, milli in words]

    def open(self, tab):
        self.root.get_by_role("tab", name=tab).click()

    def canvas(self):
        return self.root.locator("canvas.flame")

    def colours(self):
        return self.canvas().evaluate(COLOURS)

    def search(self, text):
        self.root.get_by_role("searchbox").fill(text)

    def point(self, x, y, act="hover"):
        """The mouse on the flame chart, at a part of its width and so many pixels down."""
        self.canvas().scroll_into_view_if_needed()
        box = self.canvas().bounding_box()
        at = box["x"] + x * box["width"], box["y"] + y
        if act == "click":
            self.page.mouse.click(*at)
        else:
            self.page.mouse.move(*at)
            self.page.mouse.move(at[0] + 1, at[1])


@pytest.fixture
def views(opened):
    notebook = opened(DATA, SHOW)
    notebook.run_all()
    notebook.shown(1, "shown")
    views = Views(notebook, 1)
    views.canvas().wait_for()
    views.shown("Timeline, 0 s to 2.0000 s")
    return views


def test_the_timeline_is_zoomed_moved_searched_and_hovered(views):
    root = views.root
    assert root.locator(".track").count() == 2
    before = views.colours()
    assert len(before) > 5, "regions are drawn"

    root.focus()
    views.page.keyboard.press("+")
    views.page.keyboard.press("+")
    views.page.wait_for_function("root => /ms/.test(root.ariaLabel)", arg=root.element_handle())
    begin, end = views.span()
    assert (begin, end) == pytest.approx((0.5556, 1.4444), abs=1e-3)
    views.page.keyboard.press("ArrowRight")
    views.shown("Timeline, 733.33 ms to 1.6222 s")
    views.page.keyboard.press("0")
    views.shown("Timeline, 0 s to 2.0000 s")
    assert views.notebook.prompt(1) == "[2]:", "JupyterLab's own keys were left alone"
    assert views.page.locator(".jp-Notebook .jp-Cell").count() == 2

    views.point(0.3, 28)  # fit, below main
    note = root.locator(".note")
    note.wait_for()
    heading = note.locator("strong").inner_text()
    assert heading == "40 short calls, most of their time in fit"
    text = note.inner_text()
    assert re.search(r"together\s*200 ms", text) and re.search(r"the longest\s*10.0 ms", text)
    assert "lasts" not in text and "cell [1], line 2" in text
    assert re.search(r"% are of\s*the time of all 2 tracks together, waiting included", text)
    # The note goes with the mouse, also where the view is drawn anew.
    box = root.bounding_box()
    views.page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 40)
    root.focus()
    views.page.keyboard.press("+")
    views.shown("Timeline, 333.33 ms to 1.6667 s")
    assert not note.is_visible()
    views.page.keyboard.press("0")
    views.shown("Timeline, 0 s to 2.0000 s")

    views.search("hostile")
    root.locator(".count", has_text="1 region, 3 calls").wait_for()
    views.page.wait_for_function(
        f"canvas => ({COLOURS})(canvas).includes('{FOUND}')", arg=views.canvas().element_handle()
    )
    assert FOUND not in before
    root.get_by_role("button", name="Zoom in").click(click_count=2)
    views.shown("Timeline, 750.00 ms to 1.2500 s")
    root.get_by_role("searchbox").press("Enter")
    views.page.wait_for_function(
        "root => !/750.00 ms/.test(root.ariaLabel)", arg=root.element_handle()
    )
    begin, end = views.span()
    assert begin < 1 and end >= 1.5, "what was found is in sight"
    assert not root.locator("b b").count(), "a name is no HTML"

    # A selection in a track is the range of all of them.
    views.page.keyboard.press("Escape")
    root.get_by_role("button", name="Show everything").click()
    views.shown("Timeline, 0 s to 2.0000 s")
    over = root.locator(".track .u-over").first
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    y = box["y"] + box["height"] / 2
    views.page.mouse.move(box["x"] + box["width"] * 0.25, y)
    views.page.mouse.down()
    views.page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=3)
    views.page.mouse.up()
    views.page.wait_for_function("root => /ms/.test(root.ariaLabel)", arg=root.element_handle())
    assert views.span() == pytest.approx([0.5, 1.0], abs=0.02)


def test_the_flame_graph_and_the_tables(views):
    root = views.root
    views.open("Flame graph")
    views.shown("Flame graph, 0 s to 2.0000 s")
    views.canvas().wait_for()
    views.point(0.25, 28)  # left-heavy: fit, with half of the time, is the first below main
    note = root.locator(".note")
    note.wait_for()
    assert note.locator("strong").inner_text() == "fit"
    views.point(0.25, 28, "click")
    views.page.wait_for_function(
        "root => !/2.0000 s/.test(root.ariaLabel)", arg=root.element_handle()
    )
    begin, end = views.span()
    assert begin == 0 and end == pytest.approx(1.02, abs=0.03)
    root.get_by_label("Order").select_option(label="Time order")
    views.shown("Flame graph, 0 s to 2.0000 s")
    root.get_by_label("Track").select_option(label="process 1 · helper")

    views.open("Table")
    rows = root.locator("tbody tr")
    assert rows.count() == 3 and rows.first.inner_text().startswith("main")
    tops = rows.first.locator("td").evaluate_all("all => all.map(one => one.offsetTop)")
    assert len(tops) == 5 and len(set(tops)) == 1, "its numbers stand side by side"
    root.get_by_role("button", name="Calls").click()
    assert rows.first.inner_text().startswith("fit")
    rows.first.locator(".place").click()  # to the line in the notebook
    views.page.wait_for_function(
        "line => line.getAnimations().length",
        arg=views.notebook.cell(0).locator(".cm-line").nth(1).element_handle(),
    )

    views.open("Compare")
    root.get_by_text("Compared with run 1: 2.00 s now, 1.60 s then (+25.0 %).").wait_for()
    assert "+500 ms" in root.locator("tbody tr", has_text="fit").inner_text()


# A page that lets nothing in, and puts an output into itself as VS Code's notebooks do: as HTML, whose
# scripts it then runs again, each as the last child of what holds the output.
FRAME = """<!DOCTYPE html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'
 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:;">
<body class="vscode-dark" style="color-scheme: dark"><script>
const place = document.createElement("div");
place.innerHTML = %s;
document.body.append(place);
for (const found of [...place.getElementsByTagName("script")]) {
  const script = document.createElement("script");
  script.text = found.innerText;
  if (found.type) script.setAttribute("type", found.type);
  place.appendChild(script).remove();
}
</script>"""


def saved(bundle):
    """A page of a notebook with this output, as nbviewer shows it."""
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    output = nbformat.v4.new_output("display_data", bundle)
    cell = nbformat.v4.new_code_cell("def fit():\n    pass", execution_count=1, outputs=[output])
    try:
        exporter = nbconvert.HTMLExporter(mathjax_url="", require_js_url="")
    except ValueError as error:  # the templates of another environment aren't found
        pytest.skip(str(error))
    return exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0]


def test_saved_pages_and_frames_need_no_network(browser, tmp_path):
    known = {}
    exec(DATA, known)
    bundle = known["page"].bundle({**known["data"], "origin": known["BEGIN"] - known["SECOND"]})
    html = json.dumps(bundle["text/html"]).replace("</", "<\\/")
    pages = {"frame": FRAME.replace("%s", html), "saved": saved(bundle)}
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, "utf-8")
        page, asked = browser.new_page(), []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(f"file://{path}")
        root = page.locator(".views")
        root.wait_for()
        assert root.get_attribute("aria-label") == "Timeline, 1.0000 s to 3.0000 s"
        assert ("dark" in root.get_attribute("style")) == (name == "frame")
        assert not page.locator("img").first.is_visible(), "the still picture has made room"
        others = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
        assert others == []
        root.get_by_role("tab", name="Table").click()
        root.locator("tbody tr", has_text="fit").locator(".place").click()
        if name == "frame":  # no notebook around it: the line is shown here
            assert root.locator(".excerpt mark").inner_text().split() == ["2", "pass"]
        else:
            page.wait_for_function("document.getAnimations().length")
        page.close()


# Whether a row of pixels has the background's colour anywhere; y is in the page's pixels. Blue tells it from the
# hairlines of joined calls.
GAPS = """([canvas, y]) => {
  const scale = canvas.height / canvas.clientHeight;
  const {data} = canvas.getContext("2d").getImageData(0, y * scale, canvas.width - scale, 1);
  return data.filter((value, at) => at % 4 === 2 && value > 250).length;
}"""


def test_short_calls_of_many_functions_leave_no_gaps(browser, tmp_path):
    known = {}
    exec(DATA, known)
    count, span = 20_000, 2 * known["SECOND"]
    row = {
        "thread": "MainThread",
        "begin": [known["BEGIN"] + at * span // count for at in range(count)],
        "duration": [span // count] * count,
        "depth": [0] * count,
        "region": [at * 7 % 3 for at in range(count)],
    }
    path = tmp_path / "page.html"
    bundle = known["page"].bundle({**known["data"], "tracks": [], "locations": [row]})
    path.write_text('<body style="background: #fff">' + bundle["text/html"], "utf-8")
    page = browser.new_page()
    page.goto(f"file://{path}")
    canvas = page.locator("canvas.flame")
    canvas.wait_for()
    painted = f"canvas => ({GAPS})([canvas, 20])"  # below the row of blocks
    page.wait_for_function(painted, arg=canvas.element_handle())
    assert canvas.evaluate(f"canvas => ({GAPS})([canvas, 9])") == 0
    page.close()


@pytest.fixture
def page_of(browser, tmp_path):
    """A function that opens a page with these data instead of the usual ones."""
    opened = []

    def page_of(**data):
        known = {}
        exec(DATA, known)
        bundle = known["page"].bundle({**known["data"], **data})
        path = tmp_path / "page.html"
        path.write_text('<body style="background: #fff">' + bundle["text/html"], "utf-8")
        opened.append(browser.new_page())
        opened[-1].goto(f"file://{path}")
        opened[-1].locator("canvas.flame").wait_for()
        return opened[-1]

    yield page_of
    for page in opened:
        page.close()


SECOND = 10**9
MARKED = "#0b62c4"  # the border of the block that is shown


def threads(count, block):
    """Rows of a thread each: main, and in it a block of the region 1 at another time."""
    return [
        {
            "thread": f"thread {at}",
            "begin": [7 * SECOND, 7 * SECOND + at * SECOND // 20],
            "duration": [2 * SECOND, SECOND // 50],
            "depth": [0, 1],
            "region": [0, 1],
            "count": [1, block],
            "busy": [0, SECOND // 100],
            "longest": [0, SECOND // 1000],
        }
        for at in range(count)
    ]


def test_a_search_goes_from_hit_to_hit_and_shows_each(page_of):
    page = page_of(tracks=[], locations=threads(30, 1))
    root, count = page.locator(".views"), page.locator(".count")
    rows, search = page.locator(".rows"), page.get_by_role("searchbox")
    colours = f"canvas => ({COLOURS})(canvas)"

    def shows(place, middle):
        count.get_by_text(f"{place} of 30 blocks · 1 region, 40 calls", exact=False).wait_for()
        label = f"root => ({MIDDLE})(root.ariaLabel)"
        # With twenty times its own length around it, as far as there is that.
        assert root.evaluate(label) == pytest.approx(max(middle, 0.2), abs=1e-3)
        assert MARKED in page.locator("canvas.flame").evaluate(colours)

    top = page.locator("canvas.flame").bounding_box()["y"]
    assert not page.get_by_role("button", name="Next that is found").is_visible()
    page.get_by_role("button", name="Unfold all").click()
    search.fill("fit")
    count.get_by_text("30 blocks · 1 region, 40 calls").wait_for()
    assert page.locator("canvas.flame").bounding_box()["y"] == top, "nothing jumps under the mouse"
    assert MARKED not in page.locator("canvas.flame").evaluate(colours)
    search.press("Enter")
    shows(1, 0.02)
    assert rows.evaluate("rows => rows.scrollTop") == 0
    search.press("Enter")
    shows(2, 0.06)
    search.press("Shift+Enter")
    shows(1, 0.02)
    search.press("Shift+Enter")  # round: on the last track, which is scrolled into sight
    shows(30, 1.46)
    assert rows.evaluate("rows => rows.scrollTop") > 700
    page.get_by_role("button", name="Next that is found").click()
    shows(1, 0.02)
    assert rows.evaluate("rows => rows.scrollTop") < 100
    page.get_by_role("tab", name="Flame graph").click()
    count.get_by_text("1 block · 1 region, 40 calls").wait_for()
    search.press("Enter")
    count.get_by_text("1 of 1 block · 1 region").wait_for()
    page.get_by_role("tab", name="Table").click()
    assert page.locator("tbody tr").count() == 1 and count.inner_text().startswith("1 region")
    search.press("Escape")
    assert count.inner_text() == "" and "Shift + Enter" in search.get_attribute("title")


def test_who_points_at_the_border_of_what_was_found_means_that_block(page_of):
    """A call that is narrower than its border, right before a long one."""
    main, fit, other = 0, 1, 2
    row = {
        "thread": "main",
        "begin": [7 * SECOND, 8 * SECOND, 8 * SECOND + 1],
        "duration": [2 * SECOND, 1, SECOND],
        "depth": [0, 1, 1],
        "region": [main, fit, other],
    }
    page = page_of(tracks=[], locations=[row])
    canvas, note = page.locator("canvas.flame"), page.locator(".note")
    page.get_by_role("searchbox").fill("fit")
    page.locator(".count").get_by_text("1 block").wait_for()
    page.get_by_role("searchbox").press("Enter")
    page.locator(".count").get_by_text("1 of 1 block").wait_for()
    page.locator(".views").focus()
    page.keyboard.press("0")  # all of the trace again
    page.mouse.move(5, 5)
    box = canvas.bounding_box()
    names = []
    for x in (2, 5):
        page.mouse.move(box["x"] + box["width"] / 2 + x, box["y"] + 27)
        names.append(note.inner_text().split("\n")[0])
    assert names[0].endswith("fit") and not names[1].endswith("fit")


# Where the border of the marked block is: [left, right, top], in CSS pixels; null: nowhere.
BORDER = """(canvas, marked) => {
  const scale = canvas.width / canvas.clientWidth;
  const {data, width, height} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let [left, right, top] = [Infinity, -1, Infinity];
  for (let at = 0; at < data.length; at += 4) {
    const colour = "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
    if (colour === marked) {
      const x = (at / 4) % width, y = Math.floor(at / 4 / width);
      [left, right, top] = [Math.min(left, x), Math.max(right, x), Math.min(top, y)];
    }
  }
  return right < 0 ? null : [left / scale, right / scale, top / scale];
}"""
# The middle of the range that a view's name gives, in seconds.
MIDDLE = """label => {
  const units = {s: 1, ms: 1e-3, "µs": 1e-6, ns: 1e-9};
  const found = [...label.matchAll(/([\\d.]+) (s|ms|µs|ns)/g)];
  return found.reduce((sum, [, value, unit]) => sum + value * units[unit], 0) / 2;
}"""
# How often the colour changes along a line of a canvas, between two parts of its width.
CHANGES = """(canvas, [from, to, y]) => {
  const scale = canvas.height / canvas.clientHeight;
  const begin = Math.round(from * canvas.width), width = Math.round((to - from) * canvas.width);
  const {data} = canvas.getContext("2d").getImageData(begin, y * scale, width, 1);
  let changes = 0;
  for (let at = 4; at < data.length; at += 4) {
    changes += Math.abs(data[at] - data[at - 4]) + Math.abs(data[at + 2] - data[at - 2]) > 20;
  }
  return changes;
}"""


def test_joined_calls_look_joined(page_of):
    block = {
        "thread": "MainThread",
        "begin": [7 * SECOND, 7 * SECOND, 8 * SECOND],
        "duration": [2 * SECOND, SECOND, SECOND],
        "depth": [0, 1, 1],
        "region": [0, 1, 1],
        "count": [1, 2000, 1],
        "busy": [0, SECOND // 2, 0],
        "longest": [0, SECOND // 100, 0],
    }
    canvas = page_of(tracks=[], locations=[block]).locator("canvas.flame")
    assert canvas.evaluate(CHANGES, [0.3, 0.45, 28]) > 10
    assert canvas.evaluate(CHANGES, [0.8, 0.95, 28]) < 5  # a line of the grid


def test_the_table_has_shares_and_says_of_what(page_of):
    page = page_of()
    page.get_by_role("tab", name="Table").click()
    row = page.locator("tbody tr", has_text="fit")
    assert row.locator("td").all_inner_texts() == ["1.00 s", "1.00 s", "50.0 %", "40", "25.0 ms"]
    heading = page.get_by_role("button", name="in %")
    assert "all 2 tracks together, waiting included" in heading.get_attribute("title")


def test_the_cell_history_is_sorted_and_searched_by_keys(browser, tmp_path):
    took = {"slow(</script>)": 10.0, "quick()": 2.0, "wait()": 3.0}
    cells = [
        sampled.Cell(
            index=at, number=at + 1, source=source, source_cut=False, begin_ns=0,
            end_ns=int(seconds * 1e9), wall_begin=1.7e9, kind="plain", outcome="ok", pids=[],
            begin=[], end=[], peak_bytes=0.0,
        )
        for at, (source, seconds) in enumerate(took.items())
    ]  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(history.page(cells), "utf-8")
    page = browser.new_page()
    page.goto(f"file://{path}")
    rows = page.locator("tbody tr:visible pre")
    page.get_by_role("button", name="Duration").focus()
    page.keyboard.press("Enter")
    assert rows.all_inner_texts() == ["quick()", "wait()", "slow(</script>)"], "as numbers"
    page.keyboard.press("Enter")
    assert rows.first.inner_text() == "slow(</script>)"
    page.get_by_role("searchbox").fill("QUICK")
    assert rows.all_inner_texts() == ["quick()"]
    page.close()


LIVE = """
few = {
    "begin": BEGIN,
    "end": BEGIN + 2 * SECOND,
    "level": "process",
    "cells": [
        {"index": 5 + at, "begin": BEGIN + at * SECOND, "end": BEGIN + (at + 1) * SECOND} for at in range(2)
    ],
    "tracks": [
        {**track, "level": level, "hidden": track["name"] == "Memory",
         "series": [{"name": f"{track['name']} of {level}", "values": [step % 7 for step in steps]}]}
        for level in ("process", "user") for track in tracks
    ],
}
display(page.live(few, 'plot-1'), raw=True)
more = display({'text/html': ''}, raw=True, display_id=True)
print('live')
"""
LATER = """
later = [
    {**track, "time": [BEGIN + 3 * SECOND], "series": [{**track["series"][0], "values": [50]}]}
    for track in few["tracks"]
]
later = {"tracks": later, "end": BEGIN + 3 * SECOND, "window": 2 * SECOND}
more.update({"text/html": page.append(later, "plot-1", BEGIN)}, raw=True)
print('sent')
"""


def test_what_a_live_plot_shows_is_chosen_in_it_in_both_themes(opened):
    notebook = opened(DATA, LIVE, LATER)
    notebook.run(0)
    notebook.run(1)
    notebook.shown(1, "live")
    views, keyboard = Views(notebook, 1), notebook.page.keyboard
    root = views.root
    lines = root.locator(".track .chip")
    views.shown("Timeline, 0 s to 2.0000 s")
    assert not root.get_by_role("tab").count(), "one view has no tabs"
    assert lines.all_inner_texts() == ["CPU of process"]

    root.get_by_role("button", name="Memory").focus()
    keyboard.press("Space")
    assert lines.count() == 2
    root.get_by_label("Level").select_option(label="user")
    assert lines.all_inner_texts() == ["CPU of user", "Memory of user"]
    root.get_by_label("From cell").focus()
    keyboard.type("[6")  # as a person finds an option by its letters
    views.shown("Timeline, 1.0000 s to 2.0000 s")
    root.get_by_role("button", name="CPU", exact=True).focus()
    keyboard.press("+")
    views.shown("Timeline, 1.1667 s to 1.8333 s")
    keyboard.press("0")  # everything is what was chosen
    views.shown("Timeline, 1.0000 s to 2.0000 s")
    root.get_by_label("To cell").select_option(label="[5]")  # the other end gives way
    views.shown("Timeline, 0 s to 1.0000 s")
    root.get_by_label("To cell").select_option(label="last")
    root.get_by_label("From cell").select_option(label="first")
    views.shown("Timeline, 0 s to 2.0000 s")

    notebook.run(2)
    notebook.shown(2, "sent")
    views.shown("Timeline, 1.0000 s to 3.0000 s")
    over = root.locator(".track .u-over").last
    box = over.bounding_box()
    over.hover(position={"x": box["width"] - 2, "y": 20})
    root.locator(".note", has_text="50 GB").wait_for()

    background = "root => getComputedStyle(root).backgroundColor"
    assert root.evaluate(background) == "rgb(255, 255, 255)"
    notebook.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    notebook.page.evaluate(
        "document.documentElement.style.setProperty('--jp-layout-color0', '#111111'),"
        "document.body.classList.add('dark')"
    )
    notebook.page.locator(".views[style*='dark']").wait_for()
    assert lines.all_inner_texts() == ["CPU of user", "Memory of user"], "what was chosen stays"
