"""The fork server is killed: the notebook, its rollback and the cell that runs go on with another one."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import effort
import psutil
import pytest
from processes import kill, name, state
from waiting import SECONDS, at_rest, begun, complete, until

PLAIN, ISOLATED, RECORDED = "", "%%isolated --run=in-process\n", "%%execute_with_scorep\n"
CLEAN = "%%isolated --run=isolated\n"
DIE = "import os; os.kill(os.getpid(), 9)"
# What no commit has: a generator, a lock that is held, an open pipe.
STATE = """
import os, threading, time
numbers = (n for n in range(1000)); next(numbers)
lock = threading.Lock(); lock.acquire()
shared = [1]; holder = {"it": shared}
r, w = os.pipe(); os.write(w, b"x")
mine = os.getpid()
"""
CHECK = """
assert os.getpid() == mine and lock.locked() and holder["it"] is shared
assert os.read(r, 1) == b"x" and os.write(w, b"x") == 1
next(numbers)
"""
WAIT = "\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def kill_server(kernel):
    """Kill the fork server, and wait until another one is there; its pid."""
    server = until(kernel.fork_server)
    kill(server)
    return until(lambda: (found := kernel.fork_server()) != server and found)


def go(kernel, sent, path="go"):
    """Let a cell go on that waits for a file; its outcome."""
    Path(kernel.place, path).touch()
    try:
        return kernel.finish(sent)
    finally:
        Path(kernel.place, path).unlink()


@pytest.fixture
def start(lend, tmp_path):
    """A function that gives a kernel with a state that no commit can have."""

    def start(**env):
        kernel = lend(**env)
        kernel.place = tmp_path
        assert kernel.run(STATE).status == "ok"
        return kernel

    return start


def test_at_rest(start):
    kernel = start()
    complete(kernel)
    before = kernel.workers()
    for number in (1, 2):  # twice in a row
        kill_server(kernel)
        assert kernel.run(CHECK).result == str(number)
    # Those that wait for a cell live on, too, until others with newer modules replace them.
    assert int(kernel.run("mine").result) in before & kernel.workers()
    outcome = kernel.run(CLEAN + "shared.append(2); os.getpid()")
    assert int(outcome.result) not in (0, kernel.pid) and outcome.cost["run"] == "isolated"
    assert kernel.run("shared").result == "[1, 2]"


def test_before_another_is_ready(start):
    kernel = start()
    for _ in range(3):
        kill(until(kernel.fork_server))
    assert kernel.run(CLEAN + "shared[0]").result == "1"
    assert kernel.run(CHECK).status == "ok"


@pytest.mark.parametrize(
    ("run", "head"),
    effort.core(
        [
            ("auto", PLAIN),
            ("in-process", ISOLATED),
            ("in-process", RECORDED),
            ("forked", RECORDED),
            ("isolated", RECORDED),
        ],
        [("auto", PLAIN), ("isolated", RECORDED)],
    ),
)
def test_in_a_cell(start, run, head):
    kernel = start(HOLDFAST_RUN=run)
    sent = begun(kernel, head + "import os, time\nshared.append(2)" + WAIT + "shared.append(3)")
    kill_server(kernel)
    kill_server(kernel)
    outcome = go(kernel, sent)
    assert outcome.status == "ok", outcome.content
    assert outcome.cost.get("run") == (run if head else "plain")
    assert kernel.run("shared").result == "[1, 2, 3]"
    assert kernel.run(CHECK).status == "ok"
    assert kernel.run(head + "shared.append(4)").status == "ok"
    assert kernel.run("shared").result == "[1, 2, 3, 4]"


@pytest.mark.parametrize("head", [PLAIN, CLEAN])
def test_at_the_moment_of_a_fork(start, head):
    """It has been asked for forks, among them the cell's process, and has made none."""
    kernel = start()
    complete(kernel)
    main = {int(kernel.run("mine").result)}
    server = kernel.fork_server()
    os.kill(server, signal.SIGSTOP)

    def only_main():
        for pid in kernel.workers() - main:  # also one whose helper was at work just now
            kill(pid)
        return kernel.workers() == main

    until(only_main)
    sent = kernel.client.execute(head + "shared.append(2)")
    time.sleep(0.05)
    kill(server)
    assert kernel.finish(sent).status == "ok"
    assert kernel.run("shared").result == "[1, 2]"
    assert kernel.run(CHECK).status == "ok"
    complete(kernel)


def test_the_rollback_wakes_after_it(start):
    kernel = start()
    assert kernel.run(ISOLATED + "shared.append(2)").status == "ok"
    for number in (1, 2):
        kill_server(kernel)
        outcome = kernel.run(ISOLATED + "next(numbers); shared.append(3)\n" + DIE)
        assert "its variables are as they were before the cell" in outcome.content["evalue"]
        assert kernel.run("shared, holder['it'] is shared").result == "([1, 2], True)"
        assert kernel.run("next(numbers)").result == str(number)


def test_the_rollback_wakes_without_it(start):
    """Both are killed in a cell, the fork server first."""
    kernel = start()
    main = int(kernel.run("mine").result)
    sent = begun(kernel, ISOLATED + "shared.append(2)" + WAIT)
    kill(kernel.fork_server())
    kill(main)
    outcome = kernel.finish(sent)
    print(kernel.run("shared").result, outcome.content["evalue"])
    assert "its variables are as they were before the cell" in outcome.content["evalue"]
    assert kernel.run("shared, next(numbers)").result == "([1], 1)"
    assert kernel.run(CLEAN + "shared").result == "[1]"


def test_the_last_commit_after_a_death_of_both(start):
    """A notebook with a thread: its fork could only commit, and a commit has everything before the cell runs."""
    kernel = start()
    kernel.run("stop = threading.Event(); threading.Thread(target=stop.wait, daemon=True).start()")
    main = int(kernel.run("mine").result)
    kernel.client.execute("shared.append(3)")
    sent = begun(kernel, ISOLATED + "shared.append(2)" + WAIT)
    kill(main)
    kill(kernel.fork_server())
    outcome = kernel.finish(sent)
    assert "its variables are those of the last commit" in outcome.content["evalue"]
    until(lambda: kernel.fork_server() and main not in kernel.workers())
    assert kernel.run("shared, holder['it'] is shared").result == "([1, 3], True)"


@pytest.mark.parametrize("head", [PLAIN, RECORDED, CLEAN, "%holdfast rerun"])
def test_a_cell_that_waits_for_the_next_main_worker(start, head):
    """The fork server dies after the main worker, before it has made another one: the cell waits."""
    kernel = start()
    if head == "%holdfast rerun":
        kernel.run("%holdfast protect never")
    complete(kernel)
    kernel.settle()
    main, server = int(kernel.run("mine", store_history=False).result), kernel.fork_server()
    if head == "%holdfast rerun":
        kernel.run("shared.append(3)")
    os.kill(server, signal.SIGSTOP)
    kill(main)
    until(lambda: not Path(f"/proc/{main}").exists())
    sent = kernel.client.execute(head if head[:2] == "%h" else head + "shared.append(3)")
    while kernel.client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "execute_input":
        pass
    kill(server)
    outcome = kernel.finish(sent)
    assert outcome.status == "ok", outcome.content
    assert "execute_input" not in outcome.types
    assert kernel.run("shared").result == "[1, 3]"


BLOCKED = {
    "loop": "print('on', flush=True)\nwhile True: pass",
    "call": "import ctypes; print('on', flush=True); ctypes.PyDLL(None).sleep(600)",
    "masked": "import ctypes, signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
    "print('on', flush=True)\nctypes.PyDLL(None).sleep(600)",
}


@pytest.mark.parametrize(
    ("way", "kind"),
    effort.core(
        itertools.product(["plain", "in-process", "clean"], BLOCKED),
        [("plain", "loop"), ("clean", "masked")],
    ),
)
def test_a_killed_frontend_leaves_its_reaper(start, way, kind):
    head = {"plain": PLAIN, "in-process": ISOLATED, "clean": CLEAN}[way]
    kernel = start(HOLDFAST_KEEP_SECONDS="30")
    complete(kernel)
    begun(kernel, head + BLOCKED[kind])
    kill_server(kernel)
    below = psutil.Process(kernel.pid).children(recursive=True)
    reaper = [one for one in below if name(one.pid) == "holdfast-reaper"]
    os.kill(kernel.pid, signal.SIGKILL)
    until(lambda: all(state(one.pid) == "Z" for one in below if one not in reaper))
    assert len(reaper) == 1 and len(below) >= 3
    os.unlink(kernel.manager.connection_file)  # so the reaper needn't wait
    until(lambda: state(reaper[0].pid) == "Z")


@pytest.mark.parametrize("busy", [False, True])
def test_a_shutdown_leaves_no_process(start, busy):
    """Those that the notebook's code left running are in the process group of a former fork server."""
    kernel = start()
    kernel.run("import subprocess; other = subprocess.Popen(['sleep', '600'])")
    kill_server(kernel)
    kill_server(kernel)
    complete(kernel)
    if busy:
        begun(kernel, BLOCKED["loop"])
    below = psutil.Process(kernel.pid).children(recursive=True)
    assert "sleep" in [name(one.pid) for one in below]
    assert kernel.control("shutdown_request", {"restart": False})["content"]["status"] == "ok"
    until(lambda: all(not Path(f"/proc/{one.pid}").exists() for one in below))


def test_what_a_dead_notebook_left_ends_with_it(start):
    """The former fork server's process group has no worker any more."""
    kernel = start()
    kernel.run("import subprocess; other = subprocess.Popen(['sleep', '600'])")
    sleeps = int(kernel.run("other.pid").result)
    kill_server(kernel)
    complete(kernel)
    assert kernel.run(CHECK).status == "ok" and state(sleeps) != "Z"
    kernel.settle()
    for pid in kernel.workers():
        kill(pid)
    until(lambda: state(sleeps) == "Z")
    outcome = kernel.run("shared")
    assert outcome.status == "ok" or kernel.run("shared").result == "[1]"


def test_orphans_are_waited_for(start):
    kernel = start()
    kernel.run("import subprocess; subprocess.run(['sh', '-c', 'sleep 0.1 & sleep 0.1 &'])")
    until(lambda: not zombies(kernel) and not sleeping(kernel))
    kill_server(kernel)
    kernel.run("subprocess.run(['sh', '-c', 'sleep 0.1 & sleep 0.1 &'])")
    until(lambda: not zombies(kernel) and not sleeping(kernel))


def zombies(kernel):
    return [one for one in psutil.Process(kernel.pid).children() if state(one.pid) == "Z"]


def sleeping(kernel):
    return [one for one in psutil.Process(kernel.pid).children() if name(one.pid) == "sleep"]


@pytest.mark.fresh
def test_the_next_one_imports_the_same(isolated_kernel):
    kernel = isolated_kernel

    def has_imported(pid):
        with contextlib.suppress(OSError):
            return "xxlimited" in Path(f"/proc/{pid}/maps").read_text()
        return False

    def standbys_have_it():
        """They are replaced once the fork server has said that it has imported something."""
        standbys = kernel.workers() - {main}
        return standbys and all(map(has_imported, standbys))

    main = int(kernel.run("import os; os.getpid()").result)
    complete(kernel)
    kernel.run("import xxlimited")  # CPython's example, which nothing else needs
    for _ in range(2):
        until(lambda: has_imported(kernel.fork_server()))
        # It says so after 50 ms in which it was asked nothing; a new standby may have it before.
        at_rest(lambda: [kernel.fork_server(), kernel.pid])
        until(standbys_have_it)
        complete(kernel)
        kill_server(kernel)
    until(lambda: has_imported(kernel.fork_server()))


def test_at_any_moment(start):
    """Of a notebook that runs: no variable is lost, and no cell fails."""
    kernel, choose, expected = start(), random.Random(7), [1]
    for turn in range(20 if effort.IS_LONG else 5):
        head = choose.choice([PLAIN, ISOLATED, RECORDED, CLEAN])
        sent = kernel.client.execute(head + f"shared.append({turn}); time.sleep(0.02)")
        time.sleep(choose.random() * 0.1)
        if server := kernel.fork_server():
            kill(server)
        outcome = kernel.finish(sent)
        assert outcome.status == "ok", outcome.content
        expected.append(turn)
        assert kernel.run("shared").result == str(expected)
        assert kernel.run(CHECK).status == "ok"


NO_FORKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

pid_t
fork(void) {
    if (access(getenv("NO_FORKS"), F_OK) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return ((pid_t(*)(void))dlsym(RTLD_NEXT, "fork"))();
}
"""


def test_it_outlives_a_fork_that_fails(start_kernel, tmp_path):
    """`ulimit -u` was reached: the fork server had ended, and another one can't be started then."""
    (tmp_path / "no_forks.c").write_text(NO_FORKS)
    library, limit = tmp_path / "no_forks.so", tmp_path / "limit"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, tmp_path / "no_forks.c", "-ldl"], check=True
    )
    kernel = start_kernel(env={"LD_PRELOAD": str(library), "NO_FORKS": str(limit)})
    kernel.run("x = 1")
    complete(kernel)
    server = kernel.fork_server()
    limit.touch()
    for _ in range(3):  # some processes wait already
        outcome = kernel.run(CLEAN + "x + 1")
    assert outcome.content["ename"] == "CellDied"
    assert "failed to start (a fork can't be made, by ulimit -u" in outcome.content["evalue"]
    assert kernel.run("x += 1; x").result == "2"
    limit.unlink()
    assert kernel.run(CLEAN + "x + 1").result == "3" and kernel.fork_server() == server
