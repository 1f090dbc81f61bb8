"""What a recorded cell costs, as the client sees it.

    python bench/cell.py [--rows empty,element,...] [--repeat N] [--quick] [--json F]

Each row prepares some state, then runs two cells in turn without a pause, a plain one and an
recorded one, each of which reads or changes what the other made: in ipykernel, where both
are plain, then in Holdfast. A cell is timed by the client from the execute_request to the idle
status, so the start of the next standby is in it. `added` is the median of the instrumented
cells minus ipykernel's of the same code, to be compared with the row's `bar`; `plain` is the
same difference for the plain cells, and `pair` that of the mean of both together, which
shows what a median hides. The first pair of each row is shown by itself (`first`), as it commits the
state once.

`--run in-process|forked|isolated` says how the recorded cells run; `isolated` unless given.
`--pause S` waits so long before each cell, as a person does; 0 is a notebook that is run as a whole.
`--memory` adds, for rows with an array, what all of the kernel's processes hold together as a
ratio to it. `--first CODE` runs a cell in Holdfast's kernel before all others, as in
`--first '%holdfast history 0'`, which keeps no older state for undo. `--quick` is for a test of
the program: small states, few cells.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from client import CELL, Kernel  # noqa: E402
from measure import GIB  # noqa: E402

ARRAY = "import numpy as np\nx = np.ones({size} // 8)\ni = len(x) // 2; n = 0"
MIXED = """
n = 0
for k in range({count}):
    globals()[f"v{{k}}"] = [k, f"text {{k}}", (k, 2.5), {{"k": k}}, [k, {{k}}], k / 3][k % 6]
"""


@dataclasses.dataclass
class Row:
    """A state, two cells, and what the second may cost in milliseconds."""

    name: str
    bar: float
    setup: str
    plain: str
    instrumented: str
    size: int = 0  # of the large array, bytes; what --quick divides
    count: int = 0  # of small objects; what --quick divides
    run: str = ""  # HOLDFAST_RUN for the kernel


def _element(name: str, size: int) -> Row:
    return Row(name, 15, ARRAY, "x[i] += 1", "n = x[i]; x[i] += 1", size=size)


def _untouched(name: str, make: str, count: int) -> Row:
    return Row(name, 15, f"n = 0; many = {make}", "n += 1", "n += 1", count=count)


def _table(name: str, more: str) -> Row:
    """An element of a table by its labels; pandas writes the whole column if there are columns of another kind."""
    setup = TABLE + more
    return Row(name, 15, setup, "df.loc[1, 'c1'] += 1", "df.loc[0, 'c0'] += 1", count=1_000_000)


def _one_key(name: str, count: int, run: str) -> Row:
    setup = f"n = 0; many = {DICT}"
    return Row(name, 15, setup, "n = many['7']", "many['7'] = n + 1", count=count, run=run)


def _on_gpu(name: str) -> list[Row]:
    """A tensor on a GPU, where there is one."""
    setup = "import torch\nx = torch.ones({size} // 4, device='cuda'); n = 0"
    row = Row(name, 1500, setup, "x[5] += 1", "n = float(x[5]); x[7] = n", size=4 * GIB)
    return [row] if os.path.exists("/dev/nvidiactl") else []


TABLE = (
    "import numpy as np, pandas as pd\n"
    "df = pd.DataFrame({{f'c{{i}}': np.arange({count} * 1.0) for i in range(10)}})\n"
)
STRINGS = "df['s1'] = [f'text {{i % 1000}}' for i in range({count})]; df['s2'] = [f'other {{i}}' for i in range({count})]"
DICT = "{{str(k): k for k in range({count})}}"
LIST = "[(k, str(k)) for k in range({count})]"
ROWS = [
    Row("empty", 15, "pass", "pass", "pass"),
    _element("element", GIB),
    _element("element 4 GiB", 4 * GIB),
    Row(
        "DataFrame",
        15,
        "import numpy as np, pandas as pd\n"
        "df = pd.DataFrame(np.ones(({count}, 10)), columns=list('abcdefghij')); n = 0",
        "df.iat[5, 3] += 1",
        "n = df['d'].iat[5]; df.iat[7, 2] = n",
        count=1_000_000,
    ),
    _table("table", ""),
    _table("table with strings", STRINGS),
    _untouched("dict of a million", DICT, 1_000_000),
    _untouched("list of a million", LIST, 1_000_000),
    _untouched("dict of ten million", DICT, 10_000_000),
    _untouched("list of ten million", LIST, 10_000_000),
    Row(
        "1000 variables",
        15,
        MIXED,
        "v5 += v11",
        "v4.append(v2[0]); v5 += 1",
        count=1000,
    ),
    Row(
        "torch",
        15,
        "import torch\nx = torch.ones({size} // 4); n = 0",
        "x[5] += 1",
        "n = float(x[5]); x[7] = n",
        size=GIB // 4,
    ),
    *_on_gpu("torch on a GPU"),
    Row(
        "creating",
        20,
        "import numpy as np\nn = 0",
        "n = y[5]",
        "y = np.ones({size} // 8)",
        size=GIB,
    ),
    Row(
        "product of matrices",
        20,
        "import numpy as np\na = np.ones((400, 400))",
        "n = a[5, 5]",
        "b = a @ a",
    ),
    Row("reading", 60, ARRAY, "x[i] = n", "n = x.sum()", size=GIB),
    Row("writing", 400, ARRAY, "n = x[i]", "x += 1", size=GIB),
    Row("writing 256 MiB", 100, ARRAY, "n = x[i]", "x += 1", size=GIB // 4),
    _one_key("one key in-process", 1_000_000, "in-process"),
    _one_key("one key", 1_000_000, "auto"),
    _one_key("one key of ten million", 10_000_000, "auto"),
]
# "creating" reads what the cell before it made: the first pair makes it in the plain cell.
FIRST = {"creating": "y = np.ones({size} // 8)"}


def timed(kernel: Kernel, row: Row, head: str, fill: dict, repeat: int, pause: float) -> dict:
    """Seconds of each plain and each recorded cell, and the last report."""
    kernel.run(row.setup.format(**fill))
    if row.name in FIRST:
        kernel.run(FIRST[row.name].format(**fill))
    times: dict = {"plain": [], "instrumented": []}
    for _ in range(repeat):
        time.sleep(pause)
        times["plain"].append(kernel.run(row.plain.format(**fill))[0])
        time.sleep(pause)
        seconds, report = kernel.run(head + row.instrumented.format(**fill))
        times["instrumented"].append(seconds)
        times["report"] = report
    return times


def measure_row(row: Row, args: argparse.Namespace) -> dict:
    small = 64 if args.quick else 1
    fill = {"size": row.size // small, "count": row.count // small}
    with Kernel("python3") as peer:
        theirs = timed(peer, row, "", fill, args.repeat, args.pause)
    shmem = measure.shmem_bytes()
    environment = dict(os.environ, HOLDFAST_RUN=row.run or args.run)
    with Kernel(args.kernel, environment) as kernel:
        if args.first:
            kernel.run(args.first)
        kernel.run(CELL + "pass")  # a notebook's first instrumented cell
        memory = measure.PeakMemory(kernel.pids, shmem) if args.memory and row.size else None
        empty = memory.sample() if memory else 0
        ours = timed(kernel, row, CELL, fill, args.repeat, args.pause)
        held = None
        if memory:
            time.sleep(2)
            held = (memory.sample() - empty) / fill["size"]

    def difference(kind: str, of=statistics.median) -> float:
        return of(ours[kind][1:]) - of(theirs[kind][1:])

    return {
        "row": row.name,
        "bar_s": row.bar / 1e3,
        "ipykernel_s": statistics.median(theirs["instrumented"]),
        "holdfast_s": statistics.median(ours["instrumented"]),
        "added_s": difference("instrumented"),
        "first_s": ours["instrumented"][0] - theirs["instrumented"][0],
        "max_s": max(ours["instrumented"][1:]),
        "plain_added_s": difference("plain"),
        "pair_added_s": difference("plain", statistics.fmean)
        + difference("instrumented", statistics.fmean),
        "memory_ratio": held,
        "report": ours["report"],
        "times": {"ipykernel": theirs, "holdfast": ours},
    }


def show(results: list[dict]) -> str:
    head = [
        "cell",
        "bar",
        "added",
        "",
        "ipykernel",
        "holdfast",
        "max",
        "first",
        "plain",
        "pair",
    ]
    rows = [
        [
            r["row"],
            measure.show_ms(r["bar_s"]),
            f"{r['added_s'] * 1e3:.1f}",
            "" if r["added_s"] <= r["bar_s"] else "over",
            *(measure.show_ms(r[key]) for key in ("ipykernel_s", "holdfast_s", "max_s")),
            *(f"{r[key] * 1e3:.1f}" for key in ("first_s", "plain_added_s", "pair_added_s")),
        ]
        for r in results
    ]
    if any(r["memory_ratio"] is not None for r in results):
        head.append("memory / array")
        for row, r in zip(rows, results, strict=True):
            row.append("" if r["memory_ratio"] is None else f"{r['memory_ratio']:.3f}")
    return measure.table(head, rows) + "\n(ms)"


def main():
    parser = measure.row_options(__doc__.splitlines()[0], "row", repeat=20, least=2)
    parser.add_argument("--memory", action="store_true", help="see above")
    parser.add_argument("--first", metavar="CODE", help="see above")
    parser.add_argument("--run", default="isolated", help="of rows that name none")
    parser.add_argument("--pause", type=float, default=0, metavar="S", help="before each cell")
    packages = ("numpy", "pandas", "torch", "jupyter_client")
    measure.run_rows(parser, {row.name: row for row in ROWS}, measure_row, show, packages)


if __name__ == "__main__":
    main()
