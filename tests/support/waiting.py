"""Waiting for what happens, not for a time in which it should have: machines are busy."""

import os
import time
from pathlib import Path

from processes import state

# More than anything takes where four tests share a processor: a test that waits for longer has failed.
SECONDS = 60


def until(happened, what=None, seconds=SECONDS, pause=0.01):
    """The first true value of `happened()`. `what` names it, or is a function that says what is wrong."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)
    return found


def trace_written(directory):
    """The trace in a directory, once it is written: a cell's may be, after its reply."""
    from holdfast.scorep import experiments

    experiments.await_trace(str(directory))
    return Path(directory, "traces.otf2")


def printed(kernel, sent):
    """Wait until something that the cell printed is here."""
    while True:
        message = kernel.client.get_iopub_msg(timeout=SECONDS)
        if message["parent_header"].get("msg_id") != sent:
            continue
        if message["msg_type"] == "stream":
            return
        assert message["content"].get("execution_state") != "idle", "it printed nothing"


def at_rest(processes):
    """Wait until all processes of a function's list sleep.

    A process that has yet to get there runs, or would if it had a processor. Who waits for the
    interpreter's lock for a moment is passed over by looking several times.
    """
    looks = 0
    while looks < 5:
        time.sleep(0.02)
        looks = looks + 1 if all(state(pid) in "SZ" for pid in processes()) else 0


def complete(kernel, without=0):
    """Wait until the main worker and those that wait for a cell are there, and a dead one isn't.

    So the frontend has heard of its death. Some wait from the start if all cells are isolated.
    """
    environment = Path(f"/proc/{kernel.pid}/environ").read_bytes().split(b"\0")
    waiting = 0 if b"HOLDFAST_RUN=isolated" not in environment else 2 if os.cpu_count() > 1 else 1
    wanted = 1 + waiting
    # A sleeping fork for the next cell may be among them by then.
    until(lambda: len(kernel.workers()) >= wanted and without not in kernel.workers())


def begun(kernel, code):
    """Send a cell that prints; its id, once something of that is here."""
    sent = kernel.client.execute(code)
    printed(kernel, sent)
    return sent


def asleep(kernel, code):
    """Send a cell that prints and then waits; its id, once it does."""
    sent = begun(kernel, code)
    at_rest(kernel.workers)
    return sent
