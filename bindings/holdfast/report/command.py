"""The command ``python -m holdfast.report``: a notebook is run, and what it cost is shown and written."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from holdfast.tabular import count, size

from . import page, traces
from .columns import format_table, meanings
from .running import CellCost, Execution, execute, read_notebook

_MIB = 2**20


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
        It can't be read, or is no notebook. The status is 2.
    """
    try:
        read_notebook(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is no notebook ({error})"
        _refuse(parser, f"can't read {path}: {why}")


def _refuse(parser: argparse.ArgumentParser, why: str) -> NoReturn:
    parser.exit(2, f"{parser.prog}: {why}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.report",
        description="Run a notebook and show the cost of each cell, as text and as one HTML file.",
        epilog="Exit status: 0, 1 if a cell failed or didn't run, or a trace can't be read, 2 if the"
        " notebook or the kernel isn't there.",
    )
    add = parser.add_argument
    add("notebook", type=Path)
    add("--kernel", default="holdfast", help="default: %(default)s")
    add(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="DIR",
        help="for the executed notebook and the files that its cells write; default: %(default)s",
    )
    add("--html", type=Path, metavar="FILE", help="the report; default: DIR/NAME.report.html")
    add(
        "--stop",
        action="store_true",
        help="end with the first cell that fails; otherwise the cells after it run, too",
    )
    add(
        "--monitor",
        type=float,
        metavar="S",
        help="have the kernel's monitor sample every S seconds, for the page's tracks",
    )
    add(
        "--embed",
        type=float,
        default=16,
        metavar="MIB",
        help="how much the views in the HTML file may take; default: %(default)s",
    )
    add("--timeout", type=float, default=600, metavar="S", help="of a cell, then it is interrupted")
    add(
        "--trace-lines",
        type=int,
        default=0,
        metavar="N",
        help="print the first N lines that otf2-print shows of the last trace; default: none",
    )
    return parser


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    check_notebook(parser, options.notebook)
    if options.monitor is not None and not 0.001 <= options.monitor <= 3600:
        _refuse(parser, "--monitor takes 0.001 to 3600 seconds")
    try:
        KernelSpecManager().get_kernel_spec(options.kernel)
    except NoSuchKernel:
        _refuse(parser, f"there is no kernel {options.kernel}; jupyter kernelspec list shows which")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _refuse(parser, f"can't write into {options.output}: {error.strerror}")


def _show_progress(cost: CellCost) -> None:
    failed = f"  {cost.status}" if cost.status != "ok" else ""
    print(f"  {cost.number:3} {cost.title[:60]:60} {cost.ms:9.1f} ms{failed}", flush=True)


def _show_traces(recorded: dict[int, traces.Recorded], lines: int) -> bool:
    archives = list(dict.fromkeys(found.archive for found in recorded.values()))
    if not archives:
        print("trace: no cell was recorded")
        return True
    for archive in archives:
        print(f"trace: {archive}")
    if lines <= 0:
        return True
    print(f"\notf2-print {archives[-1]}")
    try:
        print("\n".join("  " + line for line in traces.trace_lines(archives[-1], lines)))
    except FileNotFoundError as error:
        print(f"  not shown, missing: {error}")
    except subprocess.CalledProcessError as error:
        print(f"  failed: {error.stderr.strip()}", file=sys.stderr)
        return False
    return True


def _summary(done: Execution) -> str:
    """The cells that ran, and those that failed."""
    seconds = sum(cost.ms for cost in done.costs) / 1e3
    line = f"{count(len(done.costs), 'cell')} ran in {seconds:.2f} s, {len(done.failed)} failed"
    if done.left:
        line += f", {done.left} after that didn't run"
    return "\n".join([line, *(f"  cell {cost.number}: {_one(cost.error)}" for cost in done.failed)])


def _one(error: str) -> str:
    return error.strip().partition("\n")[0][:200]


def main(argv: list[str] | None = None) -> int:
    """Run the command ``python -m holdfast.report``.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 1 if a cell failed or didn't run, or a trace can't be read, otherwise 0.

    Raises
    ------
    SystemExit
        With status 2: the notebook can't be read, or there is no such kernel. A line on stderr says so.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    _check(parser, options)
    executed = options.output.absolute() / options.notebook.name
    done = execute(
        options.notebook,
        executed,
        kernel=options.kernel,
        timeout_s=options.timeout,
        progress=_show_progress,
        goes_on=not options.stop,
        interval_s=options.monitor,
    )
    recorded = traces.read(done)
    written = options.html or executed.with_suffix(".report.html")
    text = page.make(options.notebook, done, recorded, round(options.embed * _MIB))
    try:
        written.write_text(text, "utf-8")
    except OSError as error:
        _refuse(parser, f"can't write {written}: {error.strerror}")
    if done.costs:
        print(f"\n{format_table(done.costs)}\n\n{meanings()}\n")
    print(f"notebook: {executed}")
    print(f"report: {written.absolute()} ({size(len(text.encode()))})")
    readable = _show_traces(recorded, options.trace_lines)
    print(f"\n{_summary(done)}")
    if done.failed or done.left:
        names = ", ".join(str(cost.number) for cost in done.failed)
        print(f"{parser.prog}: failed: {names}", file=sys.stderr)
    return 1 if done.failed or done.left or not readable else 0
