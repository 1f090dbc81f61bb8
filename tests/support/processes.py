"""Processes that other processes start and end: any of them may be gone when it is looked at."""

import contextlib
import os
import signal
from pathlib import Path


def kill(pid):
    """Kill it, if it is still there."""
    assert pid > 0  # of others the system kills more than one process
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def state(pid):
    """A process's state as ps shows it; Z once it is gone."""
    return (fields_of(pid) or "Z")[0]


def forks_for_another(pid):
    """Whether it is a helper (worker/fork.c), which a worker's program makes for each fork, and
    which ends at once. All that could interrupt it is blocked, but its alarm."""
    return blocks(pid, signal.SIGINT) and not blocks(pid, signal.SIGALRM)


def blocks(pid, number):
    """Whether it lives and has a signal blocked, as a sleeping fork has all."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        return bool(blocked >> (number - 1) & 1) and state(pid) not in "ZX"
    return False


def name(pid):
    """Its name as ps shows it; empty once it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().removesuffix("\n")
    return ""


def fields_of(pid):
    """What its /proc/PID/stat has behind the name, its state first (proc(5)); nothing once it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
