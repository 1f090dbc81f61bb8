"""How long a cell takes inside, beside ipykernel: fourteen cells, plain and recorded.

    python bench/inside.py [--cells scan,sort,...] [--repeat N] [--quick] [--json F]

Each cell takes 50 to 500 ms on an idle machine. It reads the clocks right before and right after its
code, and prints the differences: the time inside, and the processor time of its process, all threads
and page faults included. The client's time, from the request to the idle status, is taken as well.
Three kernels take turns: ipykernel at its defaults, Holdfast with plain cells, and Holdfast with each
cell recorded. A turn is a pause, the cell, and the cell three more times at once, as in "Run All".

Shown are medians of ipykernel's times at once in ms, and ratios of Holdfast's medians to ipykernel's,
plain / recorded: at once, and after a pause. On a machine where others compute, compare the processor
time. The first turn isn't counted. `faults` are the page faults inside of the cell at once (minor,
median): of ipykernel's, the plain and the recorded one.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from client import CELL, Kernel  # noqa: E402
from kernels import NUMPY, Computation  # noqa: E402
from measure import MIB  # noqa: E402

PANDAS = NUMPY + "import pandas as pd\n"
CELLS = [
    Computation("scan", NUMPY + "a = np.ones({mib} * 65536)", "s = a.sum() + a.max()"),
    Computation("in place", NUMPY + "a = np.ones({mib} * 49152)", "a *= 2\na /= 2"),
    Computation("new array", NUMPY + "a = np.ones({mib} * 16384)", "b = a * 2 + 1"),
    Computation(
        "every 16th row",
        NUMPY + "a = np.ones(({mib} * 512, 256))",
        "for _ in range(3):\n    a[::16] += 1",
    ),
    Computation(
        "random writes",
        NUMPY + "a = np.ones({mib} * 32768)\nat = rng.integers(0, len(a), {mib} * 4096)",
        "a[at] = 2",
    ),
    Computation("sort", NUMPY + "a = rng.random({mib} * 8192)", "b = np.sort(a)"),
    Computation(
        "matmul", NUMPY + "n = int(2 * {mib} ** 0.5) * 32\na = rng.random((n, n))", "b = a @ a"
    ),
    Computation(
        "groupby",
        PANDAS + "n = {mib} * 8192\n"
        "df = pd.DataFrame({{'k': rng.integers(0, 1000, n), 'v': rng.random(n)}})",
        "g = df.groupby('k')['v'].mean()",
    ),
    Computation(
        "merge",
        PANDAS + "n = {mib} * 1024\n"
        "df = pd.DataFrame({{'k': rng.permutation(n), 'v': rng.random(n)}})\n"
        "other = pd.DataFrame({{'k': np.arange(n), 'w': rng.random(n)}})",
        "m = df.merge(other, on='k')",
    ),
    Computation(
        "string methods",
        PANDAS
        + "s = pd.Series([f'text {{i}}' for i in range({mib} * 1000000 // 512)], dtype=object)",
        "u = s.str.upper()",
    ),
    Computation(
        "forest",
        NUMPY + "from sklearn.ensemble import RandomForestClassifier\n"
        "X = rng.random(({mib} * 2, 10)); y = rng.integers(0, 2, len(X))",
        "m = RandomForestClassifier(50, random_state=0).fit(X, y)",
    ),
    Computation(
        "1e6 calls",
        "def nothing():\n    pass",
        "for _ in range({mib} * 1000000 // 512):\n    nothing()",
    ),
    Computation(
        "dicts",
        "many = {{str(i): i for i in range({mib} * 512)}}",
        "d = {{k: [v] for k, v in many.items()}}\nt = sum(len(v) for v in d.values())",
    ),
    Computation(
        "training",
        "import torch\ntorch.manual_seed(1)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), "
        "torch.nn.Linear(256, 1))\n"
        "X = torch.rand({mib}, 64); y = torch.rand({mib}, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)",
        "for _ in range(100):\n    optimizer.zero_grad()\n"
        "    loss = ((net(X) - y) ** 2).mean()\n    loss.backward()\n    optimizer.step()",
    ),
]
SIZE = 512 * MIB
PAUSE_S = 0.5
SETTLE_S = 3  # the fork server imports what the notebook did, and forks anew
CLOCK = """
import resource as _resource
from time import perf_counter as _clock, process_time as _cpu
def _now():
    return _clock(), _cpu(), _resource.getrusage(_resource.RUSAGE_SELF).ru_minflt
"""
TIMED = "_before = _now()\n{}\nprint('took', *(b - a for a, b in zip(_before, _now())))"
KERNELS = {"ipykernel": ("python3", ""), "plain": ("holdfast", ""), "recorded": ("holdfast", CELL)}
MOMENTS = {"at once": 3, "after a pause": 1}  # cells in a turn
CLOCKS = ("inside", "processor", "client")
Times = dict[str, list[tuple[float, ...]]]


def turn(kernel: Kernel, cell: str, pause: float, times: Times) -> None:
    """A pause and the cells: add what each took by each clock, and its page faults."""
    time.sleep(pause)
    for moment in reversed(MOMENTS):
        for _ in range(MOMENTS[moment]):
            client = kernel.run(cell)[0]
            printed = next(x for x in kernel.printed.splitlines() if x.startswith("took "))
            inside, processor, faults = map(float, printed.split()[1:])
            times.setdefault(moment, []).append((inside, processor, client, faults))


def compute(one: Computation, args: argparse.Namespace) -> dict[str, Any]:
    """The times of one cell in each kernel, their medians, and the ratios of these."""
    fill = {"mib": 8 if args.quick else SIZE // MIB}
    cell = TIMED.format(one.code.format(**fill))
    times: dict[str, Times] = {way: {} for way in KERNELS}
    with contextlib.ExitStack() as stack:
        kernels = {way: stack.enter_context(Kernel(KERNELS[way][0])) for way in KERNELS}
        for way, kernel in kernels.items():
            kernel.run(CLOCK + one.setup.format(**fill))
            turn(kernel, KERNELS[way][1] + cell, 0, {})
        time.sleep(0 if args.quick else SETTLE_S)
        for _ in range(args.repeat):
            for way, kernel in kernels.items():
                turn(kernel, KERNELS[way][1] + cell, 0 if args.quick else PAUSE_S, times[way])
    medians = {
        way: {moment: [statistics.median(x) for x in zip(*of)] for moment, of in by.items()}
        for way, by in times.items()
    }
    ratios = {
        f"{clock}, {moment}": [
            medians[way][moment][place] / medians["ipykernel"][moment][place]
            for way in ("plain", "recorded")
        ]
        for place, clock in enumerate(CLOCKS)
        for moment in MOMENTS
    }
    return {"cell": one.name, "medians": medians, "ratios": ratios, "times": times}


def show(results: list[dict[str, Any]]) -> str:
    head = ["cell", *(f"{clock}, ms" for clock in CLOCKS), *results[0]["ratios"], "faults"]
    rows = [
        [
            found["cell"],
            *(f"{x * 1e3:.0f}" for x in found["medians"]["ipykernel"]["at once"][:-1]),
            *(" / ".join(f"{x:.2f}" for x in both) for both in found["ratios"].values()),
            ", ".join(f"{found['medians'][way]['at once'][-1]:.0f}" for way in KERNELS),
        ]
        for found in results
    ]
    return measure.table(head, rows)


def main() -> None:
    """Run the program from the command line."""
    parser = measure.row_options(__doc__.splitlines()[0], "cell", repeat=7)
    packages = ("numpy", "pandas", "scikit-learn", "torch")
    measure.run_rows(parser, {one.name: one for one in CELLS}, compute, show, packages)


if __name__ == "__main__":
    main()
