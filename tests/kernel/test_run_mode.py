"""Cells that the main worker runs: which they are, what they cost, and that nothing else shows the
difference."""

import sys
from pathlib import Path

import effort
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings"))
from trace_reader import AVAILABLE, Trace  # noqa: E402

CELL = "%%execute_with_scorep\n"
IN_PROCESS = "%%execute_with_scorep --run=in-process\n"
CLEAN = "%%execute_with_scorep --run=isolated\n"
LARGE = "big = {number: str(number) for number in range(200_000)}; small = [1]"
# Of the hand-over: none of these happens in the main worker.
COUNTS = [
    "bytes_copied",
    "bytes_mapped",
    "bytes_shared",
    "copy_faults",
    "names_bound",
    "names_decoded",
    "names_skipped",
    "names_saved",
    "names_unserializable",
]

needs_reader = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def trace_of(outcome):
    return Trace(outcome.cost["trace"])


# ---- which cells take it ---------------------------------------------------------------------


BOUND_TO_THEIR_PROCESS = [
    ("steps = (i for i in range(9)); next(steps)", "next(steps)", "1"),
    ("import threading; lock = threading.Lock(); lock.acquire()", "lock.locked()", "True"),
    ("steps = (i for i in range(9))\ndef use(): return next(steps)\nuse()", "use()", "1"),
    ("import sqlite3; base = sqlite3.connect(':memory:')", "base.total_changes", "0"),
    (LARGE, "big[7] = 'x'; len(big)", "200000"),
    ("1", "len(globals()['big'])", "200000"),
    ("import numpy as np; rows = np.array([str(i) for i in range(90_000)], object)", "rows[3]", "'3'"),
]  # fmt: skip


@pytest.mark.fresh  # a commit has nothing to do where no other test has left anything
@pytest.mark.parametrize("head", effort.core([CELL, "%%isolated --run=auto\n"], [CELL]))
def test_the_cell_has_what_the_notebook_has(kernel, head):
    for make, use, result in BOUND_TO_THEIR_PROCESS:
        ok(kernel, make)
        kernel.settle()
        sent = [
            kernel.client.execute("1"),
            kernel.client.execute(head + use),
        ]  # no pause to commit in
        before, outcome = [kernel.finish(one) for one in sent]
        assert outcome.status == "ok", (use, outcome.content)
        assert (outcome.result, outcome.stream("stderr")) == (result, ""), use
        assert outcome.cost["run"] == "in-process" and (head == CELL) == (
            "run_reason" not in outcome.cost
        ), use
        assert {name: outcome.cost[name] for name in COUNTS} == dict.fromkeys(COUNTS, 0), use
        assert outcome.cost["generation"] == before.cost["generation"], use
        assert (outcome.cost["events"] > 0) == (head == CELL), use


def test_what_could_not_be_handed_over_is_reported(isolated_kernel):
    make = CELL + "kept = 1\nmade = (i for i in range(3))"
    outcome = ok(isolated_kernel, make)
    assert outcome.cost["run"] == "isolated" and "made" in outcome.stream("stderr")
    error = isolated_kernel.run("next(made)").content
    assert error["ename"] == "NameError" and "made" in error["evalue"]
    assert "generator" in error["evalue"] and "--run=in-process" in error["evalue"]
    assert "--run" not in isolated_kernel.run("nobody_made_this").content["evalue"]
    assert ok(isolated_kernel, make.replace(CELL, IN_PROCESS)).stream("stderr") == ""
    assert ok(isolated_kernel, "next(made)").result == "0"


def test_a_clean_process_is_asked_for(kernel):
    pid = ok(kernel, "import os; small = [1]; os.getpid()").result
    outcome = ok(kernel, CLEAN + "small.append(2); os.getpid()")
    assert outcome.cost["run"] == "isolated" and outcome.result != pid
    assert outcome.cost["run_reason"] == "--run=isolated"
    assert "(isolated): --run=isolated." in ok(kernel, "%holdfast last").stream()
    outcome = ok(kernel, "%%isolated\nos.getpid()")
    assert outcome.cost["run_reason"] == "%%isolated" and outcome.result != pid
    assert ok(kernel, "%%isolated --run=in-process\nos.getpid()").result == pid
    assert ok(kernel, CELL + "small").result == "[1, 2]"


def run_mode_of(kernel, head=CELL):
    outcome = ok(kernel, head + "1 + 1")
    return outcome.cost["run"], outcome.cost.get("run_reason", "")


def test_whose_wish_counts(start_kernel):
    kernel = start_kernel(arguments=["--run", "isolated"])
    assert run_mode_of(kernel) == ("isolated", "holdfast-kernel --run=isolated")
    ok(kernel, "%env HOLDFAST_RUN=in-process")
    assert run_mode_of(kernel) == ("in-process", "HOLDFAST_RUN=in-process")
    assert run_mode_of(kernel, CLEAN) == ("isolated", "--run=isolated")
    assert run_mode_of(kernel, "%%execute_with_scorep --run=isolated\n") == (
        "isolated",
        "--run=isolated",
    )
    assert run_mode_of(kernel, "%%execute_with_scorep --run=auto\n") == ("in-process", "--run=auto")
    ok(kernel, "%env HOLDFAST_RUN=nowhere")
    said = "HOLDFAST_RUN=nowhere must be one of auto, in-process, forked, isolated"
    assert run_mode_of(kernel) == ("isolated", said)


def test_what_the_main_worker_is_asked(plain_kernel):
    """A worker program of another language knows nothing of it, or answers."""
    outcome = ok(plain_kernel, IN_PROCESS + "(role, frame['instrument']['isolated'])")
    assert outcome.result == "('main', False)"
    assert outcome.cost["run"] == "in-process" and outcome.cost["run_reason"] == "it asks for it"
    asked = eval(ok(plain_kernel, "commit").result)
    assert "(role, frame" in asked["code"]
    assert (asked["cell_run"], asked["run"]) == ("in-process", "auto")
    assert ok(plain_kernel, CELL + "role").result == "'cell'"
    assert not eval(ok(plain_kernel, "commit").result).get("isolated")
    assert ok(plain_kernel, "%%isolated\nrole").result == "'cell'"
    assert eval(ok(plain_kernel, "commit").result)["isolated"]


def test_a_notebook_that_records_by_itself(kernel):
    """Its recording stays open; the cell's own needs another process."""
    ok(kernel, LARGE + "\nimport scorep; scorep.register(); kept = scorep")
    outcome = ok(kernel, CELL + "len(big)")
    assert outcome.result == "200000" and outcome.cost["run"] == "forked"
    assert "recording is open" in outcome.cost["run_reason"]
    outcome = kernel.run(IN_PROCESS + "len(big)")
    assert outcome.status == "error" and "a recording is already open" in outcome.content["evalue"]
    ok(kernel, "scorep.close()")
    assert ok(kernel, CELL + "len(big)").cost["run"] == "in-process"


# ---- nothing is left behind ------------------------------------------------------------------

PROCESS = (
    "import os, signal, sys, threading, gc\n"
    "sys.getprofile(), threading.getprofile() if hasattr(threading, 'getprofile') else None,"
    " threading._profile_hook, os._exit.__name__, signal.getsignal(signal.SIGTERM),"
    " sorted(os.environ.items()), get_ipython().recorder, threading.active_count(),"
    " len(sys.meta_path)"
)


def test_the_process_is_as_before(in_process_kernel):
    ok(in_process_kernel, PROCESS)
    ok(in_process_kernel, IN_PROCESS + "1")
    before = ok(in_process_kernel, PROCESS).result
    assert "'_exit'" in before
    for code in ("import scorep.user\nwith scorep.user.region('r'): pass", "1/0", "exit()"):
        in_process_kernel.run(CELL + code)
        assert ok(in_process_kernel, PROCESS).result == before


def test_a_profile_function_of_the_notebook(in_process_kernel):
    ok(
        in_process_kernel,
        "import sys\nseen = []\ndef watch(*event): seen.append(1)\nsys.setprofile(watch)",
    )
    outcome = ok(in_process_kernel, CELL + "def f(): pass\nf()\ncount = len(seen)")
    # The cell and the call; before Python 3.12 what the notebook's own function calls, too.
    assert outcome.cost["events"] > 6 or sys.version_info >= (3, 12)
    assert outcome.cost["events"] >= 4
    ok(in_process_kernel, "f(); more = len(seen) > count > 2; sys.setprofile(None)")
    assert ok(in_process_kernel, "sys.getprofile(), more").result == "(None, True)"


@needs_reader
def test_many_recordings_in_one_process(in_process_kernel, tmp_path):
    ok(
        in_process_kernel,
        "import os, gc, resource\ndef size():\n    gc.collect()\n"
        "    pages = int(open('/proc/self/statm').read().split()[1])\n"
        "    return pages * resource.getpagesize(), len(os.listdir('/dev/fd'))",
    )
    for number in range(20):
        ok(in_process_kernel, f"os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'trace-{number}'")
        ok(in_process_kernel, CELL + f"def f{number}(): pass\nf{number}()")
        if number == 9:
            memory, files = eval(ok(in_process_kernel, "size()").result)
    memory_now, files_now = eval(ok(in_process_kernel, "size()").result)
    assert memory_now - memory < 8 << 20 and files_now <= files + 3
    for number in (0, 10, 19):
        assert Trace(tmp_path / f"trace-{number}").calls() == [f"__main__:f{number}"]


@needs_reader
def test_only_the_cells_own_time_is_recorded(in_process_kernel):
    ok(
        in_process_kernel,
        "import threading\ngo, ask, end = threading.Event(), threading.Event(), False\n"
        "def tick(): pass\n"
        "def work():\n"
        "    while True:\n"
        "        go.wait(); go.clear()\n"
        "        if end: break\n"
        "        tick(); ask.set()\n"
        "worker = threading.Thread(target=work, name='mine'); worker.start()\n"
        "def once(): ask.clear(); go.set(); ask.wait()\n"
        "once()",
    )
    trace = trace_of(ok(in_process_kernel, CELL + "once()"))
    ok(in_process_kernel, "once(); end = True; go.set(); worker.join()")
    assert sorted(trace.locations.values()) == ["MainThread", "mine"]
    assert trace.calls().count("__main__:tick") == 1
    names = {region.name for region in trace.regions.values()}
    assert not any(name.startswith(("holdfast", "IPython")) for name in names), names


@needs_reader
def test_the_main_workers_own_threads_are_not_the_programs(in_process_kernel):
    """The thread that saves the history wakes up in each cell."""
    ok(in_process_kernel, "import threading\ndef wake():\n"
       "    for thread in threading.enumerate():\n"
       "        if 'History' in thread.name: thread.save_flag.set(); return True")  # fmt: skip
    code = "import time\nfound = wake(); time.sleep(0.2)\nfound"
    outcome = ok(in_process_kernel, CELL + code)
    if outcome.result != "True":
        pytest.skip("this IPython saves no history by a thread")
    assert list(trace_of(outcome).locations.values()) == ["MainThread"]


# ---- everything that a user sees is the same --------------------------------------------------


@needs_reader
def test_regions_and_their_names(either_kernel):
    ok(either_kernel, "def first(): pass")
    outcome = ok(
        either_kernel,
        CELL + "import scorep.user\ndef second(): first()\nwith scorep.user.region('r'): second()",
    )
    trace = trace_of(outcome)
    first, second = (f"In[{either_kernel.before + number}]" for number in (1, 2))
    assert trace.calls(prefix="cell ") == [f"cell {second}"]  # of three statements
    shown = {trace.region(name) for name in set(trace.calls(prefix=""))}
    assert {(region.name, region.file) for region in shown if "import" not in region.name} == {
        (f"cell {second}", second),
        ("__main__:first", first),
        ("__main__:second", second),
        ("user:r", second),
    }


MAGICS = {
    "%%time\nwork()": {"statistics:mean"},
    "%timeit -n1 -r1 work()": {"__main__:inner", "statistics:mean"},
    "%%capture kept\nwork()": {"statistics:mean"},
    "%prun -q statistics.mean([1])": {"statistics:mean"},
    "%run script.py": {"__main__:of_script", "statistics:mean"},
    "get_ipython().run_cell('work()'); after()": {"statistics:mean", "__main__:after"},
    "own('work()')": {"statistics:mean"},
}


@needs_reader
def test_magics_show_the_programs_code_and_not_ipythons(either_kernel, tmp_path):
    Path(tmp_path, "script.py").write_text(
        "import statistics\ndef of_script(): return statistics.mean([1])\nof_script()\n"
    )
    ok(
        either_kernel,
        "import statistics\ndef work(): return statistics.mean([1])\ndef after(): pass\n"
        "def own(code): exec(code)",
    )
    for code, expected in MAGICS.items():
        outcome = ok(either_kernel, CELL + code)
        names = {region.name for region in trace_of(outcome).regions.values()}
        assert expected <= names, (code, names)
        assert not any(name.startswith(("IPython", "holdfast")) for name in names), (code, names)
        assert outcome.cost["events"] < 1000, code  # five thousand with all of %%time's


@needs_reader
def test_without_the_instrumenter(any_kernel):
    ok(any_kernel, "%%scorep_python_binding_arguments\n--noinstrumenter")
    outcome = ok(
        any_kernel,
        CELL + "import scorep.user\ndef f(): pass\nwith scorep.user.region('r'): f()",
    )
    assert trace_of(outcome).calls(prefix="") == ["user:r"]


def test_a_cell_that_cannot_be_recorded(either_kernel, tmp_path):
    (tmp_path / "there").touch()
    ok(either_kernel, "ran = False")
    ok(either_kernel, "%%scorep_env\nSCOREP_EXPERIMENT_DIRECTORY=there/below")
    outcome = either_kernel.run(CELL + "ran = True")
    assert outcome.status == "error" and outcome.types.count("error") == 1
    assert "the cell did not run" in outcome.content["evalue"]
    ok(either_kernel, "%%scorep_env\nSCOREP_EXPERIMENT_DIRECTORY=elsewhere")
    assert ok(either_kernel, CELL + "ran").result == "False"


def test_the_environment_afterwards(either_kernel):
    """What %%scorep_env and the cell set is there afterwards, and nothing else."""
    ok(either_kernel, "import os; before = dict(os.environ)")
    ok(either_kernel, "%%scorep_env\nSCOREP_TOTAL_MEMORY=32M")
    ok(either_kernel, CELL + "os.environ['FROM_CELL'] = '1'; os.environ['SCOREP_TOTAL_MEMORY']")
    found = ok(either_kernel, "sorted(set(os.environ.items()) - set(before.items()))").result
    assert found == "[('FROM_CELL', '1'), ('SCOREP_TOTAL_MEMORY', '32M')]"


@pytest.mark.fresh
def test_the_history(either_kernel):
    code = CELL + "x = 1\n%time y = 2"
    ok(either_kernel, code)
    ok(either_kernel, "1")
    assert ok(either_kernel, "_i1").result == repr(code)
    assert ok(either_kernel, "get_ipython().history_manager.input_hist_raw[1]").result == repr(code)
    assert "# %%execute_with_scorep\nx = 1" in eval(ok(either_kernel, "In[1]").result)
    assert ok(either_kernel, "Out[2], len(In)").result == "(1, 7)"


def test_questions(either_kernel):
    outcome = either_kernel.run(CELL + "input('who? ')", answers=["me"])
    assert outcome.result == "'me'"


def test_results_displays_and_tracebacks(either_kernel):
    outcome = either_kernel.run(CELL + "print('a')\ndisplay(5)\ndef f(): 1 / 0\n\nf()")
    text = "\n".join(outcome.content["traceback"])
    assert outcome.content["ename"] == "ZeroDivisionError" and "run_code" not in text
    assert outcome.types.count("error") == 1 and outcome.types.count("display_data") == 1
    assert outcome.stream().splitlines()[0] == "a" and "Instrumentation" in outcome.stream()
    assert ok(either_kernel, CELL + "7").result == "7"
    assert ok(either_kernel, "_ + 1").result == "8"


def test_a_task_of_an_earlier_cell(in_process_kernel):
    """It runs on while the recorded cell awaits, as in a plain cell."""
    ok(in_process_kernel, "import asyncio\nturns = []\nasync def count():\n"
       "    while True: turns.append(1); await asyncio.sleep(0.01)\n"
       "task = asyncio.create_task(count())")  # fmt: skip
    outcome = ok(
        in_process_kernel, CELL + "n = len(turns); await asyncio.sleep(0.2); len(turns) > n"
    )
    assert outcome.result == "True"
    ok(in_process_kernel, "task.cancel()")


# ---- accidents -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "words", "writes"),
    [
        ("os._exit(5)", "exit status 5", True),
        ("os.kill(os.getpid(), 15); time.sleep(9)", "SIGTERM", True),
        ("os.kill(os.getpid(), 9)", "SIGKILL", False),
        ("import ctypes; ctypes.memset(0, 1, 1)", "SIGSEGV", False),
    ],
    ids=["_exit", "SIGTERM", "SIGKILL", "segfault"],
)
@needs_reader
def test_a_cell_that_kills_its_process(in_process_kernel, tmp_path, end, words, writes):
    ok(in_process_kernel, "import os, time; kept = [1]")
    in_process_kernel.settle()
    ok(in_process_kernel, "%env SCOREP_EXPERIMENT_DIRECTORY=last")
    outcome = in_process_kernel.run(CELL + f"def f(): pass\nf(); kept.append(2); {end}")
    assert outcome.content["ename"] == "CellDied" and outcome.types.count("error") == 1
    assert words in outcome.content["evalue"] and "before the cell" in outcome.content["evalue"]
    if writes:
        assert Trace(tmp_path / "last").calls() == ["__main__:f"]
    outcome = ok(in_process_kernel, CELL + "kept")
    assert outcome.result == "[1]" and outcome.cost["run"] == "in-process"


def test_what_plain_cells_did_before_it_is_kept(in_process_kernel):
    ok(in_process_kernel, "import os; kept = 1")
    in_process_kernel.settle()
    in_process_kernel.client.execute("kept = 2")
    outcome = in_process_kernel.run(CELL + "kept = 3; os._exit(3)")
    assert "as they were before the cell" in outcome.content["evalue"]
    assert ok(in_process_kernel, "kept").result == "2"


@pytest.mark.fresh  # as many objects as an earlier notebook had look like none that are new
def test_many_in_turn_with_plain_cells(kernel):
    """Each changes what the one before made; nothing is saved before an idle moment."""
    first = ok(kernel, LARGE + "\nid(big)").result
    for number in range(10):
        head = CELL if number % 2 else ""
        outcome = ok(kernel, head + f"big[{number}] = big.get({number} - 1, 0)\nid(big)")
        assert outcome.cost["run"] == ("in-process" if number % 2 else "plain")
        assert outcome.cost.get("bytes_copied", 0) == 0
        assert outcome.result == first


LARGE_ARRAY = """
import numpy as np, resource
rows = np.ones(4 << 20)  # 32 MiB
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
"""


def test_what_a_recorded_cell_reads_is_in_its_page_tables(kernel):
    """The fork before the cell has made the array private, which takes its page tables."""
    ok(kernel, LARGE_ARRAY)
    outcome = ok(kernel, CELL + "n = faults(); s = rows.sum(); faults() - n")
    assert outcome.cost["bytes_populated"] == 32 << 20
    assert int(outcome.result) < 8192 / 64
    assert ok(kernel, CELL + "rows[5]").cost["bytes_populated"] == 0
