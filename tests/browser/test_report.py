"""The page of holdfast.report, as a person reads it: the table, a view that is opened, both themes."""

import re
from pathlib import Path

import pytest
from needed import needed

needed("nbclient")
sync_api = needed("playwright.sync_api")
from holdfast import report  # noqa: E402
from holdfast.report import page, traces  # noqa: E402

from tests.browser.test_views import COLOURS, DATA  # noqa: E402

BACKGROUND = "node => getComputedStyle(node).backgroundColor"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A report of three cells: a short one, a recorded one that failed, the longest."""
    known = {}
    exec(DATA, known)
    directory = tmp_path_factory.mktemp("page")
    costs = [
        report.CellCost(number, f"step {number}", source=f"step({number})") for number in (1, 2, 3)
    ]
    for cost, ms in zip(costs, (9.5, 20, 100), strict=True):
        cost.ms, cost.count = ms, cost.number
    costs[1].kernel = {"trace": "scorep-1", "run_ms": 15.0, "hand_over_in_ms": 3.0}
    costs[1].status, costs[1].error = "error", "ValueError: <i>no</i>"
    function = {"name": "fit", "file": "In[2]", "line": 3, "visits": 40}
    still, output = known["page"].parts(known["data"])
    recorded = traces.Recorded(directory / "scorep-1/traces.otf2", still=still, output=output)
    recorded.functions = [{**function, "inclusive": 1.0, "exclusive": 0.25}]
    done = report.Execution(costs, None, 0, None, directory)
    written = directory / "n.report.html"
    written.write_text(page.make(Path("n.ipynb"), done, {2: recorded}, 1 << 20), "utf-8")
    return written


@pytest.fixture
def opened(browser, path):
    made = browser.new_page()
    asked, said = [], []
    made.on("request", lambda request: asked.append(request.url))
    made.on("console", lambda message: said.append(message.text))
    made.goto(f"file://{path}")
    yield made
    made.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert said == []


def test_what_failed_and_what_it_cost_are_seen(opened):
    failures = opened.get_by_role("alert")
    assert failures.inner_text().split("\n")[0] == "1 cell failed"
    assert "ValueError: <i>no</i>" in failures.inner_text()
    rows = opened.locator("table.cells tbody tr")
    assert rows.count() == 3
    # Sorted by the numbers, not by their texts: 9.5 is less than 20.
    opened.get_by_role("button", name="ms", exact=True).click()
    titles = [rows.nth(at).locator("a").inner_text() for at in range(3)]
    assert titles == ["step 3", "step 2", "step 1"]
    assert not opened.get_by_text("the hand-over to the cell").is_visible()
    opened.get_by_text("The columns").click()
    assert opened.get_by_text("the hand-over to the cell").is_visible()
    rows.nth(1).locator("a").click()
    opened.wait_for_function("location.hash === '#cell-2'")
    functions = opened.locator("#cell-2 table.functions tbody tr")
    assert functions.inner_text().split("\t") == ["fit", "40", "1000.000", "250.000", "In[2]:3"]


def test_a_place_is_read_in_lines_not_in_letters(opened):
    """The last column of the functions had the width of one letter."""
    place = opened.locator("#cell-2 table.functions td.place")
    line = place.evaluate("node => parseFloat(getComputedStyle(node).lineHeight)")
    assert place.bounding_box()["height"] < 2 * line
    assert place.evaluate("node => getComputedStyle(node).textAlign") == "left"


def test_a_view_is_drawn_when_it_is_opened(opened):
    box = opened.locator("#cell-2 details.view")
    assert box.locator(".holdfast-views").count() == 0, "nothing runs before it is asked for"
    box.locator("summary").click()
    views = box.locator(".views")
    views.wait_for()
    assert box.locator("img").count() == 0, "the still picture has made room"
    canvas = box.locator("canvas.flame")
    canvas.wait_for()
    assert len(canvas.evaluate(COLOURS)) > 5, "regions are drawn"
    views.get_by_role("tab", name="Table").click()
    assert views.locator("tbody tr", has_text="fit").count() == 1
    box.locator("summary").click()
    box.locator("summary").click()  # opened again it is as it was
    assert box.locator(".views").count() == 1 and views.locator("tbody tr").count() == 3


def test_it_is_light_or_dark_as_the_reader_wants(opened):
    opened.locator("#cell-2 details.view summary").click()
    views = opened.locator("#cell-2 .views")
    views.wait_for()
    for scheme, page_colour, view_colour in (
        ("light", "rgb(255, 255, 255)", "rgb(255, 255, 255)"),
        ("dark", "rgb(17, 20, 23)", "rgb(17, 20, 23)"),
    ):
        opened.emulate_media(color_scheme=scheme)
        assert opened.locator("body").evaluate(BACKGROUND) == page_colour
        # Asked anew until it is so: the views may be drawn again meanwhile.
        sync_api.expect(views).to_have_css("background-color", view_colour, timeout=60_000)


def test_without_scripts_the_picture_is_there(browser, path):
    without = browser.browser.new_context(java_script_enabled=False)
    made = without.new_page()
    made.goto(f"file://{path}")
    picture = made.locator("#cell-2 .still img")
    assert not picture.is_visible()
    made.locator("#cell-2 details.view summary").click()
    assert picture.is_visible() and re.search("cell", picture.get_attribute("alt"))
    without.close()
