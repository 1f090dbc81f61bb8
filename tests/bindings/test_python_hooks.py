"""The hooks of the interpreter: each call is seen once, and others who listen go on.

The truth is Python's own profile hook, on the same program.
"""

import re
import sys

import pytest
from needed import needed
from trace_reader import AVAILABLE

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

_NAME = re.compile(r'Region: "(.*)" <')


PROGRAM = """
    import threading
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
    def count(n):
        for i in range(n): yield i
    def fail(n):
        if n == 0: raise KeyError(n)
        return fail(n - 1)
    class Thing:
        def __init__(self): self.x = 1
        def __add__(self, other): return self
    def guarded(n):
        try: fail(n)
        except KeyError: return n
    def work():
        sum(map(fib, range(10))); sum(count(50)); guarded(20)
        sorted([3, 1, 2], key=lambda x: -x)
        Thing() + Thing()
        [guarded(i) for i in count(5)]
        gen = count(3); next(gen); gen.close()
    threads = [threading.Thread(target=work, name=f"w{i}") for i in range(4)]
    def main():
        for t in threads: t.start()
        for t in threads: t.join()
        work()
"""


def test_calls_equal_those_of_sys_setprofile(record):
    """The truth is Python's own profile hook, on the same program."""
    trace = record(
        PROGRAM
        + """
    import collections
    truth = collections.Counter()
    def hook(frame, event, arg):
        code = frame.f_code
        if event == "call" and code.co_filename == __file__:
            truth[code.co_qualname] += 1
    threading.setprofile(hook); sys.setprofile(hook)
    main()
    sys.setprofile(None); threading.setprofile(None)
    threads = [threading.Thread(target=work, name=f"w{i}") for i in range(4)]
    record(main)
    del truth["main"]
    print(sum(truth.values()))
    """
    )
    calls = [name for name in trace.calls() if name != "__main__:main"]
    assert len(calls) == int(trace.output)
    assert {"w0", "w1", "w2", "w3"} <= set(trace.locations.values())
    each = {
        name: len(trace.calls(location))
        for location, name in trace.locations.items()
        if name.startswith("w")
    }
    assert len(set(each.values())) == 1


MANY_KINDS = """
    import asyncio, contextlib, gc
    gc.disable()
    class Box:
        def __getitem__(self, i): return i
        def __call__(self): return self[1]
        def __eq__(self, other): return True
        def __hash__(self): return 1
        @property
        def size(self): return len(self)
        def __len__(self): return 3
        def __iter__(self): return (x for x in (1, 2))
        def __getattr__(self, name): raise AttributeError(name)
        def __del__(self): self.gone()
        def gone(self): pass
    def inner(n):
        try:
            got = yield n
            yield from range(2)
        finally: Box()
        return got
    def outer(n):
        try: yield (yield from inner(n))
        except KeyError: yield "caught"
    @contextlib.contextmanager
    def context():
        yield 1
    async def numbers():
        for i in range(3):
            await asyncio.sleep(0); yield i
    async def task(n):
        async for i in numbers(): n += i
        if n > 4: raise ValueError
        return n
    async def tasks():
        return await asyncio.gather(*(task(i) for i in range(4)), return_exceptions=True)
    def tail(n, total=0): return tail(n - 1, total + n) if n else total
    def throw():
        half = outer(2); next(half); half.throw(KeyError()); half.close()
        unstarted = outer(3)
        with contextlib.suppress(OSError): unstarted.throw(OSError())
        with context(): pass
        with contextlib.suppress(ZeroDivisionError):
            with context(): 1 / 0
    def work():
        box = Box()
        for _ in range(20): box[0]; box(); box.size; len(box); list(box); {box, box}
        with contextlib.suppress(AttributeError): box.none
        list(outer(1)); throw(); asyncio.run(tasks())
        sorted(range(5), key=lambda x: -x); [x for x in outer(4)]; tail(200)
        exec("def made(): pass\\nmade()", {"__name__": "__main__"})
        unfinished = outer(5); next(unfinished); del unfinished
        del box; gc.collect()
"""


def test_enters_and_leaves_equal_those_of_sys_setprofile(record):
    """In their order, with code that the interpreter has specialized before."""
    trace = record(
        MANY_KINDS
        + """
    truth, warm = [], work()
    def hook(frame, event, arg):
        if event in ("call", "return") and frame.f_globals["__name__"] == "__main__":
            truth.append((event, frame.f_code.co_name))
    sys.setprofile(hook); work(); sys.setprofile(None)
    record(work)
    for event in truth: print(*event)
    """
    )
    truth = [tuple(line.split()) for line in trace.output.splitlines()]
    seen = [
        ({"ENTER": "call", "LEAVE": "return"}[event.kind], re.split("[.:]", match[1])[-1])
        for event in trace.events
        if (match := _NAME.search(event.text)) and match[1].startswith("__main__")
    ]
    assert seen == truth
    assert len(truth) > 1000


def test_a_call_that_the_recursion_limit_refuses_is_none(record):
    trace = record("""
        count = 0
        def endless():
            global count
            count += 1
            endless()
        def main():
            for _ in range(3):
                try: endless()
                except RecursionError: pass
        record(main)
        print(count)
    """)
    assert trace.calls().count("__main__:endless") == int(trace.output)


def test_a_deep_recursion_ends_before_the_stack_does(record):
    """A recorded call takes C stack on Python 3.11, a plain one doesn't."""
    trace = record("""
        import threading
        def deep(n): return deep(n - 1) + 1 if n else 0
        def attempt(n=200):
            try: print(deep(60_000) == 60_000)
            except RecursionError: print(deep(n) == n)
        def main():
            attempt(5000)
            threading.stack_size(512 * 1024)
            thread = threading.Thread(target=attempt); thread.start(); thread.join()
        sys.setrecursionlimit(100_000)
        record(main)
        print(deep(60_000) == 60_000)
    """)
    assert trace.output.split() == ["True"] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows it")
def test_the_first_call_reads_no_files(record):
    """The stack was looked at before: glibc reads all of /proc/self/maps for it."""
    trace = record("""
        def read():
            with open("/proc/self/io") as io: return int(io.readline().split()[1])
        seen = []
        def main():
            seen.append(read())
            seen.append(read())
        r.open(directory)
        before = read()
        r.enable()
        main()
        r.disable()
        r.close()
        # What is read of the file itself may have a digit more.
        print(abs(seen[0] - before - (seen[1] - seen[0])) < 100)
    """)
    assert trace.output == "True\n"


@pytest.mark.long
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and later need no such hook")
def test_beside_torch_compile(record):
    """Which sets a frame-evaluation hook as well: over ours, and under it."""
    needed("torch")
    trace = record("""
        import torch
        def f(x): return helper(x) + 1
        def helper(x): return x * 2
        compiled = torch.compile(f, backend="eager")
        value = torch.ones(3)
        def plain(): pass
        def switch():
            r.disable(); plain(); r.enable(); plain()
        def graph(module, inputs):
            switch(); return module.forward
        def main():
            assert compiled(value).tolist() == [3, 3, 3]; plain()
            torch.compile(lambda x: x - 1, backend=graph)(value); plain()
            assert compiled(value + 1).tolist() == [5, 5, 5]
        record(main)
        plain()
        compiled(value)
        print(result["lost"])
    """)
    names = trace.calls()
    assert names.count("__main__:plain") == 3
    assert "__main__:switch" in names
    assert trace.output.split() == ["0"]


def test_a_profiler_that_was_there_goes_on(record):
    trace = record("""
        seen = []
        def f(): pass
        def watch(frame, event, arg):
            if frame.f_code is f.__code__: seen.append(event)
        sys.setprofile(watch)
        r.open(directory); r.enable(); f(); r.disable()
        assert sys.getprofile() is watch and seen == ["call", "return"]
        f()
        assert len(seen) == 4
        sys.setprofile(None)
        r.enable(); f(); r.disable()
        assert sys.getprofile() is None
        r.close()
    """)
    assert trace.calls().count("__main__:f") == 2


def test_with_c_functions_a_profiler_that_was_there_is_there_again(record):
    trace = record("""
        seen, other = [], lambda *event: None
        def f(): pass
        def watch(frame, *event):
            if frame.f_code is f.__code__: seen.append(event)
        sys.setprofile(watch)
        r.open(directory, c_calls=True); r.enable(); f(); r.disable()
        assert sys.getprofile() is watch and not seen
        f()
        assert seen
        r.enable(); sys.setprofile(other); r.disable()
        assert sys.getprofile() is other
        sys.setprofile(None)
        r.enable(); f(); r.disable()
        assert sys.getprofile() is None
        r.close()
    """)
    assert trace.calls().count("__main__:f") == 2


def test_c_calls_on_request(record):
    program = """
        import time
        def main():
            len([]); time.sleep(0); [].append(1)
            try: int("x")
            except ValueError: pass
            time.sleep(0)
        record(main, c_calls={})
    """
    with_c = record(program.format(True), "with")
    names = set(with_c.calls(prefix=""))
    assert {"builtins:len", "time:sleep", "builtins.list:append"} <= names
    assert len(with_c.calls(prefix="time:sleep")) == 2
    assert record(program.format(False), "without").calls(prefix="time:") == []
