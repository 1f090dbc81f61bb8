"""A frontend that is killed, and the one that takes its session up."""

import os
import signal

from jupyter_client.restarter import KernelRestarter
from waiting import until


def killed(kernel):
    """Kill the frontend as the system would, and let Jupyter notice; the kernel that follows."""
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
