"""Sum the results of the C and the Python tests: the last line that ./test prints.

Usage: count.py STATUS TESTLOG ALONE_TESTLOG PYTEST_XML ALONE_XML. STATUS is 0 if both
runners said that all went well; TESTLOG is meson's, as JSON, PYTEST_XML pytest's. The two that
are alone may not be there: they have the tests that failed and were run again, which shows more of
why, and makes no failure a pass: a test that fails now and then is a defect, its own or the
program's. Only those in unsteady.txt beside this file count as passed then. A runner that left no results, or failed without
naming a test, counts as one failure: a crash of the runner must not read as success.
"""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

UNSTEADY = Path(__file__).with_name("unsteady.txt")
COUNT = "build/count"  # the last line again, for .ci/run
MESON_PASSED = {"OK", "EXPECTEDFAIL"}
MESON_SKIPPED = {"SKIP"}


def meson_log(path: str) -> list[dict]:
    """Meson's report of each C test."""
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def meson_results(path: str) -> dict[str, str]:
    """Name of each C test to "passed", "skipped" or "failed"."""
    results = {}
    for test in meson_log(path):
        word = test["result"]
        kind = "skipped" if word in MESON_SKIPPED else "failed"
        results[test["name"]] = "passed" if word in MESON_PASSED else kind
    return results


def pytest_results(path: str) -> dict[str, str]:
    """The same for pytest's report in the JUnit format."""
    results = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        kind = "skipped" if "skipped" in tags else "passed"
        results[name] = "failed" if tags & {"failure", "error"} else kind
    return results


def known_unsteady() -> dict[str, str]:
    """Tests that may fail beside others, and why that is still so: lines `NAME | REASON`."""
    lines = UNSTEADY.read_text(encoding="utf-8").splitlines()
    entries = [line.partition("|") for line in lines if line and not line.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in entries}


def take_unsteady(results: dict[str, str], again: dict[str, str], known: dict[str, str]) -> None:
    """Of those that failed and passed alone, the known ones have passed."""
    for name, kind in sorted(again.items()):
        if kind != "passed" or results.get(name) != "failed":
            continue
        print(f"unsteady: {name} failed beside others and passed alone")
        if name in known:
            results[name] = kind
            print(f"    as is known: {known[name]}")


def main(status: str, testlog: str, testlog_alone: str, junit: str, junit_alone: str) -> int:
    count = {"passed": 0, "skipped": 0, "failed": 0}
    for runner, read, path, alone in (
        ("meson test", meson_results, testlog, testlog_alone),
        ("pytest", pytest_results, junit, junit_alone),
    ):
        results = read(path) if os.path.exists(path) else {}
        take_unsteady(results, read(alone) if os.path.exists(alone) else {}, known_unsteady())
        if not results:
            results = {f"{runner} itself: it left no results": "failed"}
        for name, kind in sorted(results.items()):
            count[kind] += 1
            if kind == "failed":
                print(f"failed: {name}")
    if status != "0" and not count["failed"]:
        print("failed: a runner reported a failure that none of its tests shows")
        count["failed"] += 1
    if count["skipped"]:
        print(f"{count['skipped']} skipped")
    line = f"{count['passed']} passed, {count['failed']} failed"
    with open(COUNT, "w", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
