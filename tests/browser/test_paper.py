"""The views on paper, on narrow screens, for those who don't see them, and in pages that run no scripts."""

import re

import pytest

from holdfast.pages import page as pages
from tests.browser import lab, trace_pages
from tests.browser.test_views import DATA

TABS = ("Timeline", "Flame graph", "Callers and callees", "Table", "Source", "Compare")
NAME = "package.module.estimators:LogisticRegression.fit_and_score"
# What is laid out when the browser prints; it is asked after the views' own listener.
LAID_OUT = """() => addEventListener("beforeprint", () => {
  const root = document.querySelector(".holdfast-views").shadowRoot;
  const all = (what) => [...root.querySelectorAll(what)];
  window.laidOut = {
    cut: all(".rows, .table").filter((one) => one.scrollHeight > one.clientHeight + 1).length,
    canvas: all("canvas.flame").map((one) => one.height),
    stage: all(".stage").map((one) => parseFloat(one.style.height)),
    right: Math.max(0, ...all("canvas").map((one) => one.getBoundingClientRect().right)),
    left: root.host.getBoundingClientRect().left,
    note: root.querySelector(".printed")?.textContent,
  };
})"""


def data_of(**more):
    known = {}
    exec(DATA, known)
    data = trace_pages.data()
    data["regions"]["name"][1] = NAME
    function = {"name": "fit", "line": 1, "last": 2, "calls": 1, "own": 1.0, "inclusive": 1.0}
    file = {"name": "In[1]", "cell": 1, "seconds": 1.0, "text": "a\nb", "functions": [function]}
    source = {"kind": "called", "seconds": 1.0, "notes": [], "files": [file]}
    previous = {"title": "run 1", "seconds": 1.0, "table": data["table"]}
    both = {"source": source, "previous": previous, "seconds": 2.0}
    return {**data, "tracks": known["data"]["tracks"], **both, **more}


@pytest.fixture
def page_of(browser, tmp_path):
    """A function that opens a page with the output of some data."""
    opened = []

    def page_of(data, style=""):
        html = pages.bundle(data)["text/html"]
        path = tmp_path / "page.html"
        path.write_text(
            f'<!DOCTYPE html><style>{style}</style><body style="background: #fff">'
            f'<div class="around">{html}</div>',
            "utf-8",
        )
        page = browser.new_page()
        opened.append(page)
        page.goto(f"file://{path}")
        page.wait_for_function("document.querySelector('.holdfast-views').shadowRoot")
        page.evaluate(LAID_OUT)
        return page

    yield page_of
    for page in opened:
        page.close()


def printed(page):
    """Print to PDF; what was laid out for it, with the number of sheets."""
    pdf = page.pdf(format="A4")
    return {**page.evaluate("laidOut"), "sheets": len(re.findall(rb"/Type ?/Page\b", pdf))}


def test_all_tracks_are_printed_however_few_are_in_sight(page_of):
    page = page_of(trace_pages.many(60, 2))
    canvas = page.locator("canvas.flame")
    canvas.wait_for()
    box = canvas.bounding_box()
    page.get_by_role("button", name="Unfold all").click()
    found = printed(page)
    assert found["cut"] == 0 and found["sheets"] > 1
    assert found["canvas"] == found["stage"] and found["stage"][0] > 3000
    assert 500 < found["right"] - found["left"] <= 640, "it fits the paper"
    assert found["note"] == (
        "Printed: Timeline. Other views of this output: Flame graph, Callers and callees, Table."
    )
    assert canvas.bounding_box() == box, "on the screen nothing has changed"
    assert not page.locator(".printed").is_visible()


def test_what_is_not_on_the_paper_is_named(page_of):
    page = page_of(trace_pages.many(450, 2))
    page.locator("canvas.flame").wait_for()
    page.get_by_role("button", name="Unfold all").click()
    page.get_by_role("button", name="Zoom in").click()
    found = printed(page)
    assert found["canvas"] == [16000]
    left = 900 - 16000 * 900 // found["stage"][0]
    said = re.search(r"([\d.]+ ms to .*), without ([\d,]+) more tracks\.", found["note"])
    assert said[1] == "500.0 ms to 1.500 s of 0 s to 2.000 s"
    assert int(said[2]) == pytest.approx(left, abs=2)


@pytest.mark.parametrize("tab", TABS[1:])
def test_no_other_view_is_cut_either(page_of, tab):
    count = 90
    regions = {"name": [f"a.module:f{at}" for at in range(count)], "file": [""] * count}
    regions.update(line=[1] * count, cell=[0] * count)
    table = {
        "region": list(range(count)),
        "visits": [1] * count,
        "inclusive": [10**9] * count,
        "exclusive": [10**9] * count,
    }
    paths = {**table, "depth": list(range(count)), "name": "all"}
    data = data_of(regions=regions, table=table, paths=[paths], locations=[])
    data["previous"]["table"] = table
    data["source"]["files"][0]["text"] = "line\n" * 200
    page = page_of(data)
    page.get_by_role("tab", name=tab).click()
    page.emulate_media(media="print")
    found = printed(page)
    assert found["cut"] == 0 and found["sheets"] > 1
    assert found["note"].startswith(f"Printed: {tab}.")
    page.set_viewport_size({"width": 700, "height": 800})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 700, "it isn't wider than paper"


def test_what_was_never_seen_is_printed(page_of):
    hidden = ".around { display: none } @media print { .around { display: block } }"
    page = page_of(data_of(), hidden)
    found = printed(page)
    assert found["canvas"] and found["canvas"][0] > 50
    assert not page.locator("canvas").first.is_visible()


def test_every_canvas_says_what_it_is(page_of):
    page = page_of(data_of())
    expected = {
        "Timeline": ["Time axis", "Calls of 4 tracks of 2 processes over time"]
        + ["CPU in % over time: cpu at most 6", "Memory in GB over time: memory at most 6"],
        "Flame graph": ["Call paths: 3 levels"],
        "Callers and callees": ["Callers of threading.Condition:wait: 2 levels"]
        + ["Callees of threading.Condition:wait: 1 level"],
    }
    for tab, labels in expected.items():
        page.get_by_role("tab", name=tab).click()
        images = page.locator("canvas")
        assert images.evaluate_all("all => all.map((one) => one.role)") == ["img"] * len(labels)
        assert images.evaluate_all("all => all.map((one) => one.ariaLabel)") == labels


def test_names_can_be_read_on_a_narrow_screen(page_of):
    data = data_of()
    for location in data["locations"]:
        location["thread"] = "ThreadPoolExecutor-0_0"
    page = page_of(data)
    page.set_viewport_size({"width": 420, "height": 800})
    for tab in ("Table", "Compare"):
        page.get_by_role("tab", name=tab, exact=True).click()
        name = page.locator("tbody th", has_text=NAME)
        assert name.bounding_box()["width"] >= 150
        assert name.bounding_box()["height"] < 120
        page.locator(".table").evaluate("table => (table.scrollLeft = 1000)")
        assert name.bounding_box()["x"] < 30, "it stays where the numbers are scrolled"
    page.get_by_role("tab", name="Timeline").click()
    lane = page.locator(".lane", has_text="ThreadPoolExecutor-0_0").first
    assert lane.bounding_box()["width"] >= 120
    lane.hover()
    assert lane.evaluate("lane => lane.scrollWidth <= lane.clientWidth"), "the whole name"


def test_an_untrusted_notebook_shows_the_view_that_was_asked_for(browser, server):
    """JupyterLab takes the scripts out of outputs that nobody has trusted."""

    def cell(view):
        bundle = pages.bundle(data_of(), view)
        output = {"output_type": "display_data", "metadata": {}, "data": bundle}
        return "%trace", [output]

    views = ("timeline", "flame", "table", "source", "compare")
    page = browser.new_page()
    notebook = lab.Notebook(server, page, "untrusted.ipynb", [cell(view) for view in views])
    seen = set()
    for number in range(len(views)):
        output = notebook.outputs(number)
        output.scroll_into_view_if_needed()
        picture = output.locator("img")
        picture.wait_for()
        assert not output.locator("script, canvas").count()
        seen.add(picture.get_attribute("src"))
        hint = output.locator("p").inner_text()
        assert "still picture" in hint and "Trust Notebook" in hint
        assert all(label in hint for label in TABS)
    assert len(seen) == len(views)
    notebook.end_kernel()
    page.close()
