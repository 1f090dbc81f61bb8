"""What whole notebooks cost: Run All in ipykernel, and in Holdfast in three ways.

    python bench/notebooks.py [--ways plain,isolated,recorded] [--runs N] [--json F] NOTEBOOK|FOLDER ...

In the way `plain` a comment stands before every cell, in `isolated` `%%isolated`, with a clean
process for each, and in `recorded` `%%execute_with_scorep`, which chooses by itself
how the cell runs and records with the built-in recorder. Each notebook runs in a
new kernel, which has answered one request before; the next cell is sent when the one before is idle.
The clock of a cell starts when it is sent and stops at the idle status. Of each cell the fastest of
the runs counts, and the runs of the kernels take turns, so that what else the machine does falls on
all of them. Cells run in an empty directory that has links to what lies beside the notebook.

`added` is what a cell takes longer than in ipykernel, on average. `over` counts the cells beyond
1.5 times ipykernel plus 50 ms. `cpu` is processor time of all processes of the kernel, for the whole
notebook, in the run with the least: other programs disturb it less. `differ` counts cells that put
out something else, compared as bench/oracle.py does it, without those that differ between two runs of
ipykernel (--diffs shows the rest). Below the table are each row's slowest extra cells, with the line
that the user sees below them, or with what their reports say. The bar of the sums is 1.15 times
ipykernel plus 6 ms a cell.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]
import measure  # noqa: E402
from client import CELL, Kernel  # noqa: E402
from differential import compare, kernels, notebooks  # noqa: E402
from differential.modes import PLAIN  # noqa: E402

HEADS = {"plain": PLAIN, "isolated": "%%isolated\n", "recorded": CELL}
PEER = "ipykernel"
ENVIRONMENT = kernels.COMMON | {"HOLDFAST_RECORDER": "builtin"}


@dataclasses.dataclass
class Outcome:
    """One or more runs of a notebook in one kernel: of each cell the fastest."""

    cells: list[float]  # seconds
    cpu_s: float
    reports: list[dict]
    lines: list[str]  # that the user sees below the cell
    output: compare.Run

    def merge(self, other: Outcome) -> Outcome:
        """This one, with the cells of the other that were faster."""
        for i, seconds in enumerate(other.cells):
            if seconds < self.cells[i]:
                self.cells[i] = seconds
                self.reports[i], self.lines[i] = other.reports[i], other.lines[i]
        self.cpu_s = min(self.cpu_s, other.cpu_s)
        return self


def run_all(notebook: notebooks.Notebook, way: str, spec: str) -> Outcome:
    """Run a notebook once, in a kernel of its own."""
    name = "python3" if way == PEER else spec
    environment = os.environ | ENVIRONMENT | {"HOLDFAST_RUN": "auto"}
    with Kernel(name, environment) as kernel:
        _link(notebook.folder, Path(kernel.directory.name))
        kernel.ask("pass", silent=True)
        outcome = Outcome([], 0, [], [], compare.Run([], kernel.directory.name))
        before = measure.cpu_seconds(kernel.pids())
        for cell in notebook.cells:
            head = HEADS.get(way, PLAIN)
            if head == PLAIN and cell.code.startswith("%%"):  # which has to be the first line
                head = ""
            seconds, messages, reply = kernel.ask(head + cell.code)
            outcome.cells.append(seconds)
            outcome.reports.append(reply["metadata"].get("holdfast", {}))
            outcome.lines.append(_line(messages))
            outcome.output.cells.append(messages)
        outcome.cpu_s = measure.cpu_seconds(kernel.pids()) - before
        return outcome


def _link(folder: Path | None, directory: Path) -> None:
    """What lies beside a notebook, for its cells to read."""
    for path in folder.iterdir() if folder else ():
        with contextlib.suppress(FileExistsError):
            (directory / path.name).symlink_to(path)


def _line(messages: list[dict]) -> str:
    """The line of costs below a cell, or ""."""
    for message in messages:
        content = message["content"]
        marks = message["metadata"], content.get("metadata") or {}
        if any(mark.get("holdfast") == "summary" for mark in marks):
            return content["data"].get("text/plain", "")
    return ""


def measure_notebook(notebook: notebooks.Notebook, args: argparse.Namespace) -> list[dict]:
    """A row for each way."""
    outcomes: dict[str, Outcome] = {}
    unsteady: set[int] = set()
    for _ in range(args.runs):
        for way in (PEER, *args.ways):
            found = run_all(notebook, way, args.kernel)
            if way == PEER and way in outcomes:
                unsteady |= set(compare.differing(notebook, outcomes[way].output, found.output))
            outcomes[way] = outcomes[way].merge(found) if way in outcomes else found
    expected = outcomes.pop(PEER)
    rows = [compute(notebook, way, expected, found) for way, found in outcomes.items()]
    for row in rows:
        row["differing"] = {n: diff for n, diff in row["differing"].items() if n not in unsteady}
    return rows


def compute(notebook: notebooks.Notebook, way: str, expected: Outcome, found: Outcome) -> dict:
    """The row of one notebook in one way."""
    pairs = list(zip(expected.cells, found.cells, strict=True))
    differing = compare.differing(notebook, expected.output, found.output)
    return {
        "notebook": notebook.name,
        "way": way,
        "cells": len(pairs),
        "ipykernel_s": sum(expected.cells),
        "holdfast_s": sum(found.cells),
        "ipykernel_cpu_s": expected.cpu_s,
        "holdfast_cpu_s": found.cpu_s,
        "over": [i for i, (theirs, ours) in enumerate(pairs, 1) if ours > 1.5 * theirs + 0.05],
        "differing": differing,
        "each": [
            {
                "number": number,
                "ipykernel_s": theirs,
                "holdfast_s": ours,
                "cause": found.lines[number - 1] or _cause(found.reports[number - 1]),
                "report": found.reports[number - 1],
            }
            for number, (theirs, ours) in enumerate(pairs, 1)
        ],
    }


def _cause(report: dict) -> str:
    """What a report says, of a cell without a line below it."""
    parts = {"in": "hand_over_in_ms", "run": "run_ms", "out": "hand_over_out_ms"}
    return ", ".join(f"{name} {report[key]:.1f} ms" for name, key in parts.items() if key in report)


def totals(rows: list[dict]) -> list[dict]:
    """For each way the sum of its rows."""
    sums: dict[str, dict] = {}
    for row in rows:
        total = sums.setdefault(row["way"], {"notebook": "all", "way": row["way"]})
        for key in ("cells", "ipykernel_s", "holdfast_s", "ipykernel_cpu_s", "holdfast_cpu_s"):
            total[key] = total.get(key, 0) + row[key]
        for key in ("over", "differing"):
            total.setdefault(key, []).extend(row[key])
    for total in sums.values():
        total["bar_s"] = 1.15 * total["ipykernel_s"] + 0.006 * total["cells"]
    return list(sums.values())


HEAD = ["notebook", "way", "cells", PEER, "Holdfast", "ratio", "added", "over", "cpu", "", "differ"]


def _columns(row: dict) -> list[str]:
    added = (row["holdfast_s"] - row["ipykernel_s"]) / row["cells"]
    return [
        row["notebook"],
        row["way"],
        str(row["cells"]),
        f"{row['ipykernel_s']:.2f} s",
        f"{row['holdfast_s']:.2f} s",
        f"{row['holdfast_s'] / row['ipykernel_s']:.2f}",
        f"{added * 1e3:.1f} ms",
        str(len(row["over"])),
        f"{row['ipykernel_cpu_s']:.2f} s",
        f"{row['holdfast_cpu_s']:.2f} s",
        str(len(row["differing"])),
    ]


def slowest(row: dict, count: int) -> str:
    """The cells that take longest beyond ipykernel, and why."""
    each = sorted(row["each"], key=lambda cell: cell["ipykernel_s"] - cell["holdfast_s"])
    lines = []
    for cell in each[:count]:
        mark = "over" if cell["number"] in row["over"] else ""
        times = f"{cell['ipykernel_s'] * 1e3:7.1f} -> {cell['holdfast_s'] * 1e3:7.1f} ms"
        lines.append(f"    cell {cell['number']:3} {times} {mark:4}  {cell['cause']}")
    return "\n".join(lines)


def show(rows: list[dict], args: argparse.Namespace) -> str:
    """The table, and below it the slowest cells of each row."""
    sums = totals(rows)
    text = measure.table(HEAD, [_columns(row) for row in rows + sums])
    for total in sums:
        text += f"\n{total['way']}: {total['holdfast_s']:.2f} s, bar {total['bar_s']:.2f} s"
    for row in rows if args.slowest else ():
        text += f"\n\n{row['notebook']}, {row['way']}\n{slowest(row, args.slowest)}"
    for row in rows if args.diffs else ():
        for number, diff in row["differing"].items():
            text += f"\n\n=== {row['notebook']}, {row['way']}, cell {number}\n{diff}"
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="+", type=Path, metavar="NOTEBOOK|FOLDER")
    parser.add_argument("--ways", default=",".join(HEADS))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--slowest", type=int, default=3, help="cells shown for each row")
    parser.add_argument("--diffs", action="store_true", help="show the outputs that differ")
    parser.add_argument("--kernel", default="holdfast", help="name of the kernelspec")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    args.ways = [way for way in args.ways.split(",") if way]
    if unknown := set(args.ways) - set(HEADS):
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(HEADS)}")
    if missing := [str(place) for place in args.places if not place.exists()]:
        parser.error(f"no such notebook: {', '.join(missing)}")
    return args


def main() -> None:
    args = arguments()
    paths = []
    for place in args.places:
        paths += sorted(place.glob("*.ipynb")) if place.is_dir() else [place]
    machine = measure.machine("numpy", "pandas", "matplotlib", "ipykernel", "holdfast")
    print(json.dumps(machine), end="\n\n")
    rows = []
    for path in paths:
        notebook = notebooks.read_ipynb(path)
        if not notebook.cells:
            print(f"left out, it has no code: {path.name}", file=sys.stderr)
            continue
        rows += measure_notebook(notebook, args)
        print(f"measured: {path.name}", file=sys.stderr)
    if not rows:
        sys.exit("no cell was run: none of the notebooks has code")
    print(show(rows, args))
    measure.write_json(args.json, {"program": "bench/notebooks", "machine": machine, "rows": rows})


if __name__ == "__main__":
    main()
