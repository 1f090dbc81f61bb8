"""What the main worker says when it takes over the changes of a cell stands below that cell."""

import pytest

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}
MAKE = """
import os
class Broken:
    def __setstate__(self, state):
        if os.getpid() == pid: raise ValueError("it won't load")
class Loud:
    def __init__(self): self.value = 0
    def __setstate__(self, state): print("loading"); vars(self).update(state)
pid = os.getpid()
broken, loud = Broken(), Loud()
broken.value = 1
"""


@pytest.fixture
def notebook(shared_kernel):
    assert shared_kernel.run(MAKE).status == "ok"
    return shared_kernel


@pytest.mark.parametrize("run", HEADS)
def test_a_value_that_does_not_load(notebook, run):
    outcome = notebook.run(HEADS[run] + "broken.value = 2")
    assert outcome.status == "ok" and "it won't load" in outcome.stream("stderr")
    assert outcome.states == ["busy", "idle"]


@pytest.mark.parametrize("run", HEADS)
def test_what_its_loading_prints(notebook, run):
    assert "loading\n" in notebook.run(HEADS[run] + "loud.value = 2").stream()
    assert notebook.run("loud.value").result == "2"


@pytest.mark.parametrize("run", HEADS)
def test_the_report_of_use_follows(notebook, run):
    assert notebook.run("%perfmonitor_enable_perfreports").status == "ok"
    outcome = notebook.run(HEADS[run] + "x = 2")
    assert outcome.status == "ok" and outcome.states == ["busy", "idle"]
    assert notebook.run("%perfmonitor_disable_perfreports").status == "ok"
    assert notebook.run("x").result == "2"
