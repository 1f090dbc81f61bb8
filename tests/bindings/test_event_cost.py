"""What recording an event costs, and the directory in which that is measured (worker/event_cost.py)."""

import os
import signal
import subprocess
import sys

import pytest

MEASURE = """
from holdfast import _recorder
from holdfast.worker.event_cost import Counted, event_cost
event_cost.measure(_recorder)
kinds = "flat", "nested", "steps", "functions"
print(all(event_cost.of(Counted(**{kind: 1000})) > 1e-9 for kind in kinds))
"""
# It waits in the middle of a measurement until its input ends.
WAITS = """
import sys
class Recorder:
    def open(self, directory, **settings):
        open(directory + "/log-0", "w").close()
        print(directory, flush=True)
        sys.stdin.read()
        raise OSError("that was all")
from holdfast.worker.event_cost import event_cost
event_cost.measure(Recorder())
"""


@pytest.fixture
def start(tmp_path):
    """A process in which some code runs, whose temporary files lie in the test's directory."""
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_is_known_and_nothing_is_left(start, tmp_path):
    assert start(MEASURE).communicate()[0] == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(start, tmp_path):
    killed = start(WAITS)
    directory = killed.stdout.readline().strip()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert os.listdir(directory) == ["log-0"]
    (tmp_path / "holdfast-event-cost-file").touch()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(tmp_path) == ["holdfast-event-cost-file"]


def test_another_process_keeps_its_own(start):
    waits = start(WAITS)
    directory = waits.stdout.readline().strip()
    assert start(MEASURE).communicate()[0] == "True\n"
    assert os.listdir(directory) == ["log-0"]
    waits.communicate()
    assert waits.returncode == 1 and not os.path.exists(directory)
