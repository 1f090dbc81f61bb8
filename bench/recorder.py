"""What does recording cost, in ns per call of a trivial function?

Each row runs the same loop in a fresh process: ``f()`` called N times, the fastest of
several rounds; the plain loop's time is taken off. A call is an enter and a leave.

The limit is the row "bare C callback": what the interpreter itself spends on calling a
profile function that does nothing. It is compiled here, and left out where there is no C
compiler.

    python bench/recorder.py [--calls N] [--rounds R] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile

LOOP = """
import sys, time, json
calls, rounds, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def f(): pass
def loop():
    for _ in range(calls): f()
def best():
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns(); loop(); times.append(time.perf_counter_ns() - start)
    return min(times) / calls
extra = {}
"""

BARE = """
#include <Python.h>
int bare(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    (void)self, (void)frame, (void)what, (void)arg;
    return 0;
}
void bare_on(void) { PyEval_SetProfile(bare, NULL); }
void bare_off(void) { PyEval_SetProfile(NULL, NULL); }
"""

ROWS = {
    "plain": "ns = best()",
    "bare C callback": """
import ctypes
library = ctypes.PyDLL(sys.argv[4])
library.bare_on(); ns = best(); library.bare_off()
""",
    # Turning events on for a filtered-out function is our own empty callback.
    "filtered out": """
from holdfast import _recorder as r
r.exclude(__file__ if "__file__" in globals() else "<string>")
r.open(directory); r.enable(); ns = best(); r.disable(); r.close()
""",
    "holdfast, trace": """
from holdfast import _recorder as r, scorep
start = time.perf_counter_ns(); r.open(directory); extra["open_us"] = (time.perf_counter_ns() - start) / 1e3
start = time.perf_counter_ns(); r.enable(); extra["enable_us"] = (time.perf_counter_ns() - start) / 1e3
ns = best(); r.disable()
start = time.perf_counter_ns(); result = r.close(); extra["close_ms"] = (time.perf_counter_ns() - start) / 1e6
import os
size = sum(os.path.getsize(os.path.join(p, n)) for p, _, ns_ in os.walk(directory) for n in ns_)
extra["bytes_per_event"] = size / result["events"]
""",
    "holdfast, profile": """
from holdfast import _recorder as r
r.open(directory, tracing=False, profiling=True); r.enable(); ns = best(); r.disable(); r.close()
""",
    "cProfile": """
import cProfile
profile = cProfile.Profile(); profile.enable(); ns = best(); profile.disable()
""",
    "sys.setprofile, empty Python function": """
sys.setprofile(lambda frame, event, arg: None); ns = best(); sys.setprofile(None)
""",
}  # fmt: skip


def compile_bare(directory: str) -> str:
    """The library with the empty callback; '' where it can't be compiled."""
    path, source = f"{directory}/bare.so", f"{directory}/bare.c"
    with open(source, "w", encoding="utf-8") as file:
        file.write(BARE)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    include = "-I" + sysconfig.get_paths()["include"]
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler, "-O2", "-shared", "-fPIC", include, *undefined, source, "-o", path]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no bare C callback: {error}", file=sys.stderr)
        return ""
    return path


def measure(body: str, calls: int, rounds: int, bare: str) -> dict:
    """Run one row in a fresh interpreter."""
    program = LOOP + body + "\nprint(json.dumps({'ns': ns, **extra}))"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-c", program, str(calls), str(rounds), f"{directory}/trace", bare],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bare = compile_bare(directory)
        results = {
            name: measure(body, options.calls, options.rounds, bare)
            for name, body in ROWS.items()
            if bare or name != "bare C callback"
        }
    plain = results["plain"]["ns"]
    limit = results.get("bare C callback", {}).get("ns", 0.0) - plain
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.platform()}")
    print(f"{options.calls} calls, best of {options.rounds} rounds; plain call {plain:.1f} ns\n")
    for name, row in results.items():
        row["added_ns"] = row["ns"] - plain
        more = [f"{k} {v:.1f}" for k, v in row.items() if k not in ("ns", "added_ns")]
        if bare and name != "plain":
            row["times_bare"] = row["added_ns"] / limit
            more.insert(0, f"{row['times_bare']:.1f} times the bare callback")
        print(f"{name:40} {row['added_ns']:8.1f} ns added per call  {', '.join(more)}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"python": platform.python_version(), "machine": platform.platform(),
                       "options": vars(options), "rows": results}, file, indent=2)  # fmt: skip


if __name__ == "__main__":
    main()
