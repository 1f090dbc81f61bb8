"""What a cell puts into `sys.modules`, and takes out of it, is there for the next one, whatever its process."""

import pytest

RUNS = {"forked": "%%isolated --run=forked\n", "isolated": "%%isolated --run=isolated\n"}
# By what a cell does: what one in another process then finds.
ENTRIES = {
    "sys.modules['old_json'] = json": "import old_json; old_json is json",
    "sys.modules['json.older'] = re": "import json.older as one; one is re",
    "from unittest import mock; sys.modules['heavy'] = mock.MagicMock()": "import heavy; heavy.Net() is heavy.Net()",
    "sys.modules['plain'] = types.SimpleNamespace(a=1)": "import plain; plain.a == 1",
    "import colorsys; del sys.modules['colorsys']": "'colorsys' not in sys.modules",
    "del sys.modules['old_json'], sys.modules['heavy']": "not {'old_json', 'heavy'} & sys.modules.keys()",
}


@pytest.mark.parametrize("run", RUNS)
def test_entries_that_a_cell_makes_or_removes(kernel, run):
    kernel.run("import json, re, sys, types\nimport colorsys")
    for change, question in ENTRIES.items():
        assert kernel.run(RUNS[run] + change).status == "ok"
        for other in ("", *RUNS.values()):
            assert kernel.run(other + question).result == "True", (question, other)
    kernel.run("del sys.modules['json.older'], sys.modules['plain']")
    question = "[one for one in ('json.older', 'plain') if one in sys.modules]"
    assert kernel.run(RUNS[run] + question).result == "[]"


def test_an_entry_without_a_name(kernel):
    kernel.run("import sys, types\nclass Nameless(types.ModuleType): pass")
    code = "one = Nameless('x'); del one.__name__; sys.modules['without'] = one\nx = 3"
    outcome = kernel.run(RUNS["forked"] + code)
    assert outcome.status == "ok", outcome.content
    assert kernel.run("x").result == "3"
    kernel.run("sys.modules.pop('without', None)")


def test_entries_of_a_library_that_a_cell_imports_are_its_own(kernel):
    """`requests` makes some under its name while it is imported. A later import makes them again."""
    pytest.importorskip("requests")
    outcome = kernel.run(RUNS["isolated"] + "import requests, sys")
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    assert kernel.run("import sys; 'requests.packages' in sys.modules").result == "True"
    assert kernel.run("%holdfast diff").stream().count("sys.modules") == 0
