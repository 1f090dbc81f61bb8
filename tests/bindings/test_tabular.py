"""Columns, sizes and counts."""

import pytest

from holdfast.base.tabular import align, count, size


def test_counts():
    assert [count(number, "page") for number in (0, 1, 1234)] == [
        "0 pages",
        "1 page",
        "1,234 pages",
    ]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3072.0 GiB"),
    ],
)
def test_sizes(number, shown):
    assert size(number) == shown


def test_columns():
    table = [("a", "long", ""), ("bb", "x", "end")]
    assert align(table) == ["a   long", "bb  x     end"]
    assert align(table, right=(1,)) == ["a   long", "bb     x  end"]
