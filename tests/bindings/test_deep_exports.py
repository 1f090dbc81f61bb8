"""A reader that can't take a deep trace is named when the file for it is written."""

import warnings

import pytest
from trace_reader import AVAILABLE

pytest.importorskip("holdfast._views")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")


@pytest.mark.parametrize(
    "depth, warned",
    [(100, []), (600, ["x.json"]), (3000, ["x.json"]), (4000, ["x.json", "x.speedscope.json"])],
)
def test_what_is_said(record_script, tmp_path, depth, warned):
    from holdfast.views.traces import Trace

    record_script(
        "import sys\nsys.setrecursionlimit(10000)\n"
        f"def deep(n):\n    if n > 1: deep(n - 1)\ndeep({depth})\n"
    )
    trace, said = Trace(tmp_path / "experiment"), []
    for name in ("x.json", "x.speedscope.json", "x.collapsed", "callgrind.out.1", "x.pstats"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert trace.export(tmp_path / name).is_file()
        said += [name for one in caught if "levels" in str(one.message)]
    assert said == warned
