"""What a program does is the same in the trace, whichever recorder runs: the built-in recorder by its
hooks, the same by the profile callback (--c-functions), or Score-P."""

import collections
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

WAYS = {"hooks": [], "callback": ["--c-functions"], "scorep": []}


@pytest.fixture(params=WAYS)
def run(request, tmp_path):
    """Run `python -m holdfast.scorep [options] ARGUMENTS`, recorded in one of these ways."""
    if request.param == "scorep" and shutil.which("scorep-config") is None:
        pytest.skip("there is no scorep-config on PATH")

    def run_it(*arguments, status=0, **variables):
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
        environ |= {
            "HOLDFAST_RECORDER": "scorep" if request.param == "scorep" else "builtin",
            "SCOREP_ENABLE_TRACING": "true",
            "SCOREP_EXPERIMENT_DIRECTORY": "experiment",
        }
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.scorep", *WAYS[request.param], *arguments],
            env=environ | variables,
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done.stderr
        return done

    return run_it


@pytest.fixture
def script(tmp_path):
    def write(source):
        (tmp_path / "script.py").write_text(textwrap.dedent(source))
        return "script.py"

    return write


def shown(directory, *options):
    path = directory / "experiment" / "traces.otf2"
    done = subprocess.run(
        ["otf2-print", *options, path], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout


def enters(directory):
    """How often each region was entered; checks that enters and leaves nest."""
    stacks, counts = collections.defaultdict(list), collections.Counter()
    events = re.findall(
        r'^(ENTER|LEAVE) +(\d+) +\d+ +Region: "(.*)" <', shown(directory), re.MULTILINE
    )
    for kind, location, region in events:
        if kind == "ENTER":
            counts[region] += 1
            stacks[location].append(region)
        else:
            assert stacks[location].pop() == region
    assert not any(stacks.values())
    return counts


def test_a_module_that_is_reloaded(run, script, tmp_path):
    """Each version's functions are recorded; the second foo lies on another line."""
    program = script(
        """
        import importlib, pathlib, sys
        sys.dont_write_bytecode = True
        module = pathlib.Path("reloaded.py")
        module.write_text("def foo(): return 1\\ndef gone(): pass\\n")
        import reloaded
        foo = reloaded.foo
        assert reloaded.foo() == 1
        reloaded.gone()
        importlib.reload(reloaded)
        assert reloaded.foo() == 1
        module.write_text("\\n\\n# longer\\ndef foo(x): return x\\ndef bar(): pass\\n")
        importlib.reload(reloaded)
        assert reloaded.foo(2) == 2 and foo() == 1
        reloaded.bar()
        """
    )
    run(program)
    counts = enters(tmp_path)
    wanted = {"<module>": 3, "foo": 4, "gone": 1, "bar": 1}
    assert {name: counts[f"reloaded:{name}"] for name in wanted} == wanted
    lines = re.findall(
        r'^REGION .*Name: "reloaded:foo" .*Begin: (\d+)', shown(tmp_path, "-G"), re.MULTILINE
    )
    assert sorted(lines) == ["1", "4"]


def test_regions_that_do_not_nest(run, script, tmp_path):
    done = run(
        script(
            """
            from holdfast.scorep import user
            user.region_end("never")
            user.region_begin("a"); user.region_begin("b")
            user.region_end("a"); user.region_end("b")
            def begin(): user.region_begin("late")
            begin(); user.region_end("late")
            user.region_begin("open")
            print("done")
            """
        )
    )
    assert done.stdout == "done\n"
    assert "region_end('never'): no such region is open" in done.stderr
    counts = enters(tmp_path)
    assert counts["error_region"] == 1 and counts["user:a"] == 1
    assert {"user:b", "user:late", "user:open"} <= counts.keys()
    assert re.search(r'Parameter: "leave-region" <\d+>, Value: "user:never"', shown(tmp_path))


def test_names_of_all_kinds(run, script, tmp_path):
    done = run(
        script(
            r"""
            from holdfast.scorep import user
            names = ["", "a\nb", "\0", "\ud800", "x" * 100_000, 'quo"te', 5, None, "ü:ß", "%s%n"]
            for name in names:
                user.region_begin(name); user.region_end(name)
                user.region_begin("place", str(name), 7); user.region_end("place")
            for name in (5, None, "m\0n", "\ud800", "x" * 100_000, [], type):
                space = {"__name__": name, "user": user}
                exec("def f(): return 1\nclass C:\n    def m(self): return f()", space)
                assert space["C"]().m() == 1
                assert user.region()(space["f"])() == 1
            user.parameter_int("big", 2**64); user.parameter_string("number", 5)
            print("done")
            """
        )
    )
    assert done.stdout == "done\n"
    assert "parameter_int('big'): not recorded" in done.stderr
    assert "parameter_string('number'): not recorded" in done.stderr
    assert "Traceback" not in done.stderr and "Error:" not in done.stderr
    counts = enters(tmp_path)
    assert counts["<unknown>.C:m"] >= 3
    assert counts["user:ü:ß"] == counts["user:%s%n"] == counts[r"user:a\nb"] == 1


def test_what_is_wrong_is_reported_before_the_program_runs(run, script, tmp_path):
    program = script("print('ran')")
    done = run("missing.py", status=2)
    assert "can't read missing.py: No such file or directory" in done.stderr
    done = run("-m", "no_such_module", status=2)
    assert "no module to run named no_such_module" in done.stderr
    done = run("-x", program, status=2)
    assert "unknown option -x" in done.stderr
    (tmp_path / "file").touch()
    done = run(program, status=2, SCOREP_EXPERIMENT_DIRECTORY="file/below")
    assert "Not a directory" in done.stderr and "ran" not in done.stdout
    assert not (tmp_path / "experiment").exists()


def test_an_option_that_nobody_knows(run, script, request):
    """The built-in recorder names it and goes on; scorep-config decides for Score-P."""
    refused = "scorep" in request.node.name
    done = run("--frobnicate", script("print('ran')"), status=2 if refused else 0)
    assert "--frobnicate" in done.stderr
    assert done.stdout == ("" if refused else "ran\n")
