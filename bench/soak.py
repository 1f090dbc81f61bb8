"""Kill the kernel's processes at random moments and see whether its state stays whole.

    python bench/soak.py [--seed N] [--rounds N] [--seconds S] [--kernel NAME] [--json F]

A seeded sequence of plain and recorded cells changes an array, its alias, a list in a
dict, and a number, always by one step: a whole state is one number. The program keeps a
model of that number. In some rounds it sends SIGKILL to the main worker, the cell's process, the
standby or the fork server, or interrupts, a random time after the request. Then it asks for the
state from a plain and from a recorded cell, and checks that

- it is whole: every part has made the same number of steps;
- it is the model's: a cell that was answered with `ok` and committed has happened; one that
  died or was interrupted has happened wholly or (its process killed) not at all;
- there was at most one error, and the next cell runs.

What was committed may not be lost; what plain cells did since the last commit may be, when
the main worker itself dies. In the end the frontend is killed, and nothing may be left. Nothing here
is timed but the run itself; it prints the counts, and the seed that repeats them.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402

TIMEOUT_S = 60
CELL = "%%execute_with_scorep\n"
SETUP = (
    "import numpy as np\nn = 0; a = np.zeros(1 << 16); b = a; l = []; d = {'l': l}\n"
    "def step():\n    global n\n    n += 1; a[:] = n; l.append(n)"
)
# The parts one after the other with pauses between, so that a kill falls into the middle.
STEP = (
    "import time\nn += 1\ntime.sleep({0})\na[:] = n\ntime.sleep({0})\nl.append(n)\ntime.sleep({0})"
)
STATE = "[n, float(a[0]), float(a[-1]), len(l), sum(l), b is a, d['l'] is l, step.__globals__['n']]"
TARGETS = ("main", "cell", "standby", "fork server", "interrupt")


def whole(n):
    return [n, float(n), float(n), n, n * (n + 1) // 2, True, True, n]


def is_server(pid):
    """Whether it leads a process group, and was started with a control channel."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.getpgid(pid) == pid and b"--control-fd" in words
    except OSError:
        return False


def group_of(pid):
    """Its process group; 0 once it is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


class Failure(Exception):
    """The kernel broke a promise."""


class Kernel:
    """One kernel, its client, and its processes by role."""

    def __init__(self, manager, directory):
        self.manager = manager
        # In a clean process, whose changes are published when the cell ends: what is killed is any process.
        environment = {**os.environ, "HOLDFAST_RUN": "isolated"}
        self.manager.start_kernel(cwd=directory, env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)
        self.is_unannounced = False

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    def children(self, pid):
        below = [other for other in measure.descendants(pid) if other != pid]
        return [other for other in below if parent_of(other) == pid]

    def find(self, role, main):
        """The pid in a role, or None. The main worker is asked for; the others follow from it."""
        below = self.children(self.pid)
        server = next((pid for pid in below if is_server(pid)), None)
        if role == "fork server" or server is None:
            return server
        if role == "main":
            return main
        others = {pid for pid in below if group_of(pid) == server} - {main, server}
        others = sorted(others, key=started)
        if not others:
            return None
        return others[0] if role == "cell" else others[-1]

    def send(self, code):
        return self.client.execute(code, stop_on_error=False)

    def finish(self, request):
        """Errors and result of the request, once it is idle and has its reply."""
        errors, result = [], None
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            except queue.Empty:
                raise Failure("a cell never became idle") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "error":
                errors.append(f"{content['ename']}: {content['evalue']}")
            elif kind == "execute_result":
                result = content["data"]["text/plain"]
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=TIMEOUT_S)
            except queue.Empty:
                raise Failure("a cell never had its reply") from None
            if reply["parent_header"].get("msg_id") == request:
                return reply["content"]["status"], errors, result

    def state(self, head):
        """The state. A death that no error has reported yet may be reported instead, once."""
        status, errors, result = self.finish(self.send(head + STATE))
        if self.is_unannounced and len(errors) == 1 and errors[0].startswith("CellDied"):
            self.is_unannounced = False
            return self.state(head)
        if status != "ok" or result is None:
            raise Failure(f"the state can't be asked for: {status} {errors}")
        return eval(result)

    def end(self):
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def started(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except OSError:
        return 0


def kill(pid):
    try:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Soak:
    """The rounds, and the model: `n` happened, of which `safe` may not be lost."""

    def __init__(self, kernel, seed):
        self.kernel = kernel
        self.random = random.Random(seed)
        self.counts: dict[str, int] = {}
        self.main = None
        self.begin()

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def begin(self):
        self.n = self.safe = 0
        status, errors, _ = self.kernel.finish(self.kernel.send(SETUP))
        if status != "ok":
            raise Failure(f"setup: {errors}")
        self.learn()

    def learn(self):
        """Commit by a recorded cell, and ask the main worker who it is."""
        found = self.kernel.state(CELL)
        if found != whole(found[0]):
            raise Failure(f"a recorded cell found {found}")
        if not self.safe <= found[0] <= self.n + 1:
            raise Failure(f"a recorded cell found {found[0]} steps of {self.n}")
        self.n = self.safe = found[0]
        self.kernel.is_unannounced = False
        _, errors, pid = self.kernel.finish(self.kernel.send("import os; os.getpid()"))
        if pid is None:
            raise Failure(f"a plain cell failed: {errors}")
        self.main = int(pid)

    def round(self):
        chance = self.random
        instrumented = chance.random() < 0.6
        target = chance.choice(TARGETS) if chance.random() < 0.7 else None
        pause = chance.choice([0, 0, 0.005, 0.02])
        delay = chance.choice([0, 0.002, 0.01, 0.03, 0.08, 0.2]) * chance.random()
        self.count("rounds")
        request = self.kernel.send((CELL if instrumented else "") + STEP.format(pause))
        if target is not None:
            time.sleep(delay)
            self.strike(target)
        status, errors, _ = self.kernel.finish(request)
        self.count(f"{target or 'nothing'}: {status}")
        self.check(status, errors, instrumented, target)

    def strike(self, target):
        if target == "interrupt":
            self.kernel.manager.interrupt_kernel()
            time.sleep(0.01)  # else it may be taken for the cell that is sent next
        else:
            kill(self.kernel.find(target, self.main))

    def check(self, status, errors, instrumented, target):
        if len(errors) > 1:
            raise Failure(f"more than one error for one cell: {errors}")
        if status == "ok" and errors or status == "error" and not errors:
            raise Failure(f"{status} with the errors {errors}, {target} in {instrumented=}")
        if target is None and status != "ok":
            raise Failure(f"a cell that nobody disturbed failed: {errors}")
        if target == "interrupt" and status == "error":
            # An exception is no death: what the cell did before it has happened.
            self.begin()
            return
        self.kernel.is_unannounced = target not in (None, "interrupt")
        found = self.kernel.state("")
        n = found[0]
        if found != whole(n):
            raise Failure(f"half a step: {found}")
        if status == "ok" and target is None and n != self.n + 1:
            raise Failure(f"{n} steps are left of {self.n + 1}")
        if status == "error" and instrumented and target in ("cell", "standby") and n != self.n:
            raise Failure(f"a dead cell made its step: {n}, before {self.n}")
        if not self.safe <= n <= self.n + 1:
            raise Failure(f"{n} steps, between {self.safe} and {self.n + 1} are possible")
        if status == "ok" and instrumented and n != self.n + 1:
            raise Failure(f"a committed step is lost: {n} of {self.n + 1}")
        self.learn()


def gone(pids, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pids = [pid for pid in pids if parent_of(pid) is not None and not zombie(pid)]
        if not pids:
            return True
        time.sleep(0.05)
    return False


def zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def is_reaper(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "holdfast-reaper\n"
    except OSError:
        return False


def segments(pid):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[5] for line in lines if "/dev/shm/holdfast-" in line}


def end_hard(kernel):
    """Kill the frontend; nothing of it may be left after `holdfast gc --kept`."""
    pids, names = measure.descendants(kernel.pid), segments(kernel.pid)
    reaper = [pid for pid in pids if is_reaper(pid)]  # waits for who takes the session up
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.manager.provisioner.process.wait()
    if not gone(set(pids) - set(reaper)):
        raise Failure(f"processes are left of {pids}")
    program = Path(sys.executable).with_name("holdfast")
    deadline = time.monotonic() + 15
    # A kernel that starts elsewhere meanwhile looks at them too, and what it looks at is in use.
    while left := [name for name in names if os.path.exists(name)]:
        if time.monotonic() > deadline:
            raise Failure(f"segments are left: {left}")
        subprocess.run([str(program), "gc", "--kept"], check=True, capture_output=True)
    if not gone(reaper):
        raise Failure("the reaper of a session that is gone waits on")


def soak(manager, seed, rounds, seconds=float("inf")):
    """Run the rounds; the counts. Raises Failure with the seed and the round."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        kernel = Kernel(manager, directory)
        try:
            run = Soak(kernel, seed)
            number = 0
            while number < rounds and time.monotonic() - start < seconds:
                try:
                    run.round()
                except Failure as failure:
                    raise Failure(f"seed {seed}, round {number}: {failure}") from None
                number += 1
            end_hard(kernel)
            return run.counts
        finally:
            kernel.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kernel", default="holdfast", help="name of the kernelspec")
    parser.add_argument("--json", help="write the counts to this file")
    args = parser.parse_args()
    from jupyter_client.manager import KernelManager

    record = {
        "program": "bench/soak",
        "seed": args.seed,
        "machine": measure.machine("numpy", "jupyter_client", "holdfast"),
    }
    start = time.monotonic()
    try:
        counts = soak(KernelManager(kernel_name=args.kernel), args.seed, args.rounds, args.seconds)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    record["counts"], record["seconds"] = counts, round(time.monotonic() - start, 1)
    rows = [[what, str(number)] for what, number in sorted(counts.items())]
    print(measure.table(["killed: the cell's status", "cells"], rows))
    print(f"seed {args.seed}: state whole after each, nothing left; {record['seconds']} s")
    measure.write_json(args.json, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
