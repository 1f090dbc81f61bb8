"""A kernel as a client of Jupyter sees it, for the programs that time cells.

The clock of `run` starts when the request is sent and stops at the idle status. Traces go
to a directory that is removed with the kernel.
"""

from __future__ import annotations

import tempfile
import time

import measure
import ports
import zmq
from jupyter_client.manager import KernelManager
from traitlets.config import Config

TIMEOUT_S = 600
CELL = "%%execute_with_scorep\n"


class Kernel:
    """One kernel and its client; a context manager."""

    def __init__(
        self,
        name: str,
        environment: dict[str, str] | None = None,
        config: Config | None = None,
        wait: bool = True,
    ):
        self.name = name
        self.directory = tempfile.TemporaryDirectory()
        context = zmq.Context()
        context.setsockopt(zmq.RECONNECT_IVL, 1)  # ms; 100 would be in each start
        context.setsockopt(zmq.RCVHWM, 0)  # what is lost isn't lost here
        self.manager = KernelManager(
            kernel_name=name, config=config, context=context, **ports.of_kernel()
        )
        options = {"env": environment} if environment is not None else {}
        self.began = time.perf_counter()
        self.manager.start_kernel(cwd=self.directory.name, **options)
        self.client = self.manager.client(context=context)
        self.client.start_channels()
        if wait:
            self.client.wait_for_ready(timeout=TIMEOUT_S)
        self.printed = ""  # stdout of the last cell

    def ask(self, code: str, silent: bool = False) -> tuple[float, list[dict], dict]:
        """Seconds from request to idle, what came on the way, and the reply."""
        messages = []
        start = time.perf_counter()
        # Nobody answers an input(): it is an error then, and not a cell that waits for ever.
        request = self.client.execute(code, silent=silent, stop_on_error=False, allow_stdin=False)
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["content"].get("execution_state") == "idle":
                break
            messages.append(message)
        seconds = time.perf_counter() - start
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == request:
                return seconds, messages, reply

    def run(self, code: str) -> tuple[float, dict]:
        """Seconds from request to idle, and the metadata of the reply. An error is raised."""
        seconds, messages, reply = self.ask(code)
        contents = [(message["msg_type"], message["content"]) for message in messages]
        errors = [content for kind, content in contents if kind == "error"]
        if errors:
            raise RuntimeError("\n".join(errors[-1]["traceback"]))
        printed = [content for kind, content in contents if kind == "stream"]
        self.printed = "".join(one["text"] for one in printed if one["name"] == "stdout")
        return seconds, reply["metadata"].get("holdfast", {})

    def pids(self) -> list[int]:
        """The processes of this kernel."""
        return measure.descendants(self.manager.provisioner.process.pid)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exc) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.context.destroy(linger=0)
        self.directory.cleanup()
