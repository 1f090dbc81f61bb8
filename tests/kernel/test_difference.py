"""What differs between an instrumented and a plain cell: the list in docs/carried.md.

A test for each entry, so that the list stays true. Where one fails because the difference
is gone, take the entry off the list. They are differences of isolated; those that use `either` are
left in-process. That nothing else differs is the subject of the notebooks in tests/oracle.
"""

import sys
from pathlib import Path

import pytest
from needed import needed
from waiting import until

RECORD = "%%execute_with_scorep\n"


@pytest.fixture
def kernel(isolated_kernel):
    return isolated_kernel


@pytest.fixture(params=["isolated", "in_process"])
def either(request):
    """For what differs in-process, too."""
    return request.getfixturevalue(f"{request.param}_kernel")


def test_1_another_process(kernel):
    main = kernel.run("import os; read, write = os.pipe(); os.getpid()").result
    assert kernel.run(RECORD + "os.getpid()").result != main
    assert kernel.run(RECORD + "os.fstat(read)").content["ename"] == "OSError"


def test_2_threads_tasks_and_timers_end_with_the_cell(kernel):
    outcome = kernel.run(
        RECORD + "import asyncio, os, threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "threading.Timer(1000, print).start()\n"
        "_task = asyncio.ensure_future(asyncio.sleep(1000))\n"
        "print(os.getpid())"
    )
    assert "running threads" in outcome.stream("stderr")
    pid = outcome.stream().splitlines()[0]
    until(lambda: not Path("/proc", pid).exists())


def test_3_what_no_codec_carries_stays_in_the_main_worker(kernel):
    kernel.run("import threading\nlock = threading.Lock(); steps = iter_ = (i for i in range(3))")
    outcome = kernel.run(RECORD + "next(steps)")
    assert outcome.content["ename"] == "NotCarriedError"
    assert "'steps'" in outcome.content["evalue"] and "generator" in outcome.content["evalue"]
    assert kernel.run("next(iter_), next(steps), lock.locked()").result == "(0, 1, False)"


KINDS = {  # of docs/carried.md; those of other libraries are in the tests of their codecs
    "generator": "(i for i in range(3))",
    "lock": "threading.Lock()",
    "Thread: a thread ends": "threading.Thread()",
    "frame": "sys._getframe()",
    "Cursor": "sqlite3.connect(':memory:').cursor()",
    "LP_c_int": "ctypes.cast(libc.malloc(8), ctypes.POINTER(ctypes.c_int))",
    "Token": "contextvars.ContextVar('v').set(1)",
    "Context": "contextvars.copy_context()",
}


def test_3_each_kind_that_stays_says_so(kernel):
    made = "; ".join(f"kind{number} = {code}" for number, code in enumerate(KINDS.values()))
    kernel.run(
        "import contextvars, ctypes, sqlite3, sys, threading\n"
        "libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p\n" + made
    )
    for number, kind in enumerate(KINDS):
        error = kernel.run(f"{RECORD}kind{number}").content
        assert error["ename"] == "NotCarriedError" and kind in error["evalue"], (kind, error)
    assert all(f"kind{number} stays" in kernel.run("%holdfast").stream() for number in range(8))


def test_3_widgets_stay_in_the_main_worker(kernel):
    pytest.importorskip("ipywidgets")
    kernel.run("import ipywidgets; slider = ipywidgets.IntSlider(3)")
    outcome = kernel.run(RECORD + "slider.value")
    assert outcome.content["ename"] == "NotCarriedError" and "'slider'" in outcome.content["evalue"]
    assert kernel.run("slider.value").result == "3"


def test_4_what_the_cell_makes_and_no_codec_carries_is_lost_and_named(kernel):
    outcome = kernel.run(RECORD + "kept = 1; made = (i for i in range(3))")
    assert outcome.status == "ok"
    assert "made" in outcome.stream("stderr") and "generator" in outcome.stream("stderr")
    assert kernel.run("kept").result == "1"
    for head in ("", RECORD):  # whoever uses it reads why
        error = kernel.run(head + "made").content
        assert error["ename"] == "NameError" and "generator" in error["evalue"]
    kernel.run("made = 1")
    kernel.run(RECORD + "del made")
    assert "generator" not in kernel.run(RECORD + "made").content["evalue"]


def test_4_a_result_that_is_lost_is_no_last_result(kernel):
    kernel.run("5")
    outcome = kernel.run(RECORD + "(i for i in range(3))")
    assert "generator" in outcome.stream("stderr")
    assert kernel.run("_").content["ename"] == "NameError"
    assert kernel.run("__").result == "5"


def test_5_what_libraries_keep_inside_stays_where_it_was_set(kernel):
    kernel.run("import json, sys, types; vars(json._default_encoder)['item_separator'] = ';'")
    assert kernel.run(RECORD + "json.dumps([1, 2])").result == "'[1, 2]'"
    kernel.run("sys.modules['made'] = types.ModuleType('made')")
    assert kernel.run(RECORD + "import sys; 'made' in sys.modules").result == "False"
    assert kernel.run("json.dumps([1, 2]), 'made' in sys.modules").result == "('[1;2]', True)"
    kernel.run("vars(json._default_encoder)['item_separator'] = ', '; del sys.modules['made']")


def test_6_what_changed_is_a_new_object_in_the_main_worker(kernel):
    kernel.run("rows = [1]; same = [2]; before = id(rows), id(same)")
    kernel.run(RECORD + "rows.append(2)")
    assert kernel.run("rows, id(rows) == before[0], id(same) == before[1]").result == (
        "([1, 2], False, True)"
    )


def test_7_a_second_line_is_the_trace(either):
    outcome = either.run(RECORD + "print('mine')")
    mine, where = outcome.stream().splitlines()
    assert mine == "mine" and where.startswith("Instrumentation results can be found in ")
    assert len(outcome.summaries) == 1  # what it cost: test_summary.py


LOCKED = "import functools, threading\n@functools.lru_cache\ndef lock(n): return threading.Lock()\nlock(1)"


def test_8_a_cache_with_what_cannot_be_carried_begins_empty(kernel):
    kernel.run(LOCKED + "\n@functools.lru_cache\ndef twice(n): return 2 * n\ntwice(1)")
    size = "lock.cache_info().currsize, twice.cache_info().currsize"
    assert kernel.run(RECORD + size).result == "(0, 1)"
    assert kernel.run(size).result == "(1, 1)"
    kernel.run(RECORD + "lock(1), twice(2); lock.mark = 1")
    assert kernel.run(size + ", lock.mark").result == "(0, 2, 1)"


def test_9_the_frames_around_a_cell_are_others(either):
    names = "import traceback\n[frame.name for frame in traceback.extract_stack()]"
    main, cell = (eval(either.run(head + names).result) for head in ("", RECORD))
    assert main[-1] == cell[-1] == "<module>"
    assert main != cell


def test_10_a_cell_of_comments_is_reported_so(either):
    assert "there is no code" in either.run(RECORD + "# only this").stream("stderr")
    assert either.run("# only this").stream("stderr") == ""


def test_11_exit_ends_the_cells_process_only(either):
    for leave in ("exit", "quit", "kept = 1; exit()"):
        outcome = either.run(RECORD + leave)
        assert outcome.status == "ok" and outcome.result is None
        assert [payload["source"] for payload in outcome.content["payload"]] == ["ask_exit"]
    assert either.run("kept").result == "1"


@pytest.mark.fresh  # with PyTorch each cell of others would take longer
def test_12_the_graph_of_a_tensor_stays_where_it_was_computed(kernel):
    needed("torch")
    kernel.run("import torch\nx = torch.ones(3, requires_grad=True)\ny = x * 2")
    outcome = kernel.run(RECORD + "print(y.tolist())\ny.sum().backward()", timeout=120)
    assert "[2.0, 2.0, 2.0]" in outcome.stream()
    assert outcome.status == "error" and "graph" in outcome.content["evalue"]
    assert kernel.run("y.sum().backward(); x.grad.tolist()").result == "[2.0, 2.0, 2.0]"


def test_14_its_error_is_none_of_a_later_cells(kernel):
    kernel.run("1 / 0")
    assert "error" in kernel.run("%tb").types
    kernel.run(RECORD + "raise KeyError(3)")
    assert "No traceback available" in kernel.run("%tb").stream("stderr")


def test_15_large_arrays_lie_in_memory_of_the_session(kernel):
    kernel.run("import numpy as np; large, little = np.ones(5000), np.ones(5)\nkept = large")
    look = "[[one.base is None, one.flags.owndata] for one in (large, little)]"
    for code in RECORD + look, RECORD + "large[0] = little[0] = 2", look:
        outcome = kernel.run(code)
    assert outcome.result == "[[False, False], [True, True]]"
    grow = "{0}.resize(6000, refcheck=False); {0}.size"
    assert kernel.run(RECORD + grow.format("large")).content["ename"] == "ValueError"
    assert kernel.run(grow.format("large")).content["ename"] == "ValueError"
    assert kernel.run(RECORD + grow.format("little")).result == "6000"


def test_16_objects_are_at_other_addresses(kernel):
    kernel.run("items = [1]; ids = {id(items): 'items'}")
    assert kernel.run(RECORD + "ids.get(id(items), 'none')").result == "'none'"


def test_17_objects_of_the_notebooks_classes_are_made_again(kernel):
    kernel.run(
        "asked = 0\nclass Counted:\n    def __getstate__(self):\n        global asked\n        asked += 1\n"
        "        return vars(self)\none = Counted()"
    )
    kernel.run(RECORD + "one.seen = True")
    assert int(kernel.run("asked").result) > 0


def test_18_what_several_variables_share_is_equal_afterwards(kernel):
    kernel.run("text = 'long ' * 50; texts = [text, text]; nan = float('nan'); numbers = [nan]")
    ask = "texts[0] is texts[1], texts[0] == text, texts[0] is text, nan in numbers"
    assert kernel.run(RECORD + ask).result == "(True, True, False, False)"


def test_19_an_open_file_is_flushed(kernel):
    kernel.run("file = open('flushed', 'w'); file.write('a')")
    kernel.run(RECORD + "file.write('b')")
    assert kernel.run("open('flushed').read()").result == "'ab'"


def test_20_what_is_large_and_unseen_is_bound_when_main_is_asked(kernel):
    kernel.run("big = [float(i) for i in range(200_000)]")
    asked = "import sys; len(getattr(sys.modules['__main' + '__'], 'b' + 'ig'))"
    assert kernel.run(RECORD + asked).result == "200000"


def test_21_the_first_finders_are_ours(kernel):
    first = "import sys; type(sys.meta_path[0]).__module__.partition('.')[0]"
    assert kernel.run(RECORD + first).result == "'holdfast'"


HOOK = """
import sys, importlib.abc, importlib.util
class Memory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "from_memory" else None
    def create_module(self, spec): return None
    runs = []
    def exec_module(self, module): self.runs.append(1)
sys.meta_path.append(Memory())
import from_memory"""


def test_22_a_module_of_an_import_hook_is_made_again(kernel):
    kernel.run(HOOK)
    assert kernel.run(RECORD + "import from_memory; len(Memory.runs)").result == "2"
    kernel.run("sys.meta_path.pop(); del sys.modules['from_memory'], from_memory")


def test_23_what_a_cell_closes_is_open_until_it_ends(kernel):
    kernel.run(
        "import os, socket; name = f'\\0holdfast-test-{os.getpid()}'\n"
        "held, other = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)\n"
        "held.bind(name); held.listen()"
    )
    bind = "other.bind(name)"
    assert kernel.run(RECORD + "held.close(); " + bind).content["ename"] == "OSError"
    assert kernel.run(bind).status == "ok"
    kernel.run("other.close()")


def test_24_own_modules_are_loaded_again(kernel, tmp_path):
    """Without output. What they do to the process isn't done after the notebook's own settings."""
    log = tmp_path / "log"
    (tmp_path / "hf_loads.py").write_text(
        f"import random; random.seed(1); print('loading')\nopen({str(log)!r}, 'a').write('x')\n"
    )
    kernel.run(
        f"import sys, random; sys.path.insert(0, {str(tmp_path)!r})\nimport hf_loads; sys.path.pop(0)\n"
        "expected = random.Random(1); random.random() == expected.random()"
    )
    outcome = kernel.run(RECORD + "import hf_loads, random; random.random() == expected.random()")
    assert outcome.result == "True" and "loading" not in outcome.stream()
    assert log.read_text() == "xx"
    kernel.run("del sys.modules['hf_loads'], hf_loads")


DEEP = """
import sys
before = sys.getrecursionlimit()
def down(n): return n and 1 + down(n - 1)
sys.setrecursionlimit(60_000)
try:
    depth = down(30_000)
except RecursionError as error:
    depth = str(error)
sys.setrecursionlimit(before)
depth"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the frame-evaluation hook is 3.11's")
def test_13_recorded_recursion_ends_earlier(either):
    assert either.run(DEEP).result == "30000"
    outcome = either.run(RECORD + DEEP)
    assert outcome.status == "ok" and "C stack" in outcome.result
