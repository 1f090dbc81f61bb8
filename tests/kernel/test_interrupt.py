"""Interrupts that the cell takes, and those that it doesn't: the end of its process.

When which signal is due is tested in test_escalate.c. What sleeps does so for longer than any test waits: a cell that ends was ended.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import effort
import pytest
from waiting import asleep, at_rest, printed, until

CELL = "%%execute_with_scorep --run=isolated\n"
IN_PROCESS = "%%execute_with_scorep --run=in-process\n"
FORKED = "%%execute_with_scorep --run=forked\n"
HEADS = {"plain": "", "isolated": CELL, "in-process": IN_PROCESS, "forked": FORKED}
# A lock that nobody gives back: no signal makes the call return.
DEAF = (
    "import ctypes\nlibc, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)\n"
    "libc.pthread_mutex_lock(lock)\nprint('go', flush=True)\nlibc.pthread_mutex_lock(lock)"
)
# The same, until a thread finds a file and gives it back.
LONG = (
    "import ctypes, os, threading, time\n"
    "libc, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)\n"
    "libc.pthread_mutex_lock(lock)\n"
    "def give():\n"
    "    while not os.path.exists('give'): time.sleep(0.01)\n"
    "    libc.pthread_mutex_unlock(lock)\n"
    "threading.Thread(target=give).start()\n"
    "print('go', flush=True)\ndone = False\n"
    "try:\n    libc.pthread_mutex_lock(lock)\nfinally:\n    done = True"
)


def interrupt(kernel, way="message"):
    if way == "signal":
        os.kill(kernel.pid, signal.SIGINT)
    else:
        kernel.control("interrupt_request")


@pytest.fixture
def short(lend):
    """A kernel for cells that take no interrupt."""
    return lend(HOLDFAST_INTERRUPT_SECONDS="0.3")


@pytest.fixture
def patient(lend):
    """One whose cells have two seconds to take it, however busy the machine is."""
    return lend(HOLDFAST_INTERRUPT_SECONDS="2")


@pytest.mark.parametrize("head", effort.core(HEADS, ["plain", "forked"]))
def test_the_traceback_ends_where_the_code_was(kernel, head):
    sent = asleep(kernel, HEADS[head] + "import time\nprint('go', flush=True)\ntime.sleep(100)")
    interrupt(kernel)
    lines = "\n".join(kernel.finish(sent).content["traceback"])
    assert "time.sleep" in lines and "interrupt.py" not in lines


@pytest.mark.parametrize(
    ("head", "way"),
    # The rollback of a cell in the main worker: test_rollback.py.
    effort.core(
        [(head, way) for head in HEADS for way in ("message", "signal")],
        [("plain", "message"), ("isolated", "signal"), ("forked", "signal")],
    ),
)
def test_code_that_cannot_be_interrupted_is_ended(short, head, way):
    short.run("kept = [5]")
    short.settle()
    sent = asleep(short, HEADS[head] + "kept.append(6)\n" + DEAF)
    interrupt(short, way)
    outcome = short.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert outcome.types.count("error") == 1
    assert "went on for 0.3 seconds after its interrupt" in outcome.content["evalue"]
    assert short.run("kept").result == "[5]"
    assert short.run(CELL + "kept").result == "[5]"


def test_an_ended_main_worker_names_what_is_lost(short):
    short.run("kept, gen = 5, (i for i in range(3))")
    short.run(CELL + "kept")  # its commit names what no codec carries
    sent = asleep(short, DEAF)
    interrupt(short)
    outcome = short.finish(sent)
    assert "variables are those of the last commit" in outcome.content["evalue"]
    assert "lost: gen (" in outcome.content["evalue"]
    assert short.run("kept").result == "5"


@pytest.mark.parametrize("head", effort.core(HEADS, ["in-process"]))
def test_interrupts_that_the_cell_takes_stop_the_clock(patient, head):
    """It goes on for longer than the grace, to write its results. A second one is its to catch, too."""
    code = (
        "import time\nprint('go', flush=True)\ncaught = 0\nwhile caught < 2:\n"
        "    try:\n        time.sleep(100)\n    except KeyboardInterrupt:\n"
        "        caught += 1\n        print('caught', flush=True)\ntime.sleep(2.2)"
    )
    sent = asleep(patient, HEADS[head] + code)
    interrupt(patient)
    printed(patient, sent)
    at_rest(patient.workers)
    interrupt(patient)
    assert patient.finish(sent).status == "ok"
    assert patient.run("caught").result == "2"


@pytest.mark.parametrize("head", effort.core(HEADS, ["plain"]))
def test_a_third_interrupt_is_meant(patient, head):
    """A cell that catches them all is ended."""
    patient.run("kept = [5]")
    patient.settle()
    code = (
        "import time\nkept = 0\nprint('go', flush=True)\nwhile True:\n"
        "    try:\n        time.sleep(100)\n"
        "    except KeyboardInterrupt: print('caught', flush=True)"
    )
    sent = asleep(patient, HEADS[head] + code)
    for _ in range(2):
        interrupt(patient)
        printed(patient, sent)
        at_rest(patient.workers)
    interrupt(patient)
    outcome = patient.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert "after its interrupt" in outcome.content["evalue"]
    assert patient.run("kept").result == "[5]"


def test_a_grace_of_zero_is_for_ever(start_kernel, tmp_path):
    env = {"HOLDFAST_INTERRUPT_SECONDS": "0.1"}
    kernel = start_kernel(env=env, arguments=["--interrupt-seconds", "0"])
    sent = asleep(kernel, LONG)
    interrupt(kernel)
    time.sleep(0.5)  # longer than the grace of the environment
    (tmp_path / "give").touch()
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert outcome.content["evalue"] == ""  # the cell's own
    assert kernel.run("done").result == "True"


@pytest.mark.parametrize("seconds", ["x", "-1", "100000"])
def test_a_wrong_grace_is_refused(seconds, tmp_path):
    program = Path(sys.executable).parent / "holdfast-kernel"
    done = subprocess.run(
        [program, "-f", tmp_path / "none.json", "--interrupt-seconds", seconds],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0 and seconds in done.stderr


@pytest.mark.parametrize("head", ["plain", "in-process"])
def test_an_interrupt_during_the_await_is_immediate(kernel, head):
    sent = asleep(
        kernel, HEADS[head] + "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(100)"
    )
    interrupt(kernel)
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
    assert kernel.run("1").result == "1"


def test_a_handler_that_the_cell_set_goes_with_it(kernel):
    kernel.run("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    sent = asleep(kernel, "print('go', flush=True)\ntime.sleep(100)")
    interrupt(kernel)
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"


def test_an_interrupt_of_the_commit_is_immediate(kernel, tmp_path):
    """The main worker saves on; the cell that waited for it is over."""
    kernel.run(
        "import os, pathlib, time\nclass Slow:\n    def __reduce__(self):\n"
        "        if armed: pathlib.Path('saving').touch()\n"
        "        while armed and not os.path.exists('go'): time.sleep(0.01)\n"
        "        return (Slow, ())\n"
        "armed, slow = 0, Slow()"
    )
    kernel.settle()
    sent = kernel.client.execute("armed, slow = 1, Slow()")
    waiting = kernel.client.execute(CELL + "open('ran', 'w')")
    kernel.finish(sent)
    until((tmp_path / "saving").exists)
    interrupt(kernel)
    assert kernel.finish(waiting).content["ename"] == "KeyboardInterrupt"
    (tmp_path / "go").touch()
    assert kernel.run("armed = 0; slow is not None").result == "True"
    assert not (tmp_path / "ran").exists()
