"""param: a watcher of several parameters stays one object."""

import pytest

import holdfast


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_a_watcher_of_two_is_one():
    param = pytest.importorskip("param")

    class Model(param.Parameterized):
        n, items = param.Integer(1), param.List([])

    model = Model()
    model.param.watch(print, ["n", "items"])
    watchers = crossed(model).param.watchers
    assert watchers["n"]["value"][0] is watchers["items"]["value"][0]
    assert crossed(Model(n=3)).n == 3
