"""A process that has ipykernel imported and forks a kernel for each line that it reads.

Each line is a JSON object: connection_file, directory, environment, log. The answer is a line
with the number of the kernel's process. A fork saves half a second of imports, which are the same
for each. Nothing has run here but these imports: no event loop, no thread, no IPython shell.
Kernels end with this process, and this process with its input.
"""

import ctypes
import importlib
import json
import os
import signal
import sys

del sys.path[0]  # this file's directory
import ipykernel.kernelapp  # noqa: E402

# What each kernel imports when it starts, or at its first error.
MODULES = """
    ipykernel.ipkernel ipykernel.zmqshell ipykernel.debugger tornado.platform.asyncio sqlite3
    IPython.core.completerlib IPython.core.debugger IPython.core.oinspect
    IPython.extensions.storemagic stack_data pygments.formatters.terminal256
"""
for name in MODULES.split():
    importlib.import_module(name)

PR_SET_PDEATHSIG = 1


def become_kernel(order):
    """In the fork: what a kernel finds that was started as a program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    program = os.path.join(
        os.path.dirname(os.path.dirname(ipykernel.__file__)), "ipykernel_launcher.py"
    )
    sys.argv = [program, "-f", order["connection_file"]]
    ipykernel.kernelapp.launch_new_instance()


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while line := sys.stdin.buffer.readline():
        pid = os.fork()
        if pid == 0:
            become_kernel(json.loads(line))
            return
        print(pid, flush=True)


if __name__ == "__main__":
    main()
