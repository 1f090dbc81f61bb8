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
    "import colorsys; sys.modules['colorsys'] = json": "import colorsys; colorsys is json",
    "sys.modules['colorsys'] = types.SimpleNamespace(b=2)": "import colorsys; colorsys.b == 2",
    "del sys.modules['colorsys']; import colorsys": "colorsys.rgb_to_hls is sys.modules['colorsys'].rgb_to_hls",
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


MADE = {
    "sys.modules['made'] = types.ModuleType('made')": "made",
    "sys.modules['json.made'] = types.ModuleType('json.made')": "json.made",
    "sys.modules['quopri'] = types.ModuleType('quopri'); sys.modules['quopri'].tag = 1": "quopri",
    "class Kind(types.ModuleType): pass\nsys.modules['other'] = Kind('other')": "other",
    "del sys.modules['quopri']; import quopri as again": "quopri, imported anew",
}


@pytest.mark.parametrize("run", RUNS)
def test_modules_that_a_cell_makes_are_named_once(kernel, run):
    """And what is there in the notebook under the name stays as it was."""
    kernel.run("import json, sys, types\nimport quopri as kept")
    for change, name in MADE.items():
        outcome = kernel.run(RUNS[run] + change)
        assert (
            outcome.stream("stderr").count(
                f"changed only in this cell's process: the module {name}."
            )
            == 1
        ), change
        outcome = kernel.run(
            "kept = sys.modules['quopri']; hasattr(kept, 'encode'), hasattr(kept, 'tag')"
        )
        assert outcome.result == "(True, False)", change
        assert "the module" not in kernel.run(RUNS[run] + "1").stream("stderr")


def test_modules_that_the_notebook_makes_are_named_once_in_a_clean_process(kernel):
    kernel.run(
        "import sys, types; sys.modules['a'] = types.ModuleType('a'); sys.modules['a.b'] = types.ModuleType('a.b')"
    )
    said = kernel.run(RUNS["isolated"] + "1").stream("stderr")
    assert said.count("the module a ") == said.count("the module a.b ") == 1
    assert kernel.run(RUNS["isolated"] + "1").stream("stderr") == ""
    kernel.run("del sys.modules['a'], sys.modules['a.b']")


def test_an_entry_that_is_put_back_is_the_object_that_was_there(kernel):
    kernel.run("import json, sys; import quopri as kept; address = id(kept)")
    kernel.run(RUNS["forked"] + "1")
    kernel.run("sys.modules['quopri'] = json")
    outcome = kernel.run(RUNS["forked"] + "sys.modules['quopri'] = kept")
    assert (outcome.status, outcome.stream("stderr")) == ("ok", "")
    found = kernel.run("id(kept) == address, sys.modules['quopri'] is kept").result
    assert found == "(True, True)"


@pytest.mark.parametrize("run", RUNS)
def test_a_module_never_becomes_what_the_notebook_has_under_its_name(kernel, tmp_path, run):
    """A variable, and a part of one: refused, with the reason. If the cell took the other object away, it is loaded."""
    name = f"hf_named_{run}"
    (tmp_path / f"{name}.py").write_text("tag = 'file'\n")
    kernel.run(
        f"import os, sys, types; sys.path.insert(0, os.getcwd()); sys.modules[{name!r}] = types.ModuleType({name!r})"
    )

    def loads(x, held):
        return kernel.run(
            RUNS[run]
            + f"sys.modules.pop({name!r}, None); import {name} as {x}; {held} = [{x}]\n{x}.tag"
        )

    outcome = loads("x", "held")
    assert outcome.result == "'file'"
    assert "not carried back: held (" in outcome.stream(
        "stderr"
    ) and f"another object as '{name}' here" in outcome.stream("stderr")
    for variable in ("x", "held"):
        assert f"another object as '{name}' here" in kernel.run(variable).content["evalue"]
    kernel.run(f"sys.modules[{name!r}] = types.SimpleNamespace(tag='put')")
    outcome = loads("y", "more")
    assert (outcome.result, outcome.stream("stderr")) == ("'file'", "")
    assert kernel.run("y.tag, more[0].tag").result == "('file', 'file')"


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
