"""How long does it take to see a trace, and what memory, beside other readers of the same archive?

    python bench/views.py [--calls N] [--rounds R] [--json FILE]

A program of N calls (half a million: a million events) is recorded once. Then each reader has a
process of its own, in turns, and the fastest round counts: otf2-print and the OTF2 library's own Python
module (in the interpreter that has it), which only read; what the views read (`read`: a profile, a
table and blocks for a screen), the whole of what %trace sends to the notebook (`page`), and each
file for another program. Seconds count from the program's start, so an interpreter's is in them; memory is
the process's peak. The last row is the client's: from the execute_request of %trace to the idle status.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from client import Kernel  # noqa: E402

RECORD = """
import sys
from holdfast import _recorder
def leaf(n): return n
def middle(n):
    for i in range(n): leaf(i)
def deep(n):
    return deep(n - 1) if n else middle(100)
def main(calls):
    for i in range(calls // 120): deep(19 + i % 2)
_recorder.open(sys.argv[1], tracing=True, profiling=False)
_recorder.enable(); main(int(sys.argv[2])); _recorder.disable()
print(_recorder.close()["events"])
"""
READ = "from holdfast.views.traces import *; Trace({path!r}).read()"
PAGE = "from holdfast.views.traces import *; Trace({path!r})._repr_mimebundle_()"
EXPORT = "from holdfast.views.traces import *; Trace({path!r}).export({target!r})"
PEER = """
import otf2
with otf2.reader.open({path!r}) as trace:
    count = sum(1 for location, event in trace.events)
"""
# A process's peak is at least that of the one that started it: hence a small one between.
WATCH = """
import resource, subprocess, sys, time
started = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - started
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
SUFFIXES = (".json", ".speedscope.json", ".pstats", ".callgrind", ".collapsed")


def run(command: list[str]) -> tuple[float, float]:
    """Seconds, and the peak memory in MiB, of a process."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", WATCH, *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.stderr}")
    seconds, kib = done.stdout.split()
    return float(seconds), int(kib) / 1024


def peer_python() -> str | None:
    """An interpreter that has the OTF2 library's own module."""
    for name in (sys.executable, "/usr/bin/python3"):
        if Path(name).exists():
            done = subprocess.run([name, "-c", "import otf2"], capture_output=True, check=False)
            if done.returncode == 0:
                return name
    return None


def commands(path: str, directory: str) -> dict[str, list[str]]:
    """What each row runs."""
    mine = [sys.executable, "-c"]
    found = {
        "read": [*mine, READ.format(path=path)],
        "page": [*mine, PAGE.format(path=path)],
    }
    for suffix in SUFFIXES:
        target = os.path.join(directory, "out" + suffix)
        found[suffix] = [*mine, EXPORT.format(path=path, target=target)]
    if shutil.which("otf2-print"):
        found["otf2-print"] = ["otf2-print", path]
    if python := peer_python():
        found["python3-otf2"] = [python, "-c", PEER.format(path=path)]
    return found


def in_the_notebook(path: str) -> float:
    """The client's seconds; of the second call."""
    with Kernel("holdfast") as kernel:
        kernel.run(f"%trace {path}")
        return kernel.run(f"%trace {path}")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = os.path.join(directory, "experiment")
        script = [sys.executable, "-c", RECORD, place, str(options.calls)]
        events = int(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
        path = os.path.join(place, "traces.otf2")
        best: dict[str, tuple[float, float]] = {}
        for _ in range(options.rounds):
            for name, command in commands(path, directory).items():
                took = run(command)
                best[name] = min(best.get(name, took), took)
        best["%trace, client"] = (in_the_notebook(path), float("nan"))
    print(json.dumps(measure.machine("holdfast")), end="\n\n")
    limit = best.get("otf2-print", (float("nan"), 0.0))[0]
    rows = [
        [name, f"{seconds:.3f}", f"{memory:.1f}", f"{seconds / limit:.2f}"]
        for name, (seconds, memory) in best.items()
    ]
    head = [f"{events:,} events", "s", "MiB", "to otf2-print"]
    print(measure.table(head, rows))
    measure.write_json(options.json, {"events": events, "seconds and MiB": best})


if __name__ == "__main__":
    main()
