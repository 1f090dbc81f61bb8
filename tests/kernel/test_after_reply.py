"""A recorded cell's trace is written after its reply, before anything else of the notebook runs; a large one beside it.

A trace file that is a FIFO holds the writing up until somebody reads it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import trace_written, until

from holdfast import _recorder
from holdfast.scorep import experiments, recovery

sys.path.insert(0, str(Path(__file__).parents[1] / "bindings"))
from trace_reader import AVAILABLE, Trace  # noqa: E402

CELL = "%%execute_with_scorep\n"
CALLS = "for _ in range(20): f()\n"
HELD = CELL + CALLS + "os.mkfifo('mine/traces.otf2')"
EVENTS = 2 * 20 + 2  # with the cell's own
MANY = "for _ in range(30_000): f()\n"  # more than the main worker writes itself

needs_reader = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")


@pytest.fixture
def recorded(in_process_kernel, tmp_path):
    """A kernel whose next recorded cell goes to the directory `mine`; both."""
    in_process_kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    in_process_kernel.run("import os, signal\ndef f(): pass")
    in_process_kernel.settle()
    yield in_process_kernel, tmp_path / "mine"
    is_held = (tmp_path / "mine" / "traces.otf2").is_fifo()
    if is_held and _recorder.state(tmp_path / "mine") == "ended":
        let_go(tmp_path / "mine")


def let_go(directory):
    """Read what was written to the FIFO, to its end."""
    return (directory / "traces.otf2").read_bytes()


def late_text(kernel):
    """The next text on stderr; it comes after the idle status."""
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "stream" and message["content"]["name"] == "stderr":
            return message["content"]["text"]


def test_the_reply_does_not_wait_for_the_trace(recorded):
    kernel, directory = recorded
    outcome = kernel.run(HELD)
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    assert outcome.stream() == "Instrumentation results can be found in mine\n"
    assert outcome.cost["run"] == "in-process" and outcome.cost["events"] == EVENTS
    assert len(outcome.summaries) == 1
    assert _recorder.state(directory) == "ended"
    assert not (directory / "traces.def").exists()


def test_the_next_cell_waits_for_it(recorded):
    kernel, directory = recorded
    kernel.run(HELD)
    sent = kernel.client.execute("sorted(os.listdir('mine'))")
    assert _recorder.state(directory) == "ended"
    assert let_go(directory)
    found = kernel.finish(sent).result
    assert "traces.def" in found and "log-0" not in found
    assert _recorder.state(directory) == ""


def test_the_next_cell_reads_it(recorded):
    kernel, _ = recorded
    sent = [
        kernel.client.execute(code)
        for code in (
            CELL + CALLS,
            "from holdfast import views; {row['name']: row['visits'] for row in views.trace().table()}",
        )
    ]
    outcomes = [kernel.finish(one) for one in sent]
    assert "'__main__:f': 20" in outcomes[1].result, outcomes[1].content


def test_a_process_that_dies_before_it_loses_nothing(recorded, tmp_path):
    """The notebook goes on, and the trace is made of the log."""
    kernel, directory = recorded
    main = int(kernel.run("kept = [1]; os.getpid()").result)
    kernel.settle()
    assert kernel.run(HELD).status == "ok"
    os.kill(main, signal.SIGKILL)
    until(lambda: _recorder.state(directory) == "left")
    assert kernel.run("kept").result == "[1]"
    (directory / "traces.otf2").unlink()
    command = [sys.executable, "-m", "holdfast.scorep", "--recover", "mine"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{EVENTS} events" in done.stderr, done.stderr
    assert _recorder.state(directory) == ""


def test_a_fork_that_woke_records_as_the_main_worker_did(recorded, tmp_path):
    """It is a child of a process that records, but its recordings are its own."""
    kernel, directory = recorded
    main = int(kernel.run("os.getpid()").result)
    kernel.run(CELL + CALLS)
    kernel.settle()
    os.kill(main, signal.SIGKILL)
    kernel.run("1")  # may die with it
    assert kernel.run(f"os.getpid() == {main}").result == "False"
    outcome = kernel.run(CELL + CALLS + "os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'other'")
    assert outcome.cost["events"] >= EVENTS and not (tmp_path / "other").exists()


@needs_reader
def test_whoever_reads_it_writes_what_a_dead_process_left(recorded):
    kernel, directory = recorded
    main = int(kernel.run("os.getpid()").result)
    kernel.run(HELD)
    os.kill(main, signal.SIGKILL)
    until(lambda: _recorder.state(directory) == "left")
    (directory / "traces.otf2").unlink()
    experiments.await_trace(str(directory))
    assert Trace(directory).calls() == ["__main__:f"] * 20


@pytest.fixture
def held(recorded, tmp_path):
    """The same with a program that writes large traces only when the file `go` is there."""
    kernel, directory = recorded
    program = tmp_path / "program"
    program.write_text(
        f"""#!/bin/sh
touch {tmp_path}/asked-$$
while [ ! -e {tmp_path}/go ]; do sleep 0.01; done
exec {recovery.GUARDIAN} "$@"
"""
    )
    program.chmod(0o755)
    kernel.run(
        f"from holdfast.scorep import recovery\nguardian = recovery.GUARDIAN; recovery.GUARDIAN = {str(program)!r}"
    )
    yield kernel, directory
    (tmp_path / "go").touch()
    kernel.run("recovery.GUARDIAN = guardian")


def asked(directory):
    return len(list(directory.parent.glob("asked-*")))


@needs_reader
def test_a_large_trace_is_written_by_another_process(held, tmp_path):
    kernel, directory = held
    outcome = kernel.run(CELL + MANY)
    assert outcome.status == "ok" and outcome.cost["events"] == 60_002
    assert outcome.stream() == "Instrumentation results can be found in mine\n"
    until(lambda: asked(directory) == 1)
    assert _recorder.state(directory) == "left"
    (tmp_path / "go").touch()
    until(lambda: _recorder.state(directory) == "")  # nobody has read it
    assert len(Trace(directory).calls()) == 30_000


@pytest.mark.parametrize("code, reads", [(CELL + "1 + 1", False), ("1 + 1", True)])
def test_what_waits_for_a_large_trace(held, code, reads):
    """A plain cell may read it by a program of its own, and writes it if nobody has begun to."""
    kernel, directory = held
    leave = "del os.environ['SCOREP_EXPERIMENT_DIRECTORY']"
    assert kernel.run(CELL + MANY + leave).stream("stderr") == ""
    assert kernel.run(code).result == "2"
    assert _recorder.state(directory) == ("" if reads else "left")


def test_one_large_trace_at_a_time_is_left(held, tmp_path):
    kernel, directory = held
    kernel.run(CELL + MANY + "os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'other'")
    kernel.run(CELL + MANY)
    assert _recorder.state(directory) == "left"
    assert trace_written(tmp_path / "other").is_file()  # by the notebook's process
    assert asked(directory) == 1


@pytest.mark.parametrize("run", ["in-process", "isolated"])
def test_a_large_trace_is_written_before_its_directory_has_another_name(held, tmp_path, run):
    kernel, directory = held
    kernel.run(CELL + MANY)
    directive = CELL.replace("\n", f" --run={run}\n")
    assert kernel.run(directive + "1 + 1").result == "2"
    (former,) = tmp_path.glob("mine-*")
    assert _recorder.state(former) == "" and (former / "traces.otf2").is_file()


def test_each_large_trace_in_a_named_directory_is_left(held, tmp_path):
    """The one before was written when it got another name."""
    kernel, directory = held
    kernel.run(CELL + MANY)
    kernel.run(CELL + MANY)
    until(lambda: asked(directory) == 2)
    (former,) = tmp_path.glob("mine-*")
    assert (_recorder.state(former), _recorder.state(directory)) == ("", "left")


def test_a_large_trace_that_cannot_be_written_is_named(recorded):
    kernel, directory = recorded
    kernel.run("from holdfast.scorep import recovery\nguardian = recovery.GUARDIAN")
    kernel.run("recovery.GUARDIAN = '/no/program'")
    assert kernel.run(CELL + MANY + "os.mkdir('mine/traces.otf2')").stream("stderr") == ""
    outcome = kernel.run("recovery.GUARDIAN = guardian; 1 + 1")
    assert outcome.result == "2"
    assert f"the trace in {directory} could not be written: " in outcome.stream("stderr")
    assert _recorder.state(directory) == "left"


@needs_reader
def test_a_kernel_that_is_ended_has_written_its_large_trace(start_kernel, tmp_path):
    kernel = start_kernel(env={"SCOREP_EXPERIMENT_DIRECTORY": "mine"})
    kernel.run("from holdfast.scorep import recovery\nrecovery.GUARDIAN = '/no/program'")
    kernel.run(CELL + "def f(): pass\n" + MANY)
    kernel.close()
    assert _recorder.state(tmp_path / "mine") == ""
    assert len(Trace(tmp_path / "mine").calls()) == 30_000


def test_interrupts_do_not_reach_it(recorded):
    kernel, directory = recorded
    kernel.run(HELD)
    for _ in range(3):
        kernel.control("interrupt_request")
    sent = kernel.client.execute("1 + 1")
    let_go(directory)
    outcome = kernel.finish(sent)
    assert (outcome.result, outcome.stream("stderr")) == ("2", "")
    assert _recorder.state(directory) == ""


def test_an_error_is_said_late(recorded):
    """A directory that the archive has a file's place for; its events are still in the log."""
    kernel, directory = recorded
    outcome = kernel.run(CELL + "os.mkdir('mine/traces')")
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    text = late_text(kernel)
    assert f"the trace in {directory} could not be written: " in text
    assert _recorder.state(directory) == "left"
    assert kernel.run(CELL + "1 + 1").result == "2"


BEFORE = {
    "a profile": ("in-process", "%env SCOREP_ENABLE_PROFILING=true", "f()"),
    "another process": (
        "in-process",
        "1",
        "pid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)",
    ),
    "in a fork": ("forked", "%env HOLDFAST_RUN=forked", "f()"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_is_written_before_the_reply(recorded, name):
    kernel, directory = recorded
    run, before, code = BEFORE[name]
    kernel.run(before)
    outcome = kernel.run(CELL + code)
    assert outcome.cost["run"] == run and outcome.status == "ok"
    assert _recorder.state(directory) == "" and (directory / "traces.otf2").is_file()


@needs_reader
def test_a_kernel_that_is_ended_at_the_reply(start_kernel, tmp_path):
    """As nbconvert does after the last cell."""
    kernel = start_kernel(env={"SCOREP_EXPERIMENT_DIRECTORY": "mine"})
    kernel.run(CELL + "def f(): pass\n" + CALLS)
    kernel.close()
    assert _recorder.state(tmp_path / "mine") == ""
    assert Trace(tmp_path / "mine").calls() == ["__main__:f"] * 20


def test_a_fork_of_the_notebooks_does_not_write_it(recorded):
    """A thread of the notebook's forks while the trace waits, or is written."""
    kernel, directory = recorded
    kernel.run(
        "import threading, time\nfrom holdfast import _recorder\n"
        "def forks():\n"
        "    while not os.path.exists('mine/traces.otf2') and _recorder.state('mine') != 'ended':\n"
        "        time.sleep(0.001)\n"  # a busy machine may have written it meanwhile
        "    for _ in range(5):\n"
        "        pid = os.fork()\n"
        "        if not pid: _recorder.finish(); os._exit(0)\n"
        "        os.waitpid(pid, 0)\n"
        "thread = threading.Thread(target=forks)\nthread.start()"
    )
    kernel.run(CELL + CALLS)
    kernel.run("thread.join()")
    trace_written(directory)
    assert kernel.run("_recorder.state('mine')").result == "''"
    assert (directory / "traces.otf2").is_file()
