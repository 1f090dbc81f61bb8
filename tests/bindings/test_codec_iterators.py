"""Iterators over dicts and sets go on over the same dict or set."""

import pytest
from store_process import hand_over

MAKE = {
    "values": ("iter(d.values())", "['new', 3]"),
    "items": ("iter(d.items())", "[('b', 'new'), ('c', 3)]"),
    "keys": ("iter(d)", "['b', 'c']"),
    "reversed": ("reversed(d.values())", "['new', 1]"),
    "ordered": ("iter(o.values())", "['new', 3]"),
    "backwards": ("reversed(o)", "['b', 'a']"),
}


@pytest.mark.parametrize("kind", MAKE)
def test_it_sees_what_the_dict_gets_later(main, kind):
    made, left = MAKE[kind]
    main.execute(
        "import collections; d = dict(a=1, b=2, c=3); o = collections.OrderedDict(d)\n"
        f"it = {made}; next(it)"
    )
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "d['b'] = o['b'] = 'new'; value = [type(it).__name__, repr(list(it))]")
    assert answer["value"] == [type(main.ns["it"]).__name__, left]


def test_over_a_set_it_gives_the_rest(main):
    main.execute("s = {5, 'x', 77}; it = iter(s); first = next(it)")
    assert not main.commit()["unserializable"]
    answer = hand_over(main, "value = [sorted(map(str, [first, *it])), next(it, 'ended')]")
    assert answer["value"] == [["5", "77", "x"], "ended"]


def test_one_whose_container_has_changed_stays(main):
    main.execute("d = {1: 1}; it = iter(d); d[2] = 2; s = {1}; over = iter(s); s.add(2)")
    assert set(main.commit()["unserializable"]) == {"it", "over"}


def test_groups_between_two_items_stay(main):
    main.execute(
        "import itertools; fresh = itertools.groupby('aab'); used = itertools.groupby('aab')\n"
        "key, group = next(used); next(group)"
    )
    assert set(main.commit()["unserializable"]) == {"used", "group"}
    assert hand_over(main, "value = [k for k, _ in fresh]")["value"] == ["a", "b"]


def test_what_has_been_finalized_is_not_finalized_again(main):
    main.execute(
        "saved = []; runs = []\n"
        "class Phoenix:\n    def __del__(self): runs.append(1); saved.append(self)\n"
        "p = Phoenix(); p.n = 1; del p"
    )
    main.commit()
    answer = hand_over(main, "n = saved[0].n; saved.clear(); value = [n, len(runs), len(saved)]")
    assert answer["value"] == [1, 1, 0]
