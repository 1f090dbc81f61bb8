"""The command ``python -m holdfast.report``: runs a notebook, and shows and writes what it cost."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from holdfast.base.tabular import count, size
from holdfast.scorep import experiments

from . import page, traces
from .columns import format_table, meanings
from .running import (
    CellCost,
    Execution,
    KernelError,
    execute,
    language,
    read_notebook,
    write_whole,
)

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
        epilog="The cells run in the notebook's folder. Exit status: 0, 1 if a cell failed or didn't run, or"
        " a trace can't be read, 2 if the notebook can't be run or the report can't be written, 128 + N if"
        " signal N ended the run; the report has what there was.",
    )
    add = parser.add_argument
    add("notebook", type=Path)
    add("--kernel", default="holdfast", help="default: %(default)s")
    add(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="DIR",
        help="for the executed notebook, the report and the traces; default: %(default)s",
    )
    add("--html", type=Path, metavar="FILE", help="the report; default: DIR/NAME.report.html")
    add(
        "--record",
        choices=("all", "marked", "none"),
        default="marked",
        help="which cells are recorded; marked, the default: those with %%%%execute_with_scorep. Of traces that"
        " nobody gave a place, 1 GiB is kept (HOLDFAST_TRACE_LIMIT)",
    )
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
    """End the program with a line on stderr, before anything runs, if the arguments can't be
    followed."""
    try:
        import nbclient  # noqa: F401
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError as error:
        _refuse(parser, f"{error.name} isn't installed: pip install holdfast[example]")
    check_notebook(parser, options.notebook)
    if options.monitor is not None and not 0.001 <= options.monitor <= 3600:
        _refuse(parser, "--monitor takes 0.001 to 3600 seconds")
    if not 0 <= options.embed < 1e6:
        _refuse(parser, "--embed takes MiB, 0 or more")
    if options.trace_lines < 0:
        _refuse(parser, "--trace-lines takes a number of lines, 0 or more")
    if not options.timeout > 0:
        _refuse(parser, "--timeout takes seconds, more than 0")
    try:
        spec = KernelSpecManager().get_kernel_spec(options.kernel)
    except NoSuchKernel:
        _refuse(parser, f"there is no kernel {options.kernel}; jupyter kernelspec list shows which")
    written, runs = language(read_notebook(options.notebook)), spec.language
    if written and runs and written.lower() != runs.lower():
        why = f"is a notebook in {written}, and the kernel {options.kernel} runs {runs}"
        _refuse(parser, f"{options.notebook} {why}")
    executed, html = _targets(options)
    if executed.resolve() == options.notebook.resolve():
        _refuse(
            parser,
            f"the executed notebook would replace {options.notebook}: choose another --output",
        )
    if html.resolve() in (options.notebook.resolve(), executed.resolve()):
        _refuse(parser, f"the report would replace {html}: choose another --html")
    for target in (executed, html):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with tempfile.TemporaryFile(dir=target.parent):
                pass
        except OSError as error:
            _refuse(parser, f"can't write {target}: {error.strerror}")


def _targets(options: argparse.Namespace) -> tuple[Path, Path]:
    """The paths of the executed notebook and of the report."""
    executed = options.output.absolute() / options.notebook.name
    return executed, options.html or executed.with_suffix(".report.html")


def _show_progress(cost: CellCost) -> None:
    failed = f"  {cost.status}" if cost.status != "ok" else ""
    with contextlib.suppress(OSError):  # nobody reads it: that ends no measurement
        trace = f"  trace {size(cost.bytes_trace)}" if cost.bytes_trace else ""
        print(
            f"  {cost.number:3} {cost.title[:60]:60} {cost.ms:9.1f} ms{trace}{failed}", flush=True
        )


def _show_traces(recorded: dict[int, traces.Recorded], lines: int) -> bool:
    archives = list(dict.fromkeys(found.archive for found in recorded.values() if found.is_kept))
    removed = sum(not found.is_kept for found in recorded.values())
    if removed:
        print(
            f"trace: the largest ({removed}) were removed when they were read; HOLDFAST_TRACE_LIMIT=0 keeps them"
        )
    elif not archives:
        print("trace: no cell was recorded")
    if not archives:
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
        The exit status: 1 if a cell failed or didn't run, or a trace can't be read; 128 and the signal's
        number if one ended the run; otherwise 0.

    Raises
    ------
    SystemExit
        With status 2: the notebook can't be read or is in another language, there is no such kernel or it
        doesn't start, or the report can't be written. A line on stderr says so.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    _check(parser, options)
    executed, written = _targets(options)
    recorded: dict[int, traces.Recorded] = {}

    def keep(done: Execution) -> None:
        recorded.update(traces.read(done, recorded))
        traces.keep_within(experiments.limit(), done, recorded)
        text = page.make(options.notebook, done, recorded, round(options.embed * _MIB))
        write_whole(written, text)

    try:
        done = execute(
            options.notebook,
            executed,
            kernel=options.kernel,
            timeout_s=options.timeout,
            progress=_show_progress,
            goes_on=not options.stop,
            interval_s=options.monitor,
            record=options.record,
            keep=keep,
        )
    except KernelError as error:
        _refuse(parser, str(error))
    except OSError as error:
        _refuse(parser, f"can't write {error.filename or executed}: {error.strerror}")
    if done.costs:
        print(f"\n{format_table(done.costs)}\n\n{meanings()}\n")
    print(f"notebook: {executed}")
    print(f"report: {written.absolute()} ({size(written.stat().st_size)})")
    readable = _show_traces(recorded, options.trace_lines)
    print(f"\n{_summary(done)}")
    if done.failed or done.left:
        names = ", ".join(str(cost.number) for cost in done.failed)
        print(f"{parser.prog}: {f'failed: {names}' if names else done.ended}", file=sys.stderr)
    if done.signal:
        return 128 + signal.Signals[done.signal]
    return 1 if done.failed or done.left or not readable else 0
