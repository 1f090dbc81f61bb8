"""The monitor in our own kernel: kinds and outcomes of cells. Whether the figures are right is in
tests/bench/test_benchmarks.py."""

import json

import pytest

LAST = """
import json
from holdfast.monitor import source
m = source.connect()
c = [c for c in m.cells() if c.end_ns][-1]
s = m.summary("process", c.begin_ns, c.end_ns)
print(json.dumps([c.kind, c.outcome, c.number, c.source, c.duration, c.pids, m.resources()["cores"], s]))
"""


def test_kinds_and_outcomes(kernel):
    def observed(code):
        kernel.run(code)
        keys = (
            "kind",
            "outcome",
            "number",
            "source",
            "duration",
            "pids",
            "cores",
            "summary",
        )
        return dict(zip(keys, json.loads(kernel.run(LAST).stream()), strict=True))

    found = observed("import time\ntime.sleep(0.02)")  # which was not sampled
    assert (found["kind"], found["outcome"]) == ("plain", "ok")
    assert found["source"] == "import time\ntime.sleep(0.02)"
    assert 0.02 <= found["duration"]
    found = observed("with open('w', 'wb', 0) as f:\n    for i in range(100): f.write(b'x')")
    assert found["summary"]["io_write_count"][3] == pytest.approx(100, rel=0.2)
    assert observed("1/0")["outcome"] == "error"
    assert observed("def f(:")["outcome"] == "error"  # no code of it ran
    assert observed("get_ipython().showtraceback()\ntime.sleep(0.02)")["duration"] >= 0.02
    found = observed("%%isolated\nimport os\nos.kill(os.getpid(), 9)")
    assert (found["kind"], found["outcome"]) == ("isolated", "died")
    found = observed("%%execute_with_scorep --run=isolated\nx = 1")
    assert (found["kind"], found["outcome"]) == ("instrumented", "ok")


BURST = '''
import json, os, resource, subprocess, sys, time

def burn(seconds):
    while resource.getrusage(resource.RUSAGE_SELF).ru_utime < burn.begin + seconds: pass

def burning(seconds, wait=True):
    """A program that burns for so long, and writes 5 MB."""
    code = f"import os, time; os.write(1, b'x' * 5_000_000)\\nwhile time.process_time() < {seconds}: pass"
    program = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.DEVNULL)
    if wait: program.wait()
    return program

def until_used(program, seconds):
    ticks = os.sysconf("SC_CLK_TCK")
    while sum(map(int, open(f"/proc/{program.pid}/stat").read().rpartition(")")[2].split()[11:13])) < seconds * ticks:
        time.sleep(0.01)

def used():
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)

notes = {}
def noted(number, what):
    """Do it; note what it used by this process's own counters."""
    begin = used(); burn.begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = what()
    notes[number] = used() - begin
    return found
'''
CELLS = """
noted(1, lambda: burn(0.02))
noted(2, lambda: burning(0.03))
noted(4, lambda: os.waitpid(os.fork() or os._exit(sum(range(400_000)) & 0), 0))
program = noted(5, lambda: burning(60, wait=False))
noted(6, lambda: time.sleep(0.01))
noted(7, lambda: until_used(program, 0.4))
program.kill(); noted(8, program.wait)
"""

FIGURES = """
import re
from holdfast.monitor import source
m = source.connect()
found = []
for c in m.cells():
    if c.end_ns and (number := re.search(r"noted\\((\\d),", c.source)):
        s = m.summary("process", c.begin_ns, c.end_ns)
        figures = s["cpu_seconds"][3], s["io_write_mb"][3], s["memory"][2]
        found.append([int(number[1]), figures])
print(json.dumps(found))
"""


def test_cells_of_a_burst_have_what_they_and_their_programs_used(kernel):
    """Nobody reads the counters of a short cell's process, but by its own word all is there."""
    kernel.run(BURST)
    cells = ["pass", *CELLS.strip().splitlines(), "pass"]
    sent = [kernel.client.execute(cell) for cell in cells]
    assert [kernel.finish(one).status for one in sent] == ["ok"] * len(cells)
    own = dict(json.loads(kernel.run("print(json.dumps([*notes.items()]))").stream()))
    figures = dict(json.loads(kernel.run(FIGURES).stream()))
    used = {number: one[0] for number, one in figures.items()}
    for number in (1, 2, 4):  # with the children that it waited for, and IPython's part
        assert own[number] - 1e-3 <= used[number] < own[number] + 0.02, (number, used, own)
    assert used[1] >= 0.02 and used[2] >= 0.03
    assert figures[2][1] >= 5e6 / 2**20 > figures[1][1]  # what the program wrote
    assert used[7] > 0.2  # a program that runs counts, though nobody has waited for it
    several = (5, 6, 7, 8)
    assert sum(map(used.get, several)) == pytest.approx(sum(map(own.get, several)), abs=0.1)
    assert all(0.01 < memory < 4 for *_, memory in figures.values())
