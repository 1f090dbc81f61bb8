"""What the monitor costs, how punctual it is, and what it does to the cell it watches.

    python bench/monitor.py [--quick] [--json F]

Three tables, each with psutil in a thread as the peer, since that is how monitors of notebooks
are made:

cost     processor time of a sample of the process and system levels, every 50 ms, and as its
         limit that of reading the same files, which are open already, and nothing else: as
         often, by turns, and in a tight loop. Who sleeps between finds the processor's caches
         cold, and then the system takes three times as long for the same
jitter   at 1 s, 0.1 s, 10 ms and 1 ms: samples that came, and how many of them within a tenth
         of the period of where they belong, while the process sleeps and while C code holds
         the interpreter
slowdown processor time of a short loop watched every 0.1 s, as a ratio to the same loop alone:
         the median of many pairs, taken by turns, with the middle half of them; and the share of
         one core that the sampler took meanwhile, which noise doesn't hide

The sampler runs as the child process that plain ipykernel uses: the same code as the frontend's
thread. `--quick` is for a test of the program.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402

from holdfast.monitor.child import Child  # noqa: E402
from holdfast.monitor.source import Monitor  # noqa: E402

FILES = ("/proc/loadavg", "/proc/{pid}/stat", "/proc/{pid}/statm", "/proc/{pid}/io")
MACHINE_FILES = ("/proc/stat", "/proc/meminfo")
INTERVAL = 0.05  # at which the machine's level is read each time


class PsutilThread:
    """A monitor as notebooks have them: a thread, psutil, all in the interpreter."""

    def __init__(self, interval: float):
        self.times: list[float] = []
        self.cost = 0.0
        self._interval, self._ends = interval, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        process = psutil.Process()
        while not self._ends.wait(self._interval):
            before = time.thread_time()
            self.times.append(time.monotonic())
            for one in (process, *process.children(recursive=True)):
                try:
                    one.cpu_percent(), one.memory_info().rss, one.io_counters()
                except psutil.Error:
                    continue
            psutil.cpu_percent(percpu=True), psutil.virtual_memory()
            self.cost += time.thread_time() - before

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


def hold(seconds: float) -> None:
    """C code that holds the interpreter."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        sum(range(int(min(left, seconds) * 2e7) + 1000))


def bare_reads(count: int, interval: float = 0.0) -> float:
    """Processor seconds of reading a sample's files."""
    names = [name.format(pid=os.getpid()) for name in FILES] + list(MACHINE_FILES)
    names += [str(path.parent / "stat") for path in Path("/sys/block").glob("*/device")]
    fds = [os.open(name, os.O_RDONLY) for name in names]
    spent = 0.0
    for _ in range(count):
        if interval:
            time.sleep(interval)
        before = time.thread_time()
        for fd in fds:
            os.pread(fd, 4096, 0)
        spent += time.thread_time() - before
    for fd in fds:
        os.close(fd)
    return spent / count


def measure_cost(monitor: Monitor, args: argparse.Namespace) -> dict:
    turns, count = (1, 5) if args.quick else (6, 20)
    samples, limits, users = [], [], []
    for _ in range(turns):
        monitor.start(INTERVAL)
        time.sleep(count * INTERVAL)
        monitor.stop()
        costs = monitor.state()["level_cost_ns"]
        samples.append((costs["process"] + costs["system"]) / 1e3)
        users.append(costs["user"] / 1e3)
        limits.append(bare_reads(count, INTERVAL) * 1e6)
    peer = PsutilThread(INTERVAL)
    time.sleep(count * turns * INTERVAL)
    peer.stop()
    return {
        "sample_us": statistics.median(samples),
        "user_us": statistics.median(users),
        "limit_us": statistics.median(limits),
        "tight_us": bare_reads(300 if args.quick else 5000) * 1e6,
        "psutil_us": peer.cost / max(len(peer.times), 1) * 1e6,
        "levels": monitor.state()["levels"],
    }


def _punctual(times: list[float], period: float) -> float:
    """The share of gaps that are within a tenth of the period."""
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    return sum(abs(gap - period) <= period / 10 for gap in gaps) / len(gaps) if gaps else 0.0


def measure_jitter(monitor: Monitor, period: float, load: str, seconds: float) -> dict:
    work = time.sleep if load == "sleeps" else hold
    monitor.start(period)
    begin = time.monotonic_ns()
    work(seconds)
    end = time.monotonic_ns()
    state = monitor.state()
    monitor.stop()
    rows = monitor.samples("process", begin, end)
    times = [time_ns / 1e9 for time_ns in rows.time if time_ns < end]
    peer = PsutilThread(period)
    work(seconds)
    peer.stop()
    return {
        "period_s": period,
        "load": load,
        "wanted": round(seconds / period),
        "samples": len(times),
        "missed": state["missed"],
        "punctual": _punctual(times, period),
        "psutil_samples": len(peer.times),
        "psutil_punctual": _punctual(peer.times, period),
    }


def _loop(count: int) -> float:
    before = time.thread_time()
    total = 0
    for number in range(count):
        total += number * number
    return time.thread_time() - before


def _sampler_seconds(child: Child) -> float:
    """Processor time of all threads of the sampler's process."""
    tasks = Path(f"/proc/{child.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _ratios(pairs: int, alone: Callable[[], float], watched: Callable[[], float]) -> list[float]:
    """Of pairs, each of which begins with the other one: a machine that gets slower favours none."""
    found = []
    for turn in range(pairs):
        if turn % 2:
            second, first = watched(), alone()
        else:
            first, second = alone(), watched()
        found.append(second / first)
    return sorted(found)


def measure_slowdown(child: Child, monitor: Monitor, args: argparse.Namespace) -> dict:
    count, pairs = (300_000, 4) if args.quick else (3_000_000, 40)
    spent = {"taken": 0.0, "passed": 0.0, "peer": 0.0, "peer_passed": 0.0}

    def watched() -> float:
        monitor.start(0.1)
        time.sleep(0.02)  # what is done once
        taken, began = _sampler_seconds(child), time.monotonic()
        used = _loop(count)
        spent["taken"] += _sampler_seconds(child) - taken
        spent["passed"] += time.monotonic() - began
        monitor.stop()
        return used

    def peered() -> float:
        peer, began = PsutilThread(0.1), time.monotonic()
        used = _loop(count)
        spent["peer_passed"] += time.monotonic() - began
        peer.stop()
        spent["peer"] += peer.cost
        return used + peer.cost

    def alone() -> float:
        return _loop(count)

    ours, peers = _ratios(pairs, alone, watched), _ratios(pairs // 2, alone, peered)
    return {
        "watched": statistics.median(ours),
        "half": [ours[len(ours) // 4], ours[-1 - len(ours) // 4]],
        "psutil": statistics.median(peers),
        "share": spent["taken"] / spent["passed"],
        "psutil_share": spent["peer"] / spent["peer_passed"],
    }


def show(found: dict) -> str:
    cost, slow = found["cost"], found["slowdown"]
    rows = [
        [
            f"{row['period_s']:g} s",
            row["load"],
            str(row["wanted"]),
            f"{row['samples']} ({row['missed']} missed)",
            f"{row['punctual']:.1%}",
            str(row["psutil_samples"]),
            f"{row['psutil_punctual']:.1%}",
        ]
        for row in found["jitter"]
    ]
    head = ["period", "the cell", "wanted", "samples", "punctual", "psutil", "punctual"]
    return "\n\n".join(
        [
            f"A sample of process and system: {cost['sample_us']:.1f} us; bare reads as often"
            f" {cost['limit_us']:.1f} us, in a tight loop {cost['tight_us']:.1f} us; psutil"
            f" {cost['psutil_us']:.0f} us. All processes of the user: {cost['user_us']:.0f} us",
            measure.table(head, rows),
            f"A loop watched every 0.1 s: {slow['watched']:.4f} of alone (half of the pairs between"
            f" {slow['half'][0]:.4f} and {slow['half'][1]:.4f}); with psutil's thread"
            f" {slow['psutil']:.4f}. The sampler took {slow['share']:.3%} of a core meanwhile,"
            f" psutil's thread {slow['psutil_share']:.2%}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="for a test of this program")
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    child = Child()
    monitor = Monitor(child)
    plan = [(0.01, 0.2)] if args.quick else [(1, 10), (0.1, 5), (0.01, 5), (0.001, 3)]
    found: dict = {"machine": measure.machine("psutil"), "cost": measure_cost(monitor, args)}
    found["jitter"] = [
        measure_jitter(monitor, period, load, seconds)
        for period, seconds in plan
        for load in ("sleeps", "holds the GIL")
    ]
    found["slowdown"] = measure_slowdown(child, monitor, args)
    monitor.close()
    print(show(found))
    measure.write_json(args.json, found)


if __name__ == "__main__":
    main()
