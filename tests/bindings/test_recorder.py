"""holdfast._recorder: what a real reader finds in the archives that it writes.

Each case runs a program in a fresh interpreter, since a recording belongs to a process.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap

import pytest
from recorded_program import PRELUDE
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")


def test_recursion_methods_and_names(record):
    trace = record("""
        class Base:
            def method(self): return 1
            @classmethod
            def build(cls): return cls().method()
            @staticmethod
            def plain(): return (lambda: 2)()
        class Child(Base): pass
        def recurse(n):
            return recurse(n - 1) if n else 0
        def main():
            recurse(2); Child.build(); Child.plain()
        record(main)
        print(result["events"], result["lost"], result["locations"])
    """)
    assert trace.nested() == (
        "main(recurse(recurse(recurse()))build(method())plain(Base.plain.<locals>.<lambda>()))"
    )
    assert trace.calls() == ["__main__:main"] + ["__main__:recurse"] * 3 + [
        "__main__.Base:build",
        "__main__.Base:method",
        "__main__.Base:plain",
        "__main__:Base.plain.<locals>.<lambda>",
    ]
    assert trace.output.split() == [str(len(trace.events)), "0", "1"]
    region = trace.region("__main__:recurse")
    lines = trace.script.read_text().splitlines()
    assert region.file == str(trace.script)
    assert lines[region.line - 1].startswith("def recurse")
    assert (region.role, region.paradigm) == ("FUNCTION", "COMPILER")
    assert trace.locations == {0: "MainThread"}


def test_a_trace_that_is_written_later(record):
    """All is counted before; a forked child has nothing to write."""
    trace = record("""
        def main(): pass
        r.open(directory)
        r.enable(); main(); r.disable()
        ended = r.close(later=True)
        print(ended["waits"], ended["events"], r.is_open(), r.state(directory), os.listdir(directory))
        if os.fork() == 0:
            r.finish()
            os._exit(0)
        os.wait()
        print(r.state(directory), os.listdir(directory))
        r.finish()
        print(repr(r.state(directory)), "log-0" in os.listdir(directory))
        r.finish()
    """)
    assert trace.output.splitlines() == [
        "True 2 False ended ['log-0']",
        "ended ['log-0']",
        "'' False",
    ]
    assert trace.calls() == ["__main__:main"]


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ("profiling=True", "pass"),
        ("children=True", "os.waitpid(os.fork() or os._exit(0), 0)"),
        pytest.param("", "for _ in range(500_000): f()", marks=pytest.mark.long),
        ("", "r.close(later=True); r.open(directory + '2'); r.enable()"),
    ],
    ids=["a profile", "another process", "many events", "one that waits already"],
)
def test_a_trace_that_is_not_written_later(record, options, before):
    trace = record(f"""
        def f(): pass
        def main():
            {before}
        r.open(directory, {options})
        r.enable(); main(); r.disable()
        place = r.directory()
        print(r.close(later=True)["waits"], repr(r.state(place)), "traces.otf2" in os.listdir(place))
        r.finish()
    """)
    assert trace.output.split() == ["False", "''", "True"]


def test_events_of_deep_calls_are_counted(record):
    """Each that follows eight enters in a row, or leaves, and those that follow 64: they cost more on 3.11."""
    trace = record("""
        def one(): pass
        def deep(n):
            if n: deep(n - 1)
        def flat():
            for _ in range(100): one()
        def main():
            flat(); deep(5); deep(99)
        record(main)
        kinds = result["kinds"]
        print(result["events"], kinds["nested"], kinds["deep"])
    """)
    assert trace.output.split() == ["416", str(2 * (64 - 8)), str(2 * (100 - 64) + 1)]
    assert trace.output.split() == ["416", str(2 * (64 - 8)), str(2 * (100 - 64) + 1)]


def test_events_of_generators_are_counted(record):
    """Each step of one, and on 3.11 its making: they cost less, and more, than a call."""
    trace = record("""
        def numbers(n):
            for i in range(n): yield i
        def both(n): yield from numbers(n)
        async def several(n):
            for i in range(n): yield i
        async def task():
            async for _ in several(3): pass
        def main():
            list(numbers(4)); list(both(6)); sum(i for i in range(3))
            try: task().send(None)
            except StopIteration: pass
        record(main)
        print(result["events"] - 2 * 2, result["kinds"]["steps"], result["kinds"]["made"])
    """)
    steps = 5 + 2 * 7 + 4 + 4  # and main and the task, which are calls
    made = 5 if sys.version_info < (3, 12) else 0
    assert trace.output.split() == [str(2 * steps), str(2 * steps), str(made)]


def test_exceptions_and_generators(record):
    trace = record("""
        def numbers():
            try:
                yield 1
                yield 2
            finally:
                after()
        def after(): pass
        def deep(n):
            if n: deep(n - 1)
            else: raise ValueError
        def main():
            assert list(numbers()) == [1, 2]
            half = numbers(); next(half); half.close()
            try: deep(1)
            except ValueError: pass
        record(main)
    """)
    assert trace.nested() == (
        "main(numbers()numbers()numbers(after())numbers()numbers(after())deep(deep()))"
    )


def test_raw_threads_and_threads_that_run_already(record):
    trace = record("""
        import _thread, threading
        go, done, early = threading.Event(), _thread.allocate_lock(), threading.Event()
        def inner(): pass
        def waiting():
            early.set(); go.wait(); inner()
        def raw(): inner(); done.release()
        thread = threading.Thread(target=waiting, name="early"); thread.start(); early.wait()
        def main():
            done.acquire(); _thread.start_new_thread(raw, ()); done.acquire()
            go.set(); thread.join()
        record(main)
    """)
    by_name = {name: location for location, name in trace.locations.items()}
    assert trace.nested(by_name["early"]) == "inner()"
    raw = [location for location in trace.locations if "raw" in trace.nested(location)]
    assert len(raw) == 1
    assert trace.nested(raw[0]) == "raw(inner())"


def test_threads_that_serve_are_left_out(record):
    """The mark that debuggers look for; a location may not even be made."""
    trace = record("""
        import threading
        go = threading.Event()
        def inner(): pass
        def work():
            go.wait(); inner()
        early = threading.Thread(target=work, name="early"); early.start()
        late = threading.Thread(target=inner, name="late")
        mine = threading.Thread(target=inner, name="mine")
        for thread in early, late: thread.pydev_do_not_trace = True
        mine.pydev_do_not_trace = False
        def main():
            go.set()
            for thread in late, mine: thread.start()
            for thread in early, late, mine: thread.join()
        record(main)
    """)
    assert sorted(trace.locations.values()) == ["MainThread", "mine"]
    assert trace.calls().count("__main__:inner") == 1


def test_many_short_threads(record):
    """Their buffers are written out as they end, not all kept to the end."""
    trace = record("""
        import threading
        def inner(): pass
        def main():
            for i in range(100):
                t = threading.Thread(target=inner, name=f"t{i}"); t.start(); t.join()
        record(main)
        # Not ru_maxrss: that begins with what the process before exec had.
        with open("/proc/self/status") as status:
            print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
    """)
    assert len(trace.calls(prefix="__main__:inner")) == 100
    assert int(trace.output) < 66_000  # KiB; 100 buffers of 1 MiB would be above


def test_user_regions_across_functions(record):
    """A region begun in one helper and ended in another is split so that it nests."""
    trace = record("""
        def start(): r.region_begin("__main__:x", "file.py", 7)
        def stop(): assert r.region_end("__main__:x")
        def work(): pass
        def main():
            start(); work(); stop()
            assert r.region_end("__main__:never") is False
        record(main)
    """)
    assert trace.nested() == "main(start(x())x(work()stop())stop())"
    region = trace.region("__main__:x")
    assert (region.file, region.line) == ("file.py", 7)
    assert (region.role, region.paradigm) == ("CODE", "USER")


def test_open_regions_are_left_at_close(record):
    trace = record("""
        def main():
            r.region_begin("__main__:open")
            r.close()
        r.open(directory); r.enable(); main()
        assert not r.is_open() and not r.is_enabled()
    """)
    assert trace.nested() == "main(open())"


def test_events_switched_off_in_between(record):
    """A frame that returns while events are off is left before the next event."""
    trace = record("""
        def off(): r.disable()
        def hidden(): pass
        def inner(): off()
        def seen(): pass
        def on(): r.enable()
        def main():
            inner(); hidden(); r.enable(); seen()
            inner(); on(); seen()
        r.open(directory); r.enable(); main(); r.close()
    """)
    assert trace.nested() == "main(inner(off())seen()inner(off())seen())"


def test_parameters(record):
    trace = record("""
        def main():
            r.parameter_int("signed", -(2**63)); r.parameter_uint("unsigned", 2**64 - 1)
            r.parameter_string("text", 'a "h\\u00e4llo"')
            for bad in (lambda: r.parameter_uint("unsigned", -1),
                        lambda: r.parameter_int("signed", 2**63)):
                try: bad()
                except OverflowError: pass
                else: raise AssertionError
        record(main)
    """)
    parameters = [e.text for e in trace.events if e.kind.startswith("PARAMETER")]
    assert len(parameters) == 3
    assert 'Parameter: "signed"' in parameters[0]
    assert parameters[0].endswith(f"Value: {-(2**63)}")
    assert parameters[1].endswith(f"Value: {2**64 - 1}")
    assert "hällo" in parameters[2]


def test_recording_off_keeps_balance(record):
    trace = record("""
        def a(): r.disable_recording()
        def b(): r.enable_recording(); c()
        def c(): pass
        def main():
            a(); c(); b(); c()
        record(main)
    """)
    assert trace.nested() == "main(a()c()c())"
    modes = [e.text.split()[-1] for e in trace.events if e.kind == "MEASUREMENT_ON_OFF"]
    assert modes == ["OFF", "ON"]


def test_rewind(record):
    trace = record("""
        def a(): pass
        def b(): pass
        def c(): pass
        def main():
            r.rewind_begin("one"); a(); print(r.rewind_end("one", True))
            r.rewind_begin("two"); b(); print(r.rewind_end("two", False))
            print(r.rewind_end("three", True)); c()
        record(main, c_calls=True)
    """)
    assert trace.nested() == "main(b()c())"
    assert trace.output.split() == ["True", "True", "False"]
    modes = [e.text.split()[-1] for e in trace.events if e.kind == "MEASUREMENT_ON_OFF"]
    assert modes == ["OFF", "ON"]  # where a() was


def test_buffers_are_flushed_when_full(record):
    trace = record("""
        def a(): pass
        def main():
            for _ in range(30_000): a()
        os.environ["SCOREP_TOTAL_MEMORY"] = "1k"
        record(main)
        print(result["lost"])
    """)
    assert len(trace.calls(prefix="__main__:a")) == 30_000
    assert any(event.kind == "BUFFER_FLUSH" for event in trace.events)
    assert trace.output.strip() == "0"


def test_the_buffers_of_many_threads_keep_within_the_whole(record):
    trace = record("""
        import threading
        all_record, looked = threading.Barrier(51), threading.Event()
        def f(): pass
        def work(): f(); all_record.wait(); looked.wait()
        def mapped():
            # the first piece is the file's head and journal
            sizes = []
            for line in open("/proc/self/maps"):
                if "/log-0" in line:
                    begin, end = line.split()[0].split("-")
                    sizes.append(int(end, 16) - int(begin, 16))
            return sum(sizes) - 65536
        def main():
            threads = [threading.Thread(target=work) for _ in range(50)]
            for one in threads: one.start()
            all_record.wait()
            print(mapped() // 1024)
            looked.set()
            for one in threads: one.join()
        os.environ["SCOREP_TOTAL_MEMORY"] = "16M"
        record(main)
    """)
    assert trace.calls(prefix="__main__:f").count("__main__:f") == 50
    assert 8 * 1024 < int(trace.output) <= 16 * 1024


def test_times_are_those_of_the_clock(record):
    """Whatever a tick is: the trace says how many make a second, and that is right."""
    trace = record("""
        import time
        def nap(): time.sleep(0.2)
        def main():
            before = time.monotonic(); nap(); print(time.monotonic() - before)
        record(main)
    """)
    rate = trace.ticks_per_second
    (enter, leave) = (e for e in trace.events if e.text.endswith('nap" <1>'))
    assert 0.1999 < (leave.time - enter.time) / rate < float(trace.output) * 1.0001


def test_many_definitions(record):
    """More than a chunk of the definition writer holds."""
    trace = record("""
        def main():
            for i in range(3000):
                name = f"__main__:{i:05}" + "x" * 400
                r.region_begin(name); r.region_end(name)
        record(main)
    """)
    assert len(set(trace.calls(prefix="__main__:0"))) == 3000


def test_others_run_and_fork_while_files_are_written(record):
    """The interpreter's lock is given up meanwhile; a child must not write them again."""
    trace = record("""
        import ctypes, signal, threading
        c_library = ctypes.CDLL(None)
        def a(): pass
        def spin():
            while not over: a()
        def fork():
            while not over:
                pid = os.fork()
                if not pid:
                    signal.alarm(30)
                    c_library.fflush(None)  # what an exit would write a second time
                    os._exit(r.is_open())
                statuses.add(os.waitpid(pid, 0)[1])
        over, statuses = False, set()
        threads = [threading.Thread(target=f) for f in (spin, fork)]
        for t in threads: t.start()
        for i in range(30):
            os.mkdir(f"{directory}-{i}"); r.open(f"{directory}-{i}"); r.enable()
            for _ in range(1000): a()
            r.close()
        over = True
        for t in threads: t.join()
        print(*statuses)
        record(a)
    """)
    assert trace.output.split() == ["0"]
    for i in range(0, 30, 10):
        assert Trace(f"{trace.directory}-{i}").calls(0).count("__main__:a") >= 1000


def test_fork_leaves_the_parents_archive_alone(record):
    """The child exits the ordinary way, with a half-full buffer inherited."""
    trace = record("""
        def a(): pass
        def main():
            for _ in range(20_000): a()
            pid = os.fork()
            if not pid:
                assert not r.is_open() and not r.is_enabled() and r.close() is None
                for _ in range(20_000): a()
                os.mkdir(directory + "-child"); r.open(directory + "-child")
                r.enable(); a(); r.close()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            a()
        os.environ["SCOREP_TOTAL_MEMORY"] = "1k"
        record(main)
    """)
    assert len(trace.calls(prefix="__main__:a")) == 20_001
    assert Trace(f"{trace.directory}-child").nested() == "a()"


def test_one_recording_after_another(record):
    """Region numbers cached on code objects belong to one recording only."""
    trace = record("""
        def a(): pass
        def b(): a()
        def main():
            b()
        os.mkdir(directory + "-first")
        r.open(directory + "-first"); r.enable(); a(); r.disable(); first = r.close()
        record(main)
        assert not r.is_open() and r.directory() is None
    """)
    assert Trace(f"{trace.directory}-first").nested() == "a()"
    assert trace.nested() == "main(b(a()))"


def test_strange_names(record):
    trace = record("""
        def odd(): pass
        exec("def nameless(): pass", namespace := {"__name__": 5})
        def main():
            namespace["nameless"]()
            for name in ("__main__:" + "x" * 100_000, "__main__:\\ud800", "__main__:\\u00e4"):
                r.region_begin(name); assert r.region_end(name)
        record(main)
    """)
    names = trace.calls()
    assert "<unknown>:nameless" in trace.calls(prefix="<unknown>")
    assert names[1].startswith("__main__:xxx") and len(names[1]) == 8192
    assert names[2:] == ["__main__:\\ud800", "__main__:ä"]


def test_shown_file_names(record):
    trace = record("""
        r.show_file("<cell 5>", "In [5]")
        r.exclude("/hidden/")
        exec(compile("def cell(): pass", "<cell 5>", "exec"))
        exec(compile("def gone(): cell()", "/hidden/x.py", "exec"))
        record(lambda: gone())
    """)
    assert trace.region("__main__:cell").file == "In [5]"
    assert trace.nested() == "<lambda>(cell())"


def test_profile(record):
    trace = record("""
        def leaf(): pass
        def branch(): leaf(); leaf()
        def main():
            branch(); branch(); leaf()
        record(main, profiling=True)
        print(result["profile"])
    """)
    with open(trace.output.strip(), encoding="utf-8") as file:
        profile = json.load(file)
    (location,) = [x for x in profile["locations"] if x["name"] == "MainThread"]
    names = [region["name"] for region in profile["regions"]]
    paths = {}
    for node in location["nodes"]:
        path, at = [], node
        while True:
            path.insert(0, names[at["region"]].partition(":")[2])
            if at["parent"] is None:
                break
            at = location["nodes"][at["parent"]]
        paths["/".join(path)] = node
    visits = {path: node["visits"] for path, node in paths.items()}
    assert visits == {
        "main": 1,
        "main/branch": 2,
        "main/branch/leaf": 4,
        "main/leaf": 1,
    }
    main, branch = paths["main"], paths["main/branch"]
    children = branch["inclusive"] + paths["main/leaf"]["inclusive"]
    assert main["exclusive"] == main["inclusive"] - children
    assert branch["min"] <= branch["max"] <= branch["inclusive"]


def test_an_unwritable_directory_is_an_error(tmp_path):
    program = (
        "from holdfast import _recorder as r\n"
        "try: r.open('/proc/none')\n"
        "except OSError as error: print('said:', error)\n"
        "assert not r.is_open()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("said: ")
    assert not done.stderr


def test_a_full_disk_is_reported_and_nothing_else_happens(tmp_path):
    """A limit on file size stands in for the disk: writes fail the same way."""
    program = PRELUDE + textwrap.dedent("""
        import resource, signal
        os.environ["SCOREP_TOTAL_MEMORY"] = "1k"
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        def a(): pass
        def main():
            for _ in range(100_000): a()
            print("the program's own result")
        r.open(directory)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        r.enable(); main()
        try: r.close()
        except OSError as error: print("said:", error)
        assert not r.is_open()
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "trace")],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "the program's own result"
    assert second.startswith("said: writing the archive")
    assert not done.stderr


CLONE_NEWUTS = 0x04000000


def under_an_unknown_name():
    assert ctypes.CDLL(None).unshare(CLONE_NEWUTS) == 0
    socket.sethostname("nobody-knows-it")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give the machine another name")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_name_server_is_asked(tmp_path):
    """libotf2 asks for the machine's address. Without a network each trace waited five seconds for it."""
    script, calls = tmp_path / "script.py", tmp_path / "calls"
    script.write_text(
        PRELUDE + "import socket\nrecord(lambda: None)\nos.mkdir('recorded')\n"
        "try: socket.gethostbyname(socket.gethostname())\nexcept OSError: pass\n"
    )
    traced = ["strace", "-f", "-qq", "-e", "trace=mkdir,connect,sendto,sendmmsg", "-o", str(calls)]
    subprocess.run(
        [*traced, sys.executable, str(script), str(tmp_path / "trace")],
        check=True,
        preexec_fn=under_an_unknown_name,
        cwd=tmp_path,
    )
    before, after = calls.read_text().split('mkdir("recorded"')
    assert "htons(53)" not in before and (tmp_path / "trace/traces.otf2").exists()
    assert "htons(53)" in after or not name_servers(), "the program's own questions are asked"


def name_servers():
    with open("/etc/resolv.conf") as file:
        return [line for line in file if line.startswith("nameserver")]
