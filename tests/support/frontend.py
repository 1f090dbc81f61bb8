"""A frontend for tests of the worker alone: it speaks the control channel, and nothing else.

It starts the fork server as holdfast-kernel does, keeps every frame that each worker sends, and lets
a test look at them. On Linux it is the parent of the workers. No sockets of Jupyter's, no queue, no
store of its own: where a test wants a store it passes the session's descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import msgpack

TIMEOUT = 60.0
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(on):
    """Be the parent of descendants whose own parent has ended, or not any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


class Peer:
    """One control channel, seen from the frontend's side."""

    def __init__(self, sock):
        self.socket = sock
        self.received = b""
        self.ended = False

    def send(self, frame, fds=()):
        body = msgpack.packb(frame, use_bin_type=True, unicode_errors="surrogateescape")
        data = struct.pack(">I", len(body)) + body
        if fds:
            socket.send_fds(self.socket, [data], list(fds))
        else:
            self.socket.sendall(data)

    def frame(self, timeout=TIMEOUT):
        """The next frame; None at the end of the channel."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.received) >= 4:
                (length,) = struct.unpack_from(">I", self.received)
                if len(self.received) >= 4 + length:
                    body = self.received[4 : 4 + length]
                    self.received = self.received[4 + length :]
                    return msgpack.unpackb(body, raw=False)
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.socket], [], [], left)[0]
            if not ready:
                raise TimeoutError("no frame within the time")
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                self.ended = True
                return None
            self.received += data

    def until(self, op, timeout=TIMEOUT):
        """The next frame of a kind; what came before it is returned too."""
        before = []
        while True:
            frame = self.frame(timeout)
            if frame is None:
                raise EOFError(f"the channel ended before {op!r}; before it came {before}")
            if frame["op"] == op:
                return frame, before
            before.append(frame)

    def close(self):
        self.socket.close()


class Answer:
    """What a request brought: the reply and the frames before it."""

    def __init__(self, reply, frames):
        self.reply = reply
        self.frames = frames
        self.content = json.loads(reply["content"]) if reply.get("content") else {}
        self.report = reply.get("report") or {}

    def text(self, name="stdout"):
        """What was written to a stream."""
        return "".join(f["text"] for f in self.frames if f["op"] == "stream" and f["name"] == name)

    def messages(self, kind):
        """The contents of the messages of a type."""
        return [
            json.loads(f["content"])
            for f in self.frames
            if f["op"] == "message" and f["type"] == kind
        ]

    @property
    def result(self):
        """The text of the execute_result, None where there was none."""
        results = self.messages("execute_result")
        return results[-1]["data"]["text/plain"] if results else None

    @property
    def status(self):
        return self.content.get("status")


class Worker(Peer):
    """A main worker or cell worker."""

    ids = itertools.count(1)

    def __init__(self, sock, role, stdout, stderr):
        super().__init__(sock)
        self.role = role
        self.stdout, self.stderr = stdout, stderr
        self.pid = None
        self.count = 1
        self.started = []  # ids of the cells that said they began

    def frame(self, timeout=TIMEOUT):
        """The next frame that isn't `started`, `began` or `ended`; the first are kept aside."""
        while True:
            frame = super().frame(timeout)
            if frame is None or frame["op"] not in ("started", "began", "ended"):
                return frame
            if frame["op"] == "started":
                self.started.append(frame["id"])

    def request(self, kind, body, **fields):
        """Send a request; its id."""
        number = next(self.ids)
        header = {
            "msg_id": f"m{number}",
            "msg_type": kind,
            "session": "s",
            "username": "u",
        }
        header |= {"date": "2026-01-01T00:00:00Z", "version": "5.5"}
        frame = {"op": "request", "id": number, "type": kind, "buffers": []}
        frame |= {"header": _json(header), "parent": b"{}", "metadata": b"{}"}
        frame |= {"content": _json(body)} | fields
        self.send(frame)
        return number

    def start_cell(self, code, *, instrument=None, allow_stdin=False, **content):
        """Send an execute_request; its id."""
        body = {
            "code": code,
            "silent": False,
            "store_history": True,
            "allow_stdin": allow_stdin,
        }
        body |= content
        fields = {"code": code, "execution_count": self.count}
        if instrument is not None:
            fields["instrument"] = instrument
        return self.request("execute_request", body, **fields)

    def answer(self, timeout=TIMEOUT):
        """Wait for the running request's reply."""
        reply, frames = self.until("reply", timeout)
        answer = Answer(reply, frames)
        self.count = max(self.count, answer.content.get("execution_count", 0) + 1)
        return answer

    def run(self, code, timeout=TIMEOUT, **options):
        """Run a cell to its reply."""
        self.start_cell(code, **options)
        return self.answer(timeout)

    def ask(self, kind, **content):
        """One request other than a cell's."""
        self.request(kind, content)
        return self.answer()

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def output(self, fd_name="stdout"):
        """What the process wrote to its fd 1 or 2 itself, as far as it has arrived."""
        fd = getattr(self, fd_name)
        data = b""
        while select.select([fd], [], [], 0.05)[0]:
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                break
            data += chunk
        return data.decode(errors="replace")

    def close(self):
        super().close()
        for fd in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(fd)


# Has imported what a fork server and its workers import. For each message it forks a process that becomes a
# fork server, with the descriptors, directory and environment that came; the process is adopted by the
# sender, as it is no child of this one. What depends on these is done in the fork: `build_ahead` of the shell.
_PREPARED = """
import gc
gc.disable()
import importlib, json, os, runpy, socket, sys, time
del sys.path[0]
for name in sys.argv[3:]:
    importlib.import_module(name)
channel = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, fds, _, _ = socket.recv_fds(channel, 1 << 20, 5)
    if not message:
        break
    if os.fork() == 0:
        if pid := os.fork():
            channel.send(str(pid).encode())
            os._exit(0)
        while os.getppid() != int(sys.argv[2]):
            time.sleep(0.0005)
        channel.close()
        for at in range(3):
            os.dup2(fds[at], at)
            os.close(fds[at])
        os.environ.clear()
        made = json.loads(message)
        os.environ.update(made["env"])
        os.chdir(made["cwd"])
        sys.argv[1:] = []
        for option, fd in zip(("--control-fd", "--session-fd"), fds[3:]):
            os.set_inheritable(fd, True)
            sys.argv += [option, str(fd)]
        runpy.run_module("holdfast.worker", run_name="__main__", alter_sys=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.wait()
    for fd in fds:
        os.close(fd)
"""
_IMPORTED = """
    holdfast.worker.fork_server holdfast.worker.ipython.application holdfast.worker.main_worker
    holdfast.worker.cell holdfast.worker.assistant holdfast.commands.magics holdfast._recorder holdfast.scorep.settings
    IPython.core.completer IPython.core.completerlib IPython.core.debugger IPython.extensions.storemagic
    tornado.platform.asyncio sqlite3 bdb cloudpickle
""".split()


class Prepared:
    """A process that starts fork servers, each in a tenth of the time that a new Python takes.

    tests/bindings/test_worker.py and the tests of the kernel start them as the kernel does.
    """

    only = None  # the one of this process; it ends with its channel

    def __init__(self):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            sys.executable,
            "-c",
            _PREPARED,
            str(theirs.fileno()),
            str(os.getpid()),
            *_IMPORTED,
        ]
        subprocess.Popen(command, pass_fds=[theirs.fileno()]).returncode = 0  # nobody waits for it
        theirs.close()

    def start(self, fds, cwd, env):
        """A fork server with these descriptors, as a child of this process."""
        message = json.dumps({"cwd": cwd or os.getcwd(), "env": env}).encode()
        socket.send_fds(self.channel, [message], [0, 1, 2, *fds])
        return Adopted(int(self.channel.recv(64)))


class Adopted:
    """As a subprocess.Popen: a process that others have started."""

    def __init__(self, pid):
        self.pid, self._has_ended = pid, False

    def wait(self, timeout=None):
        if not self._has_ended:
            wait(self.pid, TIMEOUT if timeout is None else timeout)
            self._has_ended = True

    def kill(self):
        if not self._has_ended:
            os.kill(self.pid, signal.SIGKILL)


def _start(fds, cwd, env):
    """A fork server as the kernel starts it."""
    options = ("--control-fd", "--session-fd")
    command = [sys.executable, "-m", "holdfast.worker"]
    for option, fd in zip(options, fds, strict=False):
        command += [option, str(fd)]
    return subprocess.Popen(command, pass_fds=fds, cwd=cwd, env=env)


class Frontend:
    """A fork server and its workers; a context manager."""

    count = 0  # of those that are open

    def __init__(self, session_fd=None, env=None, cwd=None, is_prepared=False):
        ours, theirs = socket.socketpair()
        fds = [theirs.fileno(), *([] if session_fd is None else [session_fd])]
        Frontend.count += 1
        adopt_orphans(True)
        start = _start
        if is_prepared and sys.platform == "linux":
            Prepared.only = Prepared.only or Prepared()
            start = Prepared.only.start
        self.process = start(fds, cwd, {**os.environ, **(env or {})})
        theirs.close()
        self.server = Peer(ours)
        self.workers = []
        self.ready, _ = self.server.until("ready")

    def fork(self, role):
        """A new worker, ready."""
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.server.send({"op": "fork", "role": role}, [theirs.fileno(), out_write, err_write])
        theirs.close()
        os.close(out_write)
        os.close(err_write)
        worker = Worker(ours, role, out_read, err_read)
        forked, _ = self.server.until("forked")
        worker.pid = forked["pid"]
        self.workers.append(worker)
        try:
            ready, _ = worker.until("ready")
        except (EOFError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{worker.output('stderr')}") from None
        assert ready["pid"] == worker.pid
        return worker

    def exited(self, worker):
        """Wait until a worker ended; its raw wait status."""
        if sys.platform == "linux":
            return wait(worker.pid)
        while True:
            frame, _ = self.server.until("exited")
            if frame["pid"] == worker.pid:
                return frame["status"]

    def close(self):
        for worker in self.workers:
            worker.close()
        self.server.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            for worker in self.workers:
                with contextlib.suppress(ChildProcessError):  # it was waited for before
                    if os.waitpid(worker.pid, os.WNOHANG) == (0, 0):
                        os.kill(worker.pid, signal.SIGKILL)
                        os.waitpid(worker.pid, 0)
            Frontend.count -= 1
            adopt_orphans(Frontend.count > 0)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def wait(pid, timeout=TIMEOUT):
    """Wait for a child, or for what will be one once the helper that made it has ended; its raw wait
    status."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
        time.sleep(0.001)
    raise TimeoutError(f"process {pid} lives, or is nobody's child")


def _json(value):
    return json.dumps(value).encode()
