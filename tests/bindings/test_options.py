"""The command line: each form and option, run as a user does."""

import pytest
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

PROGRAM = """
    import scorep.user
    def f(): return len([])
    with scorep.user.region("block"): f()
    print("done")
"""


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ([], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--keep-files", "-v"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--instrumenter-type=profile"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--instrumenter-type", "trace"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--instrumenter-type=cProfile"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--instrumenter-type", "cTrace"], ["__main__:<module>", "user:block", "__main__:f"]),
        (["--noinstrumenter"], ["user:block"]),
        (["--nopython", "--instrumenter-type=cTrace"], ["user:block"]),
        (["--instrumenter-type=dummy"], []),
    ],
)
def test_what_is_recorded(record_script, options, calls):
    trace = record_script(PROGRAM, *options)
    assert trace.done.stdout == "done\n"
    names = trace.calls(prefix="")
    assert [name for name in names if name.startswith(("user:", "__main__"))] == calls
    assert "builtins:len" not in names


def test_functions_of_extension_modules_by_opt_in(record_script):
    trace = record_script(PROGRAM, "--c-functions")
    assert trace.calls(prefix="builtins:len") == ["builtins:len"]


@pytest.mark.parametrize(
    ("options", "forwarded"),
    [
        (["--mpi"], "--mpp=mpi"),
        (["--mpp", "none", "--io=posix"], "--mpp=none --io=posix"),
        (["--thread=omp", "--compiler", "--nocompiler"], "--thread=omp --compiler --nocompiler"),
    ],
)
def test_options_of_scorep_config(record_script, options, forwarded):
    trace = record_script("pass", "-v", *options)
    assert f"without effect: {forwarded}\n" in trace.done.stderr
    assert not record_script("pass", *options).done.stderr


@pytest.mark.parametrize(
    ("arguments", "argv"),
    [
        (["script.py", "-m", "--help", "--", "x"], ["script.py", "-m", "--help", "--", "x"]),
        (["--", "script.py", "--", "-v"], ["script.py", "--", "-v"]),
        (["-m", "script", "-c", "--"], ["{path}", "-c", "--"]),
        (["-c", "import sys; print(sys.argv)", "-m", "-v"], ["-c", "-m", "-v"]),
    ],
)
def test_the_programs_arguments_are_its_own(python, tmp_path, arguments, argv):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv)")
    done = python("-m", "holdfast.scorep", *arguments)
    expected = [text.format(path=tmp_path / "script.py") for text in argv]
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")
    assert Trace(tmp_path / "experiment").calls() == ["__main__:<module>"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--instrumenter-type"], "--instrumenter-type needs a value"),
        (["--mpp"], "--mpp needs a value"),
        (["--instrumenter-type=C", "script.py"], "unknown instrumenter type 'C', not one of"),
        (["--instrumenter-file=none.py", "script.py"], "can't read none.py: No such file"),
        (["-m", "no.such.module"], "no module to run named no.such.module"),
        (["-c"], "no program"),
        (["--verbose"], "no program"),
        (["directory"], "can't find '__main__' module in directory"),
    ],
)
def test_misuse_leaves_no_experiment(python, tmp_path, arguments, words):
    (tmp_path / "directory").mkdir()
    (tmp_path / "script.py").touch()
    done = python("-m", "holdfast.scorep", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[0] and "Traceback" not in done.stderr
    assert not (tmp_path / "experiment").exists()


def test_an_unwritable_directory(python, tmp_path):
    (tmp_path / "script.py").touch()
    done = python("-m", "holdfast.scorep", "script.py", SCOREP_EXPERIMENT_DIRECTORY="/proc/none/x")
    assert done.returncode == 2
    assert "/proc/none" in done.stderr and len(done.stderr.splitlines()) == 1


def test_help(python):
    done = python("-m", "holdfast.scorep", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for option in ("--noinstrumenter", "--instrumenter-type", "--c-functions", "-m module"):
        assert option in done.stdout


ENDS = """
    def fail(): {}
    fail()
"""


@pytest.mark.parametrize(
    "end", ["1 / 0", "raise SystemExit('bye')", "raise ExceptionGroup('x', [OSError(1)])"]
)
def test_an_exception_shows_as_in_plain_python(record_script, python, tmp_path, end):
    trace = record_script(ENDS.format(end), status=1)
    plain = python(str(tmp_path / "script.py"))
    assert plain.returncode == 1
    assert trace.done.stderr == plain.stderr
    assert trace.nested() == "<module>(fail())"


def test_a_syntax_error_shows_as_in_plain_python(python, tmp_path):
    (tmp_path / "script.py").write_text("x = 1\nif:\n")
    done = python("-m", "holdfast.scorep", "script.py")
    plain = python(str(tmp_path / "script.py"))
    assert (done.returncode, done.stderr) == (1, plain.stderr)


def test_the_programs_own_excepthook_and_interrupts(record_script):
    trace = record_script(
        """
        import sys
        sys.excepthook = lambda kind, value, trace: print(kind.__name__, trace.tb_frame.f_code.co_name)
        def f(): raise LookupError
        f()
        """,
        status=1,
    )
    assert trace.done.stdout == "LookupError <module>\n"
    trace = record_script("def f(): raise KeyboardInterrupt\nf()", status=-2)
    assert trace.nested() == "<module>(f())"


def test_the_compiler_takes_nothing_from_us(record_script):
    """Neither a future statement of ours nor an assertion that is gone."""
    trace = record_script("def f(x: int): pass\nprint(f.__annotations__)\nassert __debug__")
    assert trace.done.stdout == "{'x': <class 'int'>}\n"


def test_an_instrumenter_file(record_script, tmp_path):
    (tmp_path / "library.py").write_text("def f(): pass\nclass C:\n    def m(self): f()\n")
    (tmp_path / "instrument.py").write_text(
        "import scorep.user, scorep.instrumenter, library\n"
        "library.C.m = scorep.user.instrument_function(library.C.m, scorep.instrumenter.enable)\n"
    )
    trace = record_script(
        "import library\nlibrary.f(); library.C().m(); library.f()",
        "--noinstrumenter",
        "--instrumenter-file",
        "instrument.py",
    )
    assert trace.calls(prefix="library") == ["library.C:m", "library:f"]


def test_what_was_flushed_and_taken_back_is_reported(record_script):
    program = """
        import scorep.user as user
        def f(): pass
        user.rewind_begin("mark"); f(); f(); user.rewind_end("mark", True)
        for _ in range(40_000): f()
        """
    trace = record_script(program, "--verbose", SCOREP_TOTAL_MEMORY="1k")
    assert trace.calls().count("__main__:f") == 40_000
    assert "4 events were taken back by rewind_end\n" in trace.done.stderr
    flushes = sum(event.kind == "BUFFER_FLUSH" for event in trace.events)
    assert flushes and f"written out {flushes} times" in trace.done.stderr
