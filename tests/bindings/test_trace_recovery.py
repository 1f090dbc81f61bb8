"""A process that is killed leaves a trace of all that it recorded until then."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import effort
import pytest
from holdfast.scorep import recovery
from trace_reader import AVAILABLE, Trace, profiled
from waiting import until

pytestmark = [
    pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no guardian"),
]

# The program says how many calls it has made, and only then makes the next ones.
PRELUDE = """
import ctypes, os, signal, sys, threading
def f(): pass
def calls(count):
    for _ in range(count): f()
    os.write(1, b"%d\\n" % count)
"""


@pytest.fixture
def start(tmp_path):
    """Begin to run a script under python -m holdfast.scorep, or by plain Python."""

    def run(program, *options, module=True, **variables):
        script = tmp_path / "script.py"
        script.write_text(PRELUDE + textwrap.dedent(program))
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
        environ |= {"SCOREP_EXPERIMENT_DIRECTORY": "experiment", "HOLDFAST_RECORDER": "builtin"}
        return subprocess.Popen(
            [sys.executable, *["-m", "holdfast.scorep"] * module, *options, script.name],
            env=environ | variables,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


def finished(program, tmp_path):
    """Its trace, when it and its guardian have ended; and what it said."""
    program.out, program.err = program.communicate(timeout=120)
    trace = Trace(tmp_path / "experiment")
    trace.program = program
    return trace


def count(trace, name="__main__:f"):
    return trace.calls(prefix=name).count(name)


def left(tmp_path):
    return sorted(path.name for path in (tmp_path / "experiment").iterdir())


PROFILED = {"SCOREP_ENABLE_PROFILING": "true", "SCOREP_PROFILING_FORMAT": "json"}

ENDS = {
    "os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
    "ctypes.string_at(0)": -signal.SIGSEGV,
    "os.abort()": -signal.SIGABRT,
    "ctypes.CDLL(None)._exit(7)": 7,
    "os._exit(7)": 7,
}


@pytest.mark.parametrize("end", ENDS)
def test_what_a_lone_process_recorded(start, tmp_path, end):
    trace = finished(start(f"def last(): {end}\ncalls(2000)\nlast()", **PROFILED), tmp_path)
    assert trace.program.returncode == ENDS[end]
    assert count(trace) == 2000
    assert "__main__:last" in trace.calls()
    _, visits = profiled(tmp_path / "experiment")
    assert (visits["__main__:f"], visits["__main__:last"]) == (2000, 1)
    assert left(tmp_path) == ["profile.json", "traces", "traces.def", "traces.otf2"]
    assert ("until then" in trace.program.err) == (end != "os._exit(7)")


def test_threads_and_full_logs(start, tmp_path):
    program = start(
        """
        threads = [threading.Thread(target=calls, args=(20_000,)) for _ in range(3)]
        for one in threads: one.start()
        for one in threads: one.join()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        SCOREP_TOTAL_MEMORY="2M",
        **PROFILED,
    )
    trace = finished(program, tmp_path)
    assert count(trace) == 60_000
    flushes = [event for event in trace.events if event.kind == "BUFFER_FLUSH"]
    locations, visits = profiled(tmp_path / "experiment")
    assert len(locations) == 4
    assert (visits["__main__:f"], visits["BUFFER FLUSH"]) == (60_000, len(flushes))
    assert flushes


@pytest.mark.parametrize("seed", effort.core(range(6), [0, 1]))
def test_a_kill_at_any_time(start, tmp_path, seed):
    """While threads record, while a log is followed by the next, while all is written."""
    program = start(
        """
        def work():
            for _ in range(3): calls(5000)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads: one.start()
        for one in threads: one.join()
        os.write(1, b"0\\n")
        """,
        SCOREP_TOTAL_MEMORY="1M",
    )
    chance = random.Random(seed)
    lines = [program.stdout.readline() for _ in range(chance.choice([1, 2, 5, 10, 10, 10]))]
    time.sleep(chance.random() / 20)
    program.kill()
    trace = finished(program, tmp_path)
    reported = sum(int(line) for line in lines + trace.program.out.splitlines())
    assert reported <= count(trace) <= 45_000
    assert left(tmp_path) == ["traces", "traces.def", "traces.otf2"]


def test_regions_parameters_and_what_was_taken_back(start, tmp_path):
    program = start(
        """
        from holdfast.scorep import user
        user.region_begin("outer")
        user.rewind_begin("try")
        calls(10)
        user.rewind_end("try", True)
        calls(5)
        user.parameter_int("number", -3); user.parameter_string("text", "of it")
        with user.region("inner"):
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    trace = finished(program, tmp_path)
    assert count(trace) == 5
    assert trace.nested(prefix="user").startswith("outer(inner(")
    kinds = [event.kind for event in trace.events]
    assert kinds.count("PARAMETER_INT64") == kinds.count("PARAMETER_STRING") == 1


def test_a_forked_child_that_is_killed(start, tmp_path):
    program = start(
        """
        if not os.fork():
            calls(300)
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        calls(7)
        """
    )
    trace = finished(program, tmp_path)
    assert program.returncode == 0
    assert count(trace) == 307
    assert sorted({location >> 32 for location in trace.locations}) == [0, 1]
    assert left(tmp_path) == ["traces", "traces.def", "traces.otf2"]


def test_all_processes_are_killed(start, tmp_path):
    program = start(
        """
        os.setpgid(0, 0)
        ready, started = os.pipe()
        for _ in range(2):
            if not os.fork():
                calls(300)
                os.write(started, b"."); signal.pause()
        calls(11)
        os.read(ready, 1); os.read(ready, 1)
        os.killpg(0, signal.SIGKILL)
        """,
        **PROFILED,
    )
    trace = finished(program, tmp_path)
    assert count(trace) == 611
    locations, visits = profiled(tmp_path / "experiment")
    assert (len(locations), visits["__main__:f"]) == (3, 611)
    assert len({location >> 32 for location in trace.locations}) == 3
    assert "3 processes" in program.err


def test_a_parent_that_is_killed_and_a_child_that_is_not(start, tmp_path):
    """The trace has the parent's part at once, and the child's when it ends."""
    program = start(
        """
        calls(11)
        parent = os.getpid()
        if not os.fork():
            for fd in 0, 1, 2: os.close(fd)
            import time
            while not os.path.exists("go"): time.sleep(0.01)
            for _ in range(13): f()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert count(finished(program, tmp_path)) == 11
    (tmp_path / "go").touch()
    until(lambda: not (tmp_path / "experiment" / "parts").exists())
    assert count(Trace(tmp_path / "experiment")) == 24


def test_a_child_that_outlives_the_program_is_killed(start, tmp_path):
    program = start(
        """
        if not os.fork():
            for fd in 0, 1, 2: os.close(fd)
            for _ in range(13): f()
            open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")
            signal.pause()
        calls(11)
        """
    )
    assert count(finished(program, tmp_path)) == 11
    until((tmp_path / "pid").exists)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    until(lambda: left(tmp_path) == ["traces", "traces.def", "traces.otf2"])
    assert count(Trace(tmp_path / "experiment")) == 24


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_child_that_closes_all_descriptors_and_outlives_the_program(start, tmp_path, is_killed):
    """As daemons do: with them goes the lock by which others know of it."""
    program = start(
        """
        if not os.fork():
            os.closerange(0, 200)
            for _ in range(13): f()
            open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")
            import time
            while not os.path.exists("go"): time.sleep(0.01)
            os._exit(0)
        while not os.path.exists("pid"): pass
        calls(11)
        """
    )
    assert count(finished(program, tmp_path)) == 11
    if is_killed:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    else:
        (tmp_path / "go").touch()
    until(lambda: left(tmp_path) == ["traces", "traces.def", "traces.otf2"])
    assert count(Trace(tmp_path / "experiment")) == 24


def test_a_fork_in_c_writes_to_no_log(start, tmp_path):
    """The recorder gets no word of it, and its child goes on to run Python."""
    program = start(
        """
        libc = ctypes.PyDLL(None)
        calls(100)
        if libc.fork() == 0:
            for _ in range(20_000): f()
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        calls(20)
        """
    )
    trace = finished(program, tmp_path)
    assert program.returncode == 0, program.err
    assert count(trace) == 120


def test_a_program_that_closes_all_descriptors(start, tmp_path):
    program = start(
        """
        os.closerange(3, 200)
        kept = [open(f"own-{i}", "w") for i in range(20)]
        for one in kept: one.write("own")
        calls(40_000)
        """
    )
    trace = finished(program, tmp_path)
    assert (program.returncode, program.err) == (0, "")
    assert count(trace) == 40_000
    assert {path.read_text() for path in tmp_path.glob("own-*")} == {"own"}


def test_the_guardian_is_not_seen(start, tmp_path):
    program = start(
        """
        try: os.waitpid(-1, os.WNOHANG)
        except ChildProcessError: print("no child")
        """
    )
    out, err = program.communicate(timeout=60)
    assert (out, err) == ("no child\n", "")


def test_recovery_by_hand(start, tmp_path):
    """Where nobody guards; and not while the process lives."""
    program = start(
        """
        import scorep
        scorep.register()
        calls(1000)
        signal.pause()
        """,
        module=False,
        HOLDFAST_SCOREP_ALIAS="1",
    )
    assert program.stdout.readline() == "1000\n"

    def recover():
        return subprocess.run(
            [sys.executable, "-m", "holdfast.scorep", "--recover", "experiment"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
        )

    done = recover()
    assert (done.returncode, "still records" in done.stderr) == (1, True), done.stderr
    program.kill()
    program.wait()
    assert left(tmp_path) == ["log-0"]
    done = recover()
    assert done.returncode == 0
    assert "a process ended without closing" in done.stderr
    assert count(finished(program, tmp_path)) == 1000
    assert "nothing to recover" in recover().stderr


@pytest.mark.parametrize(
    ("processes", "ended", "said"),
    [
        (2, 0, "2 processes ended without closing the recording: 7 events"),
        (0, 1, "a process had left the recording to be written: 7 events"),
        (1, 2, "a process ended without closing the recording and 2 processes had left the "
         "recording to be written: 7 events"),
    ],
)  # fmt: skip
def test_both_kinds_of_processes_are_reported(monkeypatch, capsys, processes, ended, said):
    found = {"processes": processes, "ended": ended, "left": 0, "events": 7}
    monkeypatch.setattr(recovery, "_recorder", SimpleNamespace(recover=lambda directory: found))
    assert recovery.recover(["--recover", "place"]) == 0
    assert f"{said} are in place" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["head", "journal", "words", "end"])
def test_a_damaged_log(start, tmp_path, damage):
    """Is reported, or gives what is whole."""
    program = start("import scorep; scorep.register(); calls(1000); signal.pause()", module=False,
                    HOLDFAST_SCOREP_ALIAS="1")  # fmt: skip
    assert program.stdout.readline() == "1000\n"
    program.kill()
    program.communicate()
    log = tmp_path / "experiment" / "log-0"
    content = bytearray(log.read_bytes())
    if damage == "head":
        content[:8] = b"other..."
    elif damage == "journal":
        content[1100:1200] = os.urandom(100)
    elif damage == "words":
        content[65536 + 4000 : 65536 + 4800] = os.urandom(800)
    else:
        del content[65536 + 5000 :]
    log.write_bytes(content)
    from holdfast import _recorder

    if damage == "head":
        with pytest.raises(RuntimeError, match="can't be understood"):
            _recorder.recover(tmp_path / "experiment")
        assert log.exists()
        return
    assert _recorder.recover(tmp_path / "experiment")["processes"] == 1
    assert count(Trace(tmp_path / "experiment")) < 1000


def test_a_damaged_part_costs_no_more_than_itself(start, tmp_path):
    """Its file is written by another process, and lies on a disk: nothing in it is believed."""
    program = start(
        """
        import scorep
        scorep.register()
        if not os.fork():
            calls(3); os._exit(0)
        os.wait()
        calls(2)
        ctypes.CDLL(None)._exit(7)
        """,
        module=False,
        HOLDFAST_SCOREP_ALIAS="1",
        **PROFILED,
    )
    program.communicate(timeout=60)
    recorder = pytest.importorskip("holdfast._recorder")
    whole, copy = tmp_path / "experiment", tmp_path / "copy"
    chance = random.Random(6)
    numbers = [0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
    seen = set()
    for i in range(30):
        shutil.copytree(whole, copy)
        part = copy / "parts" / "1" / "part"
        content = bytearray(part.read_bytes())
        at = chance.randrange(len(content) // 8) * 8
        if i:
            content[at : at + 8] = chance.choice(numbers).to_bytes(8, "little")
        part.write_bytes(content)
        assert recorder.recover(str(copy))["processes"] == 1
        profile = json.loads((copy / "profile.json").read_text("utf-8", "replace"))
        seen.add(len(profile["processes"]))
        shutil.rmtree(copy)
    assert seen == {1, 2}


def test_a_recording_that_was_left_gives_the_same_trace(tmp_path):
    """As one that its process writes; times differ."""
    program = """
    import sys
    from holdfast import _recorder as recorder
    def f(): pass
    for leave in (False, True):
        recorder.open(f"{sys.argv[1]}/{leave}")
        recorder.enable()
        for _ in range(30_000): f()
        recorder.disable()
        result = recorder.close(later=True, leave=leave)
        assert result["left"] == leave and result["events"] == 60_000, result
        recorder.finish()
        assert recorder.state(f"{sys.argv[1]}/{leave}") == ("left" if leave else "")
    print(recorder.recover(f"{sys.argv[1]}/True"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "{'processes': 0, 'ended': 1, 'left': 0, 'events': 60000}\n"
    assert not any(path.name.startswith("log-") for path in (tmp_path / "True").rglob("*"))
    shown = [
        subprocess.run(
            ["otf2-print", *arguments, f"{tmp_path}/{leave}/traces.otf2"],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()
        for arguments in (["-G"], [])
        for leave in (False, True)
    ]  # fmt: skip
    definitions = [[one for one in lines if "CLOCK_PROP" not in one] for lines in shown[:2]]
    assert definitions[0] == definitions[1]
    assert len(shown[2]) == len(shown[3]) > 60_000
