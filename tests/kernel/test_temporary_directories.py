"""tempfile.TemporaryDirectory: it goes to cells' processes and comes back, and is removed once."""

import pathlib

import effort
import pytest

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}
SUB = "class Sub(tempfile.TemporaryDirectory):\n    def __init__(self): super().__init__(prefix='sub')\n"


@pytest.mark.parametrize("run", HEADS)
@pytest.mark.parametrize(
    "make", ["tempfile.TemporaryDirectory()", "Sub()", "[tempfile.TemporaryDirectory()][0]"]
)
def test_it_lives_as_long_as_its_variable(shared_kernel, make, run):
    kernel, head = shared_kernel, HEADS[run]
    assert kernel.run("import gc, os, tempfile\n" + SUB + f"ours = {make}").status == "ok"
    outcome = kernel.run(head + f"theirs = {make}; places = ours.name, theirs.name\nplaces")
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    places = list(map(pathlib.Path, eval(outcome.result)))
    assert kernel.run("(ours.name, theirs.name) == places").result == "True"
    assert all(place.is_dir() for place in places)
    assert kernel.run(head + "os.listdir(ours.name), os.listdir(theirs.name)").result == "([], [])"
    assert kernel.run("ours.cleanup(); theirs.cleanup()").status == "ok"
    assert not any(place.exists() for place in places)


@pytest.mark.parametrize("run", effort.core(HEADS, ["forked"]))
def test_it_is_removed_when_the_notebook_ends(start_kernel, run):
    kernel = start_kernel()
    assert kernel.run("import tempfile\nours = tempfile.TemporaryDirectory()").status == "ok"
    outcome = kernel.run(
        HEADS[run] + "theirs = tempfile.TemporaryDirectory(); ours.name, theirs.name"
    )
    places = list(map(pathlib.Path, eval(outcome.result)))
    kernel.run("kept = 1")
    assert all(place.is_dir() for place in places)
    kernel.close()
    assert not any(place.exists() for place in places)


@pytest.mark.parametrize("run", HEADS)
def test_a_cell_that_removes_it(shared_kernel, run):
    assert (
        shared_kernel.run("import os, tempfile\nours = tempfile.TemporaryDirectory()").status
        == "ok"
    )
    assert shared_kernel.run(HEADS[run] + "ours.cleanup()").stream("stderr") == ""
    assert (
        shared_kernel.run("os.path.exists(ours.name), ours._finalizer.alive").result
        == "(False, False)"
    )
