"""What the notebook's processes leave in the system: shared memory and semaphores."""

import os
from pathlib import Path

import effort
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


@pytest.mark.parametrize("maker", effort.core(["plain", *HEADS], ["plain", "forked"]))
def test_shared_memory_is_removed_when_the_notebook_ends(start_kernel, maker):
    name = f"holdfast_test_{os.getpid()}_{maker}"
    kernel = start_kernel()
    assert kernel.run(HEADS.get(maker, "") + MAKE.format(name)).status == "ok"
    assert kernel.run("s.name").result == repr(name)
    kernel.close()
    assert not Path("/dev/shm", name).exists()


@pytest.mark.parametrize(("what", "run"), effort.in_turn(SEMAPHORES, HEADS))
def test_a_cell_leaves_no_semaphores(shared_kernel, what, run):
    if what == "loky":
        pytest.importorskip("joblib")
    code = "import multiprocessing.resource_tracker as tracker; tracker.ensure_running()"
    assert shared_kernel.run(code).status == "ok"
    outcome = shared_kernel.run(HEADS[run] + SEMAPHORES[what] + MAPPED)
    assert outcome.status == "ok", outcome.content
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


# A worker that a cell's process left would wait for work at the pipe of the notebook's executor.
EXECUTOR = "from concurrent.futures import ProcessPoolExecutor; pool = ProcessPoolExecutor(1)"
DAEMON = "import multiprocessing as mp, time; child = mp.Process(target=time.sleep, args=(600,), daemon=True)"
LEFT = {
    "an executor's worker": (EXECUTOR, "import os\nprint(pool.submit(os.getpid).result())"),
    "one that works": (
        EXECUTOR
        + "\nimport os, time\ndef work(fd): os.write(fd, b'%d' % os.getpid()); time.sleep(600)",
        "r, w = os.pipe()\npool.submit(work, w);\nprint(int(os.read(r, 9)))",
    ),
    "a daemon": ("import os", DAEMON + "\nchild.start()\nprint(child.pid)"),
}


@pytest.mark.parametrize(("what", "run"), effort.in_turn(LEFT, HEADS))
def test_a_cell_leaves_no_worker_of_an_executor_and_no_daemon(shared_kernel, what, run):
    before, code = LEFT[what]
    if run == "isolated":
        before, code = "", f"{before}\n{code}"
    assert shared_kernel.run(before).status == "ok"
    outcome = shared_kernel.run(HEADS[run] + code)
    assert outcome.status == "ok", outcome.content
    pid = int(outcome.stream().splitlines()[0])
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_worker_of_joblibs_that_works_is_ended(shared_kernel):
    """A busy machine's don't end in time either."""
    pytest.importorskip("joblib")
    code = (
        "import os, time\nfrom joblib.externals.loky import get_reusable_executor\n"
        "def work():\n    open('part', 'w').write(str(os.getpid())); os.rename('part', 'pid')\n"
        "    time.sleep(600)\n"
        "future = get_reusable_executor(1).submit(work)\n"
        "while not os.path.exists('pid'): time.sleep(0.01)\n"
        "del future; print(open('pid').read())"
    )
    outcome = shared_kernel.run(HEADS["forked"] + code)
    assert outcome.status == "ok", outcome.content
    pid = int(outcome.stream().splitlines()[0])
    until(lambda: not os.path.exists(f"/proc/{pid}"))


QUICK, LASTING = "pool.submit(abs, -1).result()", "for _ in range(9): pool.submit(time.sleep, 600)"


@pytest.mark.parametrize("work", effort.core([QUICK, LASTING], [QUICK]))
def test_an_executor_that_a_forked_cell_has_used_goes_on(shared_kernel, work):
    assert shared_kernel.run(EXECUTOR + "\nimport time").status == "ok"
    assert shared_kernel.run(HEADS["forked"] + work).status == "ok"
    code = "print([pool.submit(abs, -n).result() for n in range(5)]); pool.shutdown()"
    outcome = shared_kernel.run(code)
    assert (outcome.stream(), outcome.stream("stderr")) == ("[0, 1, 2, 3, 4]\n", "")
