"""How little Holdfast disturbs what is computed: twelve kernels, timed inside the cell.

    python bench/kernels.py [--kernels scale,add,...] [--repeat N] [--cpu] [--quick] [--json F]

Each kernel is a few lines over some state. The cell itself reads the clock right before
and right after them, so that a time holds what a recording would show and no hand-over:

python        a plain interpreter, no Jupyter
ipykernel     a cell in ipykernel
plain         a plain cell in Holdfast
after privatizing    the first plain cell after a recorded one that only looked
instrumented  a cell under %%execute_with_scorep, between events on and events off

Shown are the ratios of medians, `plain` and `after privatizing` to python, `instrumented` to
ipykernel, and the largest copy_faults that a recorded cell reported.

NumPy asks for huge pages for its large arrays, and gets them in private memory on most systems;
in shared memory few systems give any (`shmem_enabled`, named with the machine), and to pass over a
GiB in pages of 4 KiB takes longer, whoever does it. So python and ipykernel run a second time
with NUMPY_MADVISE_HUGEPAGE=0, and a second group of columns holds the ratios to those, marked "4K".
There a ratio above its bar is Holdfast's own. What is over the bar in the first group only is the
size of the pages; what allocates within the cell is flattered by the second. Every run
begins with state that the run before left; the first isn't counted, except after a privatization,
where each is a first one. python and ipykernel are measured before and after Holdfast, since
machines have moods; where others compute on the machine, `--cpu` shows the processor time of
the process, all threads and page faults included. Two more rows show what recycled memory is
worth: a new array of 1 GiB, and a thousand temporaries of 1 MiB.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from client import CELL, Kernel  # noqa: E402
from measure import GIB  # noqa: E402


@dataclasses.dataclass
class Computation:
    """Named state and the lines that are timed."""

    name: str
    setup: str
    code: str


NUMPY = "import numpy as np\nrng = np.random.default_rng(1)\n"
KERNELS = [
    Computation("scale", NUMPY + "a = np.ones({gib} // 8)", "b = a * 2 + 1"),
    Computation("add", NUMPY + "a = np.ones({gib} // 8)", "a += 1"),
    Computation("sum", NUMPY + "a = np.ones({gib} // 8)", "s = a.sum()"),
    Computation("sort", NUMPY + "a = rng.random({gib} // 128)", "b = np.sort(a)"),
    Computation(
        "matmul", NUMPY + "n = int(({gib} / 512) ** 0.5)\na = rng.random((n, n))", "b = a @ a"
    ),
    Computation("fft", NUMPY + "a = rng.random({gib} // 128)", "b = np.fft.rfft(a)"),
    Computation(
        "groupby",
        NUMPY + "import pandas as pd\nn = {gib} // 256\n"
        "df = pd.DataFrame({{'k': rng.integers(0, 1000, n), 'v': rng.random(n)}})",
        "g = df.groupby('k')['v'].mean()",
    ),
    Computation(
        "merge",
        NUMPY + "import pandas as pd\nn = {gib} // 1024\n"
        "df = pd.DataFrame({{'k': rng.permutation(n), 'v': rng.random(n)}})\n"
        "other = pd.DataFrame({{'k': np.arange(n), 'w': rng.random(n)}})",
        "m = df.merge(other, on='k')",
    ),
    Computation(
        "einsum",
        NUMPY + "n = {gib} // 8192\na = rng.random((n, 32))\nb = rng.random((32, 32))",
        "c = np.einsum('ij,jk->ik', a, b)",
    ),
    Computation("ones", NUMPY + "b = None", "b = np.ones({gib} // 8)"),
    Computation(
        "temporaries",
        NUMPY + "a = np.ones({gib} // 8192)",
        "for _ in range(1000):\n    b = a + 1",
    ),
    Computation(
        "loop",
        "xs = list(range({gib} // 512)); ys = xs[::-1]",
        "t = 0\nfor x, y in zip(xs, ys):\n    t += x * y",
    ),
    Computation(
        "fit",
        NUMPY + "from sklearn.linear_model import Ridge\n"
        "X = rng.random(({gib} // 4096, 64)); y = rng.random({gib} // 4096)",
        "m = Ridge().fit(X, y)",
    ),
    Computation(
        "train",
        "import torch\ntorch.manual_seed(1)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), "
        "torch.nn.Linear(1024, 1))\n"
        "X = torch.rand({gib} // 262144, 512); y = torch.rand({gib} // 262144, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)",
        "optimizer.zero_grad()\nloss = ((net(X) - y) ** 2).mean()\nloss.backward()\n"
        "optimizer.step()",
    ),
]
BARS = {"plain": 1.03, "after privatizing": 2.5, "instrumented": 1.05}
PEERS = {"plain": "python", "after privatizing": "python", "instrumented": "ipykernel"}
PAGES = {"": "1", " 4K": "0"}  # NUMPY_MADVISE_HUGEPAGE
WAYS = ("python", "python 4K", "ipykernel", "ipykernel 4K", *BARS)
SETTLE_S = 3  # the fork server imports what the notebook did, and forks anew
CLOCK = "from time import {} as _clock"
TIMED = "_start = _clock()\n{code}\n_took = _clock() - _start\nprint('took', _took)"
WARM = "_start = _clock()\n_took = _clock() - _start"


def took(printed: str) -> float:
    for line in printed.splitlines():
        if line.startswith("took "):
            return float(line.split()[1])
    raise RuntimeError(f"the cell did not print its time: {printed!r}")


def in_python(setup: str, cell: str, repeat: int, environment: dict[str, str]) -> list[float]:
    text = f"{setup}\ncell = compile({cell!r}, 'cell', 'exec')\n" + (
        f"for _ in range({repeat} + 1):\n    exec(cell, globals())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment
    )
    return [took(line) for line in done.stdout.splitlines()][1:]


def in_kernel(kernel: Kernel, cell: str, repeat: int, before: str = "") -> tuple[list, int]:
    """The times of `cell`, each after the cell `before`; and the most copy faults."""
    times, faults = [], 0
    kernel.run(cell)
    for _ in range(repeat):
        if before:
            kernel.run(before)
        report = kernel.run(cell)[1]
        faults = max(faults, report.get("copy_faults", 0))
        times.append(took(kernel.printed))
    return times, faults


def in_ipykernel(setup: str, cell: str, repeat: int, environment: dict[str, str]) -> list[float]:
    with Kernel("python3", environment) as peer:
        peer.run(setup)
        return in_kernel(peer, cell, repeat)[0]


def peers(times: dict[str, list[float]], setup: str, cell: str, repeat: int) -> None:
    """Add the times of python and ipykernel, as they are and with small pages."""
    for pages, value in PAGES.items():
        environment = dict(os.environ, NUMPY_MADVISE_HUGEPAGE=value)
        for way, run in (("python", in_python), ("ipykernel", in_ipykernel)):
            times.setdefault(way + pages, []).extend(run(setup, cell, repeat, environment))


def compute(one: Computation, args: argparse.Namespace) -> dict:
    fill = {"gib": GIB // (64 if args.quick else 1)}
    clock = CLOCK.format("process_time" if args.cpu else "perf_counter")
    setup = clock + "\n" + one.setup.format(**fill)
    cell = TIMED.format(code=one.code.format(**fill))
    times: dict[str, list[float]] = {}
    peers(times, setup, cell, args.repeat)
    with Kernel(args.kernel) as ours:
        ours.run(setup)
        time.sleep(0 if args.quick else SETTLE_S)
        times["plain"], _ = in_kernel(ours, cell, args.repeat)
        ours.run(CELL + WARM)
        times["after privatizing"], _ = in_kernel(ours, cell, args.repeat, CELL + WARM)
        times["instrumented"], faults = in_kernel(ours, CELL + cell, args.repeat)
    if not args.quick:
        peers(times, setup, cell, args.repeat)
    medians = {key: statistics.median(value) for key, value in times.items()}
    ratios = {
        way + pages: medians[way] / medians[PEERS[way] + pages] for pages in PAGES for way in BARS
    }
    return {"kernel": one.name, "medians_s": medians, "ratios": ratios} | {
        "copy_faults": faults,
        "times_s": times,
    }


def show(results: list[dict]) -> str:
    bars = {key + pages: bar for pages in PAGES for key, bar in BARS.items()}
    head = ["kernel, ms", *WAYS, *(f"{key} ≤{bar}" for key, bar in bars.items()), "copy faults"]
    rows = [
        [
            r["kernel"],
            *(f"{r['medians_s'][way] * 1e3:.1f}" for way in WAYS),
            *(f"{r['ratios'][key]:.2f}" + "!" * (r["ratios"][key] > bars[key]) for key in bars),
            str(r["copy_faults"]),
        ]
        for r in results
    ]
    return measure.table(head, rows)


def main():
    parser = measure.row_options(__doc__.splitlines()[0], "kernel", repeat=5)
    parser.add_argument("--cpu", action="store_true", help="processor time")
    packages = ("numpy", "pandas", "scikit-learn", "torch")
    measure.run_rows(parser, {one.name: one for one in KERNELS}, compute, show, packages)


if __name__ == "__main__":
    main()
