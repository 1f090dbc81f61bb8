"""What it costs to run a cell so that the notebook outlives it: three ways, one process.

    python bench/rollback.py [--repeat N] [--json F]

A process with NumPy, pandas, scikit-learn and Matplotlib loaded and used runs each workload

alone     as it is: nothing protects the notebook;
asleep    itself, after it has made a sleeping fork, which is the rollback (rollback.c, fork.c);
child     in a fork, and sleeps meanwhile: what a cell that takes over its parent would cost.

`fork` is what making the fork takes (ms), `run` the workload (ms, median), `faults` the page faults
in it (minor, median), `copied` the memory (MiB) that both processes hold twice afterwards. Arrays are
born in a session, as a notebook's are. Nothing is encoded in any of the three.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import resource
import signal
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402

STATE: dict[str, Any] = {}


def prepare() -> None:
    """A notebook that has done some work."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    STATE.update(
        np=np,
        plt=plt,
        forest=RandomForestClassifier,
        table=pd.DataFrame({"key": rng.integers(0, 1000, 10**6), "value": rng.random(10**6)}),
        points=rng.random((2000, 10)),
        classes=rng.integers(0, 2, 2000),
        floats=[float(x) for x in range(2_000_000)],
        array=np.ones(8 << 20),
    )
    for work in WORKLOADS.values():
        work()


def calls() -> None:
    def nothing() -> None:
        pass

    for _ in range(10**6):
        nothing()


def walk() -> None:
    for x in STATE["floats"]:
        x + 1


def group() -> None:
    STATE["table"].groupby("key")["value"].mean()


def fit() -> None:
    STATE["forest"](n_estimators=10, random_state=0).fit(STATE["points"], STATE["classes"])


def plot() -> None:
    figure, axes = STATE["plt"].subplots()
    axes.plot(STATE["points"][:100, 0])
    figure.canvas.draw()
    STATE["plt"].close(figure)


def element() -> None:
    STATE["array"][5] += 1


def whole_array() -> None:
    STATE["array"] *= 1.0001


WORKLOADS: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "a million calls": calls,
    "walk over 2e6 floats": walk,
    "groupby of 1e6 rows": group,
    "random forest": fit,
    "plot": plot,
    "one element of 64 MiB": element,
    "all of 64 MiB": whole_array,
}


def timed(work: Callable[[], None]) -> dict[str, float]:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return {"run": seconds * 1e3, "faults": faults}


def _own_bytes(pid: int) -> float:
    """Memory that the process shares with nobody, but for what the session keeps once."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Dirty", "Private_Clean")):
            total += int(line.split()[1]) * 1024
    return total / measure.MIB


def alone(session: Any, work: Callable[[], None]) -> dict[str, float]:
    return {"fork": 0.0, **timed(work), "copied": 0.0}


def asleep(session: Any, work: Callable[[], None]) -> dict[str, float]:
    from holdfast import _store

    near, far = socket.socketpair()
    channel = socket.socketpair()[0]
    start = time.perf_counter()
    pid = _store._fork("sleeper", session, ((far.fileno(), channel.fileno()),), os.getpid(), ())
    if pid == 0:
        os._exit(0)
    fork = (time.perf_counter() - start) * 1e3
    far.close()
    before = _own_bytes(pid)
    report = timed(work)
    copied = _own_bytes(pid) - before
    near.close()
    channel.close()
    os.waitpid(pid, 0)
    session.reap()
    return {"fork": fork, **report, "copied": copied}


def child(session: Any, work: Callable[[], None]) -> dict[str, float]:
    read, write = os.pipe()
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        before = _own_bytes(os.getpid())
        report = timed(work)
        report["copied"] = _own_bytes(os.getpid()) - before
        os.write(write, pickle.dumps(report))
        os.kill(os.getpid(), signal.SIGKILL)
    fork = (time.perf_counter() - start) * 1e3
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as pipe:
        return {"fork": fork, **pickle.load(pipe)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args()
    import ctypes

    from holdfast import _store
    from holdfast.worker.arrays import be_born_in

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # be the parent of what sleeps
    session = _store.Session.create("bench/rollback", 8 << 30)
    be_born_in(session)
    prepare()
    gc.collect()
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * measure.MIB / 256
    print(f"a process of {rss / measure.MIB:.0f} MiB")
    print(f"{'workload':24} {'way':8} {'fork':>6} {'run':>8} {'faults':>8} {'copied':>8}")
    figures = {}
    for name, work in WORKLOADS.items():
        for way in (alone, asleep, child):
            runs = [way(session, work) for _ in range(given.repeat)]
            row = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            figures[f"{name}, {way.__name__}"] = row
            print(
                f"{name:24} {way.__name__:8} {row['fork']:6.1f} {row['run']:8.1f} "
                f"{row['faults']:8.0f} {row['copied']:8.1f}"
            )
    session.destroy()
    if given.json:
        Path(given.json).write_text(json.dumps({"machine": measure.machine(), "rows": figures}))


if __name__ == "__main__":
    main()
