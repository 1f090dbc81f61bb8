"""The list of the pages that cells write: made when it is needed, copied before a cell."""

import sys
import time
from pathlib import Path

import pytest
from holdfast.worker import footprint as module
from holdfast.worker.footprint import Footprint
from test_worker_cell import kernel  # noqa: F401

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="told by Linux's pagemap")

RUN = module._RUN


@pytest.fixture
def copied(monkeypatch):
    """What was copied, in place of copying."""
    pieces = []
    monkeypatch.setattr(module._store, "_copy_pages", pieces.append)
    monkeypatch.setattr(module._store, "_own_pages", lambda ranges: pages(200))
    return pieces


def pages(count):
    return b"".join(RUN.pack(k * 3 * 4096, 4096) for k in range(count))


def test_a_list_is_copied_in_pieces(copied):
    footprint = Footprint()
    footprint.settle()
    footprint.learn(1000)
    while footprint.copy_some():
        pass
    assert b"".join(copied) == pages(200)
    assert max(map(len, copied)) == 64 * RUN.size
    assert not footprint.copy_some()


def test_a_cell_with_few_faults_leaves_no_list(copied):
    footprint = Footprint()
    footprint.settle()
    footprint.learn(10)
    assert not footprint.copy_some()
    assert b"".join(copied) == b""


def test_lists_are_few_until_the_template_changes(copied, monkeypatch):
    footprint = Footprint()
    footprint.settle()
    made = []
    monkeypatch.setattr(module._store, "_own_pages", lambda ranges: made.append(1) or b"")
    for _ in range(9):
        footprint.learn(1000)
    assert len(made) == 4
    footprint.settle()
    footprint.learn(1000)
    assert len(made) == 5


def test_a_list_of_before_is_not_used(copied):
    template = Footprint()
    template.settle()
    fork = Footprint()
    fork._shared, fork._epoch = template._shared, template._epoch
    template.settle()
    fork.learn(1000)
    assert template._list() == fork._list() == b""
    template.learn(1000)
    assert template._list() == pages(200) and fork._list() == b""


def test_a_list_is_bounded(copied):
    most = module._PAGES_MAX
    assert module._first_pages(pages(most - 1) + RUN.pack(0, 8192)) == pages(most - 1)
    runs = module._BYTES // RUN.size
    assert len(module._first_pages(b"".join(RUN.pack(0, 0) for _ in range(runs)))) < module._BYTES


def test_a_cell_finds_its_pages_copied(kernel):  # noqa: F811
    first, second = (_faults_of_a_waiting_worker(kernel) for _ in range(2))
    assert first > 300
    assert second < first / 2


def _faults_of_a_waiting_worker(kernel):  # noqa: F811
    """An empty cell's, in a worker that had the time to prepare."""
    kernel.commit()
    cell = kernel.frontend.fork("cell")
    before = None
    while before != (before := _state(cell.pid)) or before[0] != "S":
        time.sleep(0.1)
    cell.count = kernel.home.count
    instrument = {"arguments": [], "declined": {}, "isolated": True}
    cell.start_cell("pass", instrument=instrument)
    faults = cell.answer(60).report["page_faults"]
    cell.socket.close()
    assert kernel.frontend.exited(cell) == 0
    return faults


def _state(pid):
    """Whether it sleeps, and how many faults it has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], fields[7]
