"""What a client of the kernel waits for, beside ipykernel and xeus-python.

    python bench/kernel.py [--rows start,pass,...] [--peers python3,xpython] [--repeat N]
                           [--plain-tcp] [--quick] [--json F]

Every kernel is started from its kernelspec. The clock of a round trip runs from the request
to the reply and the idle status, whichever comes last, at a client that does nothing else:
jupyter_client's signing and parsing is in all of them. Shown are medians, and for round
trips the 99th percentile behind it. The kernels take turns, row by row and repetition by
repetition, so that a mood of the machine meets all of them.

start          from before the process is made to the reply to kernel_info, and on the same
               kernel to the reply to a first cell; the client tries to connect each millisecond
pass, 1+1      cells; complete and inspect of names of the standard library; an error's cell
no-op          `pass` under %%execute_with_scorep, which only Holdfast has: with a standby
               that is warm, and of a kernel at rest whose standbys were given back
prints         a cell that prints lines, and one that flushes each
display        of a text, as one message; the client's own work is in it
pipelined      500 cells, all requests sent at once: what each took
memory         PSS of all the kernel's processes: half a
               minute's rest after a first cell (shortened here), and after all other rows
interrupt      of a sleep, from the request to idle

"limit" is what no kernel with IPython's shell can go below, measured in the same run: for a start,
its memory and cells, that shell in a process of its own, without a client; for a display, its
bytes through an encrypted socket of libzmq's.

"lost" is what had no end after 5 seconds: xeus-python drops messages that a client doesn't fetch
at once, the idle status among them, and isn't interrupted by SIGINT.

Holdfast's connection is encrypted, unless `--plain-tcp` is given; the others' can't be. A peer
that isn't installed is left out. `--quick` is for a test of the program.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
import zmq  # noqa: E402
from client import CELL, Kernel  # noqa: E402
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # noqa: E402
from measure import MIB  # noqa: E402
from traitlets.config import Config  # noqa: E402

OURS = "holdfast"
PEERS = "python3,xpython"
REST_S = 1.0  # of Holdfast's kernel, in these runs; shorter with --quick
SETTLE_S = 3.0  # after a start, before memory is read, and for the rest to be over; so, too
SLEEP_S = 3.0  # what is interrupted
PATIENCE_S = 5.0
PAUSE_S = 0.3  # between recorded cells: a standby is ready then


class Turn(Kernel):
    """A kernel that notes when it was ready, and answers requests one at a time."""

    def __init__(self, name: str, args: argparse.Namespace):
        config = Config()
        if args.plain_tcp:
            config.KernelManager.transport_encryption = "disabled"
        environment = dict(os.environ, HOLDFAST_REST_SECONDS=str(args.rest))
        super().__init__(name, environment, config, wait=False)
        self.patience = args.patience
        for channel in ("shell", "iopub", "control", "stdin"):  # as jupyter_client's own does
            getattr(self.client, channel + "_channel")
        self.poller = zmq.Poller()
        for channel in (self.client.shell_channel, self.client.iopub_channel):
            self.poller.register(channel.socket, zmq.POLLIN)

    def ready(self) -> float:
        """Seconds from before the start to the reply to kernel_info."""
        self.finish(self.client.kernel_info(), idle=False)
        return time.perf_counter() - self.began

    def finish(self, *requests: str, idle: bool = True) -> None:
        """Wait until each request has its reply and its idle status, or TimeoutError."""
        self.await_each(requests, ("reply", "idle")[: 1 + idle])

    def await_each(self, requests: Sequence[str], kinds: Sequence[str]) -> None:
        """Wait until each request has an answer of each kind, or TimeoutError."""
        left = {(request, kind) for request in requests for kind in kinds}
        deadline = time.monotonic() + self.patience
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end of {len(left)} messages")
            for socket, _ in self.poller.poll(1000):
                while True:
                    try:
                        _, message = self.client.session.recv(socket)
                    except zmq.ZMQError:
                        break
                    if message is None:
                        break
                    kind = message["msg_type"]
                    if kind == "status" and message["content"]["execution_state"] == "idle":
                        kind = "idle"
                    elif kind.endswith("_reply"):
                        kind = "reply"
                    left.discard(((message["parent_header"] or {}).get("msg_id"), kind))

    def trip(self, ask: Callable[[], str]) -> float:
        """Seconds from one or more requests to the end of all; infinite where there is none."""
        start = time.perf_counter()
        try:
            self.finish(*ask().split())
        except TimeoutError:
            return math.inf
        return time.perf_counter() - start

    def cell(self, code: str) -> float:
        return self.trip(lambda: self.client.execute(code, stop_on_error=False))

    def memory(self) -> int:
        return sum(measure.whole_bytes(pid) for pid in self.pids())


# ---- rows: the figures of one turn, by name ---------------------------------------------


def trips(name: str, ask: Callable[[Turn], float]) -> Callable:
    def row(kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
        return {name: [ask(kernel) for _ in range(args.trips)]}

    return row


def display(mib: int, kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
    size = mib * MIB // (64 if args.quick else 1)
    kernel.cell(f"from IPython.display import display; text = 'x' * {size}")
    show = "display({'text/plain': text}, raw=True)"
    return {f"display of {mib} MiB": [kernel.cell(show) for _ in range(3)]}


def interrupt(kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
    code = f"import time; print('on', flush=True); time.sleep({args.sleep})"
    request = kernel.client.execute(code, stop_on_error=False)
    kernel.await_each([request], ["stream"])

    def ask() -> str:
        kernel.manager.interrupt_kernel()
        return request

    took = kernel.trip(ask)
    return {"interrupt of a sleep": [took if took < args.sleep - 1 else math.inf]}


def pipelined(kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
    count = 20 if args.quick else 500
    took = kernel.trip(lambda: " ".join(kernel.client.execute("pass") for _ in range(count)))
    return {"a cell, pipelined": [took / count]}


def instrumented(kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
    if kernel.name != OURS:
        return {}
    warm, cold = [], []
    kernel.cell(CELL + "pass")  # loads what is loaded once
    for _ in range(args.trips // 10 + 1):
        time.sleep(PAUSE_S)
        warm.append(kernel.cell(CELL + "pass"))
    time.sleep(args.rest + args.settle)
    cold.append(kernel.cell(CELL + "pass"))
    return {"instrumented no-op, warm": warm, "instrumented no-op, cold": cold}


def memory(kernel: Turn, args: argparse.Namespace) -> dict[str, list[float]]:
    time.sleep(args.rest + args.settle)
    return {"memory, all rows later": [kernel.memory()]}


CODE = "import os\nos.path.jo"
ROWS: dict[str, Callable[[Turn, argparse.Namespace], dict[str, list[float]]]] = {
    "pass": trips("pass", lambda k: k.cell("pass")),
    "1+1": trips("1+1", lambda k: k.cell("1+1")),
    "complete": trips("complete", lambda k: k.trip(lambda: k.client.complete(CODE))),
    "inspect": trips("inspect", lambda k: k.trip(lambda: k.client.inspect("print"))),
    "error": trips("an error", lambda k: k.cell("1/0")),
    "prints": lambda k, a: {
        "1000 prints": [k.cell("for i in range(1000): print(i)") for _ in range(3)],
        "10,000 prints": [k.cell("for i in range(10000): print(i)") for _ in range(3)],
    },
    "flushed": lambda k, a: {
        "1000 flushed prints": [
            k.cell("for i in range(1000): print(i, flush=True)") for _ in range(3)
        ]
    },
    "display": lambda k, a: display(10, k, a) | display(64, k, a),
    "pipelined": pipelined,
    "no-op": instrumented,
    "memory": memory,
    "interrupt": interrupt,  # the last: not every kernel survives it
}


def turn(name: str, chosen: list[str], args: argparse.Namespace) -> dict[str, list[float]]:
    """The figures of one start of a kernel."""
    with Turn(name, args) as kernel:
        found = {"start to ready": [kernel.ready()]}
        # Its idle status may come before the client's subscription.
        kernel.finish(kernel.client.execute("pass"), idle=False)
        found["start to first cell done"] = [time.perf_counter() - kernel.began]
        time.sleep(args.settle)
        found["memory at rest"] = [kernel.memory()]
        for row in chosen:
            found |= ROWS[row](kernel, args)
    return found


# ---- limits ------------------------------------------------------------------------------

LIMIT = "limit"
SHELL = """
import contextlib, io, sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def cell(code):
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(code, store_history=True)
    return time.perf_counter() - start
print(cell("pass"), flush=True)
for code in sys.stdin:
    print(cell(code), flush=True)
"""
SHELL_CELLS = (("pass", "pass", "pass"), ("1+1", "1+1", "1+1"), ("error", "an error", "1/0"))
SENDER = """
import sys, zmq
socket = zmq.Context().socket(zmq.PAIR)
socket.curve_server, keys = True, [key.encode() for key in sys.argv[2:]]
socket.curve_publickey, socket.curve_secretkey = keys
print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
while socket.recv():
    socket.send(bytes(int(sys.argv[1])))
"""


class Shell:
    """IPython's shell in a process of its own."""

    def __init__(self, directory: str):
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHELL],
            env=dict(os.environ, IPYTHONDIR=directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._process.stdout.readline()
        self.started = time.perf_counter() - began

    def memory(self) -> int:
        return measure.whole_bytes(self._process.pid)

    def cell(self, code: str) -> float:
        self._process.stdin.write(code + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def shell_alone(chosen: list[str], count: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as directory:
        Shell(directory).close()  # makes a profile
        shell = Shell(directory)
        found = {"start to first cell done": [shell.started], "memory at rest": [shell.memory()]}
        for row, label, code in SHELL_CELLS:
            if row in chosen:
                found[label] = [shell.cell(code) for _ in range(count)]
        shell.close()
    return found


def curve_alone(size: int, count: int) -> list[float]:
    keys = [key.decode() for key in zmq.curve_keypair()]
    command = [sys.executable, "-c", SENDER, str(size), *keys]
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.curve_serverkey = keys[0].encode()
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            socket.connect(f"tcp://127.0.0.1:{sender.stdout.readline().strip()}")
            found = []
            for _ in range(count):
                start = time.perf_counter()
                socket.send(b"now")
                socket.recv()
                found.append(time.perf_counter() - start)
            socket.send(b"")
    return found


def limits(chosen: list[str], args: argparse.Namespace) -> dict[str, list[float]]:
    found = shell_alone(chosen, args.trips)
    for mib in (10, 64) if "display" in chosen and not args.plain_tcp else ():
        size = mib * MIB // (64 if args.quick else 1)
        found[f"display of {mib} MiB"] = curve_alone(size, 3)
    return found


# ---- the table --------------------------------------------------------------------------


def shown(label: str, values: list[float] | None) -> str:
    if not values:
        return "-"
    middle = statistics.median(values)
    if math.isinf(middle):  # of most
        return "lost"
    if label.startswith("memory"):
        return f"{middle / MIB:.0f} MiB"
    text = f"{middle * 1e3:.1f}"
    if len(values) >= 100:
        text += f" ({sorted(values)[math.ceil(len(values) * 0.99) - 1] * 1e3:.1f})"
    return text


def installed(names: list[str]) -> list[str]:
    found = []
    for name in names:
        try:
            KernelSpecManager().get_kernel_spec(name)
            found.append(name)
        except NoSuchKernel:
            print(f"not installed: {name}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS), help="some, by name")
    parser.add_argument("--peers", default=PEERS, help="names of kernelspecs")
    parser.add_argument("--repeat", type=int, default=3, help="starts of each kernel")
    parser.add_argument("--trips", type=int, default=100, help="round trips a start")
    parser.add_argument("--plain-tcp", action="store_true", help="nothing is encrypted")
    parser.add_argument("--quick", action="store_true", help="few and small")
    parser.add_argument("--json", help="write the results to this file")
    parser.set_defaults(rest=REST_S, settle=SETTLE_S, sleep=SLEEP_S, patience=PATIENCE_S)
    args = parser.parse_args()
    if args.quick:
        args.repeat, args.trips = 1, 3
        args.rest, args.settle = 0.1, 0.3
        args.sleep, args.patience = 60, 60  # nothing is lost where others compute
    chosen = [row for row in args.rows.split(",") if row]
    if unknown := set(chosen) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    record = {
        "program": "bench/kernel",
        "machine": measure.machine("holdfast", "ipykernel", "jupyter_client"),
    }
    names = installed([OURS, *args.peers.split(",")])
    results: dict[str, dict[str, list[float]]] = {}
    for _ in range(args.repeat):
        for name in names:
            for label, values in turn(name, chosen, args).items():
                results.setdefault(label, {}).setdefault(name, []).extend(values)
        for label, values in limits(chosen, args).items():
            results[label].setdefault(LIMIT, []).extend(values)
    names.append(LIMIT)
    rows = [[label, *(shown(label, by.get(n)) for n in names)] for label, by in results.items()]
    print(measure.table(["median (99th percentile), ms", *names], rows))
    measure.write_json(args.json, record | {"results": results})


if __name__ == "__main__":
    main()
