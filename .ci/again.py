"""Run once more, alone, the C tests that failed by a check.

Usage: again.py BUILD, after `meson test -C BUILD`. A check that fails ends its program with
status 1. A crash, a time that ran out or the report of a sanitizer, which aborts, stays a
failure. The results are in BUILD/meson-logs/testlog-alone.json. The status is 0 if every
test that failed was run again and passed.
"""

import os
import subprocess
import sys

from count import meson_log, meson_results

CHECK_FAILED = 1  # tests/support/check.h


def main(build: str) -> int:
    path = f"{build}/meson-logs/testlog.json"
    if not os.path.exists(path):
        return 1
    kinds = meson_results(path)
    failed = [test for test in meson_log(path) if kinds[test["name"]] == "failed"]
    if not failed or any(test["returncode"] != CHECK_FAILED for test in failed):
        return 1
    again = ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs"]
    again += ["--num-processes", "1", "--logbase", "testlog-alone"]
    again += [test["name"].split(" - ")[-1] for test in failed]  # without its suite
    return subprocess.run(again).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
