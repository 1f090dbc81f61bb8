"""The main worker runs recorded cells itself; a sleeping fork of it is the notebook's rollback."""

import contextlib
import os
import re
import signal
from pathlib import Path

import effort
import pytest
from processes import name
from waiting import begun, complete, until

ASLEEP = "holdfast-asleep"  # what ps shows of a sleeping fork (worker/fork.c)
IN_PROCESS = "%%isolated --run=in-process\n"
DIE = "import os; os.kill(os.getpid(), 9)"
STATE = """
import collections, random, sys
import numpy as np
numbers = (n for n in range(100)); next(numbers)
rows = np.zeros((1000, 100)); view = rows[:2]; alias = rows
shared = [1]; holder = {"it": shared}
random.seed(5); drawn = random.random(); random.seed(5)
sys.mark = "mine"; collections.mine = shared
file = open("file.txt", "w+"); file.write("before"); file.flush()
"""
CHECK = """
assert next(numbers) == 1
assert rows.sum() == 0 and alias is rows and view.base is rows
assert shared == [1] and holder["it"] is shared and collections.mine is shared
assert random.random() == drawn
assert sys.mark == "mine"
file.write("!"); file.seek(0); assert file.read(7) == "before!"  # where it stood
"""
# The sleeping forks, seen from a cell in the main worker, also one that is just made and doesn't sleep
# yet: others of the group block no SIGINT.
FORKS = """
import os, time
mine = os.getpid()
def forks():  # those that sleep
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/status") as file: about = dict(line.split(":", 1) for line in file)
                if os.getpgid(int(name)) == os.getpgrp() and about["Name"] == "\\tholdfast-asleep\\n" and about["State"].strip()[0] not in "ZX":
                    found.append(int(name))
            except OSError: pass
    return found
"""
CHANGE = """
next(numbers); rows[:] = 1; view[0, 0] = 5; shared.append(2); random.seed(6); sys.mark = 0
del collections.mine; file.write("more"); file.flush()
"""


@pytest.fixture
def paced_kernel(lend):
    """The kernel as it is by default: recorded cells that follow each other share a fork."""
    return lend()


@pytest.fixture
def kernel(lend):
    """Each recorded cell has a fork, however fast the cells follow each other."""
    return lend(HOLDFAST_PROTECT="always")


def attached(kernel):
    """How many processes are attached to the notebook's store."""
    from holdfast import _store

    for file in os.listdir("/dev/shm"):
        if file.startswith(f"holdfast-{os.getuid()}-"):
            with contextlib.suppress(_store.Error), _store.Session.open("/" + file) as session:
                info = session.info()
                if info["owner_pid"] == kernel.pid:
                    return info["process_count"] - 1  # without this one
    raise AssertionError("the kernel has no store with a name")


@pytest.mark.parametrize(
    ("end", "prefix"),
    effort.in_turn(
        [DIE, "import ctypes; ctypes.string_at(0)", "import os; os._exit(3)"],
        [IN_PROCESS, "%%execute_with_scorep\n"],
    ),
)
def test_a_cell_that_dies_has_changed_nothing(kernel, prefix, end):
    assert kernel.run(STATE).status == "ok"
    outcome = kernel.run(prefix + CHANGE + end)
    assert outcome.content["ename"] == "CellDied"
    assert "its variables are as they were before the cell" in outcome.content["evalue"]
    outcome = kernel.run(CHECK)
    assert outcome.status == "ok", outcome.content
    for _ in range(2):  # the one that succeeded can be rolled back itself
        assert kernel.run(prefix + "shared.append(3)\n" + end).status == "error"
        assert kernel.run("shared").result == "[1]"
    assert kernel.run(prefix + "shared.append(4)").status == "ok"
    assert kernel.run("shared, rows.sum()").result == "([1, 4], np.float64(0.0))"


def test_a_pool_that_still_spins_is_known(kernel):
    """OpenBLAS's threads run on for a moment after their work, and show no stack meanwhile."""
    kernel.run("import numpy as np; each = iter('abc'); left = (c for c in each); next(left)")
    for _ in range(3):
        work = "x = np.ones((500, 500)); x = x @ x"
        sent = [
            kernel.client.execute(work),
            kernel.client.execute(IN_PROCESS + "next(left)\n" + DIE),
        ]
        outcomes = [kernel.finish(one) for one in sent]
        assert outcomes[1].content["ename"] == "CellDied"
    assert kernel.run("next(left)").result == "'b'"


def test_the_cell_runs_in_the_notebooks_process(kernel):
    pid = kernel.run("import os; os.getpid()").result
    outcome = kernel.run(IN_PROCESS + "os.getpid()")
    assert outcome.result == pid and outcome.cost["run"] == "in-process"


def test_nobody_sees_the_sleeping_fork(kernel):
    code = """
import os, signal, psutil
signals = []
signal.signal(signal.SIGCHLD, lambda *a: signals.append(a))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
print(psutil.Process().children(), signals)
"""
    kernel.run("import random; random.seed(1); a = random.random(); random.seed(1)")
    assert kernel.run(IN_PROCESS + code).stream() == "no child\n[] []\n"
    assert kernel.run(IN_PROCESS + code).stream() == "no child\n[] []\n"
    assert kernel.run("random.random() == a").result == "True"


def test_what_the_cell_closes_is_closed(kernel):
    """The fork must not hold pipes, sockets and locks that the notebook gives up."""
    kernel.run(
        "import os, socket, subprocess\n"
        "r, w = os.pipe(); server = socket.create_server(('127.0.0.1', 0))\n"
        "port = server.getsockname()[1]\n"
        "cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
    )
    outcome = kernel.run(IN_PROCESS + "os.close(w); os.read(r, 1)")
    assert outcome.result == "b''"
    outcome = kernel.run(IN_PROCESS + "cat.communicate(b'text', timeout=60), cat.returncode")
    assert outcome.result == "((b'text', None), 0)"
    outcome = kernel.run(
        IN_PROCESS + "server.close(); socket.create_server(('127.0.0.1', port)).close()"
    )
    assert outcome.status == "ok", outcome.content


def test_pipes_and_sockets_are_gone_after_a_rollback(kernel):
    kernel.run("import os; r, w = os.pipe(); os.write(w, b'x')")
    kernel.run(IN_PROCESS + DIE)
    outcome = kernel.run("os.read(r, 1)")
    assert outcome.content["ename"] == "OSError"  # and not another file's bytes


def test_a_notebook_with_a_thread_is_committed(kernel):
    """The fork has no threads, and could not go on; but nothing is lost that can be encoded."""
    kernel.run(
        "import threading, time\n"
        "stop = threading.Event(); thread = threading.Thread(target=stop.wait, daemon=True)\n"
        "thread.start(); kept = {'a': [1, 2]}; alias = kept['a']\n"
        "g1, g2, g3, g4, g5 = ((i for i in ()) for _ in range(5))"
    )
    outcome = kernel.run(IN_PROCESS + "kept['a'].append(3)\n" + DIE)
    _, lost = outcome.content["evalue"].split(
        "its variables are as they were before the cell; lost: "
    )
    names, more = lost.split(" and ")
    assert more == "2 more"
    assert set(names.split(", ")) < {f"g{number} (generator)" for number in range(1, 6)} | {
        *("stop (lock)", "thread (Thread)")
    }
    assert "thread (" in outcome.content["evalue"] and "kept" not in outcome.content["evalue"]
    assert kernel.run("kept, alias is kept['a']").result == "({'a': [1, 2]}, True)"
    assert kernel.run("thread").content["ename"] == "NameError"


def test_tasks_go_on_after_a_rollback(kernel):
    kernel.run(
        "import asyncio; beats = []\n"
        "async def beat():\n"
        "    while True:\n"
        "        beats.append(len(beats)); await asyncio.sleep(0.01)\n"
        "task = asyncio.get_running_loop().create_task(beat())"
    )
    kernel.run(IN_PROCESS + "await asyncio.sleep(0.05)")
    kernel.run(IN_PROCESS + DIE)
    outcome = kernel.run("n = len(beats)\nwhile len(beats) < n + 3: await asyncio.sleep(0.01)")
    assert outcome.status == "ok"
    assert kernel.run("not task.done() and beats == list(range(len(beats)))").result == "True"


def test_a_cell_that_takes_no_interrupt_is_rolled_back(lend):
    kernel = lend(HOLDFAST_INTERRUPT_SECONDS="0.3")
    kernel.run("import signal, time; kept = [1]")
    sent = begun(
        kernel,
        IN_PROCESS + "kept.append(2); signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('on', flush=True)\nwhile True: time.sleep(1)",
    )
    kernel.manager.interrupt_kernel()
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert kernel.run("kept").result == "[1]"


def test_a_fork_that_is_killed_costs_nothing(kernel):
    kernel.run("kept = [1]")
    code = (
        FORKS
        + """
import signal
while not forks(): time.sleep(0.01)
for pid in forks(): os.kill(pid, signal.SIGKILL)
while forks(): time.sleep(0.01)
kept.append(2)
"""
    )
    assert kernel.run(IN_PROCESS + code).status == "ok"
    assert kernel.run(IN_PROCESS + "kept.append(3)\n" + DIE).status == "error"
    assert kernel.run("kept").result == "[1, 2]"


@pytest.mark.fresh
def test_a_fork_that_wakes_is_as_its_process_was(kernel):
    """Asleep it has another name, and the system ends it first."""
    read = "[open(f'/proc/self/{one}').read() for one in ('comm', 'oom_score_adj')]"
    kernel.run(
        "open('/proc/self/comm', 'w').write('mine'); open('/proc/self/oom_score_adj', 'w').write('700')"
    )
    before = kernel.run(read).result
    code = f"{FORKS}while not forks(): pass\nopen(f'/proc/{{forks()[0]}}/oom_score_adj').read()"
    assert kernel.run(IN_PROCESS + code).result == r"'1000\n'"
    kernel.run(IN_PROCESS + "x = 2")
    assert kernel.run(IN_PROCESS + DIE).content["ename"] == "CellDied"
    assert kernel.run("x").result == "2"
    assert kernel.run(read).result == before == r"['mine\n', '700\n']"


def test_the_fork_before_ends_when_the_new_one_sleeps(kernel):
    for _ in range(3):
        code = IN_PROCESS + FORKS + "while len(forks()) != 1: time.sleep(0.01)"
        assert kernel.run(code).status == "ok"


def forks_of(kernel):
    """The sleeping forks, seen from outside."""
    return [pid for pid in sorted(kernel.workers()) if name(pid) == ASLEEP]


def fork_of_a_cell(kernel):
    """The fork that protects an isolated cell."""
    outcome = kernel.run(
        IN_PROCESS + FORKS + "while len(forks()) != 1: time.sleep(0.01)\nforks()[0]"
    )
    return int(outcome.result)


def fork_of_a_pause(kernel):
    """The fork that is made when nobody has used the notebook for a moment, after such a cell."""
    used = fork_of_a_cell(kernel)
    kernel.settle()  # an idle commit that comes late would end the fork that is there
    seen: list[list[int]] = []

    def is_made():
        seen.append(forks_of(kernel))
        return len(seen) >= 20 and all(one == seen[-1] for one in seen[-20:]) and len(seen[-1]) == 1

    until(is_made)
    assert seen[-1] != [used]
    return seen[-1][0]


def test_a_pause_makes_the_fork_of_the_next_cell(paced_kernel):
    paced_kernel.run("import random; shared = [1]; gen = iter(range(9))")
    assert fork_of_a_cell(paced_kernel) != fork_of_a_pause(paced_kernel)
    made = fork_of_a_pause(paced_kernel)
    assert fork_of_a_cell(paced_kernel) == made
    made = fork_of_a_pause(paced_kernel)
    assert paced_kernel.run(IN_PROCESS + "shared.append(next(gen))\n" + DIE).status == "error"
    assert paced_kernel.run("os.getpid(), shared, next(gen)").result == f"({made}, [1], 0)"


def test_a_fork_that_can_only_commit_is_not_kept_where_a_commit_has_all(kernel):
    """It would lose what it can't encode: what lies on a GPU, for example."""
    kernel.run(
        "import threading, time\nx = 1\n"
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    )
    kernel.settle()
    died = kernel.run(IN_PROCESS + FORKS + "x = 2\nwhile forks(): time.sleep(0.01)\n" + DIE)
    assert "those of the last commit" in died.content["evalue"]
    assert kernel.run("x").result == "1"


WHAT_RUNS_BY_ITSELF = {
    "task": "import asyncio; task = asyncio.get_running_loop().create_task(asyncio.sleep(99))",
    "call": "import asyncio; call = asyncio.get_running_loop().call_later(99, print)",
    "timer": "import signal; signal.signal(signal.SIGALRM, lambda *_: None)\n"
    "signal.setitimer(signal.ITIMER_REAL, 99)",
}


@pytest.mark.parametrize("code", WHAT_RUNS_BY_ITSELF.values(), ids=WHAT_RUNS_BY_ITSELF.keys())
def test_what_runs_by_itself_makes_a_fork_old(kernel, code):
    assert kernel.run(code).status == "ok"
    made = fork_of_a_pause(kernel)
    assert fork_of_a_cell(kernel) != made


def test_whoever_asks_makes_a_fork_old(kernel):
    """A completion runs properties, so it may have changed something."""
    kernel.run(
        "class Seen:\n    count = []\n    def __dir__(self): Seen.count.append(1); return ['it']"
    )
    made = fork_of_a_pause(kernel)
    kernel.client.complete("Seen().i", 8)
    assert kernel.client.get_shell_msg(timeout=60)["content"]["status"] == "ok"
    assert fork_of_a_cell(kernel) != made


def cells_lost(outcome):
    """How many of the cells before the one that died are lost, too. Its error says so; it depends on what
    the last fork cost: together they ran for less than 33 times as long (kernel/session/rollback.c)."""
    evalue = outcome.content["evalue"]
    if "as they were before the cell" in evalue:
        return 0
    words = r"before the last cells, without what (\d+) of them changed \(run In\["
    return int(re.search(words, evalue)[1])


def outcomes_of_a_run(kernel, cells):
    """Of cells that are sent at once, as by "Run All"."""
    sent = [kernel.client.execute(code, stop_on_error=False) for code in cells]
    outcomes = [kernel.finish(each) for each in sent]
    assert [one.status for one in outcomes] == ["ok"] * (len(cells) - 1) + ["error"]
    return outcomes


@pytest.mark.parametrize("head", ["", IN_PROCESS], ids=["plain", "recorded"])
def test_a_run_of_cells_is_durable(paced_kernel, head):
    """Cells that follow each other leave no idle moment for a commit."""
    cells = ["import time; kept = []; gen = iter(range(9))"]
    cells += [f"{head}kept.append({i}); next(gen); time.sleep(1)" for i in range(3)]
    cells += [f"{head}kept.append('dying')\n{DIE}"]
    left = 3 - cells_lost(outcomes_of_a_run(paced_kernel, cells)[-1])
    assert (
        left > 0 and paced_kernel.run("kept, next(gen)").result == f"({[0, 1, 2][:left]}, {left})"
    )


@pytest.mark.parametrize("between", ["", "between = 1"], ids=["all recorded", "plain ones between"])
def test_recorded_cells_of_a_run_share_a_fork(paced_kernel, between):
    """A fork for each would cost more than what a crash of quick cells loses; the error names those."""
    paced_kernel.run("kept = []; gen = iter(range(99))")
    paced_kernel.settle()
    quick = [f"{IN_PROCESS}kept.append({i}); next(gen)" for i in range(8)]
    cells = [code for each in quick for code in ([each, between] if between else [each])]
    outcomes = outcomes_of_a_run(
        paced_kernel, [*cells, IN_PROCESS + "kept.append('dying')\n" + DIE]
    )
    lost = cells_lost(outcomes[-1])
    assert lost > 0
    first = outcomes[-1].content["evalue"].split("(run In[")[1].split("]")[0]
    assert int(first) == outcomes[-1 - lost].content["execution_count"]
    for code in cells[-lost:]:
        assert paced_kernel.run(code).status == "ok"
    assert paced_kernel.run("kept, next(gen)").result == f"({list(range(8))}, 8)"


def test_a_pause_after_a_run_protects_all_of_it(paced_kernel):
    paced_kernel.run("kept = []; gen = iter(range(99))")
    for i in range(5):
        assert paced_kernel.run(f"{IN_PROCESS}kept.append({i}); next(gen)").status == "ok"
    paced_kernel.settle()
    outcome = paced_kernel.run(IN_PROCESS + "kept.append('dying'); next(gen)\n" + DIE)
    assert cells_lost(outcome) == 0
    assert paced_kernel.run("kept, next(gen)").result == "([0, 1, 2, 3, 4], 5)"


def test_a_second_crash_costs_no_more_than_the_first(paced_kernel):
    """What the first rollback brought back is nowhere else until the next fork, made at once."""
    paced_kernel.run("import os, time; a = 1; time.sleep(1.2)")
    paced_kernel.run("b = 2; time.sleep(1.2)")
    first = paced_kernel.run("os._exit(1)")
    kept = str(["a", "b"][: 2 - cells_lost(first)])
    there = "[name for name in ('a', 'b') if name in globals()]"
    assert "a" in kept and paced_kernel.run(there).result == kept
    assert cells_lost(paced_kernel.run("os._exit(1)")) <= 1
    assert paced_kernel.run(there).result == kept


def test_forks_leave_nothing_behind(kernel):
    kernel.run("import numpy as np; rows = np.zeros(1 << 20)")
    for i in range(20):
        assert kernel.run(IN_PROCESS + f"rows[{i}] = 1; other = rows + {i}").status == "ok"
    kernel.settle()  # a commit has all that the last fork held
    # The frontend and those that live: besides the main worker and the standbys, the next cell's fork.
    until(
        lambda: len(forks_of(kernel)) <= 1 and attached(kernel) <= 1 + len(kernel.workers()),
        lambda: attached(kernel),
    )
    assert kernel.run("rows.sum(), other[0]").result == "(np.float64(20.0), np.float64(20.0))"


def test_the_history_has_no_cell_twice(start_kernel, tmp_path):
    kernel = start_kernel(env={"IPYTHONDIR": str(tmp_path / "ipython")})
    kernel.run("one = 1")
    kernel.run(IN_PROCESS + "two = 2\n" + DIE)
    kernel.run("three = 3")
    kernel.client.history(hist_access_type="tail", n=9, raw=True)
    reply = kernel.client.get_shell_msg(timeout=60)
    lines = [line for _, _, line in reply["content"]["history"]]
    assert lines.count("one = 1") <= 1 and lines.count("three = 3") == 1


def test_a_cells_number_is_its_place_in_the_history(kernel):
    """Also after cells that died or were refused, which are in no list."""
    first = kernel.run("kept = 1").content["execution_count"]
    kernel.run(IN_PROCESS + DIE)
    assert kernel.run("%%isolated --lines\n1").content["ename"] == "UsageError"
    kernel.run("kept = 2")
    for head in ("", "%%isolated --run=isolated\n", "%%isolated --run=forked\n"):
        number = kernel.run(head + "kept = 3").content["execution_count"]
        shown = f"In[{first}], In[{first + 1}], In[{first + 3}], 'kept = 3' in In[{number}]"
        assert kernel.run(shown).result == "('kept = 1', '', 'kept = 2', True)"
        assert kernel.run(head + shown).result == "('kept = 1', '', 'kept = 2', True)"


def test_the_notebook_outlives_many_deaths(paced_kernel):
    paced_kernel.run("kept = []; gen = iter(range(99))")
    for i in range(5):
        pid = int(paced_kernel.run("import os; os.getpid()").result)
        assert paced_kernel.run(IN_PROCESS + f"kept.append({i}); next(gen)").status == "ok"
        os.kill(pid, signal.SIGKILL)
        complete(paced_kernel, without=pid)
        paced_kernel.run("pass")
    assert set(paced_kernel.run("kept").result) <= set("[0, 1234]")
    assert paced_kernel.run(IN_PROCESS + "kept = 'new'").status == "ok"
    assert Path("/proc", paced_kernel.run("import os; os.getpid()").result).exists()


@pytest.mark.parametrize(
    "head", effort.core(["", IN_PROCESS, "%%execute_with_scorep\n"], [IN_PROCESS])
)
def test_what_children_used_is_without_forks(kernel, head):
    kernel.run("import os, resource, subprocess; subprocess.run(['true'])")
    kernel.run(
        "memory = bytearray(b'x' * (64 << 20)); used = resource.getrusage(-1), os.times()[2:4]"
    )
    for _ in range(4):
        assert kernel.run(f"{head}memory[0] += 1").status == "ok"
    kernel.settle()
    now = kernel.run(f"{head}(resource.getrusage(-1), os.times()[2:4]) == used")
    assert now.result == "True"


# Memory that no commit has, and of which a cell writes to each page while a fork sleeps.
LARGE = "import mmap; large = mmap.mmap(-1, 400 << 20, mmap.MAP_PRIVATE)\n"
TOUCH = "large[::4096] = bytes(len(large) // 4096)\n"


def test_a_fork_that_makes_a_cell_copy_much_is_given_up(paced_kernel):
    paced_kernel.run(FORKS + LARGE + TOUCH + "kept = 1")
    paced_kernel.settle()  # a commit has it
    outcome = paced_kernel.run(
        IN_PROCESS + "while not forks(): pass\ncount = 0\n"
        f"while forks() and count < 50:\n    count += 1\n    {TOUCH}"
        "print(len(forks()))"
    )
    assert outcome.stream() == "0\n", outcome.stream()
    outcome = paced_kernel.run(
        f"{IN_PROCESS}kept = 2\nwhile not forks(): pass\nwhile forks():\n    {TOUCH}{DIE}"
    )
    assert outcome.content["ename"] == "CellDied"
    assert "its protection was given up" in outcome.content["evalue"]
    assert paced_kernel.run("kept").result == "1"


# Each copy of an array before a cell takes longer, by far, than a fork.
SLOW = """
import time
import numpy as np
from holdfast import _store
large, copies, prepare = np.ones(4 << 20), [], _store._prepare
def slow(*args):
    size = prepare(*args)
    if size:
        copies.append(size)
        time.sleep(0.5)
    return size
_store._prepare = slow
"""


@pytest.mark.parametrize("head", ["", IN_PROCESS])
def test_a_fork_that_makes_cells_wait_for_copies_is_seldom_made(paced_kernel, head):
    paced_kernel.run(SLOW)
    paced_kernel.settle()  # a commit has the array
    try:
        codes = [head + "large *= 1; time.sleep(0.05)"] * 60
        sent = [paced_kernel.client.execute(code) for code in codes]
        assert [paced_kernel.finish(one).status for one in sent] == ["ok"] * len(codes)
        assert paced_kernel.run("len(copies)").result == "1"
    finally:
        paced_kernel.run("_store._prepare = prepare")


def test_each_cell_of_a_run_can_have_a_fork(kernel):
    cells = ["kept = []", *(f"{IN_PROCESS}kept.append({i})" for i in range(5))]
    outcomes = outcomes_of_a_run(kernel, [*cells, IN_PROCESS + "kept.append('dying')\n" + DIE])
    assert cells_lost(outcomes[-1]) == 0
    assert kernel.run("kept").result == "[0, 1, 2, 3, 4]"


def test_after_a_crash_no_fork_is_given_up_before_a_commit(paced_kernel):
    """The cells follow each other at once, and a commit before one would be large: there is none."""
    paced_kernel.settle()  # nothing follows the cells of other tests
    paced_kernel.run(FORKS + LARGE + TOUCH + "kept = [1]; many = [[i] for i in range(300000)]")
    count = f"while not forks(): pass\nfor _ in range(5):\n    {TOUCH}print(len(forks()))\n"
    codes = [IN_PROCESS + DIE, "kept", IN_PROCESS + "kept", f"{IN_PROCESS}{count}{DIE}", "kept"]
    sent = [paced_kernel.client.execute(code, stop_on_error=False) for code in codes]
    outcomes = [paced_kernel.finish(one) for one in sent]
    assert [one.result for one in outcomes] == [None, "[1]", "[1]", None, "[1]"]
    assert outcomes[3].stream() == "1\n"
    assert "the last commit" not in outcomes[3].content["evalue"]


@pytest.mark.parametrize(
    ("wish", "by"), effort.in_turn(["always", "never"], ["environment", "command"])
)
def test_the_user_says_whether_cells_are_protected(start_kernel, wish, by):
    kernel = start_kernel(env={"HOLDFAST_PROTECT": wish} if by == "environment" else {})
    if by == "command":
        assert kernel.run("%holdfast protect").stream().startswith("budget: ")
        assert kernel.run(f"%holdfast protect {wish}").stream().startswith(f"{wish}: ")
    assert kernel.run("%holdfast protect").stream().startswith(f"{wish}: ")
    kernel.run(FORKS + LARGE + TOUCH + "kept = (n for n in range(5))")
    outcome = kernel.run(f"{IN_PROCESS}for _ in range(5):\n    {TOUCH}print(len(forks()))")
    assert outcome.stream() == {"always": "1\n", "never": "0\n"}[wish], outcome.stream()
    assert kernel.run(IN_PROCESS + DIE).content["ename"] == "CellDied"
    outcome = kernel.run("next(kept)")
    assert outcome.status == {"always": "ok", "never": "error"}[wish]


def test_a_wrong_protection_changes_nothing(paced_kernel):
    before = paced_kernel.run("%holdfast protect").stream()
    for code in ("%holdfast protect sometimes", "%holdfast protect never always"):
        text = paced_kernel.run(code).stream("stderr")
        assert "UsageError" in text and all(word in text for word in ("always", "budget", "never"))
    assert paced_kernel.run("%holdfast protect\nx = 1").stream("stderr").startswith("UsageError")
    assert paced_kernel.run("%holdfast protect").stream() == before
