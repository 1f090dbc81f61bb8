"""The word that a process runs a cell's code: heard in others, and not for ever."""

import os
import signal

import pytest
from holdfast.worker.computing import Computing

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks need it")


def in_a_child(function):
    """Run it in a fork that waits then; its process id."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        function()
        os.write(write, b".")
        signal.pause()
    os.read(read, 1)
    os.close(read)
    os.close(write)
    return child


def test_others_hear_it():
    computing = Computing()
    assert not computing.is_going_on()
    child = in_a_child(computing.begin)
    assert computing.is_going_on()
    computing.end()  # not its own
    assert computing.is_going_on()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not computing.is_going_on()


def test_it_ends():
    computing = Computing()
    computing.begin()
    child = in_a_child(computing.end)  # which the code forked
    assert computing.is_going_on()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    computing.end()
    assert not computing.is_going_on()
