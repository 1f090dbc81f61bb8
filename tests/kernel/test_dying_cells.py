"""A recorded cell whose process dies, or finds no memory, has not happened."""

import pytest

CELL = "%%execute_with_scorep\n"


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


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


@pytest.mark.fresh  # others would have the limit, too
def test_a_cell_that_finds_no_memory(kernel):
    """When malloc() fails, glibc tries again in an arena of its own, which takes 64 MiB of addresses."""
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
