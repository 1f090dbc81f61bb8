"""toolz's curried functions, encoded and decoded."""

import sys

import pytest

import holdfast

toolz = pytest.importorskip("toolz")


def test_one_of_the_notebook_needs_no_name(monkeypatch):
    space = {"__name__": "__main__", "curry": toolz.curry}
    exec("@curry\ndef add(a, b, c=0): return a + b + c", space)
    monkeypatch.setattr(sys.modules["__main__"], "add", space["add"], raising=False)
    data = holdfast.dumps((space["add"], space["add"](1, c=2)))
    monkeypatch.delattr(sys.modules["__main__"], "add")
    add, inc = holdfast.loads(data)
    assert add(1)(2) == 3 and inc(3) == 6 and add.__name__ == "add" and inc.func is add.func


def test_one_of_a_module_goes_by_its_own_pickling():
    from toolz import curried

    assert list(holdfast.loads(holdfast.dumps(curried.map(abs)))([-1])) == [1]
