"""Executes a notebook from its first cell to its last, and measures each cell.

The cells run one after another in one kernel. A cell that raises an exception doesn't end the run, unless the caller
wants that. If the kernel dies, the run ends, since the variables are lost. (Holdfast's kernel survives its cells. There
a cell that kills its process has failed.) The monitor's samples come by a request that isn't a cell of the notebook.

The results so far are written while the notebook runs: before the first cell, after cells, and when a signal ends the
run, as at the time limit of a batch job. If something else ends it, the results that were written last remain. Writing
takes time between cells. So they are written again when the cells have run for twenty times as long as the last
writing took.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import math
import os
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.scorep import experiments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nbformat import NotebookNode

    from holdfast.monitor.archive import Imported
    from holdfast.monitor.sampled import Cell
    from holdfast.pages.schema import Cost

_MONITOR = "__import__('holdfast.monitor.source', fromlist=['connect']).connect()"
_WRITE = "__import__('holdfast.monitor.archive', fromlist=['write']).write({path!r}, {monitor}, '')"


@dataclass
class CellCost:
    """The cost of one cell.

    Attributes
    ----------
    number : int
        The cell's place among the notebook's code cells, from 1.
    title : str
        Its first line that says something.
    run : {"plain", "in-process", "forked", "isolated"}
        Where the cell ran, by the word that the kernel reports; "plain" without a hand-over.
    ms : float
        Milliseconds from the request to the end of the outputs, measured by the client.
    status : {"ok", "error", "died"}
        How it ended. "died": it ended its process, or the kernel.
    error : str
        The name and the text of the error, or "".
    kernel : dict
        What the kernel reported in ``metadata.holdfast``; empty for other kernels.
    source : str
        Its code.
    count : int or None
        The number in its prompt.
    is_expected : bool
        Whether the cell has the tag ``raises-exception``: then an error is no failure.
    cpu_ms : float or None
        Processor time of the code, of all its threads and the processes it started; None if it isn't
        known.
    bytes_peak : int or None
        The most resident memory of the process that ran it; None if it isn't known.
    monitored : Cell or None
        What the kernel's monitor has of the cell.
    bytes_trace : int
        How large its trace was; 0 without one.
    """

    number: int
    title: str
    run: str = "plain"
    ms: float = 0.0
    status: str = "ok"
    error: str = ""
    kernel: Cost = field(default_factory=dict)  # type: ignore[assignment]
    source: str = ""
    count: int | None = None
    is_expected: bool = False
    cpu_ms: float | None = None
    bytes_peak: int | None = None
    monitored: Cell | None = None
    bytes_trace: int = 0

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

    @property
    def has_failed(self) -> bool:
        """Whether the cell ended with an error that its tags don't announce.

        Returns
        -------
        bool
            True if it has.
        """
        return self.status != "ok" and not self.is_expected


@dataclass
class Execution:
    """The measurements of a notebook.

    Attributes
    ----------
    costs : list of CellCost
        One for each code cell that ran, in order.
    failure : Exception or None
        What ended the run before the last cell, as nbclient raised it.
    left : int
        How many code cells didn't run for that, or haven't yet.
    record : Imported or None
        What the monitor has of the run; None if the kernel has no monitor, or is gone.
    directory : pathlib.Path
        Where the kernel ran.
    ended : str
        Why it didn't get to the notebook's end, if neither a cell nor the kernel is to blame: a sentence.
    signal : str
        The name of the signal that ended it, or "".
    """

    costs: list[CellCost]
    failure: Exception | None
    left: int
    record: Imported | None
    directory: Path
    ended: str = ""
    signal: str = ""

    @property
    def failed(self) -> list[CellCost]:
        """The cells that failed.

        Returns
        -------
        list of CellCost
            In order.
        """
        return [cost for cost in self.costs if cost.has_failed]


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
        node = nbformat.read(str(path), as_version=4)
    except (AttributeError, TypeError):  # of nbformat, which takes its parts for granted
        raise ValueError("its JSON is built otherwise") from None
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, KeyError) as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None
    for number, cell in enumerate(node.get("cells", ()), 1):
        _complete(cell, f"cell {number}")
    try:
        nbformat.writes(node).encode()
    except UnicodeEncodeError as error:  # an escape such as \ud800, which no client can send
        found = ascii(error.object[error.start : error.end])
        raise ValueError(f"it has the character {found}, which is half of a pair") from None
    return node


# What a cell has, and what it begins with if the file lacks it: other programs leave parts out.
_PARTS = {"cell_type": str, "source": str, "metadata": dict}


def _complete(cell: Any, name: str) -> None:
    """Give a cell what it lacks. What is of another type than it should be makes the file no notebook."""
    import nbformat

    parts = _PARTS | ({"outputs": list} if cell.get("cell_type") == "code" else {})
    for part, kind in parts.items():
        found = cell.setdefault(part, nbformat.from_dict(kind()))
        if not isinstance(found, kind):
            raise ValueError(f"{part} of {name} is {type(found).__name__}, not {kind.__name__}")
    if not isinstance(cell.metadata.get("tags", []), list):
        raise ValueError(f"the tags of {name} are no list")


#: How much longer than the writing of results the cells run.
_SHARE = 20
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def language(node: NotebookNode) -> str:
    """Return the language of a notebook.

    Parameters
    ----------
    node : nbformat.NotebookNode
        The notebook.

    Returns
    -------
    str
        As its metadata have it, or "".
    """
    known = node.metadata.get("kernelspec", {}).get("language")
    return str(known or node.metadata.get("language_info", {}).get("name") or "")


class KernelError(Exception):
    """The kernel doesn't start, or can't do what is asked of it."""


class _Runner:
    """One execution: the client, and the costs so far."""

    def __init__(
        self,
        node: NotebookNode,
        directory: Path,
        kernel: str,
        timeout_s: float,
        progress: Callable[[CellCost], None] | None,
        goes_on: bool,
    ) -> None:
        from nbclient import NotebookClient

        self.costs: list[CellCost] = []
        self.bytes_unread = 0  # of traces that were made since the last look at them
        self._directory = directory
        self.ended_by = ""  # a signal's name
        self._progress = progress
        self._timeout_s = timeout_s
        self._begin = 0.0
        self._at: asyncio.Task[None] | None = None
        self.cells = [
            (index, cell)
            for index, cell in enumerate(node.cells)
            if cell.cell_type == "code"
            and cell.source.strip()
            and "skip-execution" not in cell.metadata.get("tags", ())  # nbclient runs none
        ]
        self._numbers = {index: number for number, (index, _) in enumerate(self.cells, 1)}
        self.client = NotebookClient(
            node,
            kernel_name=kernel,
            timeout=math.ceil(timeout_s),  # nbclient takes whole seconds only
            interrupt_on_timeout=True,
            allow_errors=goes_on,
            resources={"metadata": {"path": str(directory)}},
            on_cell_execute=self._on_execute,
            on_cell_executed=self._on_executed,
        )

    def _on_execute(self, cell: NotebookNode, cell_index: int) -> None:
        self._begin = time.perf_counter()

    def _cost(self, cell: NotebookNode, cell_index: int) -> CellCost:
        ms = (time.perf_counter() - self._begin) * 1e3
        cost = CellCost(self._numbers[cell_index], cell_title(cell.source), ms=ms)
        cost.source = cell.source
        cost.is_expected = "raises-exception" in cell.metadata.get("tags", ())
        return cost

    def _add(self, cost: CellCost) -> None:
        self.costs.append(cost)
        if self._progress is not None:
            self._progress(cost)

    async def _on_executed(
        self, cell: NotebookNode, cell_index: int, execute_reply: dict[str, Any]
    ) -> None:
        cost = self._cost(cell, cell_index)
        cost.kernel = dict(execute_reply["metadata"].get("holdfast") or {})  # type: ignore[assignment]
        cost.run = cost.kernel.get("run", "plain")
        content = execute_reply["content"]
        cost.count = content.get("execution_count")
        cost.cpu_ms, cost.bytes_peak = cost.kernel.get("cpu_ms"), cost.kernel.get("bytes_peak")
        if content["status"] != "ok":
            name = content.get("ename") or content["status"]
            cost.status = "died" if name == "CellDied" else "error"
            cost.error = f"{name}: {content.get('evalue', '')}"
            if cost.ms >= self._timeout_s * 1e3:
                cost.error += f" (interrupted after --timeout {self._timeout_s:g})"
        if cost.kernel.get("trace"):
            place = str(self._directory / cost.kernel["trace"])
            for _ in experiments.looks(place):
                await asyncio.sleep(experiments.LOOK_SECONDS)
            cost.bytes_trace = experiments.size(place)
            self.bytes_unread += cost.bytes_trace
        self._add(cost)

    async def start(self, env: dict[str, str], stack: contextlib.AsyncExitStack) -> bool:
        """Start the kernel. Returns whether it is Holdfast's."""
        try:
            await stack.enter_async_context(self.client.async_setup_kernel(env=env))
            info = await self._reply(self.client.kc.kernel_info()) or {"content": {}}
        except (OSError, RuntimeError) as error:
            # The kernel has been cleaned up, if it was there.
            atexit.unregister(self.client._cleanup_kernel)
            raise KernelError(
                f"the kernel {self.client.kernel_name} doesn't start: {error}"
            ) from error
        loop = asyncio.get_running_loop()
        for one in _SIGNALS:  # in place of nbclient's handler, which would end only the kernel
            with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(one, self._end, signal.Signals(one).name)
                stack.callback(loop.remove_signal_handler, one)
        self.client.nb.metadata["language_info"] = info["content"].get("language_info", {})
        return info["content"].get("implementation") == "holdfast"

    def _end(self, signal_name: str) -> None:
        self.ended_by = self.ended_by or signal_name
        if self._at is not None:
            self._at.cancel()

    async def run(self, written: Callable[[str], Awaitable[None]]) -> Exception | None:
        """Run all cells in turn. Returns what ended the run too early."""
        from nbclient.exceptions import CellExecutionError, DeadKernelError

        for index, cell in self.cells:
            number = self._numbers[index]
            await written(f"cell {number} ({cell_title(cell.source)[:60]})")
            if self.ended_by:
                return RuntimeError(f"{self.ended_by} ended the run")
            count = self.client.code_cells_executed + 1
            run = self.client.async_execute_cell(cell, index, execution_count=count)
            self._at = asyncio.ensure_future(run)
            try:
                await self._at
            except CellExecutionError as error:
                return error
            except (DeadKernelError, asyncio.CancelledError) as error:
                # nbclient takes the cancelling of its own task for the kernel's death.
                cost = self._cost(cell, index)
                cost.status, cost.error = "died", "the kernel died"
                if self.ended_by:
                    cost.status, cost.error = "error", f"{self.ended_by} ended the run in this cell"
                self._add(cost)
                return error if isinstance(error, Exception) else RuntimeError(cost.error)
            finally:
                self._at = None
        return None

    async def _reply(self, request: str | Awaitable[str]) -> dict[str, Any] | None:
        sent = request if isinstance(request, str) else await request
        return await self.client.async_wait_for_reply(sent)

    async def ask(self, code: str) -> None:
        """Run code of ours in the kernel. It isn't a cell of the notebook."""
        with contextlib.suppress(Exception):  # without it the report has fewer parts
            await self._reply(self.client.kc.execute(code, silent=True, store_history=False))


def execute(
    notebook: Path,
    output: Path,
    *,
    kernel: str = "holdfast",
    timeout_s: float = 600,
    progress: Callable[[CellCost], None] | None = None,
    goes_on: bool = True,
    interval_s: float | None = None,
    record: str = "marked",
    keep: Callable[[Execution], None] | None = None,
) -> Execution:
    """Execute a notebook and measure its cells.

    The kernel's working directory is that of the notebook, as in Jupyter. Recordings that aren't given a
    place go beside `output`.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook to run. It isn't changed.
    output : pathlib.Path
        Where the executed notebook is written, as the run goes on.
    kernel : str
        The name of the kernelspec.
    timeout_s : float
        Seconds that one cell may take. Then it is interrupted.
    progress : callable, optional
        Called with the `CellCost` of each cell when the cell has ended.
    goes_on : bool
        Whether the run goes on after a cell that fails. The error is in the cell's `CellCost`.
    interval_s : float, optional
        Have the kernel's monitor take a sample so often, in seconds. If it is left out, it samples only if
        the notebook starts it.
    record : {"marked", "all", "none"}
        Which cells are recorded; "marked": those with ``%%execute_with_scorep``.
    keep : callable, optional
        Called with what was measured so far, each time when `output` is written.

    Returns
    -------
    Execution
        What was measured.

    Raises
    ------
    KernelError
        The kernel doesn't start, or doesn't record.
    OSError
        At the end, `output` can't be written.
    """
    from jupyter_core.utils import run_sync

    async def executed() -> Execution:
        node = read_notebook(notebook)
        runner = _Runner(node, notebook.absolute().parent, kernel, timeout_s, progress, goes_on)
        env = {
            "HOLDFAST_TRACE_DIRECTORY": str(output.absolute().parent),
            **os.environ,
            "HOLDFAST_TRACE_LIMIT": "0",  # they are removed when the report has read them
            "HOLDFAST_RECORD": record,
        }
        async with contextlib.AsyncExitStack() as stack:
            is_ours = await runner.start(env, stack)
            if record == "all" and not is_ours:
                raise KernelError(
                    f"the kernel {kernel} doesn't record: --record all needs Holdfast's"
                )
            if is_ours and interval_s is not None:
                await runner.ask(f"{_MONITOR}.start({interval_s!r})")
            keeper = _Keeper(runner, output, is_ours, keep)
            failure = await runner.run(keeper.go_on)
            runner.client.set_widgets_metadata()
            return await keeper.finish(failure)

    return run_sync(executed)()


class _Keeper:
    """Writes the results so far while the notebook runs."""

    def __init__(
        self,
        runner: _Runner,
        output: Path,
        is_ours: bool,
        keep: Callable[[Execution], None] | None,
    ) -> None:
        self._runner, self._output, self._is_ours, self._keep = runner, output, is_ours, keep
        self._record: Imported | None = None
        self._ended_s = self._took_s = 0.0

    async def go_on(self, running: str) -> None:
        """Before a cell: write the results so far, if the last writing was long enough ago."""
        begin_s = time.perf_counter()
        most = experiments.limit()
        is_much = most and self._runner.bytes_unread > most
        if begin_s - self._ended_s < _SHARE * self._took_s and not is_much:
            return
        if self._runner.costs:
            await self._ask()
        with contextlib.suppress(OSError):  # at the end the disk may have room again
            self._write(
                self._execution(None, f"The run hasn't ended: this was written before {running}.")
            )
        self._ended_s = time.perf_counter()
        self._took_s = self._ended_s - begin_s

    async def finish(self, failure: Exception | None) -> Execution:
        """At the end: write all results."""
        from nbclient.exceptions import DeadKernelError

        runner = self._runner
        if not isinstance(failure, DeadKernelError) and not runner.ended_by:
            await self._ask()
        ended = ""
        if runner.ended_by:
            ended = f"{runner.ended_by} ended the run before its end."
        done = self._execution(failure, ended)
        self._write(done)
        return done

    def _execution(self, failure: Exception | None, ended: str) -> Execution:
        runner = self._runner
        if self._record is not None:
            _add_monitored(runner.costs, self._record)
        left = len(runner.cells) - len(runner.costs)
        return Execution(
            list(runner.costs),
            failure,
            left,
            self._record,
            Path(runner.client.resources["metadata"]["path"]),
            ended,
            runner.ended_by,
        )

    def _write(self, done: Execution) -> None:
        import nbformat

        write_whole(self._output, nbformat.writes(self._runner.client.nb))
        if self._keep is not None:
            self._keep(done)
        self._runner.bytes_unread = 0

    async def _ask(self) -> None:
        """Get the monitor's samples of the cells, through a file that the kernel writes."""
        from holdfast.monitor import archive
        from holdfast.monitor.arguments import CommandError

        if not self._is_ours:
            return
        with tempfile.TemporaryDirectory(prefix="holdfast-report-") as directory:
            path = str(Path(directory, "monitor.zip"))
            await self._runner.ask(_WRITE.format(path=path, monitor=_MONITOR))
            with contextlib.suppress(CommandError):  # a kernel without a monitor
                self._record = archive.read(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file such that a reader finds the old one or the new one, and never a part.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    text : str
        What is written, in UTF-8.

    Raises
    ------
    OSError
        It can't be written; then the old one stays.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, "utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _add_monitored(costs: list[CellCost], record: Imported) -> None:
    by_number = {cell.number: cell for cell in record.cells()}
    for cost in costs:
        cell = by_number.get(cost.count) if cost.count is not None else None
        if cell is None or cell.end_ns is None:
            continue
        cost.monitored = cell
        figures = record.summary("process", cell.begin_ns, cell.end_ns)
        used = figures.get("cpu_seconds", (None,) * 4)[3]
        if cost.cpu_ms is None and used is not None:
            cost.cpu_ms = used * 1e3
        most = figures.get("memory", (None,) * 4)[2]
        if cost.bytes_peak is None and most:  # 0: its process is gone
            cost.bytes_peak = round(most * 2**30)


def run_notebook(
    notebook: Path,
    output: Path,
    *,
    kernel: str = "holdfast",
    timeout_s: float = 600,
    progress: Callable[[CellCost], None] | None = None,
    goes_on: bool = False,
) -> list[CellCost]:
    """Execute a notebook and measure its cells, as `execute` does, with errors raised.

    Parameters
    ----------
    notebook : pathlib.Path
        The notebook to run. It isn't changed.
    output : pathlib.Path
        Where the executed notebook is written, even if a cell fails.
    kernel : str
        The name of the kernelspec.
    timeout_s : float
        Seconds that one cell may take. Then it is interrupted.
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
    nbclient.exceptions.DeadKernelError
        The kernel died.
    """
    done = execute(
        notebook, output, kernel=kernel, timeout_s=timeout_s, progress=progress, goes_on=goes_on
    )
    if done.failure is not None:
        raise done.failure
    return done.costs
