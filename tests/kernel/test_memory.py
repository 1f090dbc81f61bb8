"""What a notebook's state costs in memory: the formula of docs/internals.md, term by term.

Counted are the private pages of all of the kernel's processes and the session's shared memory,
once, however many processes map it. Files' pages aren't: how much of them is a process's depends on
which other programs have them.
"""

import os
import sys
import time
from pathlib import Path

import effort
import pytest
from waiting import until

from holdfast.store import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import measure  # noqa: E402

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="Linux reports private pages"
)
CELL = "%%execute_with_scorep --run=isolated\n"
MIB = 1 << 20
PROCESSES = 6  # the frontend, its reaper, the fork server, the main worker, two standbys
SMALL = 4 * MIB  # what an interpreter, traces and tables may take beside a term


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def info(kernel):
    with Session.open("/" + kernel.segment().name) as session:
        return session.info()


def usage(kernel):
    """Bytes of all processes: what is theirs alone, and the segment once; None until all are there."""
    pids = measure.descendants(kernel.pid)
    private = sum(measure.unfiled_bytes(pid) for pid in pids)
    whole = private + os.stat(kernel.segment()).st_blocks * 512
    return whole if len(pids) == PROCESSES else None


def settled(kernel):
    """The usage once cells' processes have ended and standbys stand ready."""
    last = None
    for _ in range(240):
        time.sleep(0.25)
        now = usage(kernel)
        if last is not None and now is not None and abs(now - last) < MIB // 4:
            return now
        last = now
    raise AssertionError("the kernel's processes don't come to rest")


@pytest.fixture
def notebook(kernel):
    ok(kernel, "import numpy as np\nsmall = np.ones(1 << 16)")
    # The last that the fork server imports, and with it forgets which pages cells wrote.
    until(lambda: ok(kernel, CELL + "import sys; 'stack_data' in sys.modules").result == "True")
    for _ in range(5):  # a standby has then copied what the first cells wrote of the fork server
        ok(kernel, CELL + "small[0] += 1")
    settled(kernel)
    return kernel


def test_an_arena_born_array_exists_once(notebook):
    size = 256 * MIB
    before = settled(notebook)
    ok(notebook, f"a = np.ones({size} // 8)")
    for _ in range(3):
        ok(notebook, CELL + "a[len(a) // 2] += 1")
        ok(notebook, "a[len(a) // 3] += 1")
    # Each fork of the fork server may have copied more of its pages than before (prefault.py).
    assert settled(notebook) - before <= size + PROCESSES * SMALL


def anonymous_bytes(pid):
    """Of a process: what it has that is no file's and no segment's, shared with forks or not."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024


@pytest.mark.fresh  # what another one has freed would count
def test_what_is_no_buffer_is_there_live_and_encoded(notebook):
    main = int(ok(notebook, "import os, sys\nos.getpid()").result)
    before, start = info(notebook), anonymous_bytes(main)
    ok(notebook, "d = {i: 'text %d' % i for i in range(300_000)}")
    for _ in range(3):
        ok(notebook, CELL + "d[1]")
    # CPython gives each object a multiple of 16 bytes.
    part = "sum((sys.getsizeof(one) + 15) // 16 * 16 for pair in d.items() for one in pair)"
    live = int(ok(notebook, f"sys.getsizeof(d) + {part}").result)
    # The main worker alone: it has d, and what it encoded is gone. Cells' processes end with theirs.
    grown, after = anonymous_bytes(main) - start, info(notebook)
    encoded = after["committed_bytes"] - before["committed_bytes"]
    recycled = after["allocated_bytes"] - after["committed_bytes"]
    assert 2 * MIB < encoded < 10 * MIB
    assert recycled <= encoded + SMALL
    assert grown <= 1.1 * live + SMALL  # CPython's pools are not full


def test_pages_written_since_the_last_commit_are_private(notebook):
    pages = 2048
    ok(notebook, f"a = np.ones({64 * MIB} // 8)")
    ok(notebook, CELL + "a[0] = 2")
    ok(notebook, "a[0]")  # privatized by now
    # Within one cell: a commit of the idle main worker would move them into the segment.
    code = f"""
def private():
    first, last = a.ctypes.data // 4096, (a.ctypes.data + a.nbytes - 1) // 4096
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(first * 8)
        entries = np.frombuffer(file.read((last - first + 1) * 8), np.uint64)
    here = (entries >> 62 != 0)  # in memory, or swapped out
    return int((here & (entries >> 61 & 1 == 0)).sum())  # and no file's, no segment's
before = private()
for i in range({pages}): a[i * 512 + 7] = 1.5
before, private()"""
    before, after = map(int, ok(notebook, code).result[1:-1].split(","))
    assert before <= 1  # of the first cell's element
    assert after == pages


@pytest.mark.fresh
def test_changes_all_over_recycle_what_they_replace(notebook):
    size = 64 * MIB
    ok(notebook, "%holdfast history 0")  # what undo keeps isn't recycled: test_generations.py
    ok(notebook, f"a = np.ones({size} // 8)")
    allocated = []
    for _ in range(12):
        ok(notebook, CELL + "a += 1")
        allocated.append(info(notebook)["allocated_bytes"])
    # What is committed, what the next commit writes, at times one that the main worker still had mapped,
    # and one that the last cell's process did, which was not gone: never a fifth, however many
    # commits there are.
    assert max(allocated) <= 4 * size + SMALL, allocated


IN_CELLS = {
    "an array that is made anew": ["a = np.ones(SIZE // 8)"] * 4,
    "one that is changed in its place": ["a = np.ones(SIZE // 8)"] + ["a += 1"] * 4,
    "temporary ones": ["b = np.ones(SIZE // 16) * 2; del b"] * 4,
}


@pytest.mark.fresh
@pytest.mark.parametrize(
    "codes",
    effort.core(IN_CELLS.values(), [IN_CELLS["an array that is made anew"]]),
    ids=IN_CELLS,
)
def test_what_stays_after_cells_is_bounded(kernel, codes):
    """All of it, an older generation and memory for the next cell, too: twice what a cell's process had."""
    peaks = [0]
    ok(kernel, f"SIZE = {160 * MIB}")
    for code in codes:
        head = "%%isolated\nimport numpy as np, resource as r\n"
        peaks.append(int(ok(kernel, f"{head}{code}\nr.getrusage(r.RUSAGE_SELF).ru_maxrss").result))
    bound = 2 * 1024 * max(peaks) + 64 * MIB
    assert until(lambda: (usage(kernel) or bound + 1) <= bound), (usage(kernel), bound)
