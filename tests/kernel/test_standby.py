"""The processes that wait for a cell: taken, replaced, and given up."""

import fcntl
import os
import time
from pathlib import Path

import effort
import pytest
from processes import kill
from waiting import until

CELL = "%%execute_with_scorep\n"
WANTED = 2 if os.cpu_count() > 1 else 1
CLEAN = {"HOLDFAST_RUN": "isolated"}  # the frontend keeps some from its start


def let_fail(path, number):
    """So many of the next cell workers; they count down in the same file."""
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate()
        file.write(str(number))


def test_the_reserve_is_bounded_and_refilled(plain_kernel):
    kernel = plain_kernel
    for _ in range(5):
        kernel.run(CELL + "1")
    await_count(kernel, 1 + WANTED)  # the main worker, and those that wait


def test_none_waits_before_a_cell_wants_a_clean_process(kernel):
    kernel.run("1")
    kernel.settle()
    assert len(kernel.workers()) == 1
    kernel.run(CELL.replace("\n", " --run=isolated\n") + "1")
    await_count(kernel, 1 + WANTED)


def await_count(kernel, count):
    until(
        lambda: len(kernel.workers()) == count,
        lambda: f"{len(kernel.workers())} instead of {count}",
    )


def test_they_are_given_back_until_a_client_asks_for_something(start_kernel):
    kernel = start_kernel(env=CLEAN | {"HOLDFAST_REST_SECONDS": "0.3"})
    kernel.run("1")
    for ask in (kernel.client.complete, kernel.client.is_complete):
        await_count(kernel, 1)  # the main worker
        ask("x")
        await_count(kernel, 1 + WANTED)
    await_count(kernel, 1)
    assert kernel.run(CELL + "1 + 1").result == "2"  # by one that wasn't there


def kill_standbys(kernel):
    """Kill all that wait, once they do."""
    main = int(kernel.run("import os; os.getpid()").result)
    others = until(lambda: len(found := kernel.workers() - {main}) >= WANTED and found)
    for pid in others:
        kill(pid)


@pytest.mark.parametrize("wait_s", effort.core([0, 0.002, 0.02, 0.5], [0, 0.02]))
def test_those_that_were_killed_cost_nothing(start_plain, wait_s):
    kernel = start_plain(env=CLEAN)
    for _ in range(3):
        kill_standbys(kernel)
        time.sleep(wait_s)
        outcome = kernel.run(CELL + "role")
        assert outcome.result == "'cell'" and not outcome.stream("stderr")


def test_those_of_the_real_worker_too(isolated_kernel):
    kernel = isolated_kernel
    kernel.run("x = [1]")
    for wait_s in (0, 0.01):
        kill_standbys(kernel)
        time.sleep(wait_s)
        assert kernel.run(CELL + "x.append(2); x").status == "ok"
    assert kernel.run("x").result == "[1, 2, 2]"


@pytest.mark.parametrize("number", [1, 2])
def test_death_before_the_start_is_not_the_cells(start_plain, lazy, number):
    kernel = start_plain(env={"PLAIN_WORKER_MORTAL": str(lazy)})
    let_fail(lazy, number)
    assert kernel.run(CELL + "role").result == "'cell'"


def test_death_before_the_start_is_an_error_in_the_end(start_plain, lazy):
    kernel = start_plain(env={"PLAIN_WORKER_MORTAL": str(lazy)})
    let_fail(lazy, 1000)
    outcome = kernel.run(CELL + "role")
    assert outcome.content["ename"] == "CellDied"
    assert "SIGKILL" in outcome.content["evalue"]
    assert "before the cell began, as did 2 others" in outcome.content["evalue"]
    assert lazy.read_text() == "997"
    let_fail(lazy, 0)
    assert kernel.run(CELL + "role").result == "'cell'"


@pytest.fixture
def lazy(tmp_path):
    """A file whose number says how many of the next cell workers fail."""
    path = tmp_path / "lazy"
    path.write_text("0")
    return path


def lazy_kernel(start_plain, lazy, number, **env):
    let_fail(lazy, number)
    env |= CLEAN | {"HOLDFAST_READY_SECONDS": "1", "PLAIN_WORKER_LAZY": str(lazy)}
    return start_plain(env=env)


def test_one_that_never_gets_ready_is_replaced(start_plain, lazy):
    kernel = lazy_kernel(start_plain, lazy, WANTED)
    kernel.run("role")
    until(lambda: lazy.read_text() == "0")  # all that wait; not one that is forked for the cell
    outcome = kernel.run(CELL + "role")
    assert outcome.result == "'cell'"


def test_two_that_never_get_ready_are_an_error(start_plain, lazy):
    kernel = lazy_kernel(start_plain, lazy, 1000)
    outcome = kernel.run(CELL + "role")
    assert outcome.content["ename"] == "CellDied"
    assert "not ready within 1 seconds" in outcome.content["evalue"]
    assert kernel.run("role").result == "'main'"
    let_fail(lazy, 0)
    outcome = kernel.run(CELL + "role")
    assert outcome.result == "'cell'", outcome.content


def test_another_fork_server_is_asked_again(start_plain, lazy):
    """None is forked any more once two in a row have never got ready."""
    kernel = lazy_kernel(start_plain, lazy, WANTED + 1, HOLDFAST_REST_SECONDS="600")
    kernel.run("role")
    until(lambda: lazy.read_text() == "0")
    await_count(kernel, 1)  # both are given up
    kill(kernel.fork_server())
    await_count(kernel, 1 + WANTED)


def test_the_fork_server_imports_what_startup_files_do(start_kernel, tmp_path):
    """Else each standby would."""
    startup = tmp_path / "ipython" / "profile_default" / "startup" / "first.py"
    startup.parent.mkdir(parents=True)
    startup.write_text("import xxlimited\n")  # CPython's example, which nothing else needs
    kernel = start_kernel(env={"IPYTHONDIR": str(tmp_path / "ipython")})
    server = kernel.fork_server()
    until(lambda: "xxlimited" in Path(f"/proc/{server}/maps").read_text())
    assert kernel.run(CELL + "'xxlimited' in globals()").result == "True"


@pytest.mark.fresh
def test_the_fork_server_imports_what_cells_do(kernel):
    """Modules of packages, too; what a recorded cell imports as what a plain one does; and not
    what a library only looks for."""
    server = kernel.fork_server()
    kernel.run("import importlib.util; importlib.util.find_spec('xxlimited')")
    kernel.run("from xml.dom import minidom")
    await_imported(kernel, "xml.dom.minidom")
    kernel.run(CELL + "import xml.sax.saxutils")
    await_imported(kernel, "xml.sax.saxutils")
    assert "xxlimited" not in Path(f"/proc/{server}/maps").read_text()


IMPORT = "import os, time, xxlimited\nserver = f'/proc/{os.getpgrp()}/maps'\n"  # it leads the group


@pytest.mark.fresh
def test_the_fork_server_imports_while_nobody_uses_the_notebook(kernel):
    kernel.run(CELL + "1")
    server = kernel.fork_server()
    looks = "for _ in range(30): assert 'xxlimited' not in open(server).read(); time.sleep(0.01)"
    assert kernel.run(IMPORT + looks).status == "ok"
    until(lambda: "xxlimited" in Path(f"/proc/{server}/maps").read_text())


def test_the_fork_server_imports_at_once_for_clean_processes(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_RUN": "isolated"})
    looks = "while 'xxlimited' not in open(server).read(): time.sleep(0.01)"
    assert kernel.run(IMPORT + looks).status == "ok"
    kernel = start_kernel()
    kernel.run("%%isolated --run=isolated\npass")
    assert kernel.run(IMPORT + looks).status == "ok"


def await_imported(kernel, module):
    look = CELL + f"import sys; {module!r} in sys.modules"
    until(lambda: kernel.run(look).result == "True", lambda: f"cells don't find {module}")


def test_libraries_that_look_for_a_notebook_find_it(kernel):
    in_main = kernel.run("from tqdm.auto import tqdm; tqdm").result
    await_imported(kernel, "tqdm.auto")
    assert kernel.run(CELL + "tqdm").result == in_main
