"""What the programs in bench/ share: the machine's record, memory of processes, tables, and
the main function of those that measure rows.

Nothing here times anything; each program keeps its own clock, so that its reader sees
what lies between start and stop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

MIB = 1 << 20
GIB = 1 << 30


def _huge_pages(name: str) -> str | None:
    """Linux's choice for private memory (`enabled`) or shared memory (`shmem_enabled`)."""
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage", name).read_text()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0]


def machine(*packages: str) -> dict:
    """The machine and the versions that a figure was measured with."""
    cpu = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    versions = {}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpu": cpu or platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "huge_pages": {name: _huge_pages(name) for name in ("enabled", "shmem_enabled")},
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": versions,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def shmem_bytes() -> int:
    """Shared memory of the whole machine, mapped or not (Shmem in /proc/meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) * 1024
    return 0


def descendants(root: int) -> list[int]:
    """`root` and every process below it, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parent = int(stat.rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of processes, and of the children that they have waited for."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        ticks += sum(map(int, stat.rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def private_bytes(pid: int) -> int:
    """Proportional memory of a process without shared memory (Pss_Anon + Pss_File)."""
    return _rollup(pid, "Pss_Anon:", "Pss_File:")


def unfiled_bytes(pid: int) -> int:
    """The same without files' pages, whose proportion depends on who else maps them."""
    return _rollup(pid, "Pss_Anon:")


def whole_bytes(pid: int) -> int:
    """Proportional memory of a process."""
    return _rollup(pid, "Pss:")


def _rollup(pid: int, *keys: str) -> int:
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(keys):
                total += int(line.split()[1]) * 1024
    except (OSError, ProcessLookupError):
        return 0
    return total


class PeakMemory:
    """Sample the memory of some processes until stopped.

    Counted are the processes' own pages (PSS without its shared-memory part) and the
    growth of the machine's shared memory, so that data in /dev/shm counts once, whether
    it is mapped or not. Other users of /dev/shm on the machine disturb the figure.
    """

    def __init__(self, pids, shmem: int, interval_s: float = 0.01):
        self._pids = pids  # a callable that gives the pids of now
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._shmem = shmem  # shmem_bytes() before any of the data was made
        self.peak = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def sample(self) -> int:
        now = sum(private_bytes(pid) for pid in self._pids())
        now += max(0, shmem_bytes() - self._shmem)
        self.peak = max(self.peak, now)
        return now

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.sample()

    def __enter__(self):
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.sample()


def median(values) -> float | None:
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def show_ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1e3:.2f}" if value < 0.1 else f"{value * 1e3:.0f}"


def show_mib(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / MIB:.2f}" if value < MIB else f"{value / MIB:.0f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table with the first column on the left and the others on the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * w for w in widths), *map(line, rows)])


def write_json(path: str | None, record: dict) -> None:
    if path:
        Path(path).write_text(json.dumps(record, indent=1) + "\n")
        print(f"written: {path}")


def row_options(
    description: str, kind: str, repeat: int, least: int = 1
) -> argparse.ArgumentParser:
    """The options of a program for `run_rows`, to which it adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        f"--{kind}s", dest="chosen", metavar="A,B", default="", help="some, by name"
    )
    parser.add_argument("--repeat", type=int, default=repeat, help=f"{least} or more")
    parser.add_argument("--kernel", default="holdfast", help="name of the kernelspec")
    parser.add_argument("--quick", action="store_true", help="small states")
    parser.add_argument("--json", help="write the results to this file")
    parser.set_defaults(kind=kind, least=least)
    return parser


def run_rows(
    parser: argparse.ArgumentParser,
    rows: dict[str, Any],
    compute: Callable[[Any, argparse.Namespace], dict],
    show: Callable[[list[dict]], str],
    packages: tuple[str, ...],
) -> None:
    """Measure the rows that the options choose, one after the other, and show them all."""
    args = parser.parse_args()
    names = [name.strip() for name in args.chosen.split(",") if name.strip()]
    if unknown := set(names) - set(rows):
        parser.error(
            f"no such {args.kind}: {', '.join(sorted(unknown))}; there are {', '.join(rows)}"
        )
    if args.repeat < args.least:
        parser.error(f"--repeat {args.repeat}: {args.least} or more")
    record: dict[str, Any] = {
        "program": f"bench/{parser.prog.removesuffix('.py')}",
        "machine": machine(*packages, "ipykernel", "holdfast"),
    }
    print(json.dumps(record["machine"]), end="\n\n")
    record["results"] = results = []
    for name, row in rows.items():
        if name in names or not names:
            results.append(compute(row, args))
            print(f"measured: {name}", file=sys.stderr)
    print(show(results))
    write_json(args.json, record)
