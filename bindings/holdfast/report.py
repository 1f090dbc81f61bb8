"""Run a notebook and show what each cell cost: ``python -m holdfast.report NOTEBOOK``.

nbclient executes the notebook, as it does for other programs that run notebooks.
The cost of a cell is in ``metadata.holdfast`` of the kernel's ``execute_reply``: where the cell
ran, the hand-over in and out, the bytes that were mapped and copied,
and the place of its trace. The time of a cell is measured by the client, from the request to the
end of its outputs. Of a kernel that reports no hand-overs only the time is shown,
so that the same notebook can be compared on another kernel.

Needs nbclient and nbformat (``pip install holdfast[example]``).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from . import tabular

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from .views.schema import Cost

__all__ = ["CellCost", "format_table", "main", "run_notebook", "trace_lines"]


@dataclass
class CellCost:
    """What one cell cost.

    Attributes
    ----------
    number : int
        The cell's place among the notebook's code cells, from 1.
    title : str
        Its first line that says something.
    run_mode : {"plain", "main", "map", "fork"}
        Where the cell ran, by the word that the kernel reports; "plain" without a hand-over.
    ms : float
        Milliseconds from the request to the end of the outputs, measured by the client.
    status : {"ok", "error"}
        How it ended.
    error : str
        The name and the text of the error, or "".
    kernel : dict
        What the kernel reported in ``metadata.holdfast``; empty for other kernels.
    """

    number: int  # among the notebook's code cells, from 1
    title: str
    run: str = "plain"  # or "isolated", "forked": in a process of its own
    ms: float = 0.0
    status: str = "ok"
    error: str = ""
    kernel: Cost = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def kind(self) -> str:
        """How the cell is listed.

        Returns
        -------
        {"instrumented", "isolated", "plain"}
            Instrumented if it has a trace; isolated if it ran in a process of its own.
        """
        if self.kernel.get("trace"):
            return "instrumented"
        return "isolated" if self.run in ("isolated", "forked") else "plain"


def cell_title(source: str) -> str:
    """Return a cell's first line that says something about it.

    Parameters
    ----------
    source : str
        The cell's code.

    Returns
    -------
    str
        The line, without cell magics and leading "#"; "" for an empty cell.
    """
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    commandless = [line for line in lines if not line.startswith("%%")] or lines
    return commandless[0].lstrip("# ") if commandless else ""


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    nbformat.NotebookNode
        The notebook, as of version 4 of the format.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It is no notebook.
    """
    import nbformat

    try:
        return nbformat.read(str(path), as_version=4)
    except (
        nbformat.reader.NotJSONError,
        nbformat.ValidationError,
        KeyError,
        AttributeError,
    ) as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None


def check_notebook(parser: argparse.ArgumentParser, path: Path) -> None:
    """End the program with one line on stderr if a file is no notebook.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        That of the program.
    path : pathlib.Path
        The file.

    Raises
    ------
    SystemExit
        It can't be read, or is no notebook.
    """
    try:
        read_notebook(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is no notebook ({error})"
        parser.exit(2, f"{parser.prog}: can't read {path}: {why}\n")


def run_notebook(
    notebook: Path,
    output: Path,
    *,
    kernel: str = "holdfast",
    timeout_s: float = 600,
    progress=None,
    goes_on: bool = False,
) -> list[CellCost]:
    """Execute a notebook and measure its cells.

    The kernel's working directory is that of `output`: cells write their files there.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook to run. It isn't changed.
    output : pathlib.Path
        Where the executed notebook is written, even if a cell fails.
    kernel : str
        The name of the kernelspec.
    timeout_s : float
        Seconds that one cell may take.
    progress : callable, optional
        Called with the `CellCost` of each cell when the cell has ended.
    goes_on : bool
        Whether the run goes on after a cell that fails. The error is in the cell's `CellCost`.

    Returns
    -------
    list of CellCost
        One for each code cell that isn't empty, in order.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed, and `goes_on` is false.
    """
    import nbformat
    from nbclient import NotebookClient

    node = read_notebook(notebook)
    numbers: dict[int, int] = {}
    for index, cell in enumerate(node.cells):
        if cell.cell_type == "code" and cell.source.strip():
            numbers[index] = len(numbers) + 1
    costs: list[CellCost] = []
    begin: dict[int, float] = {}

    def on_execute(cell, cell_index):
        begin[cell_index] = time.perf_counter()

    def on_executed(cell, cell_index, execute_reply):
        ms = (time.perf_counter() - begin.pop(cell_index)) * 1e3
        cost = CellCost(numbers[cell_index], cell_title(cell.source), ms=ms)
        cost.kernel = dict(execute_reply["metadata"].get("holdfast") or {})
        cost.run = cost.kernel.get("run", "plain")
        content = execute_reply["content"]
        cost.status = content["status"]
        if cost.status == "error":
            cost.error = f"{content['ename']}: {content['evalue']}"
        costs.append(cost)
        if progress is not None:
            progress(cost)

    client = NotebookClient(
        node,
        kernel_name=kernel,
        timeout=timeout_s,
        allow_errors=goes_on,
        resources={"metadata": {"path": str(output.parent)}},
        on_cell_execute=on_execute,
        on_cell_executed=on_executed,
    )
    try:
        client.execute()
    finally:
        nbformat.write(node, output)
    return costs


def show_bytes(count: float | None) -> str:
    """Format a number of bytes.

    Parameters
    ----------
    count : float or None
        Bytes, or None if they aren't known.

    Returns
    -------
    str
        For example "12 B", "3.4 MiB", or "-".
    """
    return "-" if count is None else tabular.size(count)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def format_table(costs: Iterable[CellCost]) -> str:
    """Format the costs as a table.

    Parameters
    ----------
    costs : iterable of CellCost
        What `run_notebook` returned.

    Returns
    -------
    str
        Two lines of head and one line for each cell.
    """
    head = ("", "cell", "kind", "ms", "in ms", "out ms", "mapped", "copied")
    rows = [head]
    for cost in costs:
        kernel = cost.kernel
        rows.append(
            (
                str(cost.number),
                cost.title[:40],
                cost.kind,
                _ms(cost.ms),
                _ms(kernel.get("hand_over_in_ms")),
                _ms(kernel.get("hand_over_out_ms")),
                show_bytes(kernel.get("bytes_mapped")),
                show_bytes(kernel.get("bytes_copied")),
            )
        )
    return align(rows, left=(1, 2))


def align(rows: Sequence[Sequence[str]], left: Container[int] = ()) -> str:
    """Format rows of texts in aligned columns.

    Parameters
    ----------
    rows : sequence of sequence of str
        The rows, of equal length. The first is the head.
    left : container of int
        The indexes of the columns that are flush left; the others are flush right.

    Returns
    -------
    str
        One line for each row, and a line below the head.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [column for column in range(len(widths)) if column not in left]
    head, *lines = tabular.align(rows, right)
    return "\n".join([head, "  ".join("-" * width for width in widths), *lines])


def trace_archive(cost: CellCost, directory: Path) -> Path | None:
    """Return the OTF2 archive of an instrumented cell.

    Parameters
    ----------
    cost : CellCost
        What was measured of the cell.
    directory : pathlib.Path
        The directory in which the notebook ran.

    Returns
    -------
    pathlib.Path or None
        The anchor file, or None if the cell has no trace.
    """
    named = cost.kernel.get("trace")
    if not named:
        return None
    path = directory / named
    return path / "traces.otf2" if path.is_dir() else path


def trace_lines(archive: Path, count: int) -> list[str]:
    """Print the beginning of an archive with ``otf2-print``.

    Parameters
    ----------
    archive : pathlib.Path
        The anchor file, ``traces.otf2``.
    count : int
        How many lines are returned at most.

    Returns
    -------
    list of str
        The first lines.

    Raises
    ------
    FileNotFoundError
        There is no otf2-print.
    subprocess.CalledProcessError
        It can't read the archive.
    """
    program = shutil.which("otf2-print")
    if program is None:
        raise FileNotFoundError("otf2-print (on Debian in the package otf2-tools)")
    done = subprocess.run([program, str(archive)], check=True, text=True, capture_output=True)
    return done.stdout.splitlines()[:count]


def _show_progress(cost: CellCost) -> None:
    print(f"  {cost.number:3} {cost.title[:60]:60} {cost.ms:9.1f} ms", flush=True)


def _show_trace(costs: list[CellCost], directory: Path, count: int) -> bool:
    archives = [trace_archive(cost, directory) for cost in costs]
    archives = [archive for archive in archives if archive is not None]
    if not archives:
        print("trace: no cell was recorded")
        return True
    for archive in archives:
        print(f"trace: {archive}")
    print(f"\notf2-print {archives[-1]}")
    try:
        print("\n".join("  " + line for line in trace_lines(archives[-1], count)))
    except FileNotFoundError as error:
        print(f"  not shown, missing: {error}")
    except subprocess.CalledProcessError as error:
        print(f"  failed: {error.stderr.strip()}", file=sys.stderr)
        return False
    return True


def main(argv: list[str] | None = None) -> int:
    """Run the command ``python -m holdfast.report``.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 1 if a cell failed or a trace can't be read, otherwise 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.report",
        description="Run a notebook and show what each of its cells cost.",
    )
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--kernel", default="holdfast", help="default: %(default)s")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="DIR",
        help="for the executed notebook and what its cells write; default: %(default)s",
    )
    parser.add_argument("--timeout", type=float, default=600, metavar="S")
    parser.add_argument("--trace-lines", type=int, default=20, metavar="N")
    options = parser.parse_args(argv)
    check_notebook(parser, options.notebook)
    options.output.mkdir(parents=True, exist_ok=True)
    executed = options.output.absolute() / options.notebook.name

    from nbclient.exceptions import CellExecutionError

    costs: list[CellCost] = []

    def progress(cost: CellCost) -> None:
        costs.append(cost)
        _show_progress(cost)

    failure = None
    try:
        run_notebook(
            options.notebook,
            executed,
            kernel=options.kernel,
            timeout_s=options.timeout,
            progress=progress,
        )
    except CellExecutionError as error:
        failure = str(error)
    print("\n" + format_table(costs) + "\n")
    print(f"notebook: {executed}")
    readable = _show_trace(costs, executed.parent, options.trace_lines)
    if failure is not None:
        print(f"\na cell failed:\n{failure}", file=sys.stderr)
    return 1 if failure is not None or not readable else 0


if __name__ == "__main__":
    sys.exit(main())
