"""The state of a process that is no variable, as it is captured with a commit."""

import os
import sys

import pytest

from holdfast.worker.settings import state


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the umask without changing it")
def test_the_umask_is_read_without_being_another_one_for_a_moment(monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            assert state._umask(None) == 0o027
    finally:
        os.umask(before)
