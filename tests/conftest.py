"""Fixtures of all rooms: real kernels, started as clients start them."""

import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

# A Score-P on PATH would record what the tests of the built-in recorder look at. Those of
# Score-P's ask for it.
os.environ.setdefault("HOLDFAST_RECORDER", "builtin")

SUPPORT = Path(__file__).parent / "support"


def program(name):
    """Path of an installed program: beside the interpreter, from the environment, or in PATH."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    return os.environ.get(name.upper().replace("-", "_")) or shutil.which(name)


def write_kernelspec(kernels, python=None, arguments=()):
    """A kernelspec `holdfast` in a directory of kernelspecs: this package's kernel."""
    argv = [program("holdfast-kernel"), "-f", "{connection_file}"]
    assert argv[0] is not None, "holdfast-kernel is not installed"
    argv += ["--python", python or sys.executable, *arguments]
    spec = {"argv": argv, "display_name": "Holdfast", "language": "python"}
    directory = kernels / "holdfast"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(spec))


class Notebook:
    """A kernel and a client, with the few calls that a test needs."""

    def __init__(self, manager):
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    def run(self, code, timeout=60, answers=(), **options):
        """Run a cell; its reply, with `outputs`, `texts`, `states` and `messages` added."""
        options.setdefault("allow_stdin", bool(answers))
        sent = self.client.execute(code, **options)
        return self.finish(sent, timeout, answers)

    def finish(self, sent, timeout=60, answers=()):
        answers = list(answers)
        messages, idle = [], False
        while not idle:
            message = self._iopub(timeout, answers)
            if message is None or message["parent_header"].get("msg_id") != sent:
                continue
            messages.append(message)
            idle = (
                message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            )
        reply = self.client.get_shell_msg(timeout=timeout)
        while reply["parent_header"].get("msg_id") != sent:
            reply = self.client.get_shell_msg(timeout=timeout)
        return Outcome(reply, messages)

    def _iopub(self, timeout, answers):
        import queue
        import time

        deadline = time.monotonic() + timeout
        while True:
            try:
                return self.client.get_iopub_msg(timeout=0.05 if answers else timeout)
            except queue.Empty:
                if not answers or time.monotonic() > deadline:
                    raise
            try:
                request = self.client.get_stdin_msg(timeout=0)
            except queue.Empty:
                continue
            assert request["msg_type"] == "input_request"
            self.client.input(answers.pop(0))

    def control(self, kind, content=None, timeout=20):
        """Ask on the control channel; the reply."""
        message = self.client.session.msg(kind, content or {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=timeout)
            if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                return reply

    def close(self):
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


class Outcome:
    """What one cell gave."""

    def __init__(self, reply, messages):
        self.reply, self.messages = reply, messages
        self.content = reply["content"]
        self.status = self.content["status"]
        self.cost = reply["metadata"].get("holdfast", {})
        self.types = [m["msg_type"] for m in messages]
        self.states = [
            m["content"]["execution_state"] for m in messages if m["msg_type"] == "status"
        ]

    def stream(self, name="stdout"):
        return "".join(
            m["content"]["text"]
            for m in self.messages
            if m["msg_type"] == "stream" and m["content"]["name"] == name
        )

    @property
    def result(self):
        for message in self.messages:
            if message["msg_type"] == "execute_result":
                return message["content"]["data"]["text/plain"]
        return None


@pytest.fixture
def start_kernel(tmp_path):
    """A function that starts a kernel: start_kernel(argv=None, **manager_options)."""
    from jupyter_client.manager import KernelManager

    notebooks = []

    def start(python=None, env=None, connect=True, arguments=(), **options):
        write_kernelspec(tmp_path / "kernels", python, arguments)
        manager = KernelManager(kernel_name="holdfast", **options)
        manager.kernel_spec_manager.kernel_dirs = [str(tmp_path / "kernels")]
        manager.connection_file = str(tmp_path / f"connection-{len(notebooks)}.json")
        manager.start_kernel(cwd=str(tmp_path), env={**os.environ, **(env or {})})
        notebook = Notebook(manager)
        notebooks.append(notebook)
        return notebook

    yield start
    for notebook in notebooks:
        notebook.close()


@pytest.fixture
def kernel(start_kernel):
    """The real kernel with the real worker."""
    return start_kernel()


@pytest.fixture
def map_kernel(start_kernel):
    """The same; every instrumented cell has a process of its own."""
    return start_kernel(env={"HOLDFAST_ROAD": "map"})


@pytest.fixture
def home_kernel(start_kernel):
    """The same; instrumented cells run in the home."""
    return start_kernel(env={"HOLDFAST_ROAD": "home"})


@pytest.fixture(params=["map", "home"])
def either_kernel(request):
    """Each of the two in turn."""
    return request.getfixturevalue(f"{request.param}_kernel")


@pytest.fixture
def start_plain(start_kernel, tmp_path):
    """As start_kernel, with a worker that is nothing but a loop: for tests of the kernel alone."""
    script = tmp_path / "plain-python"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -m ]; then shift 2; exec "{sys.executable}" "{SUPPORT}/plain_worker.py" "$@"; fi\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return lambda **options: start_kernel(python=str(script), **options)


@pytest.fixture
def plain_kernel(start_plain):
    """The real kernel with that worker."""
    return start_plain()
