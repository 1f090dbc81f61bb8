"""What isn't carried is refused with a reason, and never carried as something else (docs/not-carried.md)."""

import re

import pytest

CASES = [
    (
        "class Node: pass\nbad = None\nfor _ in range(3000):\n    after, bad = bad, Node()\n    bad.after = after",
        "deep",
    ),
    (
        "class Labelled(property): pass\nclass bad: x = Labelled(lambda self: 1)",
        "cannot pickle 'Labelled' object",
    ),
]


@pytest.mark.parametrize(("source", "reason"), CASES)
def test_is_named(main, source, reason):
    main.execute(source)
    report = main.commit()
    assert "bad" in report["unserializable"]
    assert re.search(reason, report["unserializable"]["bad"]), report["unserializable"]["bad"]


def test_names_of_which_a_generator_keeps_the_old_object(main):
    main.execute("""
x, y, n, f = [1], {}, 1, lambda: 1
holder = (one for one in [x, y, n, f] * 9)
next(holder)
""")
    known = main.ns["x"]
    assert set(main.commit()["unserializable"]) == {"holder"}
    main.other("names.bind(ns)\nns['x'].append(2); ns['n'] = 5; ns['z'] = 1\npublish(save(ns))")
    report = main.names.adopt(main.ns)
    assert report["apart"] == ["x"] and main.ns["x"] == [1, 2] and known == [1]
