"""Kernels, started for one notebook each, and what their cells put out.

Sockets are Unix sockets in the kernel's own directory: no port is looked for, and none is taken by
another program meanwhile. A kernel is one process of `holdfast-kernel`, or ipykernel forked from
a process that has imported it (reference.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import zmq
from jupyter_client.session import Session

from . import modes
from .notebooks import Notebook

HERE = Path(__file__).parent
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
READY_S = 120
END_S = 20
# The same for both: set order, and nothing of this user's own configuration.
COMMON = {"PYTHONHASHSEED": "0", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}


class KernelDied(Exception):
    """The kernel ended, or said nothing for the time that a cell may take."""


class Reference:
    """The process that forks ipykernels. One serves all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "reference.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **COMMON, "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
        )

    def start(self, **order) -> _Forked:
        with self._lock:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return _Forked(int(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Forked:
    """A process that isn't our child, with the calls of Popen that are needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        return None if os.path.exists(f"/proc/{self.pid}") else 0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)


@dataclasses.dataclass
class Setting:
    """Where a kernel runs: a directory of its own, the notebook's one, and its environment."""

    place: Path
    directory: Path
    environment: dict[str, str]

    @property
    def connection_file(self) -> Path:
        return self.place / "connection.json"

    @property
    def log(self) -> Path:
        return self.place / "log"

    def write_connection(self) -> dict:
        connection = {
            "transport": "ipc",
            "ip": str(self.place / "socket"),
            "key": "differential",
            "signature_scheme": "hmac-sha256",
        } | {f"{name}_port": number for number, name in enumerate(CHANNELS, 1)}
        self.connection_file.write_text(json.dumps(connection))
        return connection


class Kernel:
    """A running kernel and its one client."""

    def __init__(self, setting: Setting, mode: modes.Mode | None, reference: Reference | None):
        self._setting = setting
        connection = setting.write_connection()
        self._context = zmq.Context()
        self._context.setsockopt(zmq.LINGER, 0)
        self._context.setsockopt(zmq.RECONNECT_IVL, 5)  # ms
        self._session = Session(key=connection["key"].encode(), username="oracle")
        if reference is not None:
            self._process = reference.start(
                connection_file=str(setting.connection_file),
                directory=str(setting.directory),
                environment=setting.environment,
                log=str(setting.log),
            )
        else:
            self._process = self._start_holdfast()
        self._sockets = {
            name: self._connect(connection, name) for name in ("shell", "iopub", "control")
        }
        self._wait_until_ready()

    def _start_holdfast(self) -> subprocess.Popen:
        program = Path(sys.executable).parent / "holdfast-kernel"
        command = [str(program), "-f", str(self._setting.connection_file)]
        with open(self._setting.log, "ab") as log:
            return subprocess.Popen(
                [*command, "--python", sys.executable],
                cwd=self._setting.directory,
                env=self._setting.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _connect(self, connection: dict, name: str) -> zmq.Socket:
        socket = self._context.socket(zmq.SUB if name == "iopub" else zmq.DEALER)
        if name == "iopub":
            socket.setsockopt(zmq.SUBSCRIBE, b"")
            socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(f"ipc://{connection['ip']}-{connection[name + '_port']}")
        return socket

    def _receive(self, name: str, timeout: float) -> dict | None:
        """The next message of a channel; None after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not self._sockets[name].poll(max(0, min(1, deadline - time.monotonic())) * 1000):
            if self._process.poll() is not None:
                raise KernelDied("the kernel ended" + self._last_words())
            if time.monotonic() >= deadline:
                return None
        return self._session.recv(self._sockets[name])[1]

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return ":\n" + self._setting.log.read_text(errors="replace")[-2000:]
        return ""

    def _wait_until_ready(self) -> None:
        """Until an answer comes on both channels: a subscription takes a moment."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            asked = self._session.send(self._sockets["shell"], "kernel_info_request", {})
            if self._receive("shell", READY_S) is None:
                break
            while message := self._receive("iopub", 0.3):
                if message["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                    if message["content"].get("execution_state") == "idle":
                        self._drain()
                        return
        raise KernelDied("the kernel isn't ready" + self._last_words())

    def _drain(self) -> None:
        while self._receive("shell", 0):
            pass

    def run(self, code: str, timeout: float) -> list[dict]:
        """Run a cell; the messages that are its output."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        content |= {"user_expressions": {}, "stop_on_error": False}
        sent = self._session.send(self._sockets["shell"], "execute_request", content)
        number, messages = sent["header"]["msg_id"], []
        while message := self._receive("iopub", timeout):
            if message["parent_header"].get("msg_id") != number:
                if "VERIFY FAILED" in message["content"].get("text", ""):  # of the cell before
                    messages.append(message)
                continue
            if message["content"].get("execution_state") == "idle":
                self._answer(number, timeout)
                return messages
            messages.append(message)
        raise KernelDied(f"no end of a cell within {timeout} s" + self._last_words())

    def _answer(self, number: str, timeout: float) -> None:
        while message := self._receive("shell", timeout):
            if message["parent_header"].get("msg_id") == number:
                return

    def close(self) -> None:
        if isinstance(self._process, _Forked):  # its end shows nothing, and takes a second
            self._process.kill()
        else:
            self._session.send(self._sockets["control"], "shutdown_request", {"restart": False})
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S)
        self._context.destroy(linger=0)


@contextlib.contextmanager
def _setting(notebook: Notebook, extra: dict[str, str]):
    """A new directory. Its name has the same length each time, since paths are in output."""
    place = Path(tempfile.mkdtemp(prefix="oracle-"))
    try:
        directory = notebook.folder or place / "work"
        directory.mkdir(exist_ok=True)
        environment = {**os.environ, **COMMON, "IPYTHONDIR": str(place / "ipython"), **extra}
        environment.pop("PYTEST_CURRENT_TEST", None)  # with it ipykernel doesn't read descriptors
        yield Setting(place, directory, environment)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclasses.dataclass
class Run:
    """The messages of each cell; fewer cells where the kernel died, and why it did."""

    cells: list[list[dict]]
    place: str
    trouble: str = ""


def run(
    notebook: Notebook,
    mode: modes.Mode | None = None,
    reference: Reference | None = None,
    timeout: float = 60,
) -> Run:
    """Run a notebook in a kernel of its own: Holdfast in a mode, or ipykernel."""
    extra = {"HOLDFAST_SUMMARY": "off", "HOLDFAST_RECORDER": "builtin"}
    extra |= mode.environment if mode else {}
    with _setting(notebook, extra) as setting:
        outcome = Run([], str(setting.place))
        try:
            kernel = Kernel(setting, mode, reference)
        except KernelDied as error:
            outcome.trouble = str(error)
            return outcome
        try:
            for number, cell in enumerate(notebook.cells, 1):
                is_plain = mode is None or cell.plain
                head = modes.PLAIN if is_plain else mode.head(notebook.name, number)
                # A magic that takes the whole cell has to be its first line.
                head = "" if head == modes.PLAIN and cell.code.startswith("%%") else head
                outcome.cells.append(kernel.run(head + cell.code, timeout))
        except KernelDied as error:
            outcome.trouble = str(error)
        finally:
            kernel.close()
        return outcome
