"""A trace as a person looks at it, in Chromium: by what is on the page and on its canvases.

Data: tests/browser/trace_pages.py. The pages are files, as `%trace --export x.html` writes them.
"""

import re
from array import array

import pytest

from holdfast.pages import page as pages
from tests.browser import trace_pages
from tests.browser.trace_pages import BEGIN, CS

# The colour of a canvas at a point of it, in CSS pixels, as [red, green, blue].
COLOUR = """(canvas, [x, y]) => {
  const scale = canvas.width / canvas.clientWidth;
  return [...canvas.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data].slice(0, 3);
}"""
# Whether a block at the left edge, so many pixels down, shows just this text.
SHOWS = """(canvas, [y, text]) => {
  const own = canvas.getContext("2d"), other = document.createElement("canvas");
  const [width, height, scale] = [200, 18, canvas.width / canvas.clientWidth];
  other.width = width * scale;
  other.height = height * scale;
  const drawn = other.getContext("2d");
  const background = own.getImageData(1, (y + 1) * scale, 1, 1).data;
  drawn.setTransform(scale, 0, 0, scale, 0, 0);
  drawn.fillStyle = `rgb(${[...background].slice(0, 3)})`;
  drawn.fillRect(0, 0, width, height);
  drawn.font = "11px system-ui, sans-serif";
  drawn.textBaseline = "middle";
  drawn.fillStyle = getComputedStyle(canvas.getRootNode().querySelector(".views")).color;
  drawn.fillText(text, 3, 9.5);
  const pixels = (context, top) => context.getImageData(0, top, width * scale, height * scale).data;
  const [one, two] = [pixels(own, y * scale), pixels(drawn, 0)];
  return one.every((value, at) => Math.abs(value - two[at]) < 8);
}"""


class Shown:
    """A page with one view."""

    def __init__(self, page):
        self.page = page
        self.root = page.locator(".views")
        self.canvas = page.locator("canvas.flame").first

    def colour(self, x, y, canvas=None):
        """At a part of a canvas' width, and pixels down."""
        canvas = canvas or self.canvas
        return tuple(canvas.evaluate(COLOUR, [x * canvas.bounding_box()["width"], y]))

    def at(self, x, y, canvas=None):
        box = (canvas or self.canvas).bounding_box()
        return box["x"] + x * box["width"], box["y"] + y

    def drag(self, x, to, y=30):
        self.page.mouse.move(*self.at(x, y))
        self.page.mouse.down()
        self.page.mouse.move(*self.at((x + to) / 2, y))
        self.page.mouse.move(*self.at(to, y))
        self.page.mouse.up()

    def tab(self, name):
        self.root.get_by_role("tab", name=name, exact=True).click()

    def button(self, name):
        return self.root.get_by_role("button", name=name, exact=True)

    def span(self):
        """Begin and end of what is shown, in seconds, once it is still."""
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        units = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
        label = self.root.get_attribute("aria-label").split(" selected")[0]
        words = re.findall(r"([\d.]+) (s|ms|µs|ns)", label)[:2]
        return [float(number) * units[unit] for number, unit in words]

    def table(self, label):
        """The rows of a table as lists of texts, by the text of its first heading."""
        rows = self.root.locator("table", has=self.page.get_by_text(label, exact=True)).locator(
            "tbody tr"
        )
        return [row.split("\t") for row in rows.all_inner_texts()]


@pytest.fixture
def shown(browser, tmp_path):
    """A function that opens a page of some data."""
    opened = []

    def shown(data=None, background="#fff", **more):
        bundle = pages.bundle({**(data or trace_pages.data()), **more})
        path = tmp_path / "page.html"
        path.write_text(
            f'<!DOCTYPE html><body style="background: {background}">{bundle["text/html"]}', "utf-8"
        )
        page = browser.new_page()
        opened.append(page)
        page.goto(f"file://{path}")
        page.locator("canvas.flame").first.wait_for()
        return Shown(page)

    yield shown
    for page in opened:
        page.close()


def test_callers_and_callees_of_a_function(shown):
    view = shown()
    view.tab("Table")
    view.button("__main__.Model:__call__").click()
    assert view.root.get_by_role("tab", selected=True).inner_text() == "Callers and callees"
    facts = view.root.locator(".facts", has=view.page.locator(".chosen")).inner_text()
    assert re.search(r"total 1.40 s\s+own 600 ms\s+calls 2", facts)
    assert view.table("Direct callers") == [
        ["cell In[1]", "1.00 s", "71.4 %", "1"],
        ["no caller", "400 ms", "28.6 %", "1"],
    ]
    assert view.table("Direct callees") == [["json.decoder:load", "800 ms", "57.1 %", "3"]]

    upper, lower = view.root.locator("canvas.flame").all()
    white = (255, 255, 255)
    assert upper.bounding_box()["y"] < lower.bounding_box()["y"]
    # Upwards: the function at the bottom; above it its caller, 1.00 s of 1.40.
    assert white not in (view.colour(0.01, 25, upper), view.colour(0.99, 25, upper))
    assert view.colour(0.7, 5, upper) != white == view.colour(0.73, 5, upper)
    # Downwards: the function on top; below it its callee, 800 ms of 1.40 s.
    assert view.colour(0.56, 25, lower) != white == view.colour(0.59, 25, lower)

    view.page.mouse.click(*view.at(0.3, 25, lower))
    view.root.locator(".chosen", has_text="json.decoder:load").wait_for()
    assert [row[:3] for row in view.table("Direct callers")] == [
        ["__main__.Model:__call__", "800 ms", "44.4 %"],
        ["pool:run", "800 ms", "44.4 %"],
        ["no caller", "200 ms", "11.1 %"],
    ]
    view.button("← Back").click()
    view.root.locator(".chosen", has_text="__main__.Model:__call__").wait_for()

    view.tab("Timeline")
    view.page.mouse.click(*view.at(0.3, 20 + 30))  # the call, in the second row of the first track
    view.button("Callers and callees").click()
    view.root.locator(".chosen", has_text="__main__.Model:__call__").wait_for()


def test_recursion_counts_its_time_once(shown):
    recursive = {
        ("A", "MainThread"): [(4, 0, 100, 0), (4, 20, 80, 1), (2, 30, 50, 2), (4, 52, 60, 2)]
    }
    view = shown(trace_pages.data(recursive))
    view.tab("Callers and callees")
    view.root.get_by_label("Function").select_option(label="pool:run")
    assert view.table("Direct callers") == [
        ["no caller", "1.00 s", "100.0 %", "1"],
        ["pool:run", "0 s", "0.0 %", "2"],
    ]
    assert view.table("Direct callees") == [
        ["pool:run", "600 ms", "60.0 %", "2"],
        ["json.decoder:load", "200 ms", "20.0 %", "1"],
    ]


def test_a_range_is_selected_and_summed_up(shown):
    view = shown()
    band, summary = view.root.locator(".selection"), view.root.locator(".selected")
    assert not band.is_visible()
    view.page.keyboard.down("Shift")
    view.drag(0.525, 0.725)
    view.page.keyboard.up("Shift")
    assert view.span() == [0, 2.0], "nothing was moved"
    left, right = view.at(0.525, 0)[0], view.at(0.725, 0)[0]
    box = band.bounding_box()
    assert (box["x"], box["x"] + box["width"]) == pytest.approx((left, right), abs=1.5)
    rows = view.root.locator(".rows").bounding_box()
    assert box["y"] <= rows["y"] and box["y"] + box["height"] >= rows["y"] + rows["height"]
    assert "9 calls on 4 tracks" in summary.inner_text()
    longest = {name: cells for name, *cells in view.table("Longest in the range")}
    wait, load = longest["threading.Condition:wait"], longest["json.decoder:load"]
    assert (wait[2], load[2]) == ("2", "3")
    assert milliseconds(wait[0]) == pytest.approx(400 + 250, abs=8)
    assert milliseconds(load[0]) == pytest.approx(350 + 150 + 150, abs=8)
    tracks = {name: cells for name, *cells in view.table("Track")}
    assert [tracks[name][0] for name in ("A · MainThread", "A · helper", "B · helper")] == [
        "3",
        "1",
        "3",
    ]
    assert tracks["A · MainThread"][2] == "100.0 %"

    view.root.focus()
    view.page.keyboard.press("f")
    assert view.span() == pytest.approx([1.05, 1.45], abs=5e-3)
    view.page.keyboard.press("0")
    view.page.keyboard.press("Escape")
    assert not band.is_visible() and not summary.count()

    view.root.get_by_role("button", name="Select a range").click()  # then without Shift
    view.drag(0.1, 0.2)
    assert band.is_visible() and view.span() == [0, 2.0]
    view.button("Clear").click()
    assert not band.is_visible()


def milliseconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1000, "ms": 1, "µs": 1e-3}[unit]


def test_joined_calls_of_a_range_are_named_as_such(shown):
    data = trace_pages.data()
    row = data["locations"][1]
    row.update(count=[50], busy=[100 * CS], longest=[5 * CS])
    view = shown(data)
    view.page.keyboard.down("Shift")
    view.drag(0.525, 0.725)
    view.page.keyboard.up("Shift")
    text = view.root.locator(".selected").inner_text()
    assert "about" in text and "joined are a line of their own" in text
    longest = {name: cells for name, *cells in view.table("Longest in the range")}
    assert longest["threading.Condition:wait"][2] == "1"
    # 40 of 150 hundredths of the block: 13 of its 50 calls, 267 of its 1000 ms.
    assert longest["short calls that are joined"][2] == "13"
    assert milliseconds(longest["short calls that are joined"][0]) == pytest.approx(267, abs=5)


def lanes(view):
    return view.root.locator(".lane:not(.more)")


def test_all_tracks_are_seen_at_first_and_fold(shown):
    view = shown(trace_pages.many(20))
    rows = view.root.locator(".rows").bounding_box()
    assert view.root.get_by_text("20 tracks of 20 processes").is_visible()
    assert lanes(view).count() == 20
    boxes = [one.bounding_box() for one in lanes(view).all()]
    assert all(
        rows["y"] <= box["y"] and box["y"] + box["height"] <= rows["y"] + rows["height"] + 1
        for box in boxes
    )
    last = boxes[-1]["y"] - rows["y"] + boxes[-1]["height"] / 2
    folded = {view.colour(x / 50, last) for x in range(2, 48)}
    assert len(folded) == 2, "a folded track shows its innermost calls"

    view = shown(trace_pages.many(60))
    frame = view.root.locator(".rows")
    assert view.root.get_by_text("60 tracks of 60 processes").is_visible()
    assert frame.evaluate("rows => rows.scrollHeight > rows.clientHeight && rows.offsetWidth > 0")
    view.page.mouse.move(*view.at(0.5, 100))
    before = view.colour(0.03, 6)
    view.page.mouse.wheel(0, 4000)
    view.page.wait_for_function("rows => rows.scrollTop > 100", arg=frame.element_handle())
    assert lanes(view).last.bounding_box()["y"] < view.at(0, 460)[1]
    assert view.span() == [0, 2.0] and before != (255, 255, 255)


def test_tracks_and_processes_fold_by_a_click(shown):
    view = shown()
    names = ["A · 2 threads", "MainThread", "helper", "B · 2 threads", "MainThread", "helper"]
    assert lanes(view).all_inner_texts() == names
    white = (255, 255, 255)
    height = view.canvas.bounding_box()["height"]
    call = view.colour(0.4, 20 + 48)  # the third level of A's main thread
    assert call != white
    lanes(view).nth(1).click()
    assert lanes(view).nth(1).get_attribute("aria-expanded") == "false"
    assert view.canvas.bounding_box()["height"] < height
    assert view.colour(0.4, 20 + 9) == call, "the innermost call's colour"
    lanes(view).nth(3).click()
    assert lanes(view).all_inner_texts() == names[:4], "its threads are in it"
    box = lanes(view).nth(3).bounding_box()
    assert view.colour(0.5, box["y"] - view.canvas.bounding_box()["y"] + 5) != white
    view.button("Unfold all").click()
    assert lanes(view).all_inner_texts() == names
    assert view.canvas.bounding_box()["height"] == height


def test_a_flame_graph_of_a_thread_and_without_waiting(shown):
    view = shown()
    view.tab("Table")
    text = view.root.inner_text()
    assert "Percentages are of the time of all 4 tracks together, waiting included: 5.10 s." in text
    load = view.root.locator("tbody tr", has_text="json.decoder:load").locator("td")
    assert load.all_inner_texts() == ["1.80 s", "1.80 s", "35.3 %", "5", "360 ms"]
    view.root.get_by_label("Process").select_option(label="B")
    assert load.all_inner_texts() == ["1.20 s", "1.20 s", "75.0 %", "3", "400 ms"]
    assert "all" not in re.search(r"Percentages are of (.*)\.", view.root.inner_text())[1]
    view.root.get_by_label("Thread").select_option(label="helper")
    assert load.all_inner_texts() == ["400 ms", "400 ms", "66.7 %", "2", "200 ms"]

    view.tab("Flame graph")  # the same choice: load, then the call with load
    white = (255, 255, 255)
    assert view.colour(0.5, 9) != white != view.colour(0.9, 9)
    # The call has 40 of 60 and is on the left; half of it is load.
    assert view.colour(0.3, 28) != white == view.colour(0.36, 28)
    view.root.get_by_label("Process").select_option(label="all")
    view.root.get_by_label("Thread").select_option(label="all")
    view.page.mouse.move(*view.at(0.01, 9))
    graph = view.root.locator(".note")
    graph.get_by_text("of 5.10 s").wait_for()
    view.root.get_by_label("Hide waiting").check()
    view.page.mouse.move(*view.at(0.02, 9))
    graph.get_by_text("of 3.00 s").wait_for()
    assert "2.10 s of waiting are left out: threading.Condition:wait." in view.root.inner_text()
    view.tab("Table")
    assert not view.root.locator("tbody tr", has_text="Condition:wait").count()
    cell = view.root.locator("tbody tr", has_text="cell In[1]").locator("td")
    assert cell.all_inner_texts()[:3] == ["1.40 s", "400 ms", "13.3 %"]
    assert "waiting left out: 3.00 s" in view.root.inner_text()


def test_colours_are_by_module_and_names_have_class_or_file(shown):
    calls = [(4, 0, 200, 0), (1, 0, 100, 1), (2, 0, 50, 2), (0, 100, 200, 1)]
    for background in ("#fff", "#111417"):
        view = shown(trace_pages.data({("A", "MainThread"): calls}), background=background)
        run, call, load, cell = (
            view.colour(x, y) for x, y in [(0.9, 9), (0.45, 28), (0.22, 47), (0.9, 28)]
        )
        assert len({run, call, load, cell}) == 4
        for own in (call, cell):
            assert own[0] > own[2] + 20, "one's own functions are warm, each in its own way"
        chips = view.root.locator(".legend .chip")
        assert chips.all_inner_texts() == ["own code", "json"]  # by their own time; pool has none
        assert view.canvas.evaluate(SHOWS, [0, "run (pool/__init__.py)"])
        assert view.canvas.evaluate(SHOWS, [19, "Model.__call__"])
        assert view.canvas.evaluate(SHOWS, [38, "load (decoder.py)"])
        assert not view.canvas.evaluate(SHOWS, [38, "load (decoder)"])
        chips.filter(has_text="own code").click()
        assert view.colour(0.45, 28) == view.colour(0.9, 28) != view.colour(0.9, 9)


def test_keys_and_wheel_as_in_perfetto(shown):
    view = shown()
    keyboard, mouse = view.page.keyboard, view.page.mouse
    view.root.focus()
    mouse.move(*view.at(0.25, 30))
    keyboard.press("w")
    assert view.span() == pytest.approx([0.5 - 0.5 / 1.5, 0.5 + 1.5 / 1.5], abs=5e-3)
    keyboard.press("d")
    assert view.span() == pytest.approx([0.1667 + 0.2667, 1.5 + 0.2667], abs=5e-3)
    keyboard.press("a")
    keyboard.press("s")
    assert view.span() == pytest.approx([0, 2.0], abs=5e-3)
    keyboard.press("w")
    low, high = view.span()
    keyboard.down("Shift")
    mouse.wheel(0, 100)
    keyboard.up("Shift")
    moved = view.span()
    assert moved[0] > low and moved[1] - moved[0] == pytest.approx(high - low, abs=2e-3)
    keyboard.press("0")
    keyboard.down("Control")
    mouse.wheel(0, -200)
    keyboard.up("Control")
    low, high = view.span()
    assert high - low == pytest.approx(2 * 2.718**-0.5, abs=0.02)
    assert low + 0.25 * (high - low) == pytest.approx(0.5, abs=0.01), "around the mouse"
    assert not view.root.get_by_role("group", name="Keys").is_visible()
    keyboard.press("?")
    told = view.root.get_by_role("group", name="Keys").inner_text()
    for key in ("w s", "a d", "Ctrl + wheel", "Shift + wheel", "Shift + drag", "Escape", "0", "/"):
        assert key in told
    keyboard.press("?")
    assert not view.root.get_by_role("group", name="Keys").is_visible()


def test_samples_stand_below_the_tracks_at_the_same_time_axis(shown):
    steps = range(21)
    track = {
        "name": "CPU",
        "unit": "%",
        "time": array("q", [BEGIN + step * 10 * CS for step in steps]),
        "series": [{"name": "cpu", "values": [100.0 if step < 10 else 0.0 for step in steps]}],
    }
    view = shown(tracks=[track])
    plot = view.root.locator(".track .u-over").bounding_box()
    canvas = view.canvas.bounding_box()
    assert plot["y"] > canvas["y"] + canvas["height"]
    ends = plot["x"], plot["x"] + plot["width"]
    assert ends == pytest.approx((canvas["x"], canvas["x"] + canvas["width"]), abs=1.5)
    view.page.mouse.move(plot["x"] + plot["width"] * 0.5, plot["y"] + 20)
    assert view.root.locator(".note strong").inner_text().startswith("1.0")
    view.page.keyboard.down("Shift")
    view.page.mouse.down()
    view.page.mouse.move(plot["x"] + plot["width"] * 0.75, plot["y"] + 20, steps=3)
    view.page.mouse.up()
    view.page.keyboard.up("Shift")
    assert view.span() == [0, 2.0]
    assert view.root.locator(".selected").inner_text().startswith("Selected: 1.0")
