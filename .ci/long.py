"""The long run: every test and case, other interpreters, empty roots, hours of fuzzing.

Usage: long.py [PART...], as `.ci/run long` calls it; without a part, all of PARTS. Each part is a command. One
that fails stops nothing. What ran, when, how long, and what failed goes into the table of docs/robustness.md,
between two comments: a row for each part, which replaces the part's last row. Rows of other parts stay, so a long
run can be made in pieces. The exit status is 1 if a part failed. The output of each part is in
build/logs/long-PART.log.
"""

import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/robustness.md"
BEGIN, END = "<!-- the last long run -->", "<!-- end of the last long run -->"
COLUMNS = ("what", "command", "date", "commit", "processors", "result", "minutes", "failed")
FUZZ_S = 900  # for each target
PARTS = {
    "tests": ("every test and case", "HOLDFAST_EFFORT=2 ./test"),
    "sanitize": (
        "C tests under the address and undefined-behaviour sanitizers",
        ".ci/run sanitize",
    ),
    "threads": ("C tests under the thread sanitizer", ".ci/run threads"),
    "store": (
        "every failing call of the store",
        "build/c/tests/shm_store/test_store_failing_calls all",
    ),
    "frontend": (
        "every failing call of the frontend",
        "build/c/tests/kernel/test_kernel_failing_calls all",
    ),
    "lives": (
        "every failing call of a worker in C",
        "build/c/tests/worker/test_worker_failing_lives all",
    ),
    "variables": (
        "every failing call of the notebook's variables",
        "PYTHONPATH=tests/support .venv/bin/python tests/bindings/failing_store.py all",
    ),
    "versions": (
        "the kernel's and recorder's tests on the other versions of Python",
        "HOLDFAST_EFFORT=2 .ci/run versions",
    ),
    "debian12": ("./run and cells in an empty root of Debian 12", ".ci/root bookworm run"),
    "debian13": ("./run and cells in an empty root of Debian 13", ".ci/root trixie run"),
    "words": ("the README's words, to the first timeline", ".ci/root bookworm words"),
    "wheels": (
        "wheels for glibc 2.28, each version of Python",
        "python3 .ci/wheels.py",
    ),
    "wheel12": ("a wheel where there is only Python, Debian 12", ".ci/root bookworm wheel"),
    "wheel13": ("a wheel where there is only Python, Debian 13", ".ci/root trixie wheel"),
    "libraries": ("the C libraries alone", ".ci/root trixie libraries"),
    "fuzz": (f"libFuzzer, {FUZZ_S // 60} minutes for each target", f"tests/fuzz/hours.sh {FUZZ_S}"),
}
# What the parts print of their results: pytest's and meson's counts are summed by count.py.
COUNT = re.compile(r"\d+ passed, \d+ failed")
FAILED = re.compile(r"^failed: (.*)$", re.M)


def run(part: str) -> tuple[str, bool]:
    """Run one part: its row in the table, and whether it went well."""
    text, command = PARTS[part]
    log = ROOT / f"build/logs/long-{part}.log"
    print(f"{part}: {command}", flush=True)
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        code = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        ).returncode
    minutes = (time.monotonic() - begin) / 60
    said = log.read_text(encoding="utf-8", errors="replace")
    counts, failed = COUNT.findall(said), FAILED.findall(said)
    result = counts[-1] if counts else "passed" if code == 0 else f"failed (status {code})"
    print(f"    {result}, {minutes:.0f} minutes", flush=True)
    names = "; ".join(f"`{name}`" for name in failed) or ("" if code == 0 else f"see {log.name}")
    day, cores = datetime.date.today(), len(os.sched_getaffinity(0))
    cells = (text, f"`{command}`", day, commit(), cores, result, f"{minutes:.0f}", names)
    return row(cells), code == 0


def commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()


def row(cells) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def write(part: str, new: str) -> None:
    """Put a part's row into the page's table, in place of the row that it had."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    assert rest and after, f"{PAGE.name} has no place for the table"
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if "|" in line}
    rows[PARTS[part][0]] = new
    kept = [rows[text] for text, _ in PARTS.values() if text in rows]
    lines = "\n".join([row(COLUMNS), row(["---"] * len(COLUMNS)), *kept])
    PAGE.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}", encoding="utf-8")


def main(parts: list[str]) -> int:
    if unknown := set(parts) - PARTS.keys():
        print(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return 2
    (ROOT / "build/logs").mkdir(parents=True, exist_ok=True)
    went_well = True
    for part in parts or PARTS:
        new, is_well = run(part)
        write(part, new)
        went_well &= is_well
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
