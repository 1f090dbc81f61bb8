"""Recording by a real Score-P: its own tools read what it wrote."""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("scorep-config") is None, reason="there is no scorep-config on PATH"
)

CALLS = """
    import threading

    class Base:
        def method(self):
            return count(3)

    class Derived(Base):
        pass

    def count(n):
        return n and count(n - 1)

    def numbers():
        yield 1
        yield 2

    def fail():
        raise ValueError

    def main():
        Derived().method()
        list(numbers())
        try:
            fail()
        except ValueError:
            pass
        threads = [threading.Thread(target=count, args=(5,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
"""


class Experiment:
    """A program's end, and the trace and profile that Score-P left."""

    def __init__(self, directory, done):
        self.directory, self.done = directory, done

    def __getattr__(self, name):
        return getattr(self.done, name)

    def trace(self):
        """What otf2-print says of it."""
        shown = subprocess.run(
            ["otf2-print", self.directory / "traces.otf2"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not shown.stderr
        return shown.stdout

    def events(self):
        """(location, event, region) of each enter and leave, checked to nest."""
        found = re.findall(
            r'^(ENTER|LEAVE) +(\d+) +\d+ +Region: "(.*)" <', self.trace(), re.MULTILINE
        )
        stacks = {}
        for kind, location, region in found:
            stack = stacks.setdefault(location, [])
            assert kind == "ENTER" or stack.pop() == region
            if kind == "ENTER":
                stack.append(region)
        assert not any(stacks.values())
        return [(location, kind, region) for kind, location, region in found]

    def enters(self, name):
        return sum(kind == "ENTER" and region == name for _, kind, region in self.events())


@pytest.fixture
def run(tmp_path):
    def run_program(source, *options, launch=("-m", "holdfast.scorep"), prefix=(), **environment):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        directory = tmp_path / "experiment"
        environment = {
            "HOLDFAST_RECORDER": "scorep",
            "SCOREP_ENABLE_TRACING": "true",
            "SCOREP_EXPERIMENT_DIRECTORY": str(directory),
        } | environment
        done = subprocess.run(
            [*prefix, sys.executable, *launch, *options, str(script)],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Experiment(directory, done)

    return run_program


def test_calls_are_those_of_the_program(run):
    experiment = run(CALLS + "\n    main()\n", "--verbose")
    assert experiment.returncode == 0, experiment.stderr
    assert "recorded by Score-P: --user --compiler --thread=pthread" in experiment.stderr
    assert experiment.enters("__main__:count") == 4 + 2 * 6
    assert experiment.enters("__main__.Base:method") == 1
    assert experiment.enters("__main__:numbers") == 3
    assert experiment.enters("__main__:fail") == 1
    threads = {place for place, _, region in experiment.events() if region == "__main__:count"}
    assert len(threads) == 3


def test_without_threads_the_first_one_is_recorded(run):
    experiment = run(CALLS + "\n    main()\n", "--thread=none")
    assert experiment.returncode == 0, experiment.stderr
    assert experiment.enters("__main__:count") == 4


def test_profile_has_the_visits(run):
    experiment = run(CALLS + "\n    main()\n")
    shown = subprocess.run(
        ["cube_stat", "-p", "-m", "visits", experiment.directory / "profile.cubex"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    visits = dict(re.findall(r"^ *(\S+) +(\d+)$", shown, re.MULTILINE))
    assert visits["__main__:<module>"]


def test_program_is_what_it_is_without_us(run):
    experiment = run(
        """
        import os, subprocess, sys
        print(sys.argv[1:], __name__, "LD_PRELOAD" in os.environ)
        print(subprocess.run(["env"], capture_output=True, text=True).stdout.count("SCOREP_SUBSYS"))
        sys.exit(7)
        """
    )
    assert experiment.returncode == 7, experiment.stderr
    assert experiment.stdout == "[] __main__ False\n0\n"
    assert experiment.enters("__main__:<module>") == 1


def test_user_regions_and_parameters(run):
    experiment = run(
        """
        from holdfast.scorep import user
        with user.region("mine"):
            user.parameter_int("count", -3)
            user.parameter_uint("size", 2**64 - 1)
            user.parameter_string("word", "höher")
        def begin():
            user.region_begin("open")
        begin()
        """
    )
    assert experiment.enters("user:mine") == 1
    assert experiment.enters("user:open") == 3  # in begin, after it, after <module>
    shown = experiment.trace()
    assert 'Parameter: "count" <' in shown and "Value: -3" in shown
    assert "Value: 18446744073709551615" in shown and 'Value: "höher"' in shown


def test_recording_off_and_on_at_different_depths(run):
    experiment = run(
        """
        from holdfast.scorep import user
        def leaf(): pass
        def off():
            user.disable_recording()
            leaf()
        def on():
            user.enable_recording()
        off(); leaf(); on(); leaf()
        """
    )
    assert experiment.returncode == 0, experiment.stderr
    assert experiment.enters("__main__:leaf") == 1
    assert experiment.enters("__main__:off") == 1


def test_rewound_events_are_dropped(run):
    experiment = run(
        """
        from holdfast.scorep import user
        def dropped(): pass
        def kept(): pass
        user.rewind_begin("a"); dropped(); user.rewind_end("a", True)
        user.rewind_begin("b"); kept(); user.rewind_end("b", False)
        """
    )
    assert experiment.enters("__main__:dropped") == 0
    assert experiment.enters("__main__:kept") == 1


@pytest.mark.parametrize(
    ("end", "status"),
    [("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM)],
)
def test_sudden_ends_leave_a_trace(run, end, status):
    experiment = run(CALLS + f"\n    main()\n    import os, signal\n    {end}\n")
    assert experiment.returncode == status, experiment.stderr
    assert experiment.enters("__main__:count") == 4 + 2 * 6


def test_forked_children_leave_the_trace_alone(run):
    experiment = run(
        """
        import multiprocessing, os, sys
        def work(n): return n + 1
        if __name__ == "__main__":
            child = os.fork()
            if not child:
                work(1)
                sys.exit(0)
            os.waitpid(child, 0)
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(work, [1, 2]))
            work(5)
        """
    )
    assert experiment.stdout == "[2, 3]\n[2, 3]\n", experiment.stderr
    assert experiment.enters("__main__:work") == 1


def test_children_with_an_experiment_of_their_own(run, tmp_path):
    """Spawned ones are recorded by Score-P, forked ones by the built-in recorder."""
    experiment = run(
        """
        import multiprocessing, os, sys
        import holdfast.scorep as scorep
        def work(n): return n + 1
        def child(name):
            if name == "fork":
                scorep.register()  # refused: it would write into the parent's
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = name
            scorep.register()
            work(1)
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                process = multiprocessing.get_context(method).Process(target=child, args=[method])
                process.start(); process.join(); print(process.exitcode)
            work(5)
        """
    )
    assert experiment.stdout == "0\n0\n", experiment.stderr
    assert "once in a process" in experiment.stderr
    assert experiment.enters("__main__:work") == 1
    assert Experiment(tmp_path / "fork", None).enters("__main__:work") == 1
    assert Experiment(tmp_path / "spawn", None).enters("__mp_main__:work") == 1
    places = (experiment.directory, tmp_path / "fork", tmp_path / "spawn")
    assert [(place / "MANIFEST.md").exists() for place in places] == [True, False, True]


def test_registered_in_the_middle_of_a_program(run):
    """Score-P comes into a process that runs already."""
    experiment = run(
        CALLS
        + """
    import holdfast.scorep as scorep
    main()
    scorep.register()
    main()
    result = scorep.close()
    print(result["trace"])
    print(result["profile"])
    try:
        scorep.open()
    except RuntimeError as error:
        print(error)
    """,
        launch=(),
    )
    assert experiment.returncode == 0, experiment.stderr
    assert experiment.enters("__main__:count") == 4 + 2 * 6
    trace, profile, refusal = experiment.stdout.splitlines()
    assert os.path.exists(trace) and os.path.exists(profile)
    assert "once in a process" in refusal


def test_filter_file(run, tmp_path):
    rules = tmp_path / "rules"
    rules.write_text("SCOREP_REGION_NAMES_BEGIN EXCLUDE *:count SCOREP_REGION_NAMES_END\n")
    experiment = run(CALLS + "\n    main()\n", SCOREP_FILTERING_FILE=str(rules))
    assert experiment.enters("__main__:count") == 0
    assert experiment.enters("__main__:fail") == 1


def test_wrong_option_is_reported(run):
    experiment = run("print(1)", "--mpp=carrier-pigeon")
    assert experiment.returncode == 2
    assert "scorep-config refuses" in experiment.stderr and not experiment.stdout


def test_directory_that_cannot_be_made(run, tmp_path):
    (tmp_path / "file").touch()
    experiment = run("print(1)", SCOREP_EXPERIMENT_DIRECTORY=str(tmp_path / "file" / "mine"))
    assert experiment.returncode == 2
    assert "Not a directory" in experiment.stderr and not experiment.stdout


def test_existing_directory_is_kept_where_asked(run):
    run("print(1)")
    experiment = run("print(1)", SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY="false")
    assert experiment.returncode == 2
    assert "OVERWRITE" in experiment.stderr and not experiment.stdout


def test_builtin_recorder_by_choice(run):
    experiment = run(CALLS + "\n    main()\n", HOLDFAST_RECORDER="builtin")
    assert experiment.returncode == 0, experiment.stderr
    assert not (experiment.directory / "MANIFEST.md").exists()
    assert experiment.enters("__main__:count") == 4 + 2 * 6


MPIEXEC = shutil.which("mpiexec")


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec on PATH")
@pytest.mark.parametrize("finalize", ["", "MPI.Finalize()"])
def test_mpi_processes_share_an_archive(run, tmp_path, finalize):
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    experiment = run(
        f"""
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        def work():
            world.barrier()
        work()
        {finalize}
        """,
        "--mpp=mpi",
        prefix=(MPIEXEC, "-n", "4"),
    )
    assert experiment.returncode == 0, experiment.stderr
    places = [place for place, kind, name in experiment.events() if "work" in name]
    assert sorted(places) == sorted("0123" * 2)
    assert experiment.enters("MPI_Barrier") == 4
    traces = pytest.importorskip("holdfast.views.traces")
    trace = traces.Trace(experiment.directory)
    rows = trace.read().found["rows"]
    assert sorted({row["process"] for row in rows}) == [f"MPI Rank {rank}" for rank in range(4)]
    assert {row["name"]: row["visits"] for row in trace.table()}["MPI_Barrier"] == 4


def test_mpi_that_never_begins_leaves_the_program_alone(run):
    experiment = run("print('done')", "--mpp=mpi")
    assert experiment.returncode == 0 and experiment.stdout == "done\n", experiment.stderr
    assert "has not initialised MPI" in experiment.stderr
