"""The list of the pages that cells write: made when it is needed, copied before a cell."""

import sys
import time

import pytest
from holdfast.worker import prefault as module
from holdfast.worker.prefault import Prefault
from processes import fields_of
from test_worker_cell import kernel  # noqa: F401
from waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's pagemap shows it")

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
    prefault = Prefault()
    prefault.settle()
    prefault.learn(1000)
    while prefault.copy_some():
        pass
    assert b"".join(copied) == pages(200)
    assert max(map(len, copied)) == 64 * RUN.size
    assert not prefault.copy_some()


def test_a_cell_with_few_faults_leaves_no_list(copied):
    prefault = Prefault()
    prefault.settle()
    prefault.learn(10)
    assert not prefault.copy_some()
    assert b"".join(copied) == b""


def test_lists_are_few_until_the_fork_server_changes(copied, monkeypatch):
    prefault = Prefault()
    prefault.settle()
    made = []
    monkeypatch.setattr(module._store, "_own_pages", lambda ranges: made.append(1) or b"")
    for _ in range(9):
        prefault.learn(1000)
    assert len(made) == 4
    prefault.settle()
    prefault.learn(1000)
    assert len(made) == 5


def test_a_list_of_before_is_not_used(copied):
    server = Prefault()
    server.settle()
    fork = Prefault()
    fork._shared, fork._epoch = server._shared, server._epoch
    server.settle()
    fork.learn(1000)
    assert server._list() == fork._list() == (b"", b"")
    server.learn(1000)
    assert server._list() == (pages(200), b"") and fork._list() == (b"", b"")


def test_a_list_is_bounded(copied):
    most, room = module._PAGES_MAX, module._BYTES
    assert module._first_pages(pages(most - 1) + RUN.pack(0, 8192), room) == pages(most - 1)
    assert len(module._first_pages(RUN.pack(0, 0) * most, 1000)) == 1000 // RUN.size * RUN.size


def test_pages_of_libraries_follow_a_fork_s_own(copied, monkeypatch):
    code = RUN.pack(1 << 30, 65536)
    monkeypatch.setattr(module._store, "_file_pages", lambda ranges: code)
    prefault = Prefault()
    prefault.settle()
    assert prefault._code and not set(RUN.iter_unpack(prefault._code)) & set(
        RUN.iter_unpack(prefault._ranges)
    )
    prefault.learn(1000)
    assert prefault._list() == (pages(200), code)
    monkeypatch.setattr(module._store, "_own_pages", lambda ranges: RUN.pack(0, 0) * module._BYTES)
    prefault.learn(1000)
    own, libraries = prefault._list()
    assert libraries == code and len(own) < module._BYTES
    prefault.meet_libraries()
    assert copied == [code]


def _fork_server_is_complete(kernel):  # noqa: F811
    """It imports what is for errors once it has forked a first cell, and forgets lists then."""
    kernel.frontend.fork("cell").close()
    kernel.frontend.server.until("imported")


def test_a_cell_finds_its_pages_copied(kernel):  # noqa: F811
    _fork_server_is_complete(kernel)
    first = _faults_of_a_waiting_worker(kernel)
    assert first > 300
    # On a busy machine one may look as if it waited before it has copied them.
    assert any(_faults_of_a_waiting_worker(kernel) < first / 2 for _ in range(5))


def test_nothing_is_copied_while_a_cells_code_runs(kernel, tmp_path):  # noqa: F811
    _fork_server_is_complete(kernel)
    _faults_of_a_waiting_worker(kernel)  # leaves a list
    kernel.commit()
    go = tmp_path / "go"
    running = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    kernel.main.start_cell("print('runs')\n" + running)
    kernel.main.until("stream")
    cell = kernel.frontend.fork("cell")
    meanwhile = _settled(cell)
    go.touch()
    kernel.main.answer()
    until(lambda: _settled(cell) - meanwhile >= 300)
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
    cell.count = kernel.main.count
    instrument = {"arguments": [], "unserializable": {}, "isolated": True}
    cell.start_cell("pass", instrument=instrument)
    faults = cell.answer(60).report["page_faults"]
    cell.socket.close()
    assert kernel.frontend.exited(cell) == 0
    return faults


def _state(pid):
    """Whether it sleeps, and how many faults it has taken."""
    fields = fields_of(pid)
    return fields[0], fields[7]
