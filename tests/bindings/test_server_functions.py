"""The fork server's calls of Python: what its methods get, return and raise."""

import subprocess
import sys

import pytest

# The frontend is the parent: it has sent all frames before the fork server begins.
PROGRAM = """
import msgpack, os, socket, struct, sys
from holdfast import _store

class Server:
    def want_module(self, name):
        print("wanted", ascii(name), flush=True)
    def idle(self):
        print("idle", flush=True)
    def finish_imports(self):
        print("finish", flush=True)
    def before_fork(self, role):
        print("before", role, flush=True)
    # in_fork: the fork ends at once, since nobody here becomes its parent

{changes}

ours, theirs = socket.socketpair()
for frame, count in {frames}:
    body = msgpack.packb(frame, unicode_errors="surrogateescape")
    socket.send_fds(ours, [struct.pack(">I", len(body)) + body], [os.dup(1) for _ in range(count)])
ours.shutdown(socket.SHUT_WR)
_store._serve_forks(Server(), _store.Channel(theirs.detach()), -1)
unpacker = msgpack.Unpacker()
received = ours.recv(1 << 20)
while received:
    size, = struct.unpack(">I", received[:4])
    frame = msgpack.unpackb(received[4 : 4 + size])
    print(frame["op"], frame["role"])
    received = received[4 + size :]
"""


def run(changes="", *frames):
    """What the fork server printed, and what came from it; or its error."""
    program = PROGRAM.format(changes=changes, frames=repr(frames))
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    return ran.stdout.splitlines() if ran.returncode == 0 else ran.stderr.splitlines()[-1]


def test_what_the_methods_get():
    wanted = {"op": "import", "modules": ["a.b", "\udcff"]}
    printed = run("", (wanted, 0))
    assert printed == ["wanted 'a.b'", "wanted '\\udcff'", "idle"]
    printed = run("", ({"op": "fork", "role": "cell", "bare": True}, 3))
    assert printed == ["before cell", "forked cell"]


@pytest.mark.parametrize(
    ("method", "frame"),
    [
        ("want_module", ({"op": "import", "modules": ["a"]}, 0)),
        ("idle", ({"op": "import", "modules": []}, 0)),
        ("before_fork", ({"op": "fork", "role": "main"}, 3)),
    ],
)
def test_an_error_ends_it(method, frame):
    changes = f"Server.{method} = lambda *arguments: 1 / 0"
    assert run(changes, frame) == "ZeroDivisionError: division by zero"


def test_a_wrong_frame_ends_it():
    assert run("", ({"op": "import"}, 0)) == "holdfast._store.Error: import: modules is missing"
