"""Many small objects cross without the collector looking at them again and again."""

import gc
import sys

import pytest

import holdfast


class Small:
    def __init__(self, number):
        self.number = number

    def __getattr__(self, name):  # so that it is made in Python
        raise AttributeError(name)


@pytest.fixture
def collected(monkeypatch):
    monkeypatch.setattr(Small, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Small", Small, raising=False)
    found = []
    gc.callbacks.append(count := lambda phase, info: found.append(info["generation"]))
    yield found
    gc.callbacks.remove(count)


@pytest.mark.parametrize("is_on", [True, False])
def test_nothing_is_collected_meanwhile(collected, is_on):
    many = [Small([number]) for number in range(50_000)]
    (gc.enable if is_on else gc.disable)()
    try:
        collected.clear()
        data = holdfast.dumps(many)
        again = holdfast.loads(data)
        assert gc.isenabled() == is_on
    finally:
        gc.enable()
    assert len(again) == len(many) and len(collected) < 40  # else hundreds


def calls(function, *arguments):
    """How many functions it calls, C's and Python's."""
    found = []
    sys.setprofile(lambda _frame, event, _argument: found.append(event.endswith("call")))
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(None)
    return sum(found), result


def test_each_object_costs_the_same_few_calls_however_many_there_are(monkeypatch):
    monkeypatch.setattr(Small, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Small", Small, raising=False)
    costs = []
    for count in (500, 500, 4000):  # the first one loads modules
        saving, data = calls(holdfast.dumps, [Small([number]) for number in range(count)])
        costs.append((saving + calls(holdfast.loads, data)[0]) / count)
    assert costs[2] <= costs[1] and costs[2] < 45, costs
