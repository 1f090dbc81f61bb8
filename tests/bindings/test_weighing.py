"""PSS and USS are those of the moment: no figure stands for another one."""

import json
import subprocess
import sys

import effort
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no PSS")

CHILD = """
import json, mmap
from holdfast.monitor import source

def weight():  # GB, of this process
    with open("/proc/self/smaps_rollup") as file:
        return next(int(l.split()[1]) for l in file if l.startswith("Pss:")) / 2**20

m = source.connect()
m.start({interval}, True)
found = []

def cell(code):
    m.begin_cell(code, len(found))
    exec(code, globals())
    m.end_cell("ok")
    last = m.cells()[-1]
    figures = m.summary("process", last.begin_ns, last.end_ns).get("memory_pss")
    found.append((figures, weight()))

m.begin_cell("0", 0); m.end_cell("ok")
big = None
for _ in range(3):
    cell("big = mmap.mmap(-1, 300 << 20, mmap.MAP_PRIVATE); big.write(bytes(300 << 20))")
    cell("big.close()")
    cell("pass")
m.stop()
print(json.dumps(found))
"""


@pytest.mark.parametrize("interval", effort.core([3600, 0.05], [0.05]))
def test_cells_that_follow_each_other_quickly(interval):
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(interval=interval)],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert len(found) == 9
    for number, (figures, weight) in enumerate(found):
        if number % 3 == 2:  # nothing has changed
            assert figures[1:3] == pytest.approx([weight] * 2, rel=0.1, abs=0.005)
        elif number % 3 == 1:
            assert figures[1] == pytest.approx(weight, rel=0.1, abs=0.005)
        else:
            assert figures[2] >= 0.9 * weight > 0.25
