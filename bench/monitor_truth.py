"""What the monitor reports of cells whose cost is known, beside what they cost.

    python bench/monitor_truth.py [--rows idle,burn,...] [--scale F] [--kernel NAME] [--json F]

Each cell measures itself by other means: the processor time of its process and of the children
that it waited for by getrusage, its duration by the monotonic clock, bytes by what it wrote or
allocated. The figure is reported/true, for processor time, duration, growth of the memory and
bytes written, at each interval. A cell that sleeps has no processor time worth a ratio: there the
difference is shown, in milliseconds. `--scale 0.1` makes seconds, gigabytes and megabytes a tenth.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from client import CELL, Kernel  # noqa: E402

INTERVALS = (1.0, 0.1)
BEFORE = """import json, os, resource, subprocess, sys, time
def _now():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(one.ru_utime + one.ru_stime for one in used)
def _since(begin):
    end = _now()
    return {"seconds": end[0] - begin[0], "cpu": end[1] - begin[1]}
def _burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(2000))
"""
ASK = """from holdfast.monitor import source as _source
_cell = [cell for cell in _source.connect().cells() if cell.end_ns is not None][-1]
_summary = _source.connect().summary("process", _cell.begin_ns, _cell.end_ns)
if _cell.outcome == "died":
    true = json.load(open("true"))
print(json.dumps([true, _cell.duration, _cell.outcome, _summary]))
data = None  # what dies next would have to give its memory back first
"""
CHILD = "import time\nwhile time.process_time() < {seconds}: sum(range(2000))"


DYING = "n = os.write(os.open('true', os.O_CREAT | os.O_TRUNC | os.O_WRONLY), json.dumps(true).encode())\n"


@dataclasses.dataclass(frozen=True)
class Row:
    """A cell: what it does between its two looks at the time, and how it ends."""

    name: str
    code: str
    end: str = ""
    outcome: str = "ok"
    head: str = ""
    known: str = ""  # what is known of it beside


ROWS = (
    Row("idle", "time.sleep(3 * F)"),
    Row("burn 3 s", "_burn(3 * F)"),
    Row("1 GiB", "data = bytearray(b'x') * int(F * 2**30)", known="memory=len(data)"),
    Row(
        "100 MB written",
        "with open('out', 'wb') as _file: n = sum(_file.write(bytes(10**6)) for _ in range(int(100 * F)))",
        known="written=n",
    ),
    Row(
        "two children",
        "both = [subprocess.Popen([sys.executable, '-c', CHILD]) for _ in 'ab']\n"
        "[one.wait() for one in both]",
    ),
    Row(
        "C code, 5 s",
        "n = int(1e8 * F); t = time.process_time()\n"
        "while time.process_time() - t < 5 * F: sum(range(n))",
    ),
    Row("20 ms", "_burn(0.02)"),
    Row("raised", "_burn(F)", "1 / 0", "error"),
    Row("instrumented", "_burn(F)", head=CELL),
    Row("instrumented 20 ms", "_burn(0.02)", head=CELL),
    Row("died", "_burn(3 * F)", DYING + "os.kill(os.getpid(), 9)", "died", CELL),
    Row("isolated, exited", "_burn(3 * F)", DYING + "os._exit(3)", "died", "%%isolated\n"),
)


def cell_of(row: Row) -> str:
    """Its code: the first and the last thing that it does is to look at the time."""
    known = f" | dict({row.known})" if row.known else ""
    return f"{row.head}begin = _now()\n{row.code}\ntrue = _since(begin){known}\n{row.end}"


def run(kernel: Kernel, row: Row) -> dict:
    """One cell; what is true and what is reported."""
    try:
        kernel.run(cell_of(row))
    except RuntimeError:
        if row.outcome == "ok":
            raise
    kernel.run(ASK)
    true, seconds, outcome, summary = json.loads(kernel.printed)
    assert outcome == row.outcome, (row.name, outcome)
    reported = {"seconds": seconds, "cpu": summary["cpu_seconds"][3]}
    reported["memory"] = (summary["memory"][2] - summary["memory"][1]) * 2**30
    reported["written"] = summary["io_write_mb"][3] * 2**20
    return {
        "row": row.name,
        "outcome": outcome,
        "true": true,
        "reported": {name: reported[name] for name in true},
    }


def compared(found: dict) -> dict[str, str]:
    """Reported by true, as text."""
    shown = {}
    for name, value in found["true"].items():
        off = found["reported"][name] - value
        if name == "cpu" and value < found["true"]["seconds"] / 100:
            shown[name] = f"{off * 1e3:+.1f} ms"
        else:
            shown[name] = f"{1 + off / value:.4f}"
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="some, by the beginnings of their names")
    parser.add_argument("--interval", type=float, nargs="*", default=INTERVALS)
    parser.add_argument("--scale", type=float, default=1.0, help="of seconds and bytes")
    parser.add_argument("--kernel", default="holdfast", help="name of the kernelspec")
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    wanted = tuple(filter(None, args.rows.split(",")))
    rows = [row for row in ROWS if row.name.startswith(wanted or "")]
    environment = {**os.environ, "HOLDFAST_RUN": "isolated"}
    child = CHILD.format(seconds=3 * args.scale)
    found = []
    with Kernel(args.kernel, environment) as kernel:
        for interval in args.interval:
            kernel.run(BEFORE + f"F = {args.scale}; CHILD = {child!r}")
            kernel.run(f"%perfmonitor_start {interval}")
            found += [{"interval": interval, **run(kernel, row)} for row in rows]
    table = []
    for one in found:
        shown = compared(one)
        metrics = [shown.get(name, "") for name in ("seconds", "cpu", "memory", "written")]
        table.append([one["row"], f"{one['interval']:g} s", *metrics])
    print("reported/true")
    print(measure.table(["cell", "interval", "duration", "cpu", "memory", "written"], table))
    measure.write_json(args.json, {"machine": measure.machine(), "rows": found})


if __name__ == "__main__":
    main()
