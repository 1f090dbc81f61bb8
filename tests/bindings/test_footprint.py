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
    monkeypatch.setattr(module._store, "_file_pages", lambda ranges: b"")
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
    assert template._list() == fork._list() == (b"", b"")
    template.learn(1000)
    assert template._list() == (pages(200), b"") and fork._list() == (b"", b"")


def test_a_list_is_bounded(copied):
    most, room = module._PAGES_MAX, module._BYTES
    assert module._first_pages(pages(most - 1) + RUN.pack(0, 8192), room) == pages(most - 1)
    assert len(module._first_pages(RUN.pack(0, 0) * most, 1000)) == 1000 // RUN.size * RUN.size


def test_pages_of_libraries_follow_a_fork_s_own(copied, monkeypatch):
    code = RUN.pack(1 << 30, 65536)
    monkeypatch.setattr(module._store, "_file_pages", lambda ranges: code)
    footprint = Footprint()
    footprint.settle()
    assert footprint._code and not set(RUN.iter_unpack(footprint._code)) & set(
        RUN.iter_unpack(footprint._ranges)
    )
    footprint.learn(1000)
    assert footprint._list() == (pages(200), code)
    monkeypatch.setattr(module._store, "_own_pages", lambda ranges: RUN.pack(0, 0) * module._BYTES)
    footprint.learn(1000)
    own, libraries = footprint._list()
    assert libraries == code and len(own) < module._BYTES
    footprint.meet_libraries()
    assert copied == [code]


def _template_is_complete(kernel):  # noqa: F811
    """It imports what is for errors once it has forked a first cell, and forgets lists then."""
    kernel.frontend.fork("cell").close()
    kernel.frontend.template.until("imported")


def test_a_cell_finds_its_pages_copied(kernel):  # noqa: F811
    _template_is_complete(kernel)
    first, second = (_faults_of_a_waiting_worker(kernel) for _ in range(2))
    assert first > 300
    assert second < first / 2


def test_nothing_is_copied_while_a_cells_code_runs(kernel, tmp_path):  # noqa: F811
    _template_is_complete(kernel)
    _faults_of_a_waiting_worker(kernel)  # leaves a list
    kernel.commit()
    go = tmp_path / "go"
    running = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    kernel.home.start_cell("print('runs')\n" + running)
    kernel.home.until("stream")
    cell = kernel.frontend.fork("cell")
    meanwhile = _settled(cell)
    go.touch()
    kernel.home.answer()
    deadline = time.monotonic() + 60
    while (copied := _settled(cell) - meanwhile) < 300 and time.monotonic() < deadline:
        pass
    assert copied >= 300
    cell.close()


def _settled(cell):
    """The faults that a worker has taken, once it waits."""
    before = None
    while before != (before := _state(cell.pid)) or before[0] != "S":
        time.sleep(0.1)
    return int(before[1])


def _faults_of_a_waiting_worker(kernel):  # noqa: F811
    """An empty cell's, in a worker that had the time to prepare."""
    kernel.commit()
    cell = kernel.frontend.fork("cell")
    _settled(cell)
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
