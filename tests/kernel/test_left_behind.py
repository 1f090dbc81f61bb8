"""What the notebook's processes leave in the system: shared memory and semaphores."""

import os
from pathlib import Path

import pytest

from waiting import until

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}
MAKE = "from multiprocessing.shared_memory import SharedMemory\ns = SharedMemory(create=True, size=9, name={!r})"
SEMAPHORES = {
    "queue": "import multiprocessing as mp; q = mp.get_context('spawn').Queue()",
    "lock in a list": "import multiprocessing as mp; locks = [mp.get_context('spawn').Lock()]",
    "loky": "import joblib; joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(2));",
}
MAPPED = "\nprint({line.split()[5] for line in open('/proc/self/maps') if '/dev/shm/sem.' in line})"


@pytest.mark.parametrize("maker", ["plain", *HEADS])
def test_shared_memory_is_removed_when_the_notebook_ends(start_kernel, maker):
    name = f"holdfast_test_{os.getpid()}_{maker}"
    kernel = start_kernel()
    assert kernel.run(HEADS.get(maker, "") + MAKE.format(name)).status == "ok"
    assert kernel.run("s.name").result == repr(name)
    kernel.close()
    assert not Path("/dev/shm", name).exists()


@pytest.mark.parametrize("run", HEADS)
@pytest.mark.parametrize("what", SEMAPHORES)
def test_a_cell_leaves_no_semaphores(shared_kernel, what, run):
    if what == "loky":
        pytest.importorskip("joblib")
    code = "import multiprocessing.resource_tracker as tracker; tracker.ensure_running()"
    assert shared_kernel.run(code).status == "ok"
    outcome = shared_kernel.run(HEADS[run] + SEMAPHORES[what] + MAPPED)
    assert outcome.status == "ok"
    names = eval(outcome.stream().splitlines()[0])
    assert names
    until(lambda: not any(map(os.path.exists, names)))


@pytest.mark.parametrize("run", HEADS)
def test_a_tracker_is_no_child_process(shared_kernel, run):
    name = f"holdfast_test_{os.getpid()}_child"
    code = MAKE.format(name) + "\nimport multiprocessing.resource_tracker as tracker"
    assert shared_kernel.run(code).status == "ok"
    assert shared_kernel.run(HEADS[run] + "bytes(s.buf)[:1]").stream("stderr") == ""
    other = HEADS[run] + f"t = SharedMemory(create=True, size=9, name={name + '2'!r})"
    assert "child" not in shared_kernel.run(other).stream("stderr")
    assert shared_kernel.run("s.unlink(); t.unlink()").status == "ok"
