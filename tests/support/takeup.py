"""A frontend that is killed, and the one that takes its session up."""

import contextlib
import fcntl
import os
import signal
import tempfile
from pathlib import Path

from jupyter_client.restarter import KernelRestarter
from waiting import until


@contextlib.contextmanager
def session_waits(*, alone=False):
    """While a session waits for its kernel. `holdfast gc --kept` removes every session of this user
    that waits: who calls it has to be alone, also among the processes of other runs."""
    path = Path(tempfile.gettempdir()) / f"holdfast-sessions-that-wait-{os.getuid()}"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def killed(kernel):
    """Kill the frontend as the system would, and let Jupyter notice; the kernel that follows."""
    with session_waits():
        os.kill(kernel.pid, signal.SIGKILL)
        until(lambda: not kernel.manager.is_alive())
        restarter = KernelRestarter(kernel_manager=kernel.manager)
        restarted = []
        restarter.add_callback(lambda: restarted.append(1))
        restarter.poll()
        assert restarted and kernel.manager.is_alive()
        kernel.client.stop_channels()
        kernel.client = type(kernel)(kernel.manager).client
    return kernel
