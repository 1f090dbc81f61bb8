"""A second process on a session: runs source with `session`, `names` and `ns` at hand."""

import contextlib
import json
import os
import socket
import subprocess
import sys

_START = """
import json, sys
from holdfast.store import *
import holdfast
session = Session.from_fd(int(sys.argv[1]))
names = Names(session)
ns = {"__name__": "__main__"}
def save(ns):
    return names.save(ns, hidden={"__name__"})
def publish(report):
    generation = session.publish(report["prepared"])
    names.published(generation)
    session.privatize()
    return generation
def answer(**values):
    print(json.dumps(values))
"""


def run(session, source, check=True):
    """Run `source`; what it gave to `answer(...)`, or the CompletedProcess."""
    done = subprocess.run(
        [sys.executable, "-c", _START + source, str(session.fd)],
        capture_output=True,
        text=True,
        pass_fds=[session.fd],
        timeout=120,
    )
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else None


# Forks for each source it gets, with the descriptor of its session: the imports are done once.
_FORK_SERVER = """
import importlib, io, os, socket, sys, traceback
for name in sys.argv[2:]:
    importlib.import_module(name)
channel = socket.socket(fileno=int(sys.argv[1]))
while True:
    source, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 3)
    if not source:
        break
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            sys.argv[1:] = [str(descriptors[0])]
            os.dup2(descriptors[1], 1)
            os.dup2(descriptors[2], 2)
            exec(source.decode(), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    for fd in descriptors:
        os.close(fd)
    channel.send(str(os.waitpid(pid, 0)[1]).encode())
os._exit(0)  # TensorFlow is long about an ordinary end
"""


class ForkServer:
    """A process that has imported `modules` and forks the other processes of a test."""

    def __init__(self, *modules):
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(120)
        command = [sys.executable, "-c", _FORK_SERVER, str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def run(self, session, source):
        """As the function `run`, in a fork of the fork server."""
        with contextlib.ExitStack() as stack:
            out, err = (stack.enter_context(open(os.memfd_create("o"), "r+")) for _ in "oe")
            fds = [session.fd, out.fileno(), err.fileno()]
            socket.send_fds(self._channel, [(_START + source).encode()], fds)
            status = self._channel.recv(64)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        assert status == b"0", (status, texts[1])
        lines = texts[0].splitlines()
        return json.loads(lines[-1]) if lines else None

    def close(self):
        self._channel.close()
        self._process.wait(timeout=60)


class Main:
    """A namespace and its session, in the test's own process."""

    def __init__(self, session, names):
        self.session = session
        self.names = names
        self.ns = {"__name__": "__main__"}

    def execute(self, source):
        exec(source, self.ns)

    def save(self):
        return self.names.save(self.ns, hidden={"__name__"})

    def commit(self):
        report = self.save()
        if report["prepared"] is not None:
            self.names.published(self.session.publish(report["prepared"]))
            self.session.privatize(threads_stopped=True)
        return report

    def fresh(self, source, check=True):
        """A process that has imported nothing but what it needs."""
        return run(self.session, source, check)

    other = fresh


def hand_over(main, source):
    """Bind in another process, run `source` there, save, and adopt what it changed."""
    answer = main.other(
        "report = names.bind(ns)\nassert not report['absent'], report\n"
        f"exec({source!r}, ns)\n"
        "saved = save(ns)\nassert not saved['unserializable'], saved\n"
        "if saved['prepared'] is not None:\n    publish(saved)\n"
        "answer(mapped=report['bytes_mapped'], copied=saved['bytes_copied'],"
        " saved=sorted(saved['saved']), value=ns.get('value'))"
    )
    main.names.adopt(main.ns)
    return answer
