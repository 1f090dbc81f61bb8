"""The state of a process that is no variable, as it is captured with a commit."""

import os
import sys

import pytest

from holdfast.worker.settings import state


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows the umask without changing it")
def test_the_umask_is_read_without_being_another_one_for_a_moment(monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            assert state._umask(None) == 0o027
    finally:
        os.umask(before)


def test_which_warnings_were_shown_is_looked_at_twice_however_many_filters_are_set(monkeypatch):
    """Each look is at all modules: 0.4 ms of a cell where pandas is imported."""
    from holdfast.worker.settings import rows

    looks = []
    look = rows._store._modules_with
    monkeypatch.setattr(rows._store, "_modules_with", lambda name: looks.append(name) or look(name))
    with rows.as_shown_before():
        with rows.as_shown_before(), rows.as_shown_before():
            pass
    assert len(looks) == 2
    with rows.as_shown_before():
        pass
    assert len(looks) == 4
