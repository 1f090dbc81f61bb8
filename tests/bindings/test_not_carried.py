"""What isn't carried is refused with a reason, and never carried as something else (docs/not-carried.md)."""

import re

import pytest

CASES = [
    (
        "class Node: pass\nbad = None\nfor _ in range(3000):\n    after, bad = bad, Node()\n    bad.after = after",
        "deep",
    ),
]


@pytest.mark.parametrize(("source", "reason"), CASES)
def test_is_named(main, source, reason):
    main.execute(source)
    report = main.commit()
    assert "bad" in report["unserializable"]
    assert re.search(reason, report["unserializable"]["bad"]), report["unserializable"]["bad"]
