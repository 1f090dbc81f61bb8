"""Exported files in speedscope, as a person opens them there: what it shows is what was recorded.

speedscope reads its own format, Chrome's trace events (as Perfetto does), callgrind's and collapsed stacks.
`./test` fetches it by npm, into build/readers.
"""

import re
from pathlib import Path

import pytest
from recorded_program import record_in

pytest.importorskip("holdfast._views")
from holdfast.views.traces import Trace  # noqa: E402

from test_views import PROGRAM  # noqa: E402

SPEEDSCOPE = Path("build/readers/node_modules/speedscope/dist/release/index.html")
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1e-9}
NUMBER = re.compile(r"([\d,.]+)(ns|µs|ms|s|)")


def seconds(text):
    """A time of speedscope's with three digits; without a unit they are ns."""
    number, unit = NUMBER.match(text).groups()
    return float(number.replace(",", "")) * UNITS[unit]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    if not SPEEDSCOPE.is_file():
        pytest.skip("speedscope isn't there: ./test fetches it by npm")
    program = PROGRAM.replace("record(threads)", "record(main)")
    return Trace(record_in(tmp_path_factory.mktemp("readers"), program).path)


def opened(browser, file):
    """The page in which a file is opened, the rows of its functions, and what was said."""
    page, said = browser.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(SPEEDSCOPE.resolve().as_uri())
    chooser = page.locator("input[type=file]").first
    chooser.wait_for(state="attached")
    chooser.set_input_files(file)
    page.get_by_text("Sandwich").click()
    rows = page.locator("tr", has_text="__main__:")
    rows.first.wait_for()
    return page, rows, said


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("x.speedscope.json", "speedscope json file"),
        ("x.json", "Trace Event Format profile"),
        ("callgrind.out.1", "Callgrind profile"),
        ("x.collapsed", "collapsed stack format"),
    ],
)
def test_speedscope_shows_what_each_function_took(browser, trace, tmp_path, name, reader):
    file = trace.export(tmp_path / name)
    page, rows, said = opened(browser, file)
    shown = {}
    for row in rows.all_inner_texts():
        total, own, function = (part.strip() for part in row.split("\t"))
        shown[function.partition("__main__:")[2]] = seconds(total), seconds(own)
    page.close()
    assert f"Importing as {reader}" in said and not [one for one in said if "rror" in one]
    recorded = {
        row["name"].partition(":")[2]: (row["inclusive"], row["exclusive"])
        for row in trace.table()
        if row["name"].startswith("__main__:")
    }
    assert shown.keys() == recorded.keys()
    for function, (total, own) in recorded.items():
        assert shown[function][1] == pytest.approx(own, rel=0.01, abs=2e-8), function
        if name != "callgrind.out.1":  # which has no call paths: recursion counts anew there
            assert shown[function][0] == pytest.approx(total, rel=0.01, abs=2e-8), function


@pytest.mark.filterwarnings("error:.*levels of calls")
def test_speedscope_opens_as_many_levels_as_are_not_warned_of(browser, trace, tmp_path):
    deep = "import sys\nsys.setrecursionlimit(9999)\ndef deep(n):\n    n and deep(n - 1)\n"
    recorded = Trace(record_in(tmp_path, f"{deep}record(lambda: deep(3400))\n").path)
    page, rows, _ = opened(browser, recorded.export(tmp_path / "x.speedscope.json"))
    assert any("__main__:deep" in row for row in rows.all_inner_texts())
    page.close()
