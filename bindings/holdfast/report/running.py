"""A notebook executed from its first cell to its last, and what was measured of each.

The cells run one after another in one kernel. A cell that raises doesn't end the run, unless the
caller wants that; a kernel that dies does, since the variables of the cells so far are gone with it
(Holdfast's own survives its cells: there a cell that kills its process is one that failed). The
monitor's samples are asked for once, after the last cell, by a request that isn't one of the
notebook's cells.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbformat import NotebookNode

    from holdfast.monitor.archive import Imported
    from holdfast.monitor.sampled import Cell
    from holdfast.views.schema import Cost

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
        Processor time of the code, of all its threads and the processes it waited for; None if it isn't
        known.
    bytes_peak : int or None
        The most resident memory of the process that ran it; None if it isn't known.
    monitored : Cell or None
        What the kernel's monitor has of the cell.
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
        How many code cells didn't run for that.
    record : Imported or None
        What the monitor has of the run; None if the kernel has no monitor, or is gone.
    directory : pathlib.Path
        Where the kernel ran.
    """

    costs: list[CellCost]
    failure: Exception | None
    left: int
    record: Imported | None
    directory: Path

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
        return nbformat.read(str(path), as_version=4)
    except (
        nbformat.reader.NotJSONError,
        nbformat.ValidationError,
        KeyError,
        AttributeError,
    ) as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None


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
        self._progress = progress
        self._timeout_s = timeout_s
        self._begin = 0.0
        self.cells = [
            (index, cell)
            for index, cell in enumerate(node.cells)
            if cell.cell_type == "code" and cell.source.strip()
        ]
        self._numbers = {index: number for number, (index, _) in enumerate(self.cells, 1)}
        self.client = NotebookClient(
            node,
            kernel_name=kernel,
            timeout=math.ceil(timeout_s),  # it takes whole seconds only
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

    def _on_executed(
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
        self._add(cost)

    def run(self) -> Exception | None:
        """All cells in turn. Returns what ended the run too early."""
        from nbclient.exceptions import CellExecutionError, DeadKernelError

        for index, cell in self.cells:
            try:
                number = self.client.code_cells_executed + 1
                self.client.execute_cell(cell, index, execution_count=number)
            except CellExecutionError as error:
                return error
            except DeadKernelError as error:
                cost = self._cost(cell, index)
                cost.status, cost.error = "died", "the kernel died"
                self._add(cost)
                return error
        return None

    def ask(self, code: str) -> None:
        """Have the kernel run code of ours, which is no cell of the notebook's."""
        with contextlib.suppress(Exception):  # without it the report has less
            request = _sent(self.client.kc.execute(code, silent=True, store_history=False))
            self.client.wait_for_reply(request)

    def greet(self) -> bool:
        """Ask the kernel what it is. Returns whether it is Holdfast's."""
        info = self.client.wait_for_reply(_sent(self.client.kc.kernel_info())) or {"content": {}}
        self.client.nb.metadata["language_info"] = info["content"].get("language_info", {})
        return info["content"].get("implementation") == "holdfast"


def execute(
    notebook: Path,
    output: Path,
    *,
    kernel: str = "holdfast",
    timeout_s: float = 600,
    progress: Callable[[CellCost], None] | None = None,
    goes_on: bool = True,
    interval_s: float | None = None,
) -> Execution:
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
        Seconds that one cell may take. Then it is interrupted.
    progress : callable, optional
        Called with the `CellCost` of each cell when the cell has ended.
    goes_on : bool
        Whether the run goes on after a cell that fails. The error is in the cell's `CellCost`.
    interval_s : float, optional
        Have the kernel's monitor take a sample so often, in seconds. If it is left out, it samples only if
        the notebook starts it.

    Returns
    -------
    Execution
        What was measured.
    """
    import nbformat
    from nbclient.exceptions import DeadKernelError

    node = read_notebook(notebook)
    runner = _Runner(node, output.parent, kernel, timeout_s, progress, goes_on)
    record = None
    try:
        with runner.client.setup_kernel():
            is_ours = runner.greet()
            if is_ours and interval_s is not None:
                runner.ask(f"{_MONITOR}.start({interval_s!r})")
            failure = runner.run()
            if is_ours and not isinstance(failure, DeadKernelError):
                record = _monitored(runner)
            runner.client.set_widgets_metadata()
    finally:
        nbformat.write(node, output)
    left = len(runner.cells) - len(runner.costs) if failure is not None else 0
    if record is not None:
        _add_monitored(runner.costs, record)
    return Execution(runner.costs, failure, left, record, output.parent)


def _sent(request: Any) -> str:
    """The id of a request, from a client that is asynchronous or isn't."""
    if isinstance(request, str):
        return request
    from jupyter_core.utils import run_sync

    async def waited() -> str:
        return await request

    return run_sync(waited)()


def _monitored(runner: _Runner) -> Imported | None:
    """The monitor's samples of the cells, through a file that the kernel writes."""
    from holdfast.monitor import archive
    from holdfast.monitor.arguments import CommandError

    with tempfile.TemporaryDirectory(prefix="holdfast-report-") as directory:
        path = str(Path(directory, "monitor.zip"))
        runner.ask(_WRITE.format(path=path, monitor=_MONITOR))
        try:
            return archive.read(path)
        except CommandError:
            return None  # a kernel without a monitor


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
