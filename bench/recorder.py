"""What does recording cost, in ns per call (an enter and a leave)?

Each row runs in a fresh process: a loop of N calls as it is and with a tool, in turns, since a
machine's speed changes; of the fastest round each the difference is shown, and as `mean` that of
the means, in which the log's way to the disk counts as often as it happens. Beside the recorder stand what the
interpreter itself takes for a hook that does nothing, and for one that only reads the clock twice: no recorder takes less
(compiled here; left out where there is no C compiler), cProfile, and VizTracer where it is installed. Where scorep-config is on PATH,
so do Score-P through the recorder, and through its own bindings where they are installed.

The calls are those of a trivial function, or of ten thousand such functions in turn, of one
that calls itself a thousand deep, on four threads, of a C function that isn't recorded; the
last rows show a loop without calls as a ratio, ten million calls in bounded memory, and how
much later than in plain Python a script's first line runs.

With --share another question is answered: is what "recording took" shows below a cell what recording takes
(recorder_share.py)?

    python bench/recorder.py [--calls N] [--rounds R] [--long] [--json FILE]
    python bench/recorder.py --share [--events N] [--turns T] [--processes P] [--only TEXT] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
import recorder_share  # noqa: E402

BARE_SOURCE = """
#include <Python.h>
#include <time.h>
#if defined(__x86_64__)
#define CLOCK() __builtin_ia32_rdtsc()
#else
static unsigned long long read_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_nsec;
}
#define CLOCK() read_clock()
#endif
static volatile unsigned long long last;
static int with_clock; /* read the clock as often as two events need it */
static int profile(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    (void)self, (void)frame, (void)what, (void)arg;
    return 0;
}
void profile_on(void) { PyEval_SetProfile(profile, NULL); }
void profile_off(void) { PyEval_SetProfile(NULL, NULL); }
#if PY_VERSION_HEX < 0x030C0000
static PyObject *evaluate(PyThreadState *t, struct _PyInterpreterFrame *f, int throwing) {
    if (!with_clock)
        return _PyEval_EvalFrameDefault(t, f, throwing);
    last = CLOCK();
    PyObject *result = _PyEval_EvalFrameDefault(t, f, throwing);
    last = CLOCK();
    return result;
}
void hook_on(void) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
}
void hook_off(void) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
}
#else
#include <stddef.h>
typedef struct callback { PyObject_HEAD vectorcallfunc call; } callback;
static PyObject *nothing(PyObject *self, PyObject *const *args, size_t n, PyObject *names) {
    (void)self, (void)args, (void)n, (void)names;
    if (with_clock)
        last = CLOCK();
    Py_RETURN_NONE;
}
static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "callback",
    .tp_basicsize = sizeof(callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(callback, call),
    .tp_call = PyVectorcall_Call,
};
static void set(PyObject *function, const char *sum) {
    PyObject *names = PyDict_New();
    PyDict_SetItemString(names, "f", function);
    PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins());
    PyRun_String("import sys\\nm = sys.monitoring\\ne = m.events\\n"
                 "m.get_tool(4) or m.use_tool_id(4, 'bare')\\n"
                 "for x in e.PY_START, e.PY_RETURN: m.register_callback(4, x, f)",
                 Py_file_input, names, names);
    PyRun_String(sum, Py_file_input, names, names);
}
void hook_on(void) {
    PyType_Ready(&type);
    callback *made = PyObject_New(callback, &type);
    made->call = nothing;
    set((PyObject *)made, "m.set_events(4, e.PY_START | e.PY_RETURN)");
}
void hook_off(void) { set(Py_None, "m.set_events(4, 0)\\nm.free_tool_id(4)"); }
#endif
void clock_hook_on(void) { with_clock = 1; hook_on(); }
"""

WORK = {
    "a function": """
def f(): pass
def loop(calls):
    for _ in range(calls): f()
""",
    "10,000 functions": """
functions = []
for i in range(10_000): exec(f"def f{i}(): pass\\nfunctions.append(f{i})")
def loop(calls):
    for _ in range(calls // 10_000):
        for f in functions: f()
""",
    "a thousand deep": """
sys.setrecursionlimit(5000)
def deep(n):
    if n: deep(n - 1)
def loop(calls):
    for _ in range(calls // 1000): deep(999)
""",
    "four threads": """
import threading
def f(): pass
def part(calls):
    for _ in range(calls): f()
def loop(calls):
    threads = [threading.Thread(target=part, args=(calls // 4,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
""",
    "a C function": """
def loop(calls):
    for _ in range(calls): abs(1)
""",
    "no calls": """
def loop(calls):
    total = 0
    for i in range(calls): total += i * i
""",
}

# For each tool: what comes first, how it is switched on and off, what comes last.
SWITCH = ("r.enable()", "r.disable()")
OPEN = "from holdfast import _recorder as r\nr.open(directory{})"
CLOSE = """
result = r.close()
size = sum(os.path.getsize(os.path.join(p, n)) for p, _, names in os.walk(directory) for n in names)
extra["bytes_an_event"] = size / result["events"] if result["events"] else 0.0
extra["lost"] = result["lost"]
"""
BARE = "import ctypes\nlibrary = ctypes.PyDLL(sys.argv[4])"
FILTER = """
with open(directory + ".filter", "w") as file:
    file.write("SCOREP_REGION_NAMES_BEGIN EXCLUDE * SCOREP_REGION_NAMES_END")
os.environ["SCOREP_FILTERING_FILE"] = file.name
"""
VIZTRACER = """
import viztracer
tracer = viztracer.VizTracer(verbose=0, ignore_c_function=True, tracer_entries=20_000_000)
"""
TOOLS = {
    "bare profile callback": (BARE, "library.profile_on()", "library.profile_off()", ""),
    "bare hook": (BARE, "library.hook_on()", "library.hook_off()", ""),
    "bare hook, reads the clock": (BARE, "library.clock_hook_on()", "library.hook_off()", ""),
    "holdfast, trace": (OPEN.format(""), *SWITCH, CLOSE),
    "holdfast, profile": (OPEN.format(", tracing=False, profiling=True"), *SWITCH, CLOSE),
    "holdfast, filtered out": (FILTER + OPEN.format(""), *SWITCH, "r.close()"),
    "holdfast, C functions": (OPEN.format(", c_calls=True"), *SWITCH, CLOSE),
    "cProfile": (
        "import cProfile\nprofile = cProfile.Profile()",
        "profile.enable()",
        "profile.disable()",
        "",
    ),
    "VizTracer": (VIZTRACER, "tracer.start()", "tracer.stop()", ""),
    "sys.setprofile, empty function": (
        "",
        "sys.setprofile(lambda frame, event, arg: None)",
        "sys.setprofile(None)",
        "",
    ),
}
# In Score-P's trace, or its profile. Its bindings want to start the program.
SCOREP_OPEN = """
os.environ.update(SCOREP_TOTAL_MEMORY="1G", SCOREP_ENABLE_TRACING="{}", SCOREP_ENABLE_PROFILING="{}")
""" + OPEN.format("")
SCOREP_BINDINGS = ("import scorep.instrumenter as i", "i.register()", "i.unregister()", "")
SCOREP = {
    "holdfast on Score-P, trace": (SCOREP_OPEN.format("true", "false"), *SWITCH, "r.close()"),
    "holdfast on Score-P, profile": (SCOREP_OPEN.format("false", "true"), *SWITCH, "r.close()"),
    "Score-P's bindings, trace": SCOREP_BINDINGS,
    "Score-P's bindings, profile": SCOREP_BINDINGS,
}
BINDINGS = ["-m", "scorep", "--compiler", "--thread=pthread", "--noinstrumenter"]
ROWS = (
    [("a function", tool) for tool in TOOLS if tool != "holdfast, C functions"]
    + [(work, tool) for work in list(WORK)[1:] for tool in ("bare hook", "holdfast, trace")]
    + [(work, "holdfast, profile") for work in ("10,000 functions", "a thousand deep")]
    + [("a C function", "holdfast, C functions"), ("no calls", "bare profile callback")]
)

PROGRAM = """
import json, os, sys, time
calls, rounds, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
extra = {{}}
{work}
def timed():
    start = time.perf_counter_ns(); loop(calls); return (time.perf_counter_ns() - start) / calls
def high():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
loop(calls)
{ready}
{long}
plain, ns = [], []
for _ in range(rounds):
    plain.append(timed())
    {on}
    loop(calls // 10)
    ns.append(timed())
    {off}
{done}
extra["mean"] = (sum(ns) - sum(plain)) / rounds
print(json.dumps({{"plain": min(plain), "ns": min(ns), **extra}}))
"""
LONG = """
r.enable()
loop(calls)
before = high()
loop(10_000_000)
extra["grown_KiB"] = high() - before
r.disable()
"""


def compile_bare(directory: str) -> str:
    """The library with the empty hooks; '' where it can't be compiled."""
    path, source = f"{directory}/bare.so", f"{directory}/bare.c"
    with open(source, "w", encoding="utf-8") as file:
        file.write(BARE_SOURCE)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    include = "-I" + sysconfig.get_paths()["include"]
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler, "-O2", "-shared", "-fPIC", include, *undefined, source, "-o", path]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no bare hooks: {error}", file=sys.stderr)
        return ""
    return path


def environment(tool: str, directory: str) -> dict[str, str]:
    """Who records, and for Score-P's bindings, which know no other way, where to and what."""
    if "bindings" not in tool:
        return {"HOLDFAST_RECORDER": "scorep" if tool in SCOREP else "builtin"}
    return {
        "SCOREP_EXPERIMENT_DIRECTORY": directory,
        "SCOREP_TOTAL_MEMORY": "1G",
        "SCOREP_ENABLE_TRACING": str("trace" in tool).lower(),
        "SCOREP_ENABLE_PROFILING": str("profile" in tool).lower(),
    }


def run(work: str, tool: str, args: argparse.Namespace, bare: str, long: str = "") -> dict | None:
    """Run one row in a fresh interpreter; None where the tool isn't there."""
    ready, on, off, done = (TOOLS | SCOREP)[tool]
    parts = {"ready": ready, "on": on, "off": off, "done": done}
    program = PROGRAM.format(work=WORK[work], long=long, **parts)
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "program.py")
        script.write_text(program, encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, *(BINDINGS if "bindings" in tool else []), str(script)]
            + [str(args.calls), str(args.rounds), f"{directory}/trace", bare],
            env=os.environ | environment(tool, f"{directory}/trace"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if "No module named" in ran.stderr:
        return None
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    found = json.loads(ran.stdout.splitlines()[-1])
    return {"work": work, "tool": tool, "added_ns": found["ns"] - found["plain"], **found}


def start_ms(arguments: list[str], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def starts(repeat: int) -> dict:
    """A script that ends at once, plain and recorded."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "nothing.py")
        script.write_text("import os\nos.environ['SCOREP_EXPERIMENT_DIRECTORY'] = ''\n")
        os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = f"{directory}/trace"
        os.environ["HOLDFAST_RECORDER"] = "builtin"
        recorded = start_ms(["-m", "holdfast.scorep", str(script)], repeat)
        return {"plain_ms": start_ms([str(script)], repeat), "recorded_ms": recorded}


def show(row: dict) -> list[str]:
    names = ("plain", "ns", "added_ns", "work", "tool")
    more = [f"{k} {v:.1f}" for k, v in row.items() if k not in names]
    more.insert(0, f"{row['ns'] / row['plain']:.2f} times plain")
    return [row["work"], row["tool"], f"{row['added_ns']:.1f}", ", ".join(more)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", action="store_true", help="ten million calls as well")
    parser.add_argument("--share", action="store_true", help='compare "recording took" instead')
    parser.add_argument("--events", type=int, default=131_072, help="of a turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in their name")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    record = {"program": "bench/recorder", "machine": measure.machine("holdfast", "viztracer")}
    print(json.dumps(record["machine"]), end="\n\n")
    if args.share:
        record["rows"] = recorder_share.rows(args)
        print(measure.table(recorder_share.HEAD, [recorder_share.show(r) for r in record["rows"]]))
        measure.write_json(args.json, record)
        return
    with tempfile.TemporaryDirectory() as directory:
        bare = compile_bare(directory)
        chosen = [("a function", tool) for tool in SCOREP] if shutil.which("scorep-config") else []
        rows = [
            row
            for work, tool in [*ROWS, *chosen]
            if (bare or "bare" not in tool) and (row := run(work, tool, args, bare))
        ]
        if args.long and (row := run("a function", "holdfast, trace", args, bare, LONG)):
            rows.append(row)
    record["rows"], record["start"] = rows, starts(args.rounds)
    print(measure.table(["calls of", "with", "ns added", ""], [show(row) for row in rows]))
    print("start: plain {plain_ms:.0f} ms, recorded {recorded_ms:.0f} ms".format(**record["start"]))
    measure.write_json(args.json, record)


if __name__ == "__main__":
    main()
