"""The resource usage of cells, and its limits, as a report: text in JUmPER's layout, and HTML.

The average of several cells is weighted by their times. The time between them doesn't count. TOTAL is the limit for
memory, and the sum for processor time and for the bytes of I/O. The last lines show how this was measured: samples,
missed samples, and the cost of the sampler itself.
"""

from __future__ import annotations

import dataclasses
import html
import math
import typing as t

from holdfast.base.tabular import count

from .arguments import CommandError
from .ranges import names
from .sampled import Cell, Figures, Resources, State

# Metric, and its name.
ROWS = (
    ("cpu_util", "CPU Util (Across CPUs)"),
    ("cpu_seconds", "CPU Time (s)"),
    ("memory", "Memory (GB)"),
    ("memory_pss", "Memory, PSS (GB)"),
    ("memory_uss", "Memory, USS (GB)"),
    ("gpu_util", "GPU Util (Across GPUs)"),
    ("gpu_band", "GPU Bandwidth (%)"),
    ("gpu_mem", "GPU Memory (GB)"),
    ("io_read_mb", "I/O Read (MB/s; MB)"),
    ("io_write_mb", "I/O Write (MB/s; MB)"),
    ("io_read_count", "I/O Reads (per s; all)"),
    ("io_write_count", "I/O Writes (per s; all)"),
)


@dataclasses.dataclass(frozen=True)
class Report:
    """The figures of some cells at one level.

    Attributes
    ----------
    level : str
        The level.
    cells : list of Cell
        The cells that have samples.
    seconds : float
        How long they ran, without the time between them.
    metrics : dict of str to tuple
        Mean, least, greatest and total of each metric; of memory the total is the limit.
    state : State
        How the sampling goes.
    """

    level: str
    cells: list[Cell]
    seconds: float
    metrics: dict[str, Figures]
    state: State

    def rows(self) -> list[tuple[str, ...]]:
        """Return the lines of the table.

        Returns
        -------
        list of tuple of str
            Name, AVG, MIN, MAX and TOTAL of each metric that there is.
        """
        return [
            (name, *(_number(value) for value in self.metrics[metric]))
            for metric, name in ROWS
            if metric in self.metrics
        ]

    def title(self) -> str:
        """Return how long the cells ran, and which they are.

        Returns
        -------
        str
            One line.
        """
        return f"Duration: {_number(self.seconds)}s ({names(self.cells)})"

    def notes(self) -> list[str]:
        """Return the cells that didn't end well, and how the figures were measured.

        Returns
        -------
        list of str
            Lines.
        """
        return [*_outcomes(self.cells), *_cost(self.level, self.state)]


def make(record: t.Any, level: str, cells: t.Sequence[Cell]) -> Report:
    """Make the report of cells.

    Parameters
    ----------
    record : Monitor or Imported
        The live monitor, or an imported session.
    level : str
        The level.
    cells : sequence of Cell
        The cells. Those that still run are left out.

    Returns
    -------
    Report
        The report.

    Raises
    ------
    CommandError
        There are no samples of these cells.
    """
    parts = []
    for cell in cells:
        if cell.end_ns is None:
            continue
        metrics = record.summary(level, cell.begin_ns, cell.end_ns)
        if metrics:
            parts.append((cell, metrics))
    if not parts:
        raise CommandError(
            "there are no samples of "
            + ("this cell" if len(cells) == 1 else "these cells")
            + ": start the monitor with %perfmonitor_start"
        )
    names = dict.fromkeys(name for _, metrics in parts for name in metrics)
    joined = {name: _joined(name, parts) for name in names}
    for name, limit in _limits(level, record.resources()).items():
        if name in joined:
            joined[name] = (*joined[name][:3], limit)
    return Report(
        level=level,
        cells=[cell for cell, _ in parts],
        seconds=sum(cell.duration or 0.0 for cell, _ in parts),
        metrics=joined,
        state=record.state(),
    )


def _limits(level: str, resources: Resources) -> dict[str, float | None]:
    """How much memory there may be."""
    gpus = [gpu["memory"] for gpu in resources.get("gpus") or []]
    memory = (resources.get("memory_limits") or {}).get(level) or resources.get("memory_limit")
    return {"memory": memory, "gpu_mem": sum(gpus) or None}


def _joined(name: str, parts: list[tuple[Cell, dict[str, Figures]]]) -> Figures:
    """One metric of several cells."""
    found = [(cell.duration or 0.0, figures[name]) for cell, figures in parts if name in figures]
    means = [(figures[0], seconds) for seconds, figures in found if figures[0] is not None]
    weights = sum(seconds for _, seconds in means)
    mean = sum(value * seconds for value, seconds in means) / weights if weights else None
    least, greatest, totals = (
        [figures[at] for _, figures in found if figures[at] is not None] for at in (1, 2, 3)
    )
    return (
        mean,
        min(least, default=None),
        max(greatest, default=None),
        sum(totals) if totals else None,
    )


def _outcomes(cells: t.Sequence[Cell]) -> list[str]:
    words = {"error": "raised", "died": "died", "interrupted": "was interrupted"}
    return [
        f"C{names([cell])[1:]}: {words[cell.outcome]}." for cell in cells if cell.outcome in words
    ]


def _cost(level: str, state: State) -> list[str]:
    """The sampler's figures about itself."""
    cost, interval = state.get("cost_ns") or 0, state.get("interval") or 0
    share = state.get("cost_share")
    line = f"Level {level}"
    if interval:
        line += f", a sample every {interval:g} s"
    line += f": {count(state.get('samples') or 0, 'sample')}, {state.get('missed') or 0} missed"
    if cost:
        line += f"; the monitor took {cost / 1000:.0f} µs for each"
        if share:
            line += f", {100 * share:.3f} % of one CPU"
    return [line + "."]


def _number(value: float | None) -> str:
    """Format a number with two decimals, and at least three significant digits: 0.0204 s, not
    0.02."""
    if value is None:
        return "-"
    small = 0 < value < 1
    return f"{value:.{min(2 - math.floor(math.log10(value)), 6) if small else 2}f}"


def text(report: Report) -> str:
    """Format a report as plain text.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        Lines in the layout of JUmPER's report.
    """
    line = "-" * 40
    lines = [line, "Performance Report", line, report.title()]
    lines.append(f"{'Metric':<25} {'AVG':<8} {'MIN':<8} {'MAX':<8} {'TOTAL':<8}")
    lines.append("-" * 65)
    lines += [
        f"{name:<25} {average:<8} {least:<8} {most:<8} {total:<8}"
        for name, average, least, most, total in report.rows()
    ]
    return "\n".join([*lines, "-" * 65, *report.notes()])


def page(report: Report) -> str:
    """Format a report as HTML.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        The same as `text` has, as a table.
    """
    head = "".join(f"<th>{name}</th>" for name in ("Metric", "AVG", "MIN", "MAX", "TOTAL"))
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in row) + "</tr>"
        for row in report.rows()
    )
    notes = "".join(f"<div>{html.escape(note)}</div>" for note in report.notes())
    return (
        f'<div class="holdfast-report"><style>{_STYLE}</style>'
        f"<b>Performance Report</b><div>{html.escape(report.title())}</div>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<small>{notes}</small></div>"
    )


def of_resources(resources: Resources) -> str:
    """Format what a notebook may use.

    Parameters
    ----------
    resources : Resources
        What the machine has.

    Returns
    -------
    str
        The lines of ``%perfmonitor_resources``.
    """
    lines = ["Resources:"]
    if resources.get("host"):
        lines.append(f"  Host: {resources['host']}")
    cpus = f"  CPUs: {resources.get('cores'):g}"
    if resources.get("machine_cores"):
        cpus += f" of the machine's {resources['machine_cores']}"
    lines += [cpus, *_memory_lines(resources)]
    gpus = resources.get("gpus") or []
    trouble = resources.get("gpu_trouble")
    lines.append(f"  GPUs: {len(gpus)}" + (f" ({trouble})" if trouble and not gpus else ""))
    lines += [f"    {gpu['name']}, {gpu['memory']:.2f} GB" for gpu in gpus]
    if resources.get("levels"):
        lines.append(f"  Levels: {', '.join(resources['levels'])}")
    return "\n".join(lines)


def _memory_lines(resources: Resources) -> list[str]:
    lines = []
    if resources.get("memory_limit"):
        source = resources.get("memory_limit_source")
        lines.append(
            f"  Memory: {resources['memory_limit']:.2f} GB" + (f" ({source})" if source else "")
        )
    if resources.get("memory"):
        lines.append(f"    of the machine: {resources['memory']:.2f} GB")
    if resources.get("slurm_limit"):
        source = resources.get("slurm_limit_source")
        lines.append(
            f"    of the Slurm job {resources.get('slurm_job')}: {resources['slurm_limit']:.2f} GB"
            + (f" ({source})" if source else "")
        )
    return lines


# Jupyter's own styles give the table its colours, in light and dark.
_STYLE = """
.holdfast-report table { margin: 4px 0; }
.holdfast-report th, .holdfast-report td { text-align: right !important; padding: 2px 10px; }
.holdfast-report th:first-child, .holdfast-report td:first-child { text-align: left !important; }
.holdfast-report small { opacity: 0.75; }
"""
