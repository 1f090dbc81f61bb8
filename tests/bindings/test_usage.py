"""What a cell used of its machine (base/usage.py)."""

import pytest

from holdfast.base import usage

WRITES = (30, 40)  # bytes that a thread of ours reads and writes while somebody looks


@pytest.fixture
def looked_at(monkeypatch):
    """The process's I/O and our threads' own, and what is to happen before each look at the former."""
    process, ours, events = [1000, 2000], [100, 200], []

    def transferred():
        if events:
            events.pop()()
        seen = tuple(process)
        if events:
            events.pop()()
        return seen

    def write():
        for counts in (process, ours):
            counts[:] = [now + more for now, more in zip(counts, WRITES, strict=True)]

    monkeypatch.setattr(usage, "_transferred", transferred)
    monkeypatch.setattr(usage.Aside, "io", property(lambda self: tuple(ours)))
    return events, write


def nothing():
    """Happens."""


@pytest.mark.parametrize("order", ["before", "after"])
def test_io_of_our_threads_between_two_looks_isnt_the_cells(looked_at, order):
    """The process's counters and the thread's can't be read at once."""
    events, write = looked_at
    # Taken from the end: what happens before the process's counters are read, and after.
    events[:] = [nothing, write] if order == "before" else [write, nothing]
    assert usage.aside.io_of_others() == (900, 1800)
    assert not events


def test_a_thread_that_never_rests_ends_no_cell(looked_at):
    events, write = looked_at
    events[:] = [write] * 1000
    assert usage.aside.io_of_others() is not None
