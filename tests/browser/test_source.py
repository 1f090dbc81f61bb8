"""The view of the source in Chromium, as an exported file: what a person sees beside the code."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("holdfast._views")
from holdfast import views  # noqa: E402

MODULE = (
    "def work(n):\n    total = 0\n    for step in range(60):\n        total += sum(range(n))\n"
    "    if total < 0:\n        total = '</script><b>never</b>'\n    return total\n"
)
# Longer than what is shown unfolded.
LONG = MODULE + "\n\n" + "".join(f"def unused_{at}(): pass\n" for at in range(60))
SCRIPT = "import own\nown.work(300_000)\nown.work(1)\n"


@pytest.fixture(params=[["--lines"], []], ids=["sampled", "calls"])
def exported(request, tmp_path):
    """The kind of the recording, and the page of its view."""
    (tmp_path / "own.py").write_text(LONG)
    (tmp_path / "script.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "-m", "holdfast.scorep", *request.param, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "SCOREP_EXPERIMENT_DIRECTORY": "experiment"},
        check=True,
        timeout=60,
    )
    (tmp_path / "script.py").write_text("# another text\n")
    page = views.trace(tmp_path / "experiment", view="source").export(tmp_path / "page.html")
    return bool(request.param), page


def cells(row):
    return [text.strip() for text in row.locator("td").all_inner_texts()]


def test_time_stands_beside_the_code(browser, exported, tmp_path):
    is_sampled, path = exported
    page = browser.new_page()
    page.goto(f"file://{path}")
    root = page.locator(".views")
    root.wait_for()
    assert root.get_by_role("tab", name="Source").get_attribute("aria-selected") == "true"
    assert root.get_attribute("aria-label") == "Source"
    own = root.locator("details", has_text="own.py")
    assert own.count() == 1 and own.locator("summary").is_visible()
    row = own.locator("tr[data-line='4']" if is_sampled else "tr[data-line='1']")
    heads = own.locator("thead th").all_inner_texts()
    if is_sampled:
        assert heads == ["Calls", "Samples", "Total", "Own", "%", "Line", ""]
        calls, samples, inclusive, exclusive, share, number, code = cells(row)
        assert (calls, number, code) == ("", "4", "total += sum(range(n))")
        assert int(samples) > 20 and float(share.removesuffix(" %")) > 90
        assert re.fullmatch(r"[\d.]+ m?s", inclusive) and inclusive == exclusive
        part = row.locator("td.part").first.evaluate(
            "cell => cell.style.getPropertyValue('--part')"
        )
        assert part == "92.0%", "the longest line has the longest bar"
        assert cells(own.locator("tr[data-line='1']"))[0] == "2"
        never = cells(own.locator("tr[data-line='6']"))
        assert never == ["", "", "", "", "", "6", "total = '</script><b>never</b>'"]
        assert re.search(
            r"samples of .* 1,000 a second", root.locator(".sources .hint").first.inner_text()
        )
    else:
        assert heads == ["Calls", "Total", "Own", "Per call", "Line", ""]
        calls, *_, number, code = cells(row)
        assert (calls, number, code) == ("2", "1", "def work(n):")
        assert "--lines samples them" in root.locator(".sources .hint").first.inner_text()
    assert not page.locator("b b").count(), "code is no HTML"
    shown = own.locator("tr[data-line]").count()
    assert shown == (7 if is_sampled else 1), "what ran"
    own.get_by_role("button", name="⋯").last.click()
    assert "def unused_59(): pass" in own.inner_text()
    page.screenshot(path=str(tmp_path / "source.png"))
    script = root.locator("details", has_text="script.py")
    if is_sampled:
        assert cells(script.locator("tr[data-line='2']"))[-1] == "own.work(300_000)", "as it ran"
    else:
        assert "isn't known" in script.inner_text(), "it was changed since"
    root.get_by_role("searchbox").fill("unused_7")
    assert own.is_visible() and not script.is_visible()
    root.get_by_role("searchbox").fill("")
    root.get_by_role("tab", name="Table").click()
    assert not own.is_visible()
    root.get_by_role("tab", name="Source").click()
    assert own.is_visible() and script.is_visible()
    page.close()
