"""scorep.user and scorep.instrumenter in programs, as their traces show them."""

import pytest
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

NAMES = """
    import scorep.user
    region = scorep.user.region
    @region()
    def function(): return 1
    class Base:
        @region()
        def method(self): return self
        @region()
        @classmethod
        def before(cls): return cls
        @classmethod
        @region()
        def after(cls): return cls
        @region()
        @staticmethod
        def static(): return 2
        class Inner:
            @region()
            def method(self): pass
    class Child(Base): pass
    def outer():
        @region()
        def inner(): pass
        inner()
    function(); Child().method()
    assert Child.before() is Child and Child().after() is Child and Child.static() == 2
    Child.Inner().method(); outer(); region(name="anonymous")(lambda: None)()
"""
CALLS = [
    "__main__:function",
    "__main__.Base:method",
    "__main__.Base:before",
    "__main__.Base:after",
    "__main__.Base:static",
    "__main__.Base.Inner:method",
    "__main__:outer.<locals>.inner",
    "user:anonymous",
]


def test_decorated_functions_have_their_own_names(record_script, tmp_path):
    trace = record_script(NAMES, "--noinstrumenter")
    assert trace.calls(prefix="") == CALLS
    region = trace.region("__main__.Base:method")
    lines = (tmp_path / "script.py").read_text().splitlines()
    assert (region.file, lines[region.line]) == (
        str(tmp_path / "script.py"),
        "    def method(self): return self",
    )


def test_a_call_that_is_recorded_anyhow_has_one_region(record_script):
    """The same regions, whether a decorator or the interpreter reports them."""
    trace = record_script(NAMES)
    names = [name for name in trace.calls(prefix="") if name in CALLS]
    assert names == CALLS


def test_a_switch_inside_a_decorated_function(record_script):
    trace = record_script(
        """
        import scorep.user, scorep.instrumenter
        @scorep.user.region()
        def f(off):
            (scorep.instrumenter.unregister if off else scorep.instrumenter.register)()
        f(True); f(False); f(True)
        """
    )
    assert trace.nested() == "<module>(f()f()f())"
    assert not trace.done.stderr


def test_places(record_script, tmp_path):
    trace = record_script(
        """
        import scorep.user as user
        user.region_begin("here"); user.region_end("here")
        user.region_begin("there", "sub/file.py", 42); user.region_end("there")
        user.region_begin("line", line_number=7); user.region_end("line")
        exec(compile("user.region_begin('made'); user.region_end('made')", "<made>", "exec"))
        with user.region(): pass
        """,
        "--nopython",
    )
    script = str(tmp_path / "script.py")
    places = {region.name: (region.file, region.line) for region in trace.regions.values()}
    assert places == {
        "user:here": (script, 3),
        "user:there": (str(tmp_path / "sub" / "file.py"), 42),
        "user:line": (script, 7),
        "user:made": ("<made>", 1),
        "user:script.py:7": (script, 7),
    }


def test_strange_names_leave_the_program_alone(record_script):
    trace = record_script(
        r"""
        import scorep.user as user
        for name in ("", "a\nb", "\0", "\ud800", "x" * 100_000, 5, None):
            user.region_begin(name); user.region_end(name)
            with user.region(name or "name"): pass
        exec("@user.region()\ndef nameless(): return 1", names := {"user": user, "__name__": 5})
        assert names["nameless"]() == 1
        print("done")
        """,
        "--noinstrumenter",
    )
    assert (trace.done.stdout, trace.done.stderr) == ("done\n", "")
    assert "<unknown>:nameless" in trace.calls(prefix="")
    assert trace.calls(prefix="")[2:5:2] == [r"user:a\nb", r"user:\x00"]
    assert max(map(len, trace.calls(prefix=""))) <= 8192


def test_regions_that_do_not_nest(record_script):
    trace = record_script(
        """
        from scorep import user
        user.region_begin("a"); user.region_begin("b"); user.region_end("a"); user.region_end("b")
        def start(): user.region_begin("late")
        def stop(): user.region_end("late")
        start(); stop()
        user.region_end("never"); user.region_end("never")
        user.region_begin("open")
        """
    )
    assert trace.nested(prefix="user:") == "a(b())b()late()late()open()open()"
    mistakes = [event.text for event in trace.events if event.kind == "PARAMETER_STRING"]
    assert len(mistakes) == 2 and all(
        '"leave-region"' in t and '"user:never"' in t for t in mistakes
    )
    assert trace.calls(prefix="").count("error_region") == 2
    assert trace.done.stderr == (
        "holdfast.scorep: region_end('never'): no such region is open on this thread\n"
    )


def test_values_that_are_no_parameters(record_script):
    trace = record_script(
        r"""
        from scorep import user
        user.parameter_int("big", 2**63); user.parameter_int("half", 0.5)
        user.parameter_uint("minus", -1); user.parameter_uint("minus", -1)
        user.parameter_string("number", 5); user.parameter_string("odd\0", "a\0\ud800")
        user.parameter_int(7, -(2**63)); user.rewind_begin(None); user.rewind_end(None, True)
        print("done")
        """
    )
    assert trace.done.stdout == "done\n"
    lines = trace.done.stderr.splitlines()
    calls = [line.split(" ", 1)[1].partition(":")[0] for line in lines]
    wrong = ("int('big')", "int('half')", "uint('minus')", "string('number')")
    assert calls == ["parameter_" + call for call in wrong]
    texts = [event.text for event in trace.events if event.kind.startswith("PARAMETER")]
    assert len(texts) == 2 and '"7"' in texts[1] and str(-(2**63)) in texts[1]


def test_awaitable_generators_stay_awaitable(record_script):
    trace = record_script(
        """
        import asyncio, scorep, types
        @scorep.user.region("old")
        @types.coroutine
        def old():
            yield
            return 3
        async def main(): return await old()
        print(asyncio.run(main()))
        """,
        "--noinstrumenter",
    )
    assert trace.done.stdout == "3\n"
    assert trace.calls(prefix="") == ["user:old"] * 2


def test_parameters_rewinding_and_recording(record_script):
    trace = record_script(
        """
        import scorep.user as user
        def kept(): pass
        def dropped(): pass
        user.parameter_int("int", -5); user.parameter_uint("uint", 5)
        user.parameter_string("string", "text")
        user.rewind_begin("mark", "file.py", 3); dropped(); user.rewind_end("mark", True)
        user.rewind_begin("mark"); kept(); user.rewind_end("mark", False)
        user.disable_recording(); dropped(); user.enable_recording(); kept()
        user.rewind_end("mark", True)
        """
    )
    assert trace.calls() == ["__main__:<module>", "__main__:kept", "__main__:kept"]
    texts = [event.text for event in trace.events if event.kind.startswith("PARAMETER")]
    assert [text.rpartition("Value: ")[2].split(" <")[0] for text in texts] == ["-5", "5", '"text"']
    assert "rewind_end('mark')" in trace.done.stderr


def test_the_instrumenter_has_upstreams_methods(record_script):
    trace = record_script(
        """
        from scorep.instrumenter import get_instrumenter
        one = get_instrumenter(True, "profile")
        assert get_instrumenter() is one and not one.get_registered()
        code = (lambda: None).__code__
        assert one.try_region_begin(code) is False is one.try_region_end(code)
        one.region_begin("module", "function", "there.py", 5, code)
        assert one.try_region_begin(code) and one.try_region_end(code)
        one.region_end("module", "function", code)
        one.region_begin("user", "mine", __file__, 1); one.region_end("user", "mine")
        names = {"__name__": "made"}
        one.run("def f(): return 1\\nx = f()", names)
        one.run(compile("def g(): return y\\ng()", "<g>", "exec"), {"y": 2}, {"g": 1})
        assert names["x"] == 1 and not one.get_registered()
        one.user_parameter_int("i", 1); one.user_parameter_uint("u", 2)
        one.user_parameter_string("s", "t")
        one.rewind_begin("a"); one.rewind_end("a", False)
        one.user_disable_recording(); one.user_enable_recording()
        try: get_instrumenter(instrumenter_type="nix")
        except RuntimeError as error: print(error)
        get_instrumenter(False).run("def h(): pass\\nh()")
        one.reregister_exit_handler(); one.force_finalize()
        """,
        "--noinstrumenter",
    )
    assert trace.done.stdout == "unknown instrumenter type 'nix'\n"
    names = ["module:function", "module:function", "user:mine", "made:<module>", "made:f"]
    names += ["<unknown>:<module>", "<unknown>:g"]
    assert trace.calls(prefix="") == names
    assert trace.region("module:function").line == 5
    assert sum(event.kind.startswith("PARAMETER") for event in trace.events) == 3


def test_the_older_interface(record_script):
    trace = record_script(
        """
        import scorep
        scorep.user_region_begin("old"); scorep.user_region_end("old")
        scorep.user_parameter_int("i", 1); scorep.user_parameter_uint("u", 2)
        scorep.user_parameter_string("s", "t")
        scorep.user_disable_recording()
        scorep.user_region_begin("off"); scorep.user_region_end("off")
        scorep.user_enable_recording()
        assert scorep.__version__
        """,
        "--nopython",
    )
    assert trace.calls(prefix="") == ["user:old"]
    assert sum(event.kind.startswith("PARAMETER") for event in trace.events) == 3


def test_everything_is_a_no_op_under_plain_python(python, tmp_path):
    (tmp_path / "script.py").write_text(
        "from holdfast import scorep\n"
        "from holdfast.scorep import instrumenter, user\n"
        "@user.region()\ndef f(): return 1\n"
        "@instrumenter.enable('on')\ndef g(): return instrumenter.get_instrumenter().get_registered()\n"
        "with user.region('r'), instrumenter.enable('e'), instrumenter.disable(): f()\n"
        "user.region_begin('a'); user.region_end('b'); user.rewind_begin('c'); user.rewind_end('d', True)\n"
        "user.parameter_int('i', 1); user.parameter_uint('u', 1); user.parameter_string('s', 't')\n"
        "user.enable_recording(); user.disable_recording(); user.reregister_exit_handler()\n"
        "instrumenter.register(); print(f(), g(), instrumenter.has_c_instrumenter())\n"
        "instrumenter.unregister(); user.force_finalize()\n"
    )
    done = python("script.py")
    assert (done.stdout, done.stderr) == ("1 False True\n", "")
    assert not (tmp_path / "experiment").exists()


def test_results_can_be_written_early_and_in_spite_of_cleared_handlers(record_script):
    program = """
        import atexit, scorep.user
        def early(): pass
        def late(): pass
        early(); {}; late()
        """
    forced = record_script(program.format("scorep.user.force_finalize()"))
    assert forced.calls() == ["__main__:<module>", "__main__:early"]
    cleared = record_script(
        program.format("atexit._clear(); scorep.user.reregister_exit_handler()")
    )
    assert cleared.calls() == ["__main__:<module>", "__main__:early", "__main__:late"]


def test_reloaded_modules_are_tracked(record_script, tmp_path):
    library = tmp_path / "library.py"
    library.write_text("def f(): pass\n")
    trace = record_script(
        """
        import importlib, os, pathlib, library
        library.f()
        pathlib.Path("library.py").write_text("# moved\\n\\n\\ndef f(): g()\\ndef g(): pass\\n")
        importlib.reload(library); library.f()
        """,
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert trace.calls(prefix="library") == [
        "library:<module>", "library:f", "library:<module>", "library:f", "library:g",
    ]  # fmt: skip
    lines = {region.line for region in trace.regions.values() if region.name == "library:f"}
    assert lines == {1, 4}


def test_registering_midway(python, tmp_path):
    (tmp_path / "script.py").write_text(
        "from holdfast import scorep\n"
        "def before(): pass\n"
        "def after(): pass\n"
        "def main():\n"
        "    before(); scorep.register(); after()\n"
        "    with scorep.instrumenter.disable('off'): before()\n"
        "main(); after()\n"
    )
    done = python("script.py")
    assert (done.returncode, done.stderr) == (0, "")
    names = Trace(tmp_path / "experiment").calls(prefix="")
    names = [name for name in names if name.startswith(("__main__", "user"))]
    assert names == ["__main__:after", "user_instrumenter:off", "__main__:after"]
