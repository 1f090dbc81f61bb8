"""Several processes record into one experiment."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from trace_reader import AVAILABLE, Trace

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")


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
        trace = Trace(tmp_path / "experiment")
        trace.done, trace.directory = done, tmp_path / "experiment"
        return trace

    return run


def parts(trace):
    """The numbers of the processes that recorded something."""
    return sorted({location >> 32 for location in trace.locations})


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
        """
    )
    assert trace.done.stdout.strip() == "[0, 1, 4, 9, 16, 25, 36, 49]"
    assert trace.done.stderr == ""
    assert trace.calls(0).count("__main__:square") == 1
    assert len(of_children(trace, "square")) == 8
    assert len(parts(trace)) in (2, 3, 4)  # a worker may be ended before it has begun
    assert not (trace.directory / "parts").exists()


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
def test_what_is_open_at_the_fork_is_entered_in_the_child(record, end):
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
        """
    )
    child = [location for location in trace.locations if location >> 32]
    seen = [call for call in trace.calls(child[0], "") if call.startswith(("__main__", "user"))]
    assert seen == ["__main__:<module>", "__main__:outer", "user:both", "__main__:inner"]
    assert trace.calls(0).count("__main__:inner") == 0


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
    for _ in range(1000):
        if not (tmp_path / "experiment" / "parts").exists():
            break
        subprocess.run(["sleep", "0.02"], check=True)
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


def test_a_program_that_is_executed_is_not_a_part(record):
    trace = record(
        """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        """
    )
    assert parts(trace) == [0]


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


@pytest.mark.skipif(not shutil.which("mpiexec"), reason="mpiexec isn't installed")
def test_ranks_record_into_one_experiment(tmp_path):
    (tmp_path / "script.py").write_text("def f(): pass\nf()\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
    done = subprocess.run(
        ["mpiexec", "-n", "4", sys.executable, "-m", "holdfast.scorep", "--mpp=mpi", "script.py"],
        env=environ | {"HOLDFAST_RECORDER": "builtin"},
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
