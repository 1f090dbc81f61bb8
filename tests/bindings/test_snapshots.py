"""What an object held, and what is other, new or gone in it later."""

import collections
import types

import pytest

from holdfast.carry.patches import MISSING
from holdfast.carry.snapshots import Snapshot

A, B, C = "a b", "b b", "c b"


class Kind:
    one, two = A, B


def module():
    made = types.ModuleType("made")
    made.one, made.two = A, B
    return made


def copy_of(cls):
    return type("Kind", (), dict(vars(cls)))


HOLDERS = {
    "dict": lambda: {"one": A, "two": B},
    "ordered": lambda: collections.OrderedDict(one=A, two=B),
    "module": module,
    "class": lambda: copy_of(Kind),
}


def put(holder, name, value):
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_is_other_new_and_gone(kind):
    holder = HOLDERS[kind]()
    snapshot = Snapshot(holder)
    assert snapshot.is_still(holder) and snapshot.changes(holder) == {}
    put(holder, "three", C)
    put(holder, "one", C)
    if isinstance(holder, dict):
        del holder["two"]
    else:
        del holder.two
    assert not snapshot.is_still(holder)
    changes = snapshot.changes(holder)
    assert changes == {"one": (A, C), "three": (MISSING, C), "two": (B, MISSING)}


def test_an_equal_object_is_another_one():
    one = Snapshot({"n": [1]})
    assert not one.is_still({"n": [1]}) and one.changes({"n": [1]}) == {"n": ([1], [1])}


def test_a_list_with_one_object_twice_and_another_order():
    snapshot = Snapshot([A, B, A])
    assert snapshot.is_still([A, B, A]) and list(snapshot.values) == [A, B, A]
    assert not snapshot.is_still([A, A, B]) and not snapshot.is_still([A, B])
    assert snapshot.changes([A, A, B]) == {}
    assert snapshot.changes([C, A]) == {id(C): (MISSING, C), id(B): (B, MISSING)}


def test_a_set():
    snapshot = Snapshot({A, B})
    assert snapshot.is_still({B, A}) and not snapshot.is_still({A, C})
    assert snapshot.changes({A, C}) == {C: (MISSING, C), B: (B, MISSING)}


def test_it_is_put_back():
    holder = {"one": A, "two": B}
    snapshot = Snapshot(holder)
    holder.update(one=C, three=C)
    snapshot.put_back(holder, snapshot.changes(holder))
    assert holder == {"one": A, "two": B}
