"""What the first product promises, each checked as its user would: by states and counts.

The values are made in plain cells and looked at in both kinds of cell, in turn, so that each
of them crosses both ways more than once.
"""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from processes import state
from waiting import begun, until


CELL = "%%execute_with_scorep\n"
CLEAN = "%%execute_with_scorep --run=isolated\n"
PAGE = os.sysconf("SC_PAGE_SIZE")
HOLDFAST = Path(sys.executable).with_name("holdfast")


@pytest.fixture
def kernel(shared_kernel):
    """The same for all tests here but those that count bytes."""
    return shared_kernel


@pytest.fixture
def isolated_kernel(shared_isolated_kernel):
    return shared_isolated_kernel


@pytest.fixture
def fresh_kernel(start_kernel):
    return start_kernel()


def ok(kernel, code, **options):
    outcome = kernel.run(code, **options)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def in_turn(kernel, statement, *checks, rounds=2):
    """Run the statement in an instrumented and a plain cell in turn; each check holds in both."""
    for _ in range(rounds):
        for head in (CELL, ""):
            tried = ", ".join(f"bool({check})" for check in checks)
            found = ok(kernel, f"{head}{statement}\n[{tried}]").result
            assert found == str([True] * len(checks)), (head, statement, checks, found)


# ---- identity --------------------------------------------------------------------------------


def test_two_names_of_one_object_stay_one(kernel):
    ok(
        kernel,
        "import numpy as np\na = np.zeros(1 << 18); b = a\nl = [1]; m = l\nn = 0",
    )
    in_turn(
        kernel,
        "n += 1; a[n] = n; l.append(n)",
        "b is a",
        "m is l",
        "b[n] == n == b.sum() - n * (n - 1) // 2",
        "m[-1] == n",
        "len(m) == n + 1",
    )


def test_views_stay_views(kernel):
    ok(
        kernel,
        "import numpy as np\na = np.zeros((512, 512)); v = a[::2, 1:]; t = a.T; w = v[3]\n"
        "r = a[::-1]; flat = a.ravel(); n = 0",
    )
    in_turn(
        kernel,
        "n += 1; v[3, 4] = n; t[0, 0] += 1",
        "v.base is a",
        "t.base is a",
        "a[6, 5] == n",
        "w[4] == n",
        "a[0, 0] == n",
        "r[-1, 0] == n",
        "flat[0] == n",
        "all(np.shares_memory(a, x) for x in (v, t, w, r, flat))",
        "v.strides == (2 * a.strides[0], a.strides[1]) and t.flags.f_contiguous",
    )


def test_a_view_whose_array_has_no_name(kernel):
    ok(kernel, "import numpy as np\nv = np.zeros(1 << 18)[5:]; w = v[10:]; n = 0")
    in_turn(
        kernel,
        "n += 1; v[10] = n",
        "w[0] == n",
        "np.shares_memory(v, w)",
        "v.size == (1 << 18) - 5",
    )


def test_shared_containers_stay_shared(kernel):
    ok(
        kernel,
        "inner = [0]; d = {'inner': inner}; pair = (inner, d); d['self'] = d\n"
        "s = {1}; holder = [s, s]; n = 0",
    )
    in_turn(
        kernel,
        "n += 1; inner.append(n); s.add(n); d[n] = inner",
        "d['inner'] is inner",
        "pair[0] is inner and pair[1] is d",
        "d['self'] is d",
        "d[n] is d[1] is inner",
        "holder[0] is s and holder[1] is s and n in holder[1]",
        "inner[-1] == n and len(inner) == n + 1",
    )


def test_a_frame_and_its_column(kernel):
    pytest.importorskip("pandas")
    ok(
        kernel,
        "import numpy as np, pandas as pd\n"
        "values = np.zeros((50_000, 2)); df = pd.DataFrame(values, columns=['p', 'q'], copy=False)\n"
        "column = df['q']; other = df; n = 0",
    )
    in_turn(
        kernel,
        "n += 1; values[7, 1] = n",
        "other is df",
        "df['q'][7] == n",
        "column[7] == n",
        "np.shares_memory(values, column.to_numpy())",
        "list(df.columns) == ['p', 'q'] and len(df) == 50_000",
    )


def test_instances_and_their_classes(kernel):
    ok(
        kernel,
        "from dataclasses import dataclass, field\nfrom enum import Enum\n"
        "class Base:\n    made = 0\n    def grow(self):\n        self.size += 1\n"
        "class Thing(Base):\n    def __init__(self):\n        super().__init__(); self.size = 0\n"
        "@dataclass\nclass Point:\n    x: int\n    tags: list = field(default_factory=list)\n"
        "class Colour(Enum):\n    RED = 1\n    BLUE = 2\n"
        "thing = Thing(); same = thing; point = Point(1); colour = Colour.RED; kind = Thing; n = 0",
    )
    in_turn(
        kernel,
        "n += 1; thing.grow(); point.tags.append(n); fresh = Thing()",
        "isinstance(thing, Thing) and isinstance(thing, Base)",
        "type(thing) is type(fresh) is kind is Thing",
        "same is thing and same.size == n",
        "type(point) is Point and point.tags[-1] == n == len(point.tags)",
        "colour is Colour.RED and Colour(1) is colour and type(colour) is Colour",
        "Thing.__mro__[1] is Base",
    )


def test_functions_see_names_that_are_bound_anew(kernel):
    ok(
        kernel,
        "factor = 1\ndef scale(x):\n    return x * factor\n"
        "def counter():\n    count = 0\n    def step():\n        nonlocal count; count += 1; return count\n"
        "    def look():\n        return count\n    return step, look\n"
        "step, look = counter(); table = {'f': scale}; n = 0",
    )
    in_turn(
        kernel,
        "n += 1; factor = n; step()",
        "scale(10) == 10 * n",
        "table['f'] is scale",
        "scale.__globals__ is globals()",
        "look() == n",
    )
    ok(kernel, "factor = 50")
    assert ok(kernel, CELL + "scale(2)").result == "100"
    ok(kernel, CELL + "def factor_two(): return scale(2)\nfactor = 60")
    ok(kernel, "factor = 70")
    assert ok(kernel, "factor_two()").result == "140"


def test_names_deleted_and_made_by_cells(kernel):
    ok(kernel, "gone = [1]; kept = gone")
    ok(kernel, CELL + "del gone\nmade = kept")
    assert ok(kernel, "'gone' in globals(), made is kept").result == "(False, True)"
    ok(kernel, "del made")
    assert ok(kernel, CELL + "'made' in globals()").result == "False"


# ---- deaths ----------------------------------------------------------------------------------

STATE = (
    "import numpy as np, os\na = np.arange(1 << 17); b = a; l = [1]; d = {'l': l}; word = 'before'\n"
    "def f(): return word"
)
BEFORE = "(np.array_equal(a, np.arange(1 << 17)), b is a, l, d['l'] is l, f(), 'made' in globals())"
CHANGE = "a[:] = -1; l.append(2); word = 'after'; made = 1\nprint('reached', flush=True)\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; ctypes.memset(0, 1, 1)", "SIGSEGV"),
        ("os._exit(5)", "exit status 5"),
        ("os.abort()", "SIGABRT"),
        ("os.kill(os.getpid(), 15)", "SIGTERM"),
        (
            "import threading; threading.Timer(0.1, os._exit, (6,)).start()\nwhile True: pass",
            "6",
        ),
    ],
    ids=["SIGKILL", "segfault", "_exit", "abort", "SIGTERM", "thread"],
)
def test_a_cell_that_dies_has_not_happened(kernel, code, words):
    ok(kernel, STATE)
    for _ in range(2):
        outcome = kernel.run(CELL + CHANGE + code)
        assert outcome.status == "error" and outcome.types.count("error") == 1
        assert words in outcome.content["evalue"]
        assert "reached" in outcome.stream()
        expected = "(True, True, [1], True, 'before', False)"
        assert ok(kernel, BEFORE).result == expected
        assert ok(kernel, CELL + BEFORE).result == expected
    ok(kernel, CELL + "l.append(3)")
    assert ok(kernel, "l, d['l'] is l").result == "([1, 3], True)"


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit(3)", "exit()", "quit()", "raise SystemExit"]
)
def test_a_cell_that_leaves(kernel, code):
    """SystemExit ends no process in IPython's shell; what the cell did before it stays."""
    ok(kernel, STATE)
    kernel.run(CELL + "l.append(2)\n" + code)
    assert kernel.run("l, d['l'] is l").result in ("([1, 2], True)", None)


def test_a_cell_that_finds_no_memory(fresh_kernel):
    """When malloc() fails, glibc tries again in an arena of its own, which takes 64 MiB of addresses."""
    kernel = fresh_kernel  # others would have the limit, too
    ok(kernel, STATE)
    code = (
        "import resource; used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), used + (256 << 20)))\n"
        "l.append('kept')\nbig = np.ones(1 << 30, 'u1')"
    )
    outcome = kernel.run(CELL + code)
    assert outcome.status == "error" and outcome.types.count("error") == 1
    assert outcome.content["ename"] in ("MemoryError", "_ArrayMemoryError", "CellDied")
    # An exception is no death: what the cell did before it has happened.
    kept = "[1]" if outcome.content["ename"] == "CellDied" else "[1, 'kept']"
    assert ok(kernel, "l, 'big' in globals()").result == f"({kept}, False)"
    assert (
        ok(kernel, CELL + "int(np.ones(1 << 24, 'u1').sum()), l").result == f"({1 << 24}, {kept})"
    )


# ---- what can't be carried -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name", "word", "use"),
    [
        ("g = (i * i for i in range(100)); next(g)", "g", "generator", "next(g)"),
        (
            "import threading\ng = threading.Lock(); g.acquire()",
            "g",
            "lock",
            "g.locked()",
        ),
        (
            "import sqlite3\ng = sqlite3.connect(':memory:')",
            "g",
            "sqlite3",
            "g.total_changes",
        ),
        (
            "import threading\ng = threading.Thread(target=lambda: None); g.start()",
            "g",
            "thread",
            "g.name[:6]",
        ),
    ],
    ids=["generator", "lock", "connection", "thread"],
)
def test_what_stays_in_the_main_worker(isolated_kernel, make, name, word, use):
    kernel = isolated_kernel
    ok(kernel, f"{make}\nwhere = str(id({name})); other = [1]")  # as a number it would be named
    outcome = ok(kernel, CELL + "other.append(2); other")
    assert outcome.result == "[1, 2]" and outcome.stream("stderr") == ""
    outcome = kernel.run(CELL + f"other.append(3)\n{name}")
    assert outcome.status == "error" and outcome.types.count("error") == 1
    assert outcome.content["ename"] == "NotCarriedError"
    assert f"'{name}'" in outcome.content["evalue"] and word in outcome.content["evalue"].lower()
    assert ok(kernel, f"str(id({name})) == where").result == "True"
    ok(kernel, use)
    assert ok(kernel, "other").result == "[1, 2, 3]"


def test_a_function_that_reaches_what_stays_in_the_main_worker(isolated_kernel):
    kernel = isolated_kernel
    ok(
        kernel,
        "g = (i for i in range(9))\ndef use(): return next(g)\ndef idle(): return 5",
    )
    assert ok(kernel, CELL + "idle()").result == "5"
    outcome = kernel.run(CELL + "use()")
    assert outcome.content["ename"] == "NotCarriedError" and "'g'" in outcome.content["evalue"]
    assert ok(kernel, "use(), use()").result == "(0, 1)"


def test_a_group_with_a_member_that_stays(isolated_kernel):
    """A list that holds a lock can't go; a list beside it can, and both live on in the main worker."""
    kernel = isolated_kernel
    ok(kernel, "import threading\nlock = threading.Lock(); box = [lock, 1]; free = [2]")
    assert ok(kernel, CELL + "free.append(3); free").result == "[2, 3]"
    outcome = kernel.run(CELL + "box")
    assert outcome.content["ename"] == "NotCarriedError"
    assert "'box'" in outcome.content["evalue"] and "lock" in outcome.content["evalue"]
    assert ok(kernel, "box[0] is lock, box[1], free").result == "(True, 1, [2, 3])"


# ---- nothing is left -------------------------------------------------------------------------


def marked(marker):
    """Processes whose environment has the marker, zombies not counted."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environ = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in environ and state(entry) != "Z":
            found.append(int(entry))
    return found


def segments():
    return {
        entry for entry in os.listdir("/dev/shm") if entry.startswith(f"holdfast-{os.getuid()}-")
    }


def segment_of(pid):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[5]).name for line in lines if "/dev/shm/holdfast-" in line}


@pytest.mark.parametrize("what", ["restart", "shutdown", "kill", "kill while a cell runs"])
def test_a_kernel_that_ends_leaves_nothing(start_kernel, what):
    marker = f"HOLDFAST_TEST_MARK={uuid.uuid4().hex}"
    kernel = start_kernel(env=dict([marker.split("=")]))
    ok(kernel, STATE)
    ok(kernel, CELL + "a[0] = 5")
    ok(kernel, "import subprocess; child = subprocess.Popen(['sleep', '0.2'])")
    # Standbys are forked anew after an import: for a moment there are fewer.
    until(lambda: len(set(marked(marker))) >= 4)
    before, ours, pid = set(marked(marker)), segment_of(kernel.pid), kernel.pid
    assert len(before) >= 4 and len(ours) == 1
    if what == "restart":
        kernel.client.stop_channels()
        kernel.manager.restart_kernel(now=False)
        kernel.__init__(kernel.manager)
        until(lambda: not before & set(marked(marker)))
        assert not ours & segments()
        assert ok(kernel, "'a' in globals()").result == "False"
    elif what == "shutdown":
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=False)
        until(lambda: not marked(marker))
        assert not ours & segments()
    else:
        if what != "kill":
            begun(kernel, CELL + "import time\nprint('go')\nwhile True: time.sleep(0.01)")
        os.kill(pid, signal.SIGKILL)
        # The session waits for a kernel with the same connection file, and one process with it.
        until(lambda: len(marked(marker)) == 1, lambda: marked(marker))
        assert ours <= segments()
        subprocess.run([HOLDFAST, "gc"], check=True, capture_output=True)
        assert ours <= segments()
        os.unlink(kernel.manager.connection_file)  # nobody comes
        until(lambda: not marked(marker) and not ours & segments(), lambda: marked(marker))


def test_garbage_collection_spares_the_living(kernel):
    ok(kernel, STATE)
    ok(kernel, CELL + "a[0] = 5")
    ours = segment_of(kernel.pid)
    subprocess.run([HOLDFAST, "gc"], check=True, capture_output=True)
    assert ours <= segments()
    assert ok(kernel, CELL + "int(a[0])").result == "5"


# ---- cost, in bytes --------------------------------------------------------------------------


def test_a_touched_element_costs_pages(fresh_kernel):
    kernel = fresh_kernel
    ok(kernel, "import numpy as np\na = np.ones(1 << 22)")  # 32 MiB
    ok(kernel, CLEAN + "a[0]")
    ok(kernel, CLEAN + "pass")
    # The process's state: NumPy's old generator is in it, which NumPy 1 always imports.
    state = ok(kernel, CLEAN + "pass").cost["bytes_copied"]
    assert state <= 6 * PAGE
    for head in (CLEAN, CLEAN):
        outcome = ok(kernel, head + "a[len(a) // 2] += 1")
        assert outcome.cost["run"] == "isolated"
        assert outcome.cost["bytes_mapped"] == 8 << 22
        assert PAGE <= outcome.cost["bytes_copied"] <= state + 2 * PAGE
        assert outcome.cost["copy_faults"] == 1
    outcome = ok(kernel, CLEAN + "a[5]")
    assert outcome.cost["bytes_copied"] <= state + PAGE and outcome.cost["copy_faults"] == 0
    assert (
        ok(kernel, "float(a[len(a) // 2]), float(a.sum())").result
        == f"(3.0, {float((1 << 22) + 2)})"
    )


def test_what_is_born_in_a_cell_is_not_copied(fresh_kernel):
    kernel = fresh_kernel
    ok(kernel, "import numpy as np")
    outcome = ok(kernel, CLEAN + "made = np.full(1 << 22, 7.0)")
    assert outcome.cost["bytes_copied"] <= 8 * PAGE
    outcome = ok(kernel, CLEAN + "float(made[-1])")
    assert outcome.cost["bytes_mapped"] == 8 << 22 and outcome.cost["bytes_copied"] <= 8 * PAGE


def test_the_cost_does_not_grow_with_the_state(fresh_kernel):
    kernel = fresh_kernel
    copied = []
    ok(kernel, "import numpy as np")
    for size in (1 << 20, 1 << 24, 1 << 26):
        ok(kernel, f"a = np.ones({size} // 8)")
        ok(kernel, CELL + "a[3] += 1")
        copied.append(ok(kernel, CELL + "a[3] += 1").cost["bytes_copied"])
    assert max(copied) - min(copied) <= 2 * PAGE, copied


LINKED = """
import ctypes, numpy as np
class Node:
    def __init__(self, value, next): self.value, self.next = value, next
class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
chain = None
for number in range(20_000): chain = Node(number, chain)
points = (Point * 3000)(); point = points[7]; view = np.ctypeslib.as_array(points)
"""


def test_linked_objects_and_structures_in_both_run_modes_in_turn(kernel):
    kernel.run(LINKED)
    for turn, run_mode in enumerate(("isolated", "in-process", "isolated", "isolated"), 1):
        outcome = kernel.run(
            f"%%execute_with_scorep --run={run_mode}\n"
            "at, count = chain, 0\nwhile at: at, count = at.next, count + 1\n"
            "chain.value += 1; point.x += 1; view['y'][7] += 2\ncount, points[7].x"
        )
        assert outcome.result == f"(20000, {turn})", outcome.content
        look = "chain.value, points[7].x, point.y, type(chain) is Node, type(point) is Point"
        assert kernel.run(look).result == f"({19999 + turn}, {turn}, {2.0 * turn}, True, True)"
