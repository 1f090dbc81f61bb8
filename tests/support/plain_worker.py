"""A worker program of a hundred lines, to test the kernel alone.

Speaks docs/control-protocol.md and knows no IPython, no store and no state: a cell is
given to exec(), its last expression to eval(). Cell worker and main worker differ only in their role.
Run as `python plain_worker.py --control-fd N --session-fd M`.
"""

import ast
import contextlib
import fcntl
import io
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback

import msgpack


class Channel:
    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.fds = []

    def send(self, op, **fields):
        body = msgpack.packb({"op": op, **fields})
        self.socket.sendall(struct.pack(">I", len(body)) + body)

    def _read(self, size):
        data = b""
        while len(data) < size:
            part, fds, _, _ = socket.recv_fds(self.socket, size - len(data), 8)
            self.fds += fds
            if not part:
                raise EOFError
            data += part
        return data

    def receive(self):
        (size,) = struct.unpack(">I", self._read(4))
        return msgpack.unpackb(self._read(size), strict_map_key=False)


class Stream(io.TextIOBase):
    def __init__(self, channel, name):
        self.channel, self.name = channel, name

    def write(self, text):
        self.channel.send("stream", name=self.name, text=text)
        return len(text)


class Worker:
    def __init__(self, channel, role):
        self.channel, self.role = channel, role
        self.globals = {"__name__": "__main__", "role": role, "frames": [], "channel": channel}
        self.globals["report"] = {}  # more of it, for the next reply that has one

    def run(self, says_ready=True):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout, sys.stderr = Stream(self.channel, "stdout"), Stream(self.channel, "stderr")
        if self.role == "cell" and claims("PLAIN_WORKER_LAZY"):
            while True:
                signal.pause()
        if says_ready:
            self.channel.send("ready", version=1, pid=os.getpid())
        while True:
            frame = self.channel.receive()
            if frame["op"] in ("output", "subshells"):
                os.close(self.channel.fds.pop())
                continue
            if frame["op"] == "protect":
                while self.channel.fds:
                    os.close(self.channel.fds.pop())
                self.channel.send("protected", id=frame["id"], pid=0, error="it makes no forks")
                continue
            self.globals["frames"].append(frame["op"])
            if frame["op"] == "exit":
                os._exit(0)
            if frame["op"] == "commit":
                self.globals["commit"] = frame
            if frame["op"] == "commit" and frame.get("cell_run") in ("main", "in-process"):
                self.channel.send(
                    "reply",
                    id=frame["id"],
                    report={},
                    run="in-process",
                    run_reason="it asks for it",
                )
            elif frame["op"] == "commit":
                self.channel.send(
                    "reply",
                    id=frame["id"],
                    report=self.globals["report"],
                    unserializable={"gen": "a generator"},
                )
            elif frame["op"] == "request":
                self.answer(frame)

    def answer(self, frame):
        kind = frame["type"]
        if self.role == "cell" and claims("PLAIN_WORKER_MORTAL"):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "execute_request":
            content = self.execute(frame)
            more = {"trace": "out/trace"} if frame.get("instrument") else {}
            if frame.get("instrument"):
                more["report"] = {"seconds_in": 0.001, "seconds_run": 0.001, "bytes_mapped": 7}
                more["report"] |= self.globals["report"]
            self.channel.send(
                "reply", id=frame["id"], content=pack(content), metadata=b"{ }", **more
            )
        elif kind.startswith("comm_") and kind != "comm_info_request":
            self.channel.send("reply", id=frame["id"])
        else:
            content = {"status": "ok", "asked": json.loads(frame["content"])}
            self.channel.send("reply", id=frame["id"], content=pack(content))

    def execute(self, frame):
        content = json.loads(frame["content"])
        ok = {
            "status": "ok",
            "execution_count": frame["execution_count"],
            "payload": [],
            "user_expressions": {},
        }
        self.globals["input"] = self.input if content.get("allow_stdin") else None
        self.globals["frame"] = frame
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            guardian = os.environ.get("PLAIN_WORKER_GUARDIAN")
            more = {"trace": os.getcwd(), "guardian": guardian} if guardian else {}
            begin = {"time_ns": time.monotonic_ns(), "cpu_ns": 0, "children_ns": 0}
            self.channel.send("started", id=frame["id"], begin=begin, **more)
            value = self.run_code(frame["code"])
        except BaseException as error:
            found = {
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": traceback.format_exception(error),
            }
            self.channel.send(
                "message",
                channel="iopub",
                type="error",
                content=pack(found),
                metadata=b"{}",
                buffers=[],
            )
            return ok | found | {"status": "error"}
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if value is not None:
            data = {"data": {"text/plain": repr(value)}, "metadata": {}}
            data["execution_count"] = frame["execution_count"]
            self.channel.send(
                "message",
                channel="iopub",
                type="execute_result",
                content=pack(data),
                metadata=b"{}",
                buffers=[],
            )
        return ok

    def run_code(self, code):
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), self.globals)
        if last is not None:
            return eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.globals)
        return None

    def input(self, prompt=""):
        self.channel.send("input_request", prompt=prompt, password=False)
        return self.channel.receive()["value"]


def claims(variable):
    """Whether the file that the variable names has a number left; then it is one less."""
    path = os.environ.get(variable)
    if path is None:
        return False
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        left = int(file.read())
        if left > 0:
            file.seek(0)
            file.truncate()
            file.write(str(left - 1))
    return left > 0


def pack(content):
    return json.dumps(content).encode()


def reap(channel, children):
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        children.discard(pid)
        with contextlib.suppress(BrokenPipeError):
            channel.send("exited", pid=pid, status=status, cpu_seconds=0.0, io=b"")


def end(children):
    """As the real fork server: wait until those have left who hear of the end by their channel."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for pid in children:
        os.waitpid(pid, 0)
    if left := os.environ.get("PLAIN_WORKER_LEFT"):
        with open(left, "w") as file:
            file.write(str(len(children)))


def main():
    channel = Channel(int(sys.argv[sys.argv.index("--control-fd") + 1]))
    children = set()
    signal.signal(signal.SIGCHLD, lambda *_: reap(channel, children))
    channel.send("ready", version=1, pid=os.getpid(), modules=[])
    while True:
        try:
            frame = channel.receive()
        except (EOFError, ConnectionError):
            return end(children)
        if frame["op"] != "fork":
            continue
        fds, channel.fds = channel.fds[:3], channel.fds[3:]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        untold = frame["role"] == "cell" and claims("PLAIN_WORKER_UNTOLD")
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            channel.socket.close()
            os.dup2(fds[1], 1)
            os.dup2(fds[2], 2)
            with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError):
                Worker(Channel(fds[0]), frame["role"]).run(says_ready=not untold)
            os._exit(0)
        for fd in fds:
            os.close(fd)
        children.add(pid)
        if not untold:
            channel.send("forked", pid=pid, role=frame["role"])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


if __name__ == "__main__":
    main()
