"""A process whose parent has ended counts where it was begun: in its notebook's cell."""

import json
import sys

import pytest

BEGIN = """
import json, os, subprocess, sys, time
def gone(name):
    while not os.path.exists(name): time.sleep(0.01)
    pid = int(open(name).read())
    while os.path.exists(f"/proc/{pid}"): time.sleep(0.01)
BURN = '''import os, sys, time
while time.process_time() < 0.4: pass
with open(sys.argv[1] + ".part", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
'''
open("burn.py", "w").write(BURN)
"""
CELLS = {
    "of a shell": f"os.system('{sys.executable} burn.py {{0}} & exit 0')",
    "of a shell's shell": f"subprocess.run(['sh', '-c', '({sys.executable} burn.py {{0}} &)'])",
    "of a fork": """
if not os.fork():
    if not os.fork(): os.execv(sys.executable, [sys.executable, "burn.py", "{0}"])
    os._exit(0)
os.wait()""",
    "a daemon that is seen before": """
if not os.fork():
    if not os.fork(): os.execv(sys.executable, [sys.executable, "burn.py", "{0}"])
    time.sleep(0.2)
    os._exit(0)
os.wait()""",
    "one that is waited for": f"subprocess.run(['{sys.executable}', 'burn.py', '{{0}}'])",
}


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to init")
def test_processor_time_of_orphans(kernel):
    kernel.run("%perfmonitor_start 3600")
    assert kernel.run(BEGIN).status == "ok"
    for number, code in enumerate(CELLS.values()):
        outcome = kernel.run(code.format(number) + f"\ngone('{number}')")
        assert outcome.status == "ok", outcome.stream("stderr")
    kernel.run("%perfmonitor_stop")
    text = kernel.run(
        "from holdfast.monitor import source\n"
        "m = source.connect()\n"
        "print(json.dumps([m.summary('process', c.begin_ns, c.end_ns)['cpu_seconds'][3]"
        " for c in m.cells() if c.end_ns and 'gone(' in c.source]))"
    ).stream()
    used = json.loads(text)[1:]  # the first defines it
    assert dict(zip(CELLS, used)) == pytest.approx(dict.fromkeys(CELLS, 0.45), abs=0.15)
