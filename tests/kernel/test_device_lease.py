"""Memory of a device between the main worker and its cells, over the real kernel.

Without a GPU host memory stands for one's (support/pretended_gpu.py); all but what CUDA does
is the real way. What CUDA does is tested where there is one.
"""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest
from needed import a_gpu_is_needed, needed
from waiting import until

needed("torch")

CELL = "%%execute_with_scorep --run=isolated\n"
SUPPORT = Path(__file__).parents[1] / "support"
MAKE = "import torch\nx = gpu(torch.arange(1 << 18))\nrow = x[10:20]\nsame = x"


class Log:
    def __init__(self, path):
        self.path = path

    def words(self):
        """What was done since the last call, by (what, times)."""
        lines = self.path.read_text().split("\n")[:-1] if self.path.exists() else []
        self.path.write_text("")
        done = [line.split()[0] for line in lines]
        return {word: done.count(word) for word in done}

    def wait_for(self, word, times=1):
        until(
            lambda: self.path.exists() and self.path.read_text().count(word) >= times,
            f"{word}: not {times} times",
        )


def kill(kernel, main):
    os.kill(main, signal.SIGKILL)
    while kernel.run("import os; os.getpid()").result in (None, str(main)):
        pass  # the cell that hears of it fails


@pytest.fixture(scope="module")
def gpu_place(tmp_path_factory):
    """What the kernels with a pretended GPU find, and where they log.

    The fork server begins with it, so that PyTorch is imported once.
    """
    place = tmp_path_factory.mktemp("gpu")
    (place / "sitecustomize.py").write_text(
        "import builtins, pretended_gpu\nbuiltins.gpu = pretended_gpu.gpu\n"
    )
    return place


@pytest.fixture
def lend_gpu(shared, request, gpu_place, tmp_path):
    """A function that gives a kernel, and its log."""
    with contextlib.ExitStack() as stack:

        def lend(name="log", **more):
            log = Log(gpu_place / name)
            env = {
                "PYTHONPATH": f"{gpu_place}:{SUPPORT}",
                "PRETENDED_GPU": str(log.path),
                **more,
            }
            kernel = stack.enter_context(shared.lend(request, tmp_path, **env))
            kernel.settle()
            log.words()
            return kernel, log

        yield lend


def test_a_cell_copies_what_the_main_worker_lends_and_lends_what_it_changed(lend_gpu):
    kernel, log = lend_gpu()
    sent = [kernel.client.execute(code) for code in (MAKE, CELL + "row[0] = 7; made = gpu(x * 2)")]
    for one in sent:
        outcome = kernel.finish(one)
        assert outcome.status == "ok", outcome.content
    log.wait_for("to-host", 2)  # the commit when nobody waits any more
    # x out, x and made back; only then their bytes.
    assert log.words() == {"share": 3, "open": 3, "to-host": 2}
    assert kernel.run("x[10].item(), same is x, row[0].item(), made[10].item()").result == (
        "(7, True, 7, 14)"
    )


def test_a_cell_leaves_when_the_main_worker_has_what_it_lent(lend_gpu):
    kernel, log = lend_gpu()
    kernel.run(MAKE)
    lender = kernel.run(CELL + "import os; row[0] = 7; os.getpid()").result
    assert kernel.run("x[10].item()").result == "7"
    assert log.words()["open"] == 2
    # It would wait for nine seconds, and be killed after ten.
    until(lambda: not os.path.exists(f"/proc/{lender}"), seconds=8)


def test_what_a_cell_only_reads_is_not_handed_over_again(lend_gpu):
    kernel, log = lend_gpu()
    kernel.run(MAKE + "\nknown = id(x)")
    kernel.run(CELL + "1")
    log.wait_for("to-host")
    kernel.run("2")  # after that commit
    assert log.words() == {"to-host": 1}  # a cell that doesn't name a tensor copies none
    assert kernel.run(CELL + "x.sum().item(), row[1].item()").result == "(34359607296, 11)"
    # Opened by the cell; neither it nor a later commit takes any bytes out.
    assert log.words() == {"open": 1, "share": 1}
    assert kernel.run("id(x) == known, x.sum().item()").result == "(True, 34359607296)"
    kernel.run(CELL + "x.sum().item(), row[1].item()")
    assert log.words() == {"open": 1}


def test_a_cell_that_fails_has_changed_nothing(lend_gpu):
    kernel, _ = lend_gpu()
    kernel.run(MAKE)
    dying = "x.fill_(1)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert kernel.run(CELL + dying).status == "error"
    assert kernel.run("x[:3].tolist(), row[0].item()").result == "([0, 1, 2], 10)"


def test_where_memory_cannot_be_opened_its_bytes_cross(lend_gpu):
    kernel, log = lend_gpu("shut", PRETENDED_GPU_SHUT="1")
    kernel.run(MAKE)
    for i in range(3):
        kernel.run(CELL + "row[0] += 1")
    assert kernel.run("x[10].item(), row[0].item(), same is x").result == "(13, 13, True)"
    done = log.words()
    assert "open" not in done and done["from-host"] >= 6


def test_a_main_worker_that_dies_leaves_the_last_bytes(lend_gpu):
    kernel, log = lend_gpu()
    kernel.run(MAKE)
    log.wait_for("to-host")
    kernel.run(CELL + "row[0] = 7")
    log.wait_for("to-host", 2)  # a request that comes now waits for the commit
    main = int(kernel.run("import os; os.getpid()").result)
    log.words()
    kill(kernel, main)
    outcome = kernel.run("x[:3].tolist(), row[0].item(), same is x")
    assert outcome.result == "([0, 1, 2], 7, True)", outcome.content
    assert log.words() == {"from-host": 1}
    assert kernel.run(CELL + "x[10].item()").result == "7"


def test_a_main_worker_that_dies_before_its_bytes_are_written_names_them(lend_gpu, tmp_path):
    kernel, log = lend_gpu()
    die = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    hold = "open('pipe').close()\n"
    # Until all are in the queue: no moment is idle, in which it would commit.
    codes = hold + MAKE + "\nkept = 5", CELL + "row[0] = 7", die, "kept"
    os.mkfifo(tmp_path / "pipe")
    sent = [kernel.client.execute(code, stop_on_error=False) for code in codes]
    question = kernel.client.is_complete("1")  # it is answered while a cell runs
    assert kernel.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] == question
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
    outcomes = [kernel.finish(one) for one in sent]
    assert outcomes[2].status == "error" and outcomes[3].result == "5"
    assert kernel.run("x").content["ename"] == "QuarantinedError"
    text = "".join(o.stream("stderr") for o in outcomes)
    assert re.search(r"\brow \(.*gone.* and 2 more", text), text
    assert "to-host" not in log.words()


def test_on_a_gpu(kernel):
    a_gpu_is_needed()
    kernel.run(
        "import torch\nx = torch.arange(1 << 20, device='cuda')\nrow = x[10:20]\n"
        "w = torch.nn.Linear(1000, 1000).cuda()"
    )
    for i in range(3):
        outcome = kernel.run(
            CELL + "row[0] += 1\nwith torch.no_grad(): w.weight.fill_(row[0].item())\n"
            "made = (x * 2).cpu().sum().item(), x * 2"
        )
        assert outcome.status == "ok" and not outcome.stream("stderr"), outcome.content
        values = "x[10].item(), row[0].item(), w.weight[3, 3].item(), made[1][10].item(), x.is_cuda"
        at = 11 + i
        assert kernel.run(values).result == f"({at}, {at}, {at}.0, {2 * at}, True)"
    draws = (
        "torch.manual_seed(3); torch.rand(2, device='cuda').tolist()",
        "torch.rand(2, device='cuda').tolist()",
    )
    expected = [kernel.run(code).result for code in (*draws, draws[1])]
    kernel.run("torch.manual_seed(3)")
    found = [kernel.run(code).result for code in (CELL + draws[1], draws[1], CELL + draws[1])]
    assert found == expected  # each process goes on with the same numbers
    if kernel.run("import cupy; c = cupy.arange(9.); t = torch.from_dlpack(c)").status == "ok":
        for name in "ct":  # they share memory, and the copies wouldn't
            assert kernel.run(f"{CELL}{name}[0] = 1").content["ename"] == "NotCarriedError"
    time.sleep(1)
    main = int(kernel.run("import os; os.getpid()").result)
    kill(kernel, main)
    assert kernel.run(values).result == "(13, 13, 13.0, 26, True)"
