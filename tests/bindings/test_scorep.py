"""holdfast.scorep: the command line, regions, switches, and the alias."""

import os
import re
import subprocess
import sys

import pytest
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")


@pytest.fixture
def record(record_script):
    return record_script


def test_the_script_runs_in_a_true_main(record, tmp_path):
    trace = record(
        """
        import pickle, sys, __main__
        class Thing: pass
        assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing
        assert __main__.Thing is Thing and __name__ == "__main__"
        print(sys.argv, sys.path[0])
        """,
        arguments=["a", "--verbose"],
    )
    assert trace.done.stdout.split("] ")[0] == "['script.py', 'a', '--verbose'"
    assert trace.done.stdout.split("] ")[1].strip() == str(tmp_path)
    assert trace.calls()[0] == "__main__:<module>"
    assert trace.region("__main__:<module>").file == str(tmp_path / "script.py")


@pytest.mark.parametrize(
    ("end", "status"), [("raise SystemExit(3)", 3), ("1 / 0", 1), ("sys.exit(4)", 4)]
)
def test_the_archive_is_closed_however_it_ends(record, end, status):
    trace = record(f"import sys\ndef f():\n    {end}\nf()", status=status)
    assert trace.nested() == "<module>(f())"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", -15),
        ("os._exit(7)", 7),
        ("threading.Thread(target=os._exit, args=(8,)).start(); time.sleep(60)", 8),
    ],
)
def test_abrupt_ends_close_it_too(record, end, status):
    trace = record(f"import os, signal, threading, time\ndef f(): pass\nf()\n{end}", status=status)
    assert trace.calls() == ["__main__:<module>", "__main__:f"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_are_ended_as_ever(record, method):
    """A child that is terminated as soon as it is made dies of that; no trace is touched."""
    trace = record(
        f"""
        import multiprocessing, time
        def square(x): return x * x
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            for _ in range(5):
                child = context.Process(target=time.sleep, args=(50,))
                child.start(); child.terminate(); child.join(); print(child.exitcode)
            with context.Pool(1) as pool: print(pool.map(square, [2]))
            square(5)
        """
    )
    assert trace.done.stdout.split() == ["-15"] * 5 + ["[4]"]
    assert trace.calls(0).count("__main__:square") == 1


def test_unknown_options_are_named(record):
    trace = record("pass", "--frobnicate", "--keep-files")
    assert "unknown, passed over: --frobnicate\n" in trace.done.stderr


def test_threads_that_outlive_the_script(record):
    trace = record(
        """
        import threading, time
        def late():
            threading.main_thread().join(0.05)
            inner()
        def inner(): pass
        threading.Thread(target=late).start()
        """
    )
    assert "__main__:inner" in trace.calls(1)


def test_a_pool_finds_the_functions_of_main(record):
    """multiprocessing by fork. What its processes record: test_parts.py."""
    trace = record(
        """
        import multiprocessing
        def square(x): return x * x
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(square, range(4)))
            square(5)
        """
    )
    assert trace.done.stdout.strip() == "[0, 1, 4, 9]"
    assert trace.calls(0).count("__main__:square") == 1


def test_modules_and_code(python, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text("def f(): print(__package__)\nf()")
    done = python("-m", "holdfast.scorep", "-m", "package", "x")
    assert (done.returncode, done.stdout) == (0, "package\n"), done.stderr
    assert Trace(tmp_path / "experiment").nested() == "<module>(f())"
    done = python("-m", "holdfast.scorep", "-c", "def g(): pass\ng()")
    assert done.returncode == 0, done.stderr
    assert Trace(tmp_path / "experiment").nested() == "<module>(g())"


def test_options(record):
    trace = record(
        "def f(): pass\nf()", "--mpp=mpi", "--thread", "pthread", "--nocompiler",
        "--keep-files", "--verbose", "--instrumenter-type=cTrace",
    )  # fmt: skip
    assert trace.nested() == "<module>(f())"
    assert "--mpp=mpi --thread=pthread --nocompiler" in trace.done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "can't read nowhere.py"),
        ([], "no program"),
        (["-z", "x.py"], "unknown option -z"),
        (["--nope", "nope.py"], "unknown option --nope; and "),
        (["--instrumenter-type=none", "x.py"], "unknown instrumenter type"),
        (["-m", "no_such_module"], "no module to run"),
    ],
)
def test_misuse_gets_a_clear_line(python, tmp_path, arguments, words):
    done = python("-m", "holdfast.scorep", *arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2 and "--help" in done.stderr
    assert not (tmp_path / "experiment").exists()


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_verbose_counts_the_events_of_the_trace(record, way):
    """Those of all processes, in one line of the first one."""
    trace = record(
        f"""
        import multiprocessing
        def f(x): return x
        if __name__ == "__main__":
            with multiprocessing.get_context("{way}").Pool(3) as pool:
                pool.map(f, range(60))
                pool.close()
                pool.join()
        """,
        "--verbose",
    )
    (line,) = [line for line in trace.done.stderr.splitlines() if " events in " in line]
    counted, others = re.search(r": (\d+) events in .*, (\d+) of them of other", line).groups()
    assert int(counted) == sum(event.kind != "BUFFER_FLUSH" for event in trace.events)
    assert 0 < int(others) < int(counted)


def test_an_existing_directory(record, python, tmp_path):
    record("pass")
    record("pass")
    assert len(list(tmp_path.glob("experiment-*"))) == 1
    done = python(
        "-m",
        "holdfast.scorep",
        "script.py",
        SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY="false",
    )
    assert done.returncode == 2
    assert "SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY" in done.stderr


def test_regions(record):
    trace = record(
        """
        import scorep.user
        @scorep.user.region()
        def named_by_itself(): pass
        class C:
            @scorep.user.region("method")
            def m(self): return self
        with scorep.user.region("block"):
            named_by_itself()
        C().m()
        scorep.user.region_begin("old"); scorep.user.region_end("old")
        scorep.user.region_end("never"); scorep.user.region_end("never")
        scorep.user_region_begin("older"); scorep.user_region_end("older")
        """,
        "--noinstrumenter",
    )
    assert trace.calls(prefix="") == [
        "user:block", "__main__:named_by_itself", "user:method", "user:old",
        "error_region", "error_region", "user:older",
    ]  # fmt: skip
    assert trace.region("user:block").line == 8
    assert trace.done.stderr.count("no such region") == 1


def test_decorated_functions_keep_their_kind(record):
    trace = record(
        """
        import asyncio, inspect, scorep
        region = scorep.user.region
        @region("g")
        def g():
            try: got = yield 1
            except KeyError: got = "key"
            yield got
            return "end"
        @region("c")
        async def c():
            await asyncio.sleep(0)
            return 5
        @region("a")
        async def a():
            for i in range(2):
                await asyncio.sleep(0)
                yield i
        assert inspect.isgeneratorfunction(g) and inspect.iscoroutinefunction(c)
        assert inspect.isasyncgenfunction(a)
        def outer(): return (yield from g())
        it = outer(); assert next(it) == 1 and it.send(7) == 7
        try: next(it)
        except StopIteration as stop: assert stop.value == "end"
        it = g(); next(it); assert it.throw(KeyError) == "key"; it.close()
        async def main():
            assert await asyncio.gather(c(), c()) == [5, 5]
            assert [x async for x in a()] == [0, 1]
        asyncio.run(main())
        """,
        "--noinstrumenter",
    )
    names = trace.calls(prefix="user:")
    assert names.count("user:g") == 3 + 3
    assert names.count("user:c") == 4
    assert names.count("user:a") == 5


def test_instrumenter_nesting(record):
    """A switch that doesn't change the state adds no region."""
    trace = record(
        """
        import scorep
        def hidden(): pass
        def seen(): pass
        with scorep.instrumenter.disable("off"):
            with scorep.instrumenter.disable("never"):
                hidden()
            with scorep.instrumenter.enable("on"):
                seen()
            hidden()
        with scorep.instrumenter.enable("neither"):
            seen()
        @scorep.instrumenter.disable()
        def quiet(): hidden()
        quiet()
        """
    )
    names = [n for n in trace.calls(prefix="") if n.startswith(("user", "__main__:"))]
    assert names == [
        "__main__:<module>", "user_instrumenter:off", "user_instrumenter:on", "__main__:seen", "__main__:seen",
    ]  # fmt: skip


def test_register_under_plain_python(python, tmp_path):
    (tmp_path / "script.py").write_text(
        "from holdfast import scorep\n"
        "def f(): pass\n"
        "with scorep.user.region('nothing'): f()\n"
        "scorep.parameter = scorep.user_parameter_int('nothing', 1)\n"
        "scorep.register()\nf()\nscorep.unregister()\nf()\n"
    )
    done = python("script.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert Trace(tmp_path / "experiment").calls(prefix="") == ["__main__:f"]


def test_instrument_module_and_file(record, tmp_path):
    (tmp_path / "library.py").write_text("def one(): return 1\ndef two(): return one()\n")
    (tmp_path / "instrument.py").write_text(
        "import scorep.user, library\nscorep.user.instrument_module(library)\n"
    )
    trace = record(
        "import library\nlibrary.two()",
        "--noinstrumenter",
        "--instrumenter-file=instrument.py",
    )
    assert trace.calls(prefix="") == ["library:two", "library:one"]


def test_the_alias_is_the_same_module(record):
    record(
        """
        import sys, scorep, scorep.user, scorep.instrumenter, holdfast.scorep
        assert scorep is holdfast.scorep and scorep.user is holdfast.scorep.user
        assert scorep.user.__name__ == "holdfast.scorep.user"
        assert scorep.__spec__.name == "holdfast.scorep"
        """
    )


def test_an_installed_scorep_is_not_shadowed(record, tmp_path):
    (tmp_path / "scorep").mkdir()
    (tmp_path / "scorep" / "__init__.py").write_text("mark = 'upstream'\n")
    record("import scorep\nassert scorep.mark == 'upstream'")


def test_ignored_variables_are_named_once(record):
    trace = record("pass", SCOREP_METRIC_PAPI="x", SCOREP_TOTAL_MEMORY="lots")
    assert trace.done.stderr.count("SCOREP_METRIC_PAPI") == 1
    assert "is not a size" in trace.done.stderr


def test_a_profile_alone(python, tmp_path):
    done = python(
        "-m", "holdfast.scorep", "-c", "pass",
        SCOREP_ENABLE_TRACING="false", SCOREP_ENABLE_PROFILING="true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "experiment")) == [
        "profile.callgrind",
        "profile.cubex",
        "profile.json",
        "profile.pstats",
    ]


@pytest.mark.parametrize("named", [False, True])
def test_the_place_of_a_trace_that_nobody_named_is_said(tmp_path, named):
    (tmp_path / "a.py").write_text("def f(): pass\nf()\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
    environ |= {"HOLDFAST_RECORDER": "builtin"} | (
        {"SCOREP_EXPERIMENT_DIRECTORY": "mine"} if named else {}
    )
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.scorep", "a.py"],
        env=environ,
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout == ""
    (made,) = tmp_path.glob("mine" if named else "scorep-*")
    said = "" if named else rf"holdfast\.scorep: \d+ events in {made}\n"
    assert re.fullmatch(said, done.stderr)
