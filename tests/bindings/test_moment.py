"""What a process says of its own use (bindings/store/moment.c)."""

import os
import resource
import sys
import time

import pytest

from holdfast import _store
from holdfast.base import usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


@pytest.fixture(autouse=True)
def nothing_read(monkeypatch):
    """So many bytes are left out of the I/O of this process; other tests count them, too."""
    monkeypatch.setattr(usage, "_looked", 0)


def said(begins=False, brief=False):
    return _store._moment(None, begins, brief)[0]


def test_it_has_the_counters_of_the_system():
    before = time.monotonic_ns(), time.process_time_ns()
    found = said()
    after = time.monotonic_ns(), time.process_time_ns()
    assert before[0] <= found["time_ns"] <= after[0]
    assert before[1] - 2000 <= found["cpu_ns"] <= after[1]  # two counts of whole microseconds
    assert found["memory"] == pytest.approx(usage.resident(), rel=0.05)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert found["peak"] == pytest.approx(peak, rel=0.05)
    assert found["unused"] == 0
    with open("/proc/self/io", "rb") as file:
        assert [line.split()[0] for line in found["io"].splitlines()] == [
            line.split()[0] for line in file
        ]


@pytest.mark.parametrize("begins", [False, True])
def test_a_brief_one_reads_no_counters(begins):
    found, read = _store._moment(None, begins, True)
    assert read == 0 and found["io"] == b"" and "memory" not in found
    assert found["cpu_ns"] == found["children_ns"] == 0 and found["time_ns"] > 0


def test_the_bytes_that_it_read_are_counted():
    read = sum(_store._moment(None, False, False)[1] for _ in range(2))
    usage.word(), usage.word(begins=True)
    assert usage._looked == pytest.approx(read, abs=20)


def test_a_child_is_seen_until_it_was_waited_for():
    first = said()
    gate, go_on = os.pipe()
    child = os.fork()
    if not child:
        os.close(go_on)
        os.read(gate, 1)
        while time.process_time() < 0.01:
            pass
        os._exit(0)
    assert not said(brief=True)["childless"]  # it waits
    os.close(go_on)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not said()["childless"]  # it has ended
    os.waitpid(child, 0)
    os.close(gate)
    found = said()
    assert found["childless"] == first["childless"]  # no others' children, as a rule
    assert found["children_ns"] - first["children_ns"] >= 9e6
