"""Which road a cell takes: the walk that weighs values, and what the home looks at."""

import types

import numpy as np
import pytest

from holdfast import _store

pytest.importorskip("IPython")
from holdfast.worker import road  # noqa: E402


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


class Shell:
    """What the choice looks at."""

    def __init__(self, **names):
        self.user_ns = names
        self.user_ns_hidden = {}
        self.displayhook = types.SimpleNamespace()
        self.recorder = None

    def transform_cell(self, code):
        return code


@pytest.fixture
def ask():
    """The reason for the home road, "" for the map, of a cell over these names."""

    def ask(code, declined=(), wish="auto", **names):
        home = types.SimpleNamespace(shell=Shell(**names), names=object())
        choice = road.Road(home, lambda thread: False)
        choice.saved({name: "no codec" for name in declined})
        answer = choice.choose({"id": 1, "code": code, "road": wish, "cell_road": ""})
        assert answer is None or answer["road"] == "home"
        return answer["road_reason"] if answer else ""

    return ask


LARGE = list(range(road.LARGE))


def test_the_reason(ask, monkeypatch):
    monkeypatch.delenv("HOLDFAST_ROAD", raising=False)
    assert ask("x", x=LARGE[:-9]) == ""
    assert ask("x", x=LARGE, y=1) == "what the cell can reach holds more than 50,000 references"
    assert ask("y", x=LARGE, y=1) == ""
    assert "(the code uses eval)" in ask("eval('y')", x=LARGE, y=1)
    assert ask("eval('y')", x=1, y=1) == ""
    assert ask("x", x=LARGE, wish="map") == ""
    assert ask("y", x=LARGE, y=1, wish="home") == "holdfast-kernel --road=home"


def test_values_that_add_up(ask):
    half = LARGE[: road.LARGE // 2 + 1]
    assert ask("x", x=half, y=list(half)) == ""
    assert "references" in ask("x, y", x=half, y=list(half))


def test_what_was_declined_is_known_by_what_it_is(ask):
    thing = object()
    assert ask("x", declined=["x"], x=thing) == "the cell names x, which stays at home: no codec"
    assert ask("y", declined=["x"], x=thing, y=1) == ""
    assert "names y," in ask("y", declined=["x"], x=thing, y=thing)
    assert "names x," in ask("next(x); eval('y')", x=(n for n in ()), y=1)
    assert ask("x", x=(n for n in ())) == "the cell names x, which stays at home: generator"


def test_a_commit_for_its_own_sake_has_no_road():
    home = types.SimpleNamespace(shell=Shell(x=LARGE), names=object())
    assert road.Road(home, lambda thread: False).choose({"id": 1}) is None
