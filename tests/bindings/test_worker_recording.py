"""What the trace of a cell shows, and what becomes of a recording that goes wrong.

The same on both run modes: in a process of the cell's own, and in the main worker.
"""

import effort
import pytest
from test_worker_cell import Kernel
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

OURS = ("holdfast", "msgpack", "IPython.core.interactiveshell", "IPython.core.displaypub")


class InProcess(Kernel):
    """The main worker runs the cells that are recorded."""

    def start(self, code, arguments=(), isolated=True):
        assert not isolated
        self.main.start_cell(code, instrument={"arguments": list(arguments), "isolated": False})
        return self.main

    def instrumented(self, code, arguments=(), isolated=True):
        return self.start(code, arguments, isolated).answer(60)


# test_worker_cell.py has recorded cells in processes of their own.
@pytest.fixture(
    params=effort.core([Kernel, InProcess], [InProcess]), ids=["isolated", "in-process"]
)
def kernel(tmp_path, request):
    kernel = request.param(tmp_path)
    yield kernel
    kernel.close()


@pytest.fixture
def record(kernel, tmp_path):
    """Run a cell with a recorder; the answer, and its trace."""

    def run(code, **options):
        answer = kernel.instrumented(code, isolated=False, **options)
        return answer, Trace(tmp_path / "trace")

    return run


def ours(trace):
    """The regions that are the kernel's."""
    return [region.name for region in trace.regions.values() if region.name.startswith(OURS)]


def test_the_trace_shows_the_program_only(record):
    answer, trace = record(
        "import sys, scorep.user\n"
        "def f(): return 1\n"
        "@scorep.user.region('g')\n"
        "def g(): f()\n"
        "print('a', 'b'); print('c', file=sys.stderr); sys.stdout.flush()\n"
        "with scorep.user.region('block'): g()\n"
        "f()"
    )
    assert answer.text() == "a b\n" and answer.result == "1"
    assert ours(trace) == []
    wanted = ["__main__:f", "user:block", "user:g", "__main__:g", "__main__:f"]
    calls = [name for name in trace.calls(prefix="") if not name.startswith("cell ")]
    assert [name for name in calls if name in wanted] == wanted[1:] + wanted[:1]
    assert not any(name.startswith(("posixpath", "threading")) for name in calls)


def test_an_import_is_shown_without_its_finders(record):
    _, trace = record("import numpy")
    assert ours(trace) == []
    assert "numpy:<module>" in trace.calls(prefix="numpy")


def test_an_awaiting_cell(record):
    """The loop resumes the cell below the kernel's own frames."""
    answer, trace = record(
        "import asyncio\n"
        "def f(): return 1\n"
        "async def other():\n"
        "    await asyncio.sleep(0.01); f()\n"
        "task = asyncio.create_task(other())\n"
        "await asyncio.sleep(0.05)\n"
        "f(); del task"
    )
    assert answer.status == "ok" and ours(trace) == []
    assert trace.calls().count("__main__:f") == 2


def test_a_cell_is_one_region(record):
    answer, trace = record(
        "import asyncio, scorep.user\n"
        "def f(): pass\n"
        "f()\n"
        "scorep.user.region_begin('r')\n"
        "f()\n"
        "await asyncio.sleep(0.01)\n"
        "f()\n"
        "scorep.user.region_end('r')\n"
        "scorep.user.region_begin('open')\n"
        "get_ipython().run_cell('f()')\n"
        "f()",
    )
    assert answer.status == "ok"
    shown = trace.nested(prefix="")
    assert trace.calls(prefix="cell ") == ["cell In[1]"]
    assert trace.calls(prefix="user:") == ["user:r", "user:open"]
    assert trace.events[0].kind == "ENTER" and '"cell In[1]"' in trace.events[0].text
    assert '"cell In[1]"' in trace.events[-1].text
    assert shown.count("f()") == trace.calls().count("__main__:f") == 5


def test_a_cell_that_fails_is_one_region(record):
    answer, trace = record("def f(): 1 / 0\n1\nf()\n2")
    assert answer.status == "error"
    assert [name for name in trace.calls(prefix="")] == ["cell In[1]", "__main__:f"]


def test_a_cell_with_c_functions_is_one_region(record):
    _, trace = record("x = [1]\nlen(x)\nx.append(2)", arguments=("--c-functions",))
    names = [name for name in trace.calls(prefix="") if "ipython" not in name.lower()]
    assert names == ["cell In[1]", "builtins:len", "builtins.list:append"]


def test_cells_are_called_what_tracebacks_call_them(kernel, record):
    kernel.plain("def first(): pass")
    record("def second(): first()\nsecond()")
    _, trace = record("import scorep.user\nscorep.user.region_begin('r')\nfirst(); second()")
    regions = map(trace.region, set(trace.calls(prefix="")))
    assert {region.name: (region.file, region.line) for region in regions} == {
        "cell In[3]": ("In[3]", 1),
        "user:r": ("In[3]", 2),
        "__main__:first": ("In[1]", 1),
        "__main__:second": ("In[2]", 1),
    }


def test_a_cell_that_closes_its_recording(kernel, record):
    answer, trace = record("import scorep\nkept = 5\ndef f(): pass\nf()\nx = scorep.close()")
    assert answer.status == "ok"
    assert answer.text("stderr").count("closed its recording") == 1
    assert trace.calls() == ["__main__:f"]
    assert kernel.plain("kept").result == "5"


def test_what_was_written_out_meanwhile_and_taken_back_is_reported(kernel, record):
    kernel.plain("import os; os.environ['SCOREP_TOTAL_MEMORY'] = '1k'")
    answer, trace = record(
        "import scorep.user\n"
        "def f(): pass\n"
        "scorep.user.rewind_begin('m')\nf()\nscorep.user.rewind_end('m', True)\n"
        "for _ in range(9000): f()"
    )
    report = answer.report
    assert report["events"] == len([e for e in trace.events if e.kind != "BUFFER_FLUSH"])
    assert (report["events_lost"], report["events_rewound"]) == (0, 2)
    assert report["flushes"] == sum(e.kind == "BUFFER_FLUSH" for e in trace.events) > 0
    assert 0 < report["seconds_flushed"] < report["seconds_run"]


def test_a_trace_that_cannot_be_written(kernel):
    answer = kernel.instrumented("import shutil\nkept = 6\nshutil.rmtree('trace')", isolated=False)
    assert answer.status == "ok"
    assert answer.text("stderr").count("could not be written") == 1
    assert kernel.plain("kept").result == "6"


@pytest.mark.parametrize("existing", ["file", "directory"])
def test_a_recording_that_cannot_be_opened(kernel, tmp_path, existing):
    kernel.plain("import os; ran = False; os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'there'")
    if existing == "file":
        kernel.plain("os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'there/below'")
        (tmp_path / "there").touch()
    else:
        kernel.plain("os.environ['SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY'] = 'false'")
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "kept").touch()
    answer = kernel.instrumented("ran = True", isolated=False)
    (error,) = answer.messages("error")
    assert answer.status == "error"
    assert "the cell did not run" in error["evalue"]
    assert "SCOREP_EXPERIMENT_DIRECTORY" in error["evalue"]
    assert kernel.plain("ran").result == "False"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os._exit(3)", 3 << 8),
        ("os.kill(os.getpid(), signal.SIGTERM)", 15),
        ("child = os.fork()\nif not child: os._exit(0)\nos.waitpid(child, 0)\nos._exit(4)", 4 << 8),
    ],
)
def test_the_trace_of_a_cell_that_ends_its_process(kernel, tmp_path, end, status):
    cell = kernel.start(f"import os, signal\ndef f(): pass\nf()\n{end}", isolated=False)
    assert kernel.frontend.exited(cell) == status
    assert Trace(tmp_path / "trace").calls() == ["__main__:f"]


def test_sys_exit_is_an_ordinary_error(record):
    answer, trace = record("import sys\ndef f(): sys.exit(3)\nf()")
    assert answer.content["ename"] == "SystemExit"
    assert trace.calls() == ["__main__:f"]


def test_children_of_the_cell(record):
    """They are in the cell's trace, and its own recording goes on after them."""
    answer, trace = record(
        "import os, multiprocessing, subprocess\n"
        "def f(n): return n + 1\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: found = pool.map(f, range(3))\n"
        "child = os.fork()\n"
        "if not child: f(1); os._exit(0)\n"
        "os.waitpid(child, 0); f(2)\n"
        "found, subprocess.run(['true']).returncode"
    )
    assert answer.result == "([1, 2, 3], 0)"
    assert trace.calls(0) == ["__main__:f"]
    assert trace.calls() == ["__main__:f"] * 5
