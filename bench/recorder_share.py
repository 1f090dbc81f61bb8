"""Is what "recording took" shows what recording takes? `python bench/recorder.py --share`

Each row is the processor time by which some code is longer when it is recorded, and what the recorder says
of that recording (worker/event_cost.py). One process measures what an event costs, as one that waits for a
cell does, and then runs the code as it is and recorded, in turns. Of the turns the third that was least
disturbed counts. Each has as many events as a window of the log, so the log's way to the disk is in it. Of
several processes the middle ratio counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile

BEFORE = """
import functools, re, sys, threading
sys.setrecursionlimit(3000)
def f(): pass
def same(value): return value
def both(a, b): return a
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def deep(n):
    if n: deep(n - 1)
def pair(n):
    if n: other(n - 1)
def other(n):
    if n: pair(n - 1)
def reduced(n): return functools.reduce(step, (n, n)) if n else 0
def step(a, b): return reduced(b - 1)
def mapped(n):
    for _ in map(mapped, (n - 1,) if n else ()): pass
def keyed(n):
    if n: sorted((n - 1,), key=keyed)
def substituted(n):
    if n: re.sub("a", lambda match: substituted(n - 1) or "", "a")
class Attributes:
    def __init__(self, n): self.n = n
    def __getattr__(self, name): return getattr(chain[self.n - 1], name) if self.n else 0
    def __eq__(self, other): return chain[self.n - 1] == other if self.n else True
    def __call__(self, n): return chain[n - 1](n - 1) if n else 0
    def __getitem__(self, n): return self[n - 1] if n else 0
chain = [Attributes(n) for n in range(300)]
def fails(): raise ValueError
def fails_below(n):
    if n: fails_below(n - 1)
    raise ValueError
def catches(n):
    try:
        if n: catches(n - 1)
    except ValueError: raise
    raise ValueError
def made(n):
    for i in range(n): yield i
def walk(n):
    yield n
    if n: yield from walk(n - 1)
async def waits(n):
    if n: await waits(n - 1)
def run(coroutine):
    try: coroutine.send(None)
    except StopIteration: pass
def caught(function, *arguments):
    try: function(*arguments)
    except ValueError: pass
class Point:
    def __init__(self, x): self.x = x
    def __lt__(self, other): return self.x < other.x
points = [Point(n * 7919 % 1000) for n in range(1000)]
functions = []
for i in range(2000): exec(f"def f{i}(): pass\\nfunctions.append(f{i})")
text = "a"
def in_threads(calls=5000):
    def part():
        for _ in range(calls): f()
    threads = [threading.Thread(target=part) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""

# What is repeated, and whether C functions are recorded.
WORK = {
    "flat": "for _ in range(1000): f()",
    "2,000 functions in turn": "for g in functions: g()",
    "recursion, fib(15)": "fib(15)",
    "20 deep": "deep(20)",
    "100 deep": "deep(100)",
    "900 deep": "deep(900)",
    "two in turn, 300 deep": "pair(300)",
    "callback: map": "for _ in map(same, range(1000)): pass",
    "callback: sorted(key=)": "sorted(range(1000), key=same)",
    "callback: reduce": "functools.reduce(both, range(1000))",
    "callback: __lt__ of sorted": "sorted(points)",
    "callback: __init__": "for n in range(1000): Point(n)",
    "through C, reduce, 5 deep": "reduced(5)",
    "through C, reduce, 100 deep": "chained(100)",
    "through C, map, 200 deep": "mapped(200)",
    "through C, sorted, 200 deep": "keyed(200)",
    "through C, re.sub, 100 deep": "substituted(100)",
    "through C, __getattr__, 200 deep": "chain[200].missing",
    "through C, __eq__, 200 deep": "chain[200] == 1",
    "through C, __call__, 200 deep": "chain[200](200)",
    "through C, __getitem__, 200 deep": "chain[200][200]",
    "exceptions, one frame": "for _ in range(500): caught(fails)",
    "exceptions, 100 frames": "caught(fails_below, 100)",
    "exceptions, caught in each of 100": "caught(catches, 100)",
    "generators": "for _ in range(10): sum(made(100))",
    "generators, short": "for _ in range(300): sum(made(1))",
    "generators, yield from, 50 deep": "sum(walk(50))",
    "coroutines, 100 deep": "run(waits(100))",
    "C functions": "for n in range(1000): abs(n)",
    "C functions, methods": "for n in range(1000): text.strip()",
    "C functions beside Python's": "for n in range(500): same(abs(n))",
    "C functions, deep": "deep(300)",
    "C functions, callbacks": "sorted(range(1000), key=same)",
    "C functions, exceptions": "for _ in range(300): caught(fails)",
    "four threads": "in_threads()",
    "four threads, short": "in_threads(20)",
}

PROGRAM = (
    BEFORE
    + """
def chained(n): return functools.reduce(lambda a, b: chained(n - 1), (1, 2)) if n else 0
import json, os, time
from holdfast import _recorder as r
from holdfast.worker.event_cost import Counted, EventCost
events, turns, directory, c_calls = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
source = "def once():\\n    " + sys.argv[5].replace("\\n", "\\n    ")
exec(source)
def loop(times):
    started = time.process_time()
    for _ in range(times): once()
    return time.process_time() - started
cost = EventCost(c_calls)
cost.measure(r)
r.open(directory + "/first", tracing=True, profiling=False, c_calls=c_calls)
r.enable(); once(); r.disable()
times = max(events // r.close()["events"], 1)
r.open(directory + "/second", tracing=True, profiling=False, c_calls=c_calls)
loop(times)
r.enable(); loop(times); r.disable()
recorded, plain = [], []
for _ in range(turns):
    plain.append(loop(times))
    r.enable()
    recorded.append(loop(times))
    r.disable()
counted = r.close()
def usual(seconds): return sorted(seconds)[len(seconds) // 3]
each = turns + 1
print(json.dumps({
    "shown": cost.of(Counted.of(counted)) / each, "real": usual(recorded) - usual(plain),
    "plain": usual(plain), "events": counted["events"] / each, "own": counted["own_seconds"] / each,
}))
"""
)


def run(name: str, args: argparse.Namespace) -> dict:
    """One row: the middle of some fresh processes."""
    ran = []
    for _ in range(args.processes):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(args.events), str(args.turns), directory]
                + [str(name.startswith("C functions")), WORK[name]],
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
        ran.append(json.loads(done.stdout))
    ran.sort(key=lambda one: one["shown"] / one["real"])
    least, one, most = ran[0], ran[len(ran) // 2], ran[-1]
    return {
        "work": name,
        "ratio": one["shown"] / one["real"],
        "least": least["shown"] / least["real"],
        "most": most["shown"] / most["real"],
        "real_ns": 1e9 * one["real"] / one["events"],
        "shown_ns": 1e9 * one["shown"] / one["events"],
        "own_ns": 1e9 * one["own"] / one["events"],
        "slower": one["real"] / one["plain"],
    }


def rows(args: argparse.Namespace) -> list[dict]:
    return [run(name, args) for name in WORK if args.only in name]


def show(row: dict) -> list[str]:
    spread = "{least:.2f} to {most:.2f}".format(**row)
    ns = [f"{row[name]:.1f}" for name in ("real_ns", "shown_ns")]
    return [row["work"], f"{row['ratio']:.2f}", spread, *ns, f"{row['slower']:.0%}"]


HEAD = ["", "shown/real", "least, most", "real, ns an event", "shown", "of the time without"]
