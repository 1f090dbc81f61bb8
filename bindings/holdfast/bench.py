"""The cost of handing each cell of a notebook over: ``python -m holdfast.bench NOTEBOOK``.

The notebook is run twice. First in Holdfast's kernel, with every cell in a clean process of
its own (``%%isolated``; cells that have a cell magic stay as they are): the kernel
reports what it took to bring the variables there and back. Then in one ordinary IPython
shell: after each cell each peer (dill, cloudpickle, pickle 5) dumps all variables, and a new process
that has imported what the notebook has loads them, as the Score-P
kernel does. The hand-over of a peer is what that kernel has to do for a cell: dump and load
before it, dump and load after it. No figure contains the start of processes and imports;
a column of its own shows how long Holdfast's cells waited for a process.

A peer that fails on a variable loses the whole dump; here that variable is named, left out,
and the rest is dumped, which favours the peer. After a cell that fails the next one runs:
a value that no codec encodes (a generator) is missing in the cells after the one that made it.

Needs nbclient and nbformat (``pip install holdfast[example]``). Peers that aren't installed are left
out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import typing as t
from dataclasses import asdict, dataclass, field
from pathlib import Path

from holdfast.base import program

from . import report

if t.TYPE_CHECKING:
    from . import bench_peers

__all__ = ["CellHandOver", "format_table", "main", "run_holdfast", "run_peers"]

PEERS = ("dill", "cloudpickle", "pickle 5")
PAUSE_SECONDS = 1.0  # after a cell; else the next one's figure has imports of the kernel's


@dataclass
class CellHandOver:
    """The cost of handing one cell over, with each way of carrying.

    Attributes
    ----------
    number : int
        The cell's place among the notebook's code cells, from 1.
    title : str
        Its first line that says something.
    ms : dict of str to float or None
        Milliseconds by the name of the way; None if it wasn't measured.
    waited_ms : float
        Milliseconds that Holdfast waited for a process that wasn't ready.
    copied : int
        Bytes that Holdfast copied.
    lost : dict of str to list of str
        The names that a way could not carry, by its name.
    failed : dict of str to str
        The error of the cell, by where it ran.
    """

    number: int  # among the notebook's code cells, from 1
    title: str
    ms: dict[str, float | None] = field(default_factory=dict)
    waited_ms: float = 0.0  # for a process that was not ready yet, by Holdfast
    copied: int = 0  # bytes, by Holdfast
    lost: dict[str, list[str]] = field(default_factory=dict)  # way: names not carried
    failed: dict[str, str] = field(default_factory=dict)  # where: the error


def isolated(source: str) -> str:
    """Put ``%%isolated`` above a cell that has no cell magic.

    Parameters
    ----------
    source : str
        The cell's code.

    Returns
    -------
    str
        The code of a cell that runs in a clean process.
    """
    first = next((line for line in source.splitlines() if line.strip()), "")
    return source if first.startswith("%%") else f"%%isolated --run=isolated\n{source}"


def run_holdfast(notebook: Path, kernel: str, timeout_s: float) -> list[CellHandOver]:
    """Run each code cell in a clean process of Holdfast's kernel, which reports its costs.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook to run. It isn't changed.
    kernel : str
        The name of the kernelspec.
    timeout_s : float
        Seconds that one cell may take.

    Returns
    -------
    list of CellHandOver
        One for each code cell that isn't empty, in order.
    """
    import nbformat

    node = report.read_notebook(notebook)
    for cell in node.cells:
        if cell.cell_type == "code" and cell.source.strip():
            cell.source = isolated(cell.source)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        _copy_beside(notebook, Path(directory))
        changed = Path(directory) / f"bench {notebook.name}"
        nbformat.write(node, changed)
        costs = report.run_notebook(
            changed,
            Path(directory) / f"executed {notebook.name}",
            kernel=kernel,
            timeout_s=timeout_s,
            progress=_show_and_pause,
            goes_on=True,
        )
    cells = []
    for cost in costs:
        cell = CellHandOver(cost.number, cost.title, {"Holdfast": None})
        if cost.run != "plain":
            bound = _number(cost.kernel, "commit_ms") + _number(cost.kernel, "bind_ms")
            cell.ms["Holdfast"] = bound + _number(cost.kernel, "hand_over_out_ms")
            cell.waited_ms = max(0.0, _number(cost.kernel, "hand_over_in_ms") - bound)
        if cost.error:
            cell.failed["Holdfast"] = cost.error
        cell.copied = int(_number(cost.kernel, "bytes_copied"))
        cells.append(cell)
    return cells


def run_peers(notebook: Path, cells: list[CellHandOver]) -> None:
    """Measure the other libraries in a shell that runs the same cells.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook to run.
    cells : list of CellHandOver
        What `run_holdfast` returned. The figures are added to it.

    Raises
    ------
    RuntimeError
        The notebook ended the process of the shell.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        _copy_beside(notebook, Path(directory))
        command = [sys.executable, "-m", "holdfast.bench_peers", str(notebook.absolute())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=directory) as process:
            before: dict[str, float] = dict.fromkeys(PEERS, 0.0)
            for line in process.stdout or ():
                record: bench_peers.Record = json.loads(line)
                cell = cells[record["number"] - 1]
                _report("the others", cell.number, cell.title)
                if record["error"]:
                    cell.failed["an ordinary shell"] = record["error"]
                for peer, figure in record["peers"].items():
                    cell.ms[peer] = before[peer] + figure["ms"]
                    before[peer] = figure["ms"]
                    if figure["lost"]:
                        cell.lost[peer] = figure["lost"]
        if process.returncode != 0:
            raise RuntimeError("the notebook ended an ordinary shell; see above")


def _copy_beside(notebook: Path, directory: Path) -> None:
    """Make the files beside the notebook readable for it, by links."""
    for path in notebook.absolute().parent.iterdir():
        if not path.name.startswith("."):
            (directory / path.name).symlink_to(path)


def _number(record: t.Mapping[str, t.Any], key: str) -> float:
    return float(record.get(key) or 0)


def _show_and_pause(cost: report.CellCost) -> None:
    """As long as a reader looks at the result, while the kernel imports what the cell did."""
    _report("Holdfast", cost.number, cost.title)
    time.sleep(PAUSE_SECONDS)


def _report(what: str, number: int, title: str) -> None:
    print(f"  {what:10} {number:3} {title[:60]}", file=sys.stderr, flush=True)


def format_table(cells: list[CellHandOver]) -> str:
    """Format the figures as a table.

    Parameters
    ----------
    cells : list of CellHandOver
        The figures.

    Returns
    -------
    str
        One line for each cell, and below them the names that each way could not carry.
    """
    ways = ["Holdfast", *(way for way in PEERS if any(way in cell.ms for cell in cells))]
    rows = [["", "cell", *(f"{way}, ms" for way in ways), "copied", "waited, ms"]]
    for cell in cells:
        figures = ["-" if (ms := cell.ms.get(way)) is None else f"{ms:.1f}" for way in ways]
        waiting = [report.show_bytes(cell.copied), f"{cell.waited_ms:.1f}"]
        rows.append([str(cell.number), cell.title[:40], *figures, *waiting])
    measured = [cell for cell in cells if cell.ms.get("Holdfast") is not None]
    sums = [f"{sum(cell.ms.get(way) or 0 for cell in measured):.1f}" for way in ways]
    copied = report.show_bytes(sum(cell.copied for cell in measured))
    rows.append(["", "all", *sums, copied, f"{sum(cell.waited_ms for cell in cells):.1f}"])
    lines = [report.align(rows, left=(1,))]
    lost: dict[tuple[str, str], int] = {}
    for cell in cells:
        for way, names in cell.lost.items():
            for name in names:
                lost.setdefault((way, name), cell.number)
    lines += [f"{way} can't carry {name} (from cell {at} on)" for (way, name), at in lost.items()]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run the command ``python -m holdfast.bench``.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 1 if a cell failed, otherwise 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.bench",
        description="Compare the cost of handing each cell of a notebook over with other ways.",
    )
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--kernel", default="holdfast", help="default: %(default)s")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="for one cell")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args(argv)
    report.check_notebook(parser, options.notebook)

    try:
        cells = run_holdfast(options.notebook, options.kernel, options.timeout)
        run_peers(options.notebook, cells)
    except RuntimeError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(format_table(cells))
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    for cell in cells:
        for where, failure in cell.failed.items():
            print(f"cell {cell.number} failed in {where}: {failure}", file=sys.stderr)
    return int(any(cell.failed for cell in cells))


if __name__ == "__main__":
    sys.exit(program.run("holdfast.bench", main))
