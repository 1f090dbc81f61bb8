"""Which way a cell is run: whose wish counts; and the walk that counts references."""

import types
from pathlib import Path

import numpy as np
import pytest

from holdfast import _store

pytest.importorskip("IPython")
from holdfast.worker import where  # noqa: E402


@pytest.mark.parametrize(
    ("make", "references"),
    [
        (lambda: [1, 2, 3], 4),
        (lambda: {"a": 1, "b": [2]}, 4),
        (lambda: (lambda same: [same, same])([1]), 4),
        (lambda: np.arange(1000.0), 1),
        (lambda: np.array([1, "b"], object), 5),
    ],
    ids=["list", "dict", "shared", "memory", "objects"],
)
def test_references_are_counted(make, references):
    value = make()
    assert not _store.is_larger([value], references, {})
    assert _store.is_larger([value], references - 1, {})


def test_a_walk_ends_at_the_limit():
    """Cycles end by themselves; the namespace, modules and classes are not entered."""
    rows = []
    rows += [rows, rows]
    namespace = {str(number): [number] for number in range(1000)}
    namespace["f"] = types.FunctionType((lambda: 1).__code__, namespace)
    namespace["self"] = [namespace, np, dict]
    assert not _store.is_larger([rows, namespace["f"], namespace["self"]], 20, namespace)
    assert _store.is_larger([namespace], 20, {})
    assert not _store.is_larger([], 0, {})


def test_its_arguments():
    with pytest.raises(TypeError):
        _store.is_larger((1,), 5, {})


class Recording:
    def __init__(self, is_open):
        self.is_open = lambda: is_open


def choose(monkeypatch, recording=False, wish=None, **frame):
    """The answer to the question with a cell, and its reason."""
    if wish is None:
        monkeypatch.delenv("HOLDFAST_RUN", raising=False)
    else:
        monkeypatch.setenv("HOLDFAST_RUN", wish)
    way = types.SimpleNamespace(recording=Recording(recording))
    answer = where.choose(frame, way)
    return answer.get("run", "isolated"), answer.get("run_reason", "")


def test_the_page_prints_the_conditions():
    page = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text("utf-8")
    table = page.partition("| part | condition |")[2].partition("\n\n")[0]
    printed = [tuple(line.strip("| ").split(" | ")) for line in table.splitlines()[2:]]
    parts = where.PARTS.items()
    assert printed == [(part, one.when, one.run) for part, rows in parts for one in rows]


def test_the_main_worker_runs_it(monkeypatch):
    assert choose(monkeypatch, code="x") == ("in-process", "")


@pytest.mark.parametrize("wish", [None, "in-process", "forked", "nowhere"])
def test_isolated_is_a_clean_process_unless_it_says_otherwise(monkeypatch, wish):
    of_cell = {"code": "x", "isolated": True, "recording": True, "run": "in-process"}
    assert choose(monkeypatch, wish=wish, **of_cell) == ("isolated", "%%isolated")
    for run in ("auto", "in-process"):
        chosen = choose(monkeypatch, wish=wish, cell_run=run, **of_cell)
        assert chosen == ("in-process", f"--run={run}")


def test_whose_wish_counts(monkeypatch):
    assert choose(monkeypatch, code="x", run="isolated")[0] == "isolated"
    assert choose(monkeypatch, code="x", run="isolated", wish="in-process")[0] == "in-process"
    chosen = choose(monkeypatch, code="x", wish="in-process", cell_run="isolated")
    assert chosen == ("isolated", "--run=isolated")
    assert "must be one of auto" in choose(monkeypatch, code="x", wish="nowhere")[1]


def test_an_open_recording_is_in_the_way(monkeypatch):
    way, reason = choose(monkeypatch, code="x", recording=True)
    assert way == "forked" and "recording is open" in reason


def test_a_commit_for_its_own_sake_has_no_way(monkeypatch):
    assert choose(monkeypatch) == ("isolated", "")
