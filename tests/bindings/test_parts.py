"""Several processes record into one experiment."""

import collections
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from trace_reader import AVAILABLE, Trace, profiled
from waiting import until

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")


PROFILED = {"SCOREP_ENABLE_PROFILING": "true", "SCOREP_PROFILING_FORMAT": "json"}


@pytest.fixture
def record(tmp_path):
    """Run a script under python -m holdfast.scorep; its trace."""

    def run(program, status=0, **variables):
        (tmp_path / "script.py").write_text(textwrap.dedent(program))
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
        environ |= {"SCOREP_EXPERIMENT_DIRECTORY": "experiment", "HOLDFAST_RECORDER": "builtin"}
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.scorep", "script.py"],
            env=environ | variables,
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done.stderr
        if variables.get("SCOREP_ENABLE_TRACING") == "false":
            return None
        trace = Trace(tmp_path / "experiment")
        trace.done, trace.directory = done, tmp_path / "experiment"
        return trace

    return run


def parts(trace):
    """The numbers of the processes that recorded something."""
    return sorted({location >> 32 for location in trace.locations})


def wait_for_all(experiment):
    until(lambda: not (experiment / "parts").exists())


def of_children(trace, name):
    """Calls of the main module's function, which spawned processes call __mp_main__."""
    return [
        location for location in trace.locations if location >> 32
        for call in trace.calls(location, "__m") if call.endswith(f"main__:{name}")
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(record, method):
    trace = record(
        f"""
        import multiprocessing
        def square(x): return x * x
        if __name__ == "__main__":
            with multiprocessing.get_context("{method}").Pool(3) as pool:
                print(pool.map(square, range(8)))
            square(5)
        """,
        **PROFILED,
    )
    assert trace.done.stdout.strip() == "[0, 1, 4, 9, 16, 25, 36, 49]"
    assert trace.done.stderr == ""
    assert trace.calls(0).count("__main__:square") == 1
    assert len(of_children(trace, "square")) == 8
    assert len(parts(trace)) in (2, 3, 4)  # a worker may be ended before it has begun
    assert not (trace.directory / "parts").exists()
    # One profile of all, with each thread of each process, and the trace's calls.
    locations, visits = profiled(trace.directory)
    assert sorted(locations) == sorted(trace.locations)
    flushes = sum(event.kind == "BUFFER_FLUSH" for event in trace.events)  # where the disk is slow
    assert visits.pop("BUFFER FLUSH", 0) == flushes
    assert visits == collections.Counter(trace.calls(prefix=""))


def test_a_profile_of_several_processes_without_a_trace(record, tmp_path):
    """One ends after its parent: the profile is there at the parent's end, and written again."""
    record(
        """
        import multiprocessing, os, time
        def square(x): return x * x
        def late(): pass
        if __name__ == "__main__":
            if not os.fork():
                for fd in 0, 1, 2: os.close(fd)
                while not os.path.exists("go"): time.sleep(0.01)
                late()
                os._exit(0)
            for method in "fork", "spawn":
                with multiprocessing.get_context(method).Pool(1) as pool:
                    pool.map(square, range(8)); pool.close(); pool.join()
        """,
        SCOREP_ENABLE_TRACING="false",
        **PROFILED,
    )
    experiment = tmp_path / "experiment"
    locations, visits = profiled(experiment)
    assert sorted({location >> 32 for location in locations}) == [0, 2, 3]
    assert (visits["__main__:square"], visits["__mp_main__:square"]) == (8, 8)
    (tmp_path / "go").touch()
    wait_for_all(experiment)
    locations, visits = profiled(experiment)
    assert sorted({location >> 32 for location in locations}) == [0, 1, 2, 3]
    assert (visits["__main__:square"], visits["__main__:late"]) == (8, 1)
    assert [path.name for path in experiment.iterdir()] == ["profile.json"]


def test_fifty_short_processes(record):
    trace = record(
        """
        import multiprocessing
        def f(): pass
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            for _ in range(10):
                five = [context.Process(target=f) for _ in range(5)]
                for one in five: one.start()
                for one in five: one.join(); assert one.exitcode == 0
        """
    )
    assert parts(trace) == list(range(51))
    assert len(of_children(trace, "f")) == 50


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "sys.exit(3)", "os.kill(os.getpid(), 15)", "raise ValueError"]
)
def test_what_is_open_at_the_fork_is_a_visit_of_the_parents(record, end):
    trace = record(
        f"""
        import os, sys
        from holdfast.scorep import user
        def outer():
            with user.region("both"):
                if not os.fork():
                    inner()
                    {end}
                os.wait()
        def inner(): pass
        outer()
        """,
        **PROFILED,
    )
    (child,) = (location for location in trace.locations if location >> 32)

    def seen(location):
        known = ("__main__", "user", "forked")
        return [call for call in trace.calls(location, "") if call.startswith(known)]

    assert seen(child) == ["forked process", "__main__:inner"]
    assert seen(0) == ["__main__:<module>", "__main__:outer", "user:both"]
    _, visits = profiled(trace.directory)
    regions = ("__main__:outer", "user:both", "forked process", "__main__:inner")
    assert [visits[name] for name in regions] == [1, 1, 1, 1]


def test_a_child_goes_on_where_its_parent_forked(record):
    """What it leaves of the parent's is no event; what it calls afterwards is one."""
    trace = record(
        """
        import os
        def fork(): return os.fork()
        def outer():
            pid = fork()
            after()
            return pid
        def after(): pass
        if outer():
            os.wait()
        after()
        """
    )
    assert trace.calls(0, "__main__")[-3:] == ["__main__:fork", "__main__:after", "__main__:after"]
    child = [call for call in trace.calls(1 << 32, "") if call.startswith(("__main__", "forked"))]
    assert child == ["forked process", "__main__:after", "__main__:after"]


def test_regions_that_only_a_child_has_keep_their_names(record):
    """Both number their next regions alike."""
    trace = record(
        """
        import os
        from holdfast.scorep import user
        def a(): pass
        def b(): user.parameter_string("p", "of b")
        if not os.fork():
            b(); os._exit(0)
        os.wait()
        a()
        user.parameter_string("p", "of a")
        """
    )
    assert trace.calls(0)[-1] == "__main__:a"
    assert trace.calls(1 << 32)[-1] == "__main__:b"
    texts = {e.location: e.text for e in trace.events if e.kind == "PARAMETER_STRING"}
    assert '"of a"' in texts[0]
    assert '"of b"' in texts[1 << 32]


def test_a_fork_of_a_thread_and_of_a_child(record):
    trace = record(
        """
        import os, sys, threading
        def leaf(): pass
        def work():
            if not os.fork():
                if not os.fork():
                    leaf(); os._exit(0)
                os.wait(); leaf(); os._exit(0)
            os.wait()
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        """
    )
    assert len(of_children(trace, "leaf")) == 2
    assert parts(trace) == [0, 1, 2]


def test_a_child_that_outlives_its_parent(record, tmp_path):
    """The trace is there at the parent's end, and is written again at the child's."""
    trace = record(
        """
        import os, time
        def late(): pass
        if not os.fork():
            for fd in 0, 1, 2: os.close(fd)
            while not os.path.exists("go"): time.sleep(0.01)
            late()
            os._exit(0)
        """
    )
    assert parts(trace) == [0]
    (tmp_path / "go").touch()
    wait_for_all(tmp_path / "experiment")
    trace = Trace(tmp_path / "experiment")
    assert len(of_children(trace, "late")) == 1


def test_a_child_that_is_killed_costs_its_own_part_only(record):
    trace = record(
        """
        import os, signal
        def f(): pass
        if not os.fork():
            f(); os.kill(os.getpid(), signal.SIGKILL)
        os.wait(); f()
        """
    )
    assert "__main__:f" in trace.calls(0)
    assert not (trace.directory / "parts").exists()


@pytest.mark.parametrize("size_bytes", [0, 65536])
def test_a_child_that_is_killed_before_it_has_begun(record, size_bytes):
    """Its log file has no head yet: nothing is in it, and nobody waits for more."""
    trace = record(
        f"""
        import os
        if not os.fork():
            os._exit(0)
        os.wait()
        with open("experiment/log-7", "wb") as file:
            file.write(bytes({size_bytes}))
        """
    )
    assert sorted(os.listdir(trace.directory)) == ["traces", "traces.def", "traces.otf2"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_with_an_experiment_of_its_own(record, tmp_path, method):
    trace = record(
        f"""
        import multiprocessing, os
        def f(): pass
        if __name__ == "__main__":
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = "own"
            child = multiprocessing.get_context("{method}").Process(target=f)
            child.start(); child.join()
        """
    )
    assert parts(trace) == [0]
    assert Trace(tmp_path / "own").calls(prefix="__mp_main__:f") == ["__mp_main__:f"]


@pytest.mark.parametrize("how", ["fork", "initializer", "spawn"])
def test_a_child_that_gives_itself_an_experiment(record, tmp_path, how):
    """What it recorded until then stays its part of the parent's."""
    trace = record(
        f"""
        import multiprocessing, os
        def before(): pass
        def after(): pass
        def work(number=1):
            before()
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = "own"
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = os.path.abspath("own")
            after()
        if __name__ == "__main__":
            if "{how}" == "fork":
                child = os.fork()
                if not child:
                    work()
                    raise SystemExit
                os.waitpid(child, 0)
            elif "{how}" == "spawn":
                child = multiprocessing.get_context("spawn").Process(target=work)
                child.start(); child.join()
            else:
                with multiprocessing.get_context("fork").Pool(1, work) as pool:
                    pool.map(abs, [1]); pool.close(); pool.join()
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = "no matter to the parent"
            after()
        """
    )
    assert not trace.done.stderr
    main = "__mp_main__" if how == "spawn" else "__main__"
    own = Trace(tmp_path / "own")
    assert own.calls(prefix=main).count(f"{main}:after") == 1
    assert f"{main}:before" not in own.calls(prefix=main)
    assert trace.calls(prefix=main).count(f"{main}:before") == 1
    assert trace.calls(prefix="__main__:after") == ["__main__:after"]
    assert parts(trace) == [0, 1]


def test_a_child_whose_own_experiment_cannot_be_made(record):
    trace = record(
        """
        import os
        child = os.fork()
        if not child:
            os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = "/dev/null/nowhere"
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert trace.done.stdout == "5\n"
    assert "this process isn't recorded in /dev/null/nowhere" in trace.done.stderr


def definitions(directory):
    print_them = ["otf2-print", "-G", directory / "traces.otf2"]
    return subprocess.run(print_them, capture_output=True, check=True, text=True).stdout


def test_definitions_that_viewers_need(record):
    trace = record(
        """
        import os, threading
        class A:
            def f(self): pass
            def g(self): pass
        thread = threading.Thread(target=A().f)
        thread.start(); thread.join()
        child = os.fork()
        A().g()
        if child: os.waitpid(child, 0)
        """
    )
    shown = definitions(trace.directory)
    domains = re.findall(r"^SYSTEM_TREE_NODE_DOMAIN .*Domain: (\w+)", shown, re.M)
    assert domains == ["MACHINE", "SHARED_MEMORY"]
    assert re.search(r'"Locations" .*Type: COMM_LOCATIONS, .* 3 Members', shown)
    assert re.search(r'^COMM +0 +Name: "Processes and threads"', shown, re.M)
    (members,) = re.findall(r'^GROUP .*"__main__.A" .*Type: REGIONS, .*Members: (.*)$', shown, re.M)
    assert re.findall(r'"(.*?)"', members) == ["__main__.A:f", "__main__.A:g"]
    assert "MPI_" not in shown


def test_ticks_of_another_machine_are_corrected(record):
    """A part says that it comes from elsewhere, where it was ten seconds later."""
    trace = record(
        """
        import os, struct
        def of_parent(): pass
        def of_child(): pass
        child = os.fork()
        if not child:
            of_child(); os._exit(0)
        os.waitpid(child, 0)
        of_parent()
        with open("experiment/parts/1/part", "r+b") as file:
            part = bytearray(file.read())
            for place in (32, 40):  # the times of day at the begin and at the end
                (realtime,) = struct.unpack_from("=Q", part, place)
                struct.pack_into("=Q", part, place, realtime + 10**11)
            at = 72
            for _ in "process", "host":
                at += 8 + struct.unpack_from("=Q", part, at)[0]
            part[at + 8] ^= 1
            file.seek(0); file.write(part)
        """
    )
    times = {}
    for event in trace.events:
        for name in ("of_child", "of_parent"):
            if f':{name}"' in event.text:
                times.setdefault(name, event.time)
    seconds = (times["of_child"] - times["of_parent"]) / trace.ticks_per_second
    assert 40 < seconds < 100  # less what the machine let it wait


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}, (0, 2)),
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (3, 4)),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_JOB_ID": "7"}, (2, 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}, None),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"PMI_RANK": "zero", "PMI_SIZE": "2"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_ranks_by_the_launcher(environ, rank):
    from holdfast.scorep import ranks

    found = ranks.find(environ)
    assert (found and (found.number, found.size)) == rank
    if "SLURM_JOB_ID" in environ and found:
        assert found.launch == "7"
        assert ranks.find(environ | {"PMIX_NAMESPACE": "7"}).launch == "7"


# On each of two machines one process starts the ranks; both of them are this machine.
TWO_MACHINES = ["-launcher", "ssh", "-launcher-exec", "./ssh", "-hosts", "one,other"]


# Open MPI wants to be asked to run as root, and more ranks than there are cores.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


@pytest.mark.parametrize(
    ("launcher", "machines"),
    [("mpiexec.hydra", []), ("mpiexec.hydra", TWO_MACHINES), ("mpiexec.openmpi", [])],
    ids=["one machine", "two machines", "Open MPI"],
)
def test_ranks_record_into_one_experiment(tmp_path, launcher, machines):
    if not shutil.which(launcher):
        pytest.skip(f"{launcher} isn't installed")
    launch = [launcher, *machines, "-n", "4"]
    (tmp_path / "ssh").write_text('#!/bin/sh\nshift 2\nexec sh -c "$*"\n')
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "script.py").write_text("def f(): pass\nf()\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
    done = subprocess.run(
        [*launch, sys.executable, "-m", "holdfast.scorep", "--mpp=mpi", "script.py"],
        env=environ | OPEN_MPI | {"HOLDFAST_RECORDER": "builtin"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (experiment,) = tmp_path.glob("scorep-*")
    trace = Trace(experiment)
    assert parts(trace) == [0, 1, 2, 3]
    assert trace.calls(prefix="__main__:f") == ["__main__:f"] * 4
    assert not (experiment / "parts").exists()
    shown = definitions(experiment)
    assert re.findall(r'^LOCATION_GROUP +\d+ +Name: "(.*?)"', shown, re.M) == [
        f"MPI Rank {number}" for number in range(4)
    ]
    assert re.search(r"^PARADIGM .*MPI.*Class: PROCESS", shown, re.M)
    assert re.search(r'"MPI_Locations" .*COMM_LOCATIONS, Paradigm: "MPI".* 4 Members', shown)
    assert re.search(r'^COMM +\d+ +Name: "MPI_COMM_WORLD"', shown, re.M)
    views = pytest.importorskip("holdfast.views.traces")
    rows = views.Trace(experiment).read().found["rows"]
    assert [row["process"] for row in rows] == [f"MPI Rank {number}" for number in range(4)]
