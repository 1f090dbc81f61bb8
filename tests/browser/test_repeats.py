"""Sets of runs in Chromium: the statement, the ranges, and no "faster" where the noise is unknown."""

import pytest

from holdfast.pages import page
from holdfast.views import repeats

SECOND = 10**9
RUNS = {
    "__main__:better": ([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.6]),
    "__main__:worse</script>": ([0.5, 0.5, 0.5, 0.6], [0.1, 0.2, 0.2, 0.2]),
    "__main__:same": ([0.3, 0.3, 0.4, 0.4], [0.3, 0.3, 0.4, 0.6]),
}


def data(count):
    """A view of some runs on each side."""
    functions = [
        {
            "name": name,
            "file": "script.py",
            "line": 3 + at,
            "now": repeats.spread(now[:count]),
            "before": repeats.spread(before[:count]),
            "outcome": repeats.outcome(now[:count], before[:count]),
        }
        for at, (name, (now, before)) in enumerate(RUNS.items())
    ]
    totals = [
        [sum(one) for one in zip(*sides, strict=True)] for sides in zip(*RUNS.values(), strict=True)
    ]
    totals = [one[:count] for one in totals]
    table = {"region": [0, 1, 2], "visits": [1, 1, 1]}
    table |= {"inclusive": [SECOND] * 3, "exclusive": [SECOND] * 3}
    return {
        "begin": 0,
        "end": 2 * SECOND,
        "title": "script",
        "regions": {"name": list(RUNS), "file": ["script.py"] * 3, "line": [3, 4, 5]},
        "table": table,
        "previous": {
            "title": "the one before",
            "seconds": 2.0,
            "table": table | {"exclusive": [2 * SECOND, SECOND // 2, SECOND]},
        },
        "seconds": 1.8,
        "repeats": {
            "runs": [count, count],
            "titles": ["these", "those"],
            "statement": repeats.statement(*totals),
            "seconds": [repeats.spread(one) for one in totals],
            "functions": functions,
        },
    }


@pytest.fixture
def shown(browser, tmp_path):
    opened = []

    def show(count):
        path = tmp_path / f"{count}.html"
        html = page.bundle(data(count), "compare")["text/html"]
        path.write_text(f'<!DOCTYPE html>\n<meta charset="utf-8">\n{html}', "utf-8")
        opened.append(browser.new_page())
        opened[-1].goto(f"file://{path}")
        root = opened[-1].locator(".views")
        root.wait_for()
        assert root.get_attribute("aria-label") == "Compare"
        return root

    yield show
    for one in opened:
        one.screenshot(path=str(tmp_path / "compare.png"))
        one.close()


def test_ranges_and_what_may_be_said(shown):
    root = shown(4)
    said = root.locator(".statement").inner_text()
    assert "4 runs) now" in said and "Faster: -25.9 %; the ranges don't overlap" in said
    rows = root.locator("tbody tr")
    texts = [row.split("\t") for row in rows.all_inner_texts()]
    assert [row[0] for row in texts] == list(RUNS)
    assert [row[-1] for row in texts] == ["faster", "slower", "within the noise"]
    assert texts[0][1:5] == ["1.15 s", "1.00 s to 1.30 s", "2.15 s", "2.00 s to 2.60 s"]
    assert texts[0][-2] == "−46.5 %"
    classes = [row.get_attribute("class") for row in rows.locator("td:last-child").all()]
    assert classes == ["better", "worse", None]
    # The ranges as drawn: apart in the first row, over each other in the last.
    for at, are_apart in ((0, True), (2, False)):
        now = rows.nth(at).locator(".spread.now").bounding_box()
        then = rows.nth(at).locator(".spread.then").bounding_box()
        assert (now["x"] + now["width"] < then["x"]) == are_apart
    root.get_by_role("searchbox").fill("worse")
    assert rows.count() == 1 and not root.locator("b b").count()


def test_single_runs_say_that_the_noise_is_unknown(shown):
    root = shown(1)
    said = root.locator(".statement").inner_text()
    assert "The noise is unknown" in said and "Faster:" not in said and "Slower:" not in said
    assert "%%execute_with_scorep --repeat 5" in said and "%trace NOW BEFORE" in said
    assert root.locator("tbody tr").count() == 3, "the table is there as ever"
    assert "Compared with the one before" in root.inner_text()
    assert "−50.0 %" in root.inner_text() and "+100.0 %" in root.inner_text()
    assert root.locator(".better, .worse").count() == 0, "nothing is painted as a difference"
