"""What a setting is read from: each kind of change counts, and nothing else does."""

import collections
import functools
import itertools
import random
import threading
import types

import pytest

from holdfast import _store

pytest.importorskip("IPython")
from holdfast.worker.settings.memo import Memo, Watched, holders_in, objects_in  # noqa: E402


class Kind:
    value = 1


class Slots:
    __slots__ = ("value",)


def function(a=[1], *, b=2):  # noqa: B006
    return a, b


def one():
    made = Kind()
    made.value = [1]
    return made


CHANGES = {
    "dict": (lambda: {"a": 1}, lambda one: one.update(a=2)),
    "dict, new": (lambda: {"a": 1}, lambda one: one.update(b=2)),
    "dict, gone": (lambda: {"a": 1}, lambda one: one.clear()),
    "ordered": (
        lambda: collections.OrderedDict(a=1, b=2),
        lambda one: one.move_to_end("a"),
    ),
    "list": (lambda: [1, 2], lambda one: one.reverse()),
    "empty list": (list, lambda one: one.append(1)),
    "set": (lambda: {1, 2}, lambda one: one.add(3)),
    "deque": (lambda: collections.deque([1]), lambda one: one.append(1)),
    "module": (lambda: types.ModuleType("hf"), lambda one: setattr(one, "a", 1)),
    "class": (lambda: type("K", (), {}), lambda one: setattr(one, "a", 1)),
    "attribute": (one, lambda one: setattr(one, "value", [1])),
    "in an attribute": (one, lambda one: one.value.append(1)),
    "slot": (Slots, lambda one: setattr(one, "value", 1)),
    "nested": (lambda: [{"a": [1]}], lambda all: all[0]["a"].append(1)),
    "default": (lambda: types.FunctionType(function.__code__, {}, "f", ([],)),
                lambda one: one.__defaults__[0].append(1)),
    "of a function": (lambda: types.FunctionType(function.__code__, {}),
                      lambda one: setattr(one, "a", 1)),
    "partial": (lambda: functools.partial(function), lambda one: setattr(one, "a", 1)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_counts(change):
    make, alter = change
    value = make()
    objects = objects_in(value)
    watched = Watched(objects or [value])
    assert watched.is_still() and watched.is_still()
    alter(value)
    assert not watched.is_still()


def test_the_address_of_what_is_gone_is_no_others():
    holder = [object()]
    watched = Watched([holder])
    for _ in range(100):  # without a reference the allocator gives the same one again
        holder[0] = None
        holder[0] = object()
        assert not watched.is_still()


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"a"),
        [threading.Lock()],
        {"a": enumerate([1])},
        zip([1]),
        (one for one in [1]),
        random.Random(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_changes_without_holding_another_object(value):
    assert objects_in(value) is None


def test_what_shows_nothing_is_only_replaced():
    assert objects_in(itertools.count()) in ([], None)
    assert objects_in([re_compiled()]) == []


def re_compiled():
    import re

    return re.compile("a")


def test_holders():
    inner: list = [1]
    value = {"a": (inner, {2}), "b": inner}
    assert sorted(map(str, holders_in(value))) == sorted(
        map(str, [value, (inner, {2}), inner, {2}])
    )
    value["c"] = value
    assert len(holders_in(value)) == 4 and holders_in(5) == []


def test_its_argument():
    with pytest.raises(TypeError):
        _store._contents_digest([])


def test_a_function_is_called_again_if_something_changed():
    calls, kept = [], [{"a": 1}]

    def read():
        calls.append(1)
        return [dict(kept[0])]

    memo = Memo(read, lambda: kept[0], lambda: holders_in(kept[0]))
    first = memo()
    assert memo() is first and len(calls) == 1
    kept[0]["b"] = 2
    assert memo() == [{"a": 1, "b": 2}] and len(calls) == 2
    kept[0] = dict(kept[0])  # another one, with the same in it
    second = memo()
    assert second == [{"a": 1, "b": 2}] and memo() is second and len(calls) == 3
    memo = Memo(read, lambda: kept[0], lambda: None)
    memo(), memo()
    assert len(calls) == 5
