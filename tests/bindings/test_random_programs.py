"""Programs that hypothesis made: enters and leaves are the calls that sys.setprofile reports.

A program is a list of functions, each of a kind and with a body of steps that call those that
stand before it, so that every program ends. They run a first time under Python's own profile
hook, with the interpreter's specialization under way, and a second time recorded.
"""

import re

import effort
import pytest
from trace_reader import AVAILABLE

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from recorded_program import record_in  # noqa: E402

_NAME = re.compile(r'Region: "(.*)" <')

# What a body does with `before`, a function that stands before it.
STEPS = (
    "run({before}, n - 1)",
    "for _ in range(3): run({before}, n - 2)",
    "try: run({before}, n - 1); fail(n)\n    except ValueError: pass",
    "sorted([2, 1], key=lambda x: run({before}, n - 2) or x)",
    "[run({before}, n - 2) for _ in range(2)]",
    "some = iter(values({before}, n)); next(some, None); some.close()",
    "sum(values({before}, n))",
    "asyncio.run(tasks({before}, n - 1)) if not running else None",
    "with context(n): run({before}, n - 1)",
    "Thing({before}, n - 1) + 1",
    "exec('def made(): return 1\\nmade()', {{'__name__': '__main__'}})",
)
KINDS = {
    "def": "def {name}(n):\n    if n <= 0: return 0\n    {body}\n    return 0",
    "tail": "def {name}(n):\n    if n <= 0: return 0\n    {body}\n    return {name}(n - 1)",
    "recursion": "def {name}(n):\n    if n <= 0: return 0\n    {body}\n    {name}(n - 2); return {name}(n - 3)",
    "raise": "def {name}(n):\n    if n <= 0: return 0\n    {body}\n    raise ValueError(n)",
    "generator": "def {name}(n):\n    if n <= 0: return\n    yield 1\n    {body}\n    yield from {name}(n - 2)",
    "coroutine": "async def {name}(n):\n    if n <= 0: return\n    await asyncio.sleep(0)\n    {body}",
    "asynchronous": "async def {name}(n):\n    if n <= 0: return\n    yield 1\n    {body}\n    yield 2",
}
PRELUDE = """
import asyncio, contextlib, gc, inspect, threading
gc.disable()
running = False
def fail(n): raise ValueError(n)
def values(f, n):
    try:
        yield 1
        run(f, n - 1)
        yield 2
    finally: fail_quietly(n)
def fail_quietly(n):
    with contextlib.suppress(ValueError): fail(n)
@contextlib.contextmanager
def context(n):
    try: yield
    except ValueError: pass
async def tasks(f, n):
    global running
    running = True
    try: await asyncio.gather(*(run_in_task(f, n) for _ in range(2)), return_exceptions=True)
    finally: running = False
async def run_in_task(f, n): run(f, n); await asyncio.sleep(0)
class Thing:
    def __init__(self, f, n): self.f, self.n = f, n
    def __add__(self, other): return run(self.f, self.n)
def run(f, n):
    try: made = f(n)
    except ValueError: return 0
    if inspect.iscoroutine(made): drive(made)
    elif inspect.isgenerator(made): list_of(made)
    elif inspect.isasyncgen(made): drive_all(made)
def list_of(made):
    try:
        for _ in made: pass
    except ValueError: pass
def drive(made):
    try:
        while True: made.send(None)
    except (StopIteration, ValueError): pass
def drive_all(made):
    async def each():
        async for _ in made: pass
    drive(each())
"""
MAIN = """
def work(): run({last}, {n})
def main():
    threads = [threading.Thread(target=work) for _ in range({threads})]
    for t in threads: t.start(); t.join()
    work()
truth = []
def hook(frame, event, arg):
    if event in ("call", "return") and frame.f_globals["__name__"] == "__main__":
        truth.append((event, frame.f_code.co_name))
threading.setprofile(hook); sys.setprofile(hook)
main()
sys.setprofile(None); threading.setprofile(None)
record(main)
for event in truth: print(*event)
"""


@st.composite
def programs(draw):
    functions, text = ["fail_quietly"], []
    for i in range(draw(st.integers(1, 5))):
        name, kind = f"f{i}", draw(st.sampled_from(sorted(KINDS)))
        steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
        body = "\n    ".join(step.format(before=draw(st.sampled_from(functions))) for step in steps)
        text.append(KINDS[kind].format(name=name, body=body))
        functions.append(name)
    main = MAIN.format(
        last=functions[-1], n=draw(st.integers(1, 7)), threads=draw(st.integers(0, 2))
    )
    return PRELUDE + "\n".join(text) + main


@settings(
    max_examples=effort.examples(10, 50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=programs())
def test_enters_and_leaves_are_those_of_sys_setprofile(tmp_path_factory, program):
    trace = record_in(tmp_path_factory.mktemp("program"), program)
    truth = [tuple(line.split()) for line in trace.output.splitlines()]
    seen = []
    for event in trace.events:
        match = _NAME.search(event.text)
        if match and match[1].startswith("__main__"):
            kind = {"ENTER": "call", "LEAVE": "return"}[event.kind]
            seen.append((kind, re.split("[.:]", match[1])[-1]))
    # Threads follow one another, but the trace is sorted by time: the main thread's enter of
    # Thread.start() and the thread's own first events may change places.
    if len(trace.locations) == 1:
        assert seen == truth
    assert sorted(seen) == sorted(truth)
