"""Run a notebook and report what each cell cost: ``python -m holdfast.report NOTEBOOK``.

`running` executes the notebook as nbclient does for other programs, and measures. The costs of a cell come from three
places:

* the client's clock;
* ``metadata.holdfast`` of the kernel's ``execute_reply``: where the cell ran, the hand-over, the recording;
* the kernel's monitor, which reads the resource usage at the begin and the end of each cell, also of plain ones.

If a kernel reports none of this, only the time is shown. So the same notebook can be compared on another kernel.

`columns` has the columns for a cell, with their meanings. `traces` has the functions and the view of a recorded cell.
`page` makes an HTML file of both. `command` is the program.

Needs nbclient and nbformat (``pip install holdfast[example]``).
"""

from .columns import align, format_table, show_bytes
from .command import check_notebook, main
from .running import (
    CellCost,
    Execution,
    KernelError,
    cell_title,
    execute,
    read_notebook,
    run_notebook,
)
from .traces import trace_archive, trace_lines

__all__ = [
    "CellCost",
    "Execution",
    "KernelError",
    "align",
    "cell_title",
    "check_notebook",
    "execute",
    "format_table",
    "main",
    "read_notebook",
    "run_notebook",
    "show_bytes",
    "trace_archive",
    "trace_lines",
]
