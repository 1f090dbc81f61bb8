"""Run a notebook and report what each cell cost: ``python -m holdfast.report NOTEBOOK``.

`running` executes the notebook as nbclient does for other programs, and measures. The cost of a
cell comes from three places: the client's clock; ``metadata.holdfast`` of the kernel's
``execute_reply`` (where the cell ran, the hand-over, the recording); and the kernel's monitor,
which reads the use of every cell's process at the cell's begin and end, also of plain cells. Of a
kernel that reports none of this only the time is shown, so that the same notebook can be compared
on another kernel.

`columns` has what is shown of a cell, with what it means; `traces` the functions and the view of a
recorded one; `page` makes the HTML file of both; `command` is the program.

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
