"""Cells in a fork of the main worker: what they have, what comes back, and what messages name."""

import os
import signal

import pytest
from waiting import begun, until

FORKED = "%%execute_with_scorep --run=forked\n"
ISOLATED = "%%isolated --run=forked\n"


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def forked(kernel, code, head=FORKED):
    """A cell that has to run in a fork."""
    outcome = ok(kernel, head + code)
    assert outcome.cost["run"] == "forked", outcome.cost
    return outcome


def stderr_of(kernel, code):
    return forked(kernel, code).stream("stderr")


# ---- the way in and back


@pytest.mark.parametrize("head", [FORKED, ISOLATED])
def test_a_cell_runs_in_a_fork_and_what_it_changed_comes_back(kernel, head):
    pid = ok(kernel, "import os\nx = [1]; y = x\nos.getpid()").result
    outcome = forked(kernel, "x.append(2); z = {'a': x}\nprint('hello')\nos.getpid()", head)
    assert outcome.result != pid and outcome.stream().startswith("hello\n")
    assert outcome.stream("stderr") == ""
    found = ok(kernel, "x, y is x, z['a'] is x, os.getpid()").result
    assert found == f"([1, 2], True, True, {pid})"
    assert (outcome.cost["events"] > 0) == (head == FORKED)
    assert outcome.cost["run_reason"] == "--run=forked"
    assert "(forked): --run=forked." in ok(kernel, "%holdfast last").stream()


# What a process that is rebuilt from lists doesn't have.
WAY_IN = [
    ("steps = (i for i in range(9)); next(steps)", "next(steps)", "1"),
    ("import threading; lock = threading.Lock(); lock.acquire()", "lock.locked()", "True"),
    ("import sqlite3; base = sqlite3.connect(':memory:'); base.execute('create table t(a)')",
     "base.execute('select count(*) from t').fetchall()", "[(0,)]"),
    ("import numpy as np; np.seterr(all='raise')", "np.geterr()['over']", "'raise'"),
    ("import logging; logging.getLogger('a').addFilter(lambda r: False)",
     "len(logging.getLogger('a').filters)", "1"),
    ("import collections; collections.mine = object()", "hasattr(collections, 'mine')", "True"),
    ("def name(): return name", "__import__('sys').modules['__main__'].name is name", "True"),
    ("import decimal; decimal.getcontext().prec = 5", "decimal.Decimal(1) / 3",
     "Decimal('0.33333')"),
    ("import sys; sys.setrecursionlimit(5000)", "sys.getrecursionlimit()", "5000"),
    ("import random; random.seed(3); first = random.random(); random.seed(3)",
     "random.random() == first", "True"),
    ("class Plain: pass\nplain = Plain(); number = id(plain)", "id(plain) == number", "True"),
    ("import os; r, w = os.pipe(); os.write(w, b'x')", "os.read(r, 1)", "b'x'"),
    ("import torch; w = torch.ones(2, requires_grad=True); loss = (w * w).sum()",
     "loss.backward(); w.grad.tolist()", "[2.0, 2.0]"),
    ("import matplotlib.pyplot as plt; plt.switch_backend('Agg'); fig, ax = plt.subplots()",
     "plt.gcf() is fig", "True"),
]  # fmt: skip


def test_the_cell_has_what_the_notebook_has(kernel):
    for make, use, result in WAY_IN:
        module = make.split()[1].strip(";")
        if module in ("torch", "matplotlib.pyplot", "numpy"):
            if kernel.run(f"import {module}").status != "ok":
                continue
        ok(kernel, make)
        assert forked(kernel, use).result == result, use


def test_nothing_is_decoded_or_bound(kernel):
    ok(kernel, "import numpy as np; rows = np.zeros(1 << 20); many = {i: str(i) for i in range(9)}")
    outcome = forked(kernel, "rows[7] = 1; many[3] = 'x'; int(rows.sum())")
    assert outcome.result == "1"
    cost = outcome.cost
    assert (cost["names_bound"], cost["names_decoded"], cost["bytes_mapped"]) == (0, 0, 0)
    assert cost["names_saved"] == 3 and cost["copy_faults"] <= 2
    assert ok(kernel, "int(rows.sum()), many[3]").result == "(1, 'x')"


def test_many_in_turn_with_plain_cells(kernel):
    ok(kernel, "import numpy as np; rows = np.zeros(20_000); count = 0; kept = rows[:5]")
    for number in range(12):
        head = (FORKED, "", ISOLATED)[number % 3]
        ok(kernel, head + f"rows[{number}] = {number}; count += 1")
    assert ok(kernel, "int(rows.sum()), count, kept.base is rows").result == "(66, 12, True)"


def test_errors_results_and_questions(kernel):
    outcome = kernel.run(FORKED + "x = 1\nraise ValueError('mine')")
    assert outcome.content["ename"] == "ValueError" and outcome.cost["run"] == "forked"
    assert ok(kernel, "x").result == "1"
    forked(kernel, "41 + 1")
    assert ok(kernel, "_ + 1").result == "43"
    assert kernel.run(FORKED + "input('who? ')", answers=["me"]).result == "'me'"


def test_tasks_go_on_in_the_main_worker(kernel):
    ok(
        kernel,
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.01); return 5\n"
        "task = asyncio.get_running_loop().create_task(later())",
    )
    assert forked(kernel, "await asyncio.sleep(0.001); await task").result == "5"
    assert ok(kernel, "await task").result == "5"
    assert forked(kernel, "await asyncio.gather(later(), later())").result == "[5, 5]"


# ---- what doesn't come back


def test_what_is_bound_to_its_process_is_reported_when_it_changed(kernel):
    ok(
        kernel,
        "import threading\nsteps = (i for i in range(9)); lock = threading.Lock()\n"
        "class Holder: pass\nholder = Holder(); holder.lock = lock; holder.values = [1]\n"
        "steps_too = steps; other = (i for i in range(3)); names = {'a': 1}",
    )
    assert stderr_of(kernel, "seen = lock.locked(), holder.values, type(other), len(names)") == ""
    said = stderr_of(kernel, "next(steps)")
    assert "steps, steps_too (generator)" in said and "lock" not in said
    assert "the notebook goes on with the value before the cell" in said
    assert ok(kernel, "next(steps)").result == "0"
    said = stderr_of(kernel, "holder.values.append(2)")
    assert "holder (lock inside): the notebook goes on" in said
    assert ok(kernel, "holder.values").result == "[1]"
    said = stderr_of(kernel, "with lock: pass")
    assert said == ""
    said = stderr_of(kernel, "lock.acquire()")
    assert "lock (" in said


def test_what_the_cell_makes_and_nobody_carries(kernel):
    ok(kernel, "old = (i for i in range(3)); gone = (i for i in range(3)); alias = gone")
    said = stderr_of(kernel, "made = (i for i in range(3)); old = made; next(old); del gone")
    assert "made (generator" in said and "old (generator" in said and "gone" not in said
    assert "the notebook goes on with the value before the cell" in said
    error = kernel.run("made").content
    assert error["ename"] == "NameError" and "--run=in-process" in error["evalue"]
    assert ok(kernel, "next(old)").result == "0"
    assert ok(kernel, "'gone' in globals(), next(alias)").result == "(False, 0)"


def test_what_cant_be_stored_is_reported(kernel):
    said = stderr_of(kernel, "globals()[''] = globals()[5] = 1; globals()['not a name'] = 2")
    assert "'', the name 5 (a name that isn't kept)" in said
    assert "not a name" not in said
    assert ok(kernel, "globals()['not a name'], 5 in globals()").result == "(2, False)"
    said = stderr_of(
        kernel, "import sys, types; tools = types.ModuleType('tools'); sys.modules['tools'] = tools"
    )
    assert "tools (" in said and "was made by the notebook" in said
    said = stderr_of(kernel, "try: 1 / 0\nexcept ZeroDivisionError as error: kept = error")
    assert "the traceback of kept" in said
    assert stderr_of(kernel, "kept.seen = True") == ""


def test_settings_come_back(kernel, tmp_path):
    (tmp_path / "own.py").write_text("count = 0\nnames = ['a']\ntable = {}\ndef f(): pass\n")
    ok(kernel, "import sys; sys.path.insert(0, '.'); import own, json; mine = own.names")
    said = stderr_of(
        kernel,
        "import gc, time, os, locale, csv\n"
        "sys.setrecursionlimit(4321); gc.set_threshold(500, 5, 5); os.environ['TZ'] = 'Asia/Tokyo'\n"
        "time.tzset(); sys.mark = 7; own.__dict__['count'] = 5; own.names.append('b')\n"
        "own.table.update(x=(1, 2)); vars(json)['flag'] = 'x'; csv.field_size_limit(99)\n"
        "sys.dont_write_bytecode = True",
    )
    assert said == ""
    found = ok(
        kernel,
        "import gc, time, csv\nsys.getrecursionlimit(), gc.get_threshold(), time.tzname[0], sys.mark,"
        " own.count, mine, own.table, json.flag, csv.field_size_limit(), sys.dont_write_bytecode",
    )
    assert found.result == (
        "(4321, (500, 5, 5), 'JST', 7, 5, ['a', 'b'], {'x': (1, 2)}, 'x', 99, True)"
    )


# A cell, what a later one asks, and the answer; NUMBER is that of the cell.
HOME = {
    "from __future__ import annotations": ("(lambda: 0, f.__annotations__)[1]", "{'a': 'missing'}"),
    "import os; os.putenv('HIDDEN', '3'); os.unsetenv('SHOWN')": (
        "os.system('test \"$HIDDEN$SHOWN\" = 3')",
        "0",
    ),
    "import multiprocessing; multiprocessing.current_process().name = 'Other'": (
        "multiprocessing.current_process().name",
        "'Other'",
    ),
    "import linecache; linecache.cache['made.py'] = (2, None, ['x\\n'], 'made.py')": (
        "linecache.getline('made.py', 1)",
        "'x\\n'",
    ),
    "import builtins; builtins.shared = [1]; builtins._ = 'text'; 5": (
        "shared, _, Out[NUMBER]",
        "([1], 'text', 5)",
    ),
    "def make():\n    class Local: pass\n    return Local()\nlocal = make()": (
        "type(local).__qualname__",
        "'make.<locals>.Local'",
    ),
    "del builtins._\n7": ("get_ipython().last_execution_result.result, _", "(7, 7)"),
    "del _oh\nexit = 1": ("exit, '_oh' in globals()", "(1, False)"),
}


@pytest.mark.fresh  # they change the process, and count results
def test_what_nobody_names_comes_back(kernel):
    ok(kernel, "import os; os.environ['SHOWN'] = 'x'")
    for code, (ask, answer) in HOME.items():
        outcome = forked(kernel, code)
        assert outcome.stream("stderr") == "", code
        if "annotations" in code:
            forked(kernel, "def f(a: missing): pass")
        ask = ask.replace("NUMBER", str(outcome.content["execution_count"]))
        if "_oh" in code:  # IPython shows no result without it
            assert ok(kernel, f"print(({ask}))").stream() == answer + "\n"
        else:
            assert forked(kernel, ask).result == answer, code


def test_globals_that_are_kept_stay_the_notebooks(kernel):
    forked(
        kernel,
        "here = globals(); class_of = type('Holder', (), {}); holder = class_of()\n"
        "holder.inner = {'names': [here]}; x = 1\n"
        "def set_to(value, names=globals()): names['x'] = value",
    )
    check = "here is globals(), holder.inner['names'][0] is globals(), x"
    assert forked(kernel, check).result == "(True, True, 1)"
    assert stderr_of(kernel, "here['x'] = 2") == ""
    assert ok(kernel, check).result == "(True, True, 2)"
    forked(kernel, "holder.inner['names'][0]['x'] = 3")
    assert ok(kernel, check).result == "(True, True, 3)"
    forked(kernel, "set_to(4)")
    assert ok(kernel, check).result == "(True, True, 4)"
    outcome = ok(kernel, "%%execute_with_scorep --run=isolated\n" + check)
    assert outcome.result == "(True, True, 4)"


def test_a_builtin_that_a_cell_deletes_is_gone(kernel):
    forked(kernel, "import builtins; builtins.shared = [1]")
    assert stderr_of(kernel, "del builtins.shared") == ""
    assert kernel.run("shared").content["ename"] == "NameError"
    for name in ("len", "round"):  # of which our own code after the cell has need
        put_back = f"put back resources that the cell took from its process: {name}"
        assert put_back in stderr_of(kernel, f"del builtins.{name}")


def test_a_warning_is_shown_once(kernel):
    warn = "import json; exec('import warnings\\ndef warn(): warnings.warn(\"mine\")', vars(json))"
    ok(kernel, warn)
    assert "mine" in stderr_of(kernel, "json.warn()")
    assert stderr_of(kernel, "json.warn()") == ""
    assert ok(kernel, "json.warn()").stream("stderr") == ""
    forked(kernel, "import warnings; warnings.simplefilter('always')")
    assert "mine" in stderr_of(kernel, "json.warn()")


def test_what_the_cell_collects_is_collected_in_the_notebook(kernel):
    ok(kernel, "class Plugin: pass\nclass Mine(Plugin): pass")
    forked(kernel, "import gc; del Mine; _ = gc.collect()")
    assert ok(kernel, "Plugin.__subclasses__()").result == "[]"


def test_settings_of_a_library_that_the_cell_imports(kernel):
    pytest.importorskip("numpy")
    forked(kernel, "import numpy as np; np.seterr(all='raise'); x = 1")
    assert ok(kernel, "import numpy; numpy.geterr()['over']").result == "'raise'"
    assert ok(kernel, "np is numpy").result == "True"


def test_what_the_cell_registers_comes_back(kernel):
    ok(kernel, "import gc, signal, sys\ndef mine(*args): pass")
    said = stderr_of(
        kernel,
        "signal.signal(signal.SIGUSR1, mine); sys.unraisablehook = mine; gc.callbacks.append(mine)\n"
        "get_ipython().events.register('post_run_cell', mine)",
    )
    assert said == ""
    shown = ok(
        kernel,
        "signal.getsignal(signal.SIGUSR1) is mine, sys.unraisablehook is mine, mine in gc.callbacks,"
        " mine in get_ipython().events.callbacks['post_run_cell']",
    )
    assert shown.result == "(True, True, True, True)"


NAMED = {
    "import atexit; atexit.register(print, 'never')": "exit handlers",
    "import threading; threading.Thread(target=time.sleep, args=(9,)).start()": "running threads",
    "import subprocess; p = subprocess.Popen(['sleep', '9'])": "child processes",
    "import signal; signal.setitimer(signal.ITIMER_VIRTUAL, 100)": "timers",
    "import builtins; builtins.print_twice = print": "builtins.print_twice",
    "vars(json)['later'] = iter([1])": "json.later",
    "import fcntl; held = open('held', 'w'); fcntl.lockf(held, fcntl.LOCK_EX)": "POSIX locks",
}


def test_what_a_list_lacks_is_reported(kernel, tmp_path):
    (tmp_path / "own.py").write_text("")
    ok(kernel, "import atexit, gc, json, os, own, signal, subprocess, sys, threading, time")
    assert stderr_of(kernel, "json.dumps({}), os.getcwd(), time.time(), len(sys.modules)") == ""
    for code, name in NAMED.items():
        said = stderr_of(kernel, code)
        assert "this cell's process" in said and name in said, (code, said)
    assert stderr_of(kernel, "import fractions, decimal; fractions.Fraction(1, 2)") == ""
    said = stderr_of(kernel, "own.__dict__['other'] = threading.Lock()")
    assert "not carried out of this cell: own:other (lock" in said


def test_iterators_in_modules_that_only_the_cell_imports_are_reported(kernel):
    ok(kernel, "import json, xml.dom; del json, xml")
    for code, name in {
        "import json; vars(json)['later'] = iter([1])": "json.later",
        "from xml import dom; vars(dom)['later'] = iter([1])": "xml.dom.later",
        "import os.path as path; vars(path)['later'] = iter([1])": "posixpath.later",
    }.items():
        assert name in stderr_of(kernel, code), code
    assert stderr_of(kernel, "import __main__, json, xml.dom") == ""


def test_exit_handlers_that_were_none_are_not_named(kernel, tmp_path):
    own = "import atexit\ndef f(): pass\natexit.unregister(f)\natexit.unregister(len)\n"
    (tmp_path / "own.py").write_text(own)
    ok(kernel, "import atexit; atexit.register(print, 'last'); atexit.register(len, '')")
    assert stderr_of(kernel, "import sys; sys.path.insert(0, '.'); import own") == ""
    assert stderr_of(kernel, "import atexit; atexit.unregister(abs)") == ""
    assert "exit handlers" in stderr_of(kernel, "atexit.unregister(print)")
    ok(kernel, "atexit.unregister(print)")
    assert stderr_of(kernel, "atexit.unregister(print)") == ""


def test_threads_of_the_users_own_classes_are_reported(kernel, tmp_path):
    (tmp_path / "own.py").write_text(
        "import threading\nclass Own(threading.Thread):\n    def run(self): threading.Event().wait(9)\n"
    )
    ok(kernel, "import own, threading\nclass Here(own.Own): pass")
    for made in ("own.Own", "Here"):
        said = stderr_of(kernel, f"{made}(daemon=True).start()")
        assert "ended with this cell's process: running threads" in said, made
    library = "import IPython.core.historyapp as app\nIts = type('Its', (own.Own,), {'__module__': app.__name__})\n"
    assert "threads" not in stderr_of(kernel, library + "Its(daemon=True).start(); del Its, app")


def test_addresses_are_named(kernel):
    said = stderr_of(
        kernel, "a = [1]; ids = {id(a): 'a'}; stamp = 1_790_000_000_000_000; none = id(None)"
    )
    assert "valid only in this cell's process: the addresses in ids (" in said
    ok(kernel, "b = [1]; names = {'b': (id(b), 'text')}")
    assert stderr_of(kernel, "a.append(2); len(ids), names") == ""
    assert "the addresses in names (" in stderr_of(kernel, "b.append(2)")
    said = stderr_of(
        kernel, "import array; buf = array.array('d', [1, 2]); place = buf.buffer_info()[0]"
    )
    assert "the addresses in place (" in said


def test_memory_that_is_written_by_its_address_comes_back(kernel):
    pytest.importorskip("numpy")
    ok(kernel, "import ctypes, numpy as np\na = np.arange(5000.0); address = a.ctypes.data")
    assert stderr_of(kernel, "other = 1") == ""
    said = stderr_of(kernel, "ctypes.memmove(address, address + 8, 8);")
    assert "the addresses in address (" in said  # where it has it from now on is another place
    assert ok(kernel, "float(a[0]), other").result == "(1.0, 1)"


# ---- its process


def test_exit_handlers_and_finalizers(kernel, tmp_path):
    """Those of the notebook are the main worker's; those that the cell registers run nowhere."""
    ok(
        kernel,
        "import atexit, os, weakref\nlog = os.path.abspath('log')\n"
        "def note(word):\n    with open(log, 'a') as file: file.write(f'{word} {os.getpid()}\\n')\n"
        "class Noisy:\n    def __del__(self): note('del')\n"
        "noisy = Noisy(); finalizer = weakref.finalize(noisy, note, 'finalize')\n"
        "atexit.register(note, 'exit')",
    )
    pid = ok(kernel, "os.getpid()").result
    assert "exit handlers" in stderr_of(
        kernel, "atexit.register(note, 'never'); found = vars(noisy) == {}"
    )
    forked(kernel, "mine = Noisy()\ndel mine")
    ok(kernel, "pass")
    text = (tmp_path / "log").read_text()
    assert len(text.splitlines()) == 1 and text.startswith("del ") and pid not in text
    kernel.manager.shutdown_kernel()
    lines = (tmp_path / "log").read_text().splitlines()[1:]
    assert lines.count(f"exit {pid}") == 1 and "never" not in str(lines)


def test_the_history_is_written_on(kernel):
    """The fork writes none; that it doesn't is no setting of the notebook's."""
    forked(kernel, "x = 1")
    ok(kernel, "'after the fork'")
    assert ok(kernel, "%history -l 1").stream() == "'after the fork'\n"
    forked(kernel, "%config HistoryManager.enabled = False")
    assert ok(kernel, "get_ipython().history_manager.enabled").result == "False"


def test_a_name_and_a_directory_without_utf_8(kernel, tmp_path):
    """As older archives leave them behind: what is sent of them is shown, and doesn't end the cell."""
    ok(kernel, f"import os; os.chdir({str(tmp_path)!r}); os.mkdir(b'd\\xff'); os.chdir(b'd\\xff')")
    outcome = forked(kernel, "x = 2; globals()['\\udc80'] = 1")
    assert "'\\udc80' (a name that isn't kept)" in outcome.stream("stderr")
    assert "d\ufffd" in outcome.stream()
    in_process = ok(kernel, "%%execute_with_scorep --run=in-process\nx += 1")
    assert in_process.cost["run"] == "in-process" and ok(kernel, "x").result == "3"
    assert "isn't UTF-8: %trace ls lists" in kernel.run("%trace --text").stream("stderr")
    directory = ok(kernel, "%trace ls").stream().splitlines()[-2].split()[-1]
    assert "cell In[" in ok(kernel, f"%trace {directory} --text").stream()


def test_nobody_sees_the_fork(kernel):
    code = """
import os, signal, psutil
signals = []
signal.signal(signal.SIGCHLD, lambda *a: signals.append(a))
def look():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return psutil.Process().children(), signals
"""
    ok(kernel, code + "import random; random.seed(1); a = random.random(); random.seed(1)")
    forked(kernel, "b = look()\nrandom.random() == a")
    assert ok(kernel, "look(), b").result == "(([], []), ([], []))"


def test_timers_and_signals_are_there(kernel):
    ok(
        kernel,
        "import signal, time\nticks = []\n"
        "signal.signal(signal.SIGALRM, lambda *a: ticks.append(1))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
    )
    code = "n = len(ticks)\nend = time.time() + 20\n"
    code += "while len(ticks) < n + 3 and time.time() < end: pass\nlen(ticks) >= n + 3"
    assert forked(kernel, code).result == "True"
    ok(kernel, "signal.setitimer(signal.ITIMER_REAL, 0)")


def test_what_was_written_and_not_flushed_is_written_once(kernel, tmp_path):
    ok(
        kernel,
        "file = open('file', 'w'); file.write('a'); print('printed', end='')\n"
        "def steps():\n    with open('hidden', 'w') as hidden:\n"
        "        hidden.write('b'); yield\n        hidden.flush(); yield\n"
        "hidden = steps(); next(hidden)",
    )
    outcome = forked(kernel, "file.write('c'); file.flush(); next(hidden)")
    assert "printed" not in outcome.stream()
    ok(kernel, "next(hidden); file.close(); hidden.close()")
    assert (tmp_path / "file").read_text() == "ac"
    assert (tmp_path / "hidden").read_text() == "b"


@pytest.mark.fresh  # gc.get_objects is replaced
def test_a_fork_looks_at_all_objects_only_where_a_buffer_may_wait(kernel, tmp_path):
    """To do so takes 40 ms under PyTorch."""
    ok(
        kernel,
        "import gc; looks = []; every = gc.get_objects\n"
        "gc.get_objects = lambda *a: looks.append(1) or every(*a)",
    )
    forked(kernel, "x = 1")
    assert ok(kernel, "len(looks)").result == "0"
    ok(kernel, "file = open('file', 'w')")
    forked(kernel, "x = 2")
    assert ok(kernel, "len(looks)").result == "1"


def test_files_that_the_cell_opens_come_back(kernel, tmp_path):
    ok(kernel, "import os, socket")
    forked(
        kernel,
        "file = open('file', 'w+'); file.write('abc'); left, right = socket.socketpair()\n"
        "left.sendall(b'x')",
    )
    assert ok(kernel, "file.seek(1); file.read(), right.recv(1)").result == "('bc', b'x')"
    forked(kernel, "file.seek(0); first = file.read(1); left.sendall(b'y')")
    assert ok(kernel, "first, file.read(), right.recv(1)").result == "('a', 'bc', b'y')"


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "ctypes.string_at(0)"])
def test_a_cell_that_dies_has_changed_nothing(kernel, end):
    pid = ok(kernel, "import ctypes, os\nkept = [1]; gen = iter(range(5))\nos.getpid()").result
    outcome = kernel.run(FORKED + f"kept.append(2); next(gen); {end}")
    assert outcome.content["ename"] == "CellDied"
    assert "as they were before the cell" in outcome.content["evalue"]
    assert ok(kernel, "kept, next(gen), os.getpid()").result == f"([1], 0, {pid})"
    assert forked(kernel, "kept").result == "[1]"


def test_files_stand_where_they_stood_when_a_cell_died(kernel, tmp_path):
    (tmp_path / "file").write_text("first\nsecond\n")
    ok(kernel, "import os; file = open('file'); line = file.readline()")
    assert kernel.run(FORKED + "file.seek(0, 2); os._exit(1)").status == "error"
    assert ok(kernel, "file.read()").result == r"'second\n'"
    ok(kernel, "raw = os.fdopen(os.open('file', os.O_RDONLY), 'rb', 0)")
    assert kernel.run(FORKED + "raw.read(6); os._exit(1)").status == "error"
    assert ok(kernel, "raw.read(5)").result == "b'first'"


def test_the_main_worker_dies_while_the_fork_runs(kernel, tmp_path):
    pid = int(ok(kernel, "import os, time\nkept = [1]\nos.getpid()").result)
    code = "kept.append(2)\nprint('on', flush=True)\n"
    sent = begun(kernel, FORKED + code + "while not os.path.exists('go'): time.sleep(0.01)")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    (tmp_path / "go").touch()
    assert kernel.finish(sent).status == "ok"
    assert ok(kernel, f"kept, os.getpid() != {pid}").result == "([1, 2], True)"


def test_an_interrupt(kernel):
    ok(kernel, "import time; kept = [1]")
    sent = begun(kernel, FORKED + "kept.append(2)\nprint('on', flush=True)\nwhile True: pass")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
    assert forked(kernel, "kept").result == "[1, 2]"


def test_forks_leave_nothing_behind(kernel):
    count = "import os; len(os.listdir('/proc/self/fd'))"
    ok(kernel, "import numpy as np; rows = np.zeros(1 << 16)")
    forked(kernel, "rows[0] = 1")
    before = int(ok(kernel, count).result)
    for number in range(10):
        forked(kernel, f"rows[{number}] = 1; other = rows + 1", ISOLATED)
    assert int(ok(kernel, count).result) <= before + 1
    # The main worker and two standbys.
    until(lambda: len(kernel.workers()) <= 3, lambda: f"{len(kernel.workers())} processes")


# ---- where a fork isn't safe


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("import threading, time\nthread = threading.Thread(target=time.sleep, args=(600,),"
         " daemon=True); thread.start()", "a fork lacks the thread Thread-"),
        ("import subprocess; child = subprocess.Popen(['sleep', '600'])", "child processes"),
        ("try: import _interpreters as made\nexcept ImportError: import _xxsubinterpreters as made\n"
         "other = made.create()", "a fork lacks another interpreter"),
    ],
    ids=["thread", "child", "interpreter"],
)  # fmt: skip
def test_a_clean_process_where_a_fork_would_lack_something(kernel, make, reason):
    ok(kernel, make + "\nx = [1]")
    outcome = ok(kernel, FORKED + "x.append(2); x")
    assert outcome.cost["run"] == "isolated" and reason in outcome.cost["run_reason"]
    assert outcome.result == "[1, 2]" and ok(kernel, "x").result == "[1, 2]"
    assert reason in ok(kernel, "%holdfast last").stream()
    ends = {"child": "child.kill(); child.wait()", "made": "made.destroy(other)"}
    ok(kernel, next((code for name, code in ends.items() if name in make), "pass"))


def test_a_notebook_that_records_by_itself(kernel, tmp_path):
    """Its recording goes on in its own process; the cell has another one, in a fork."""
    ok(kernel, "import os, scorep\nos.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'own'\n"
       "scorep.register()\ndef f(): pass\nsteps = iter(range(3))")  # fmt: skip
    ok(kernel, "os.environ['SCOREP_EXPERIMENT_DIRECTORY'] = 'cell'")
    outcome = ok(kernel, "%%execute_with_scorep\nf(); print(os.getpid()); next(steps)")
    assert outcome.cost["run"] == "forked" and "recording is open" in outcome.cost["run_reason"]
    assert outcome.result == "0" and outcome.cost["events"] > 0
    until(lambda: not os.path.exists(f"/proc/{outcome.stream().split()[0]}"))  # its part is locked
    ok(kernel, "f(); scorep.close()")
    assert (tmp_path / "own" / "traces.otf2").exists()
    assert (tmp_path / "cell" / "traces.otf2").exists()
    assert not list((tmp_path / "own").glob("*part*"))


def test_two_groups_have_two_keys(kernel):
    """The first cell's group came from a fork, and the next fork counts from where it began."""
    cells = [
        "a = [1]; b = [a]; p = {}; q = []",
        "p['x'] = q; a.append(2)",
        "print(a, b, p, b[0] is a, p['x'] is q)",
    ]
    assert [forked(kernel, cell).status for cell in cells] == ["ok"] * 3
    assert kernel.run(cells[2]).stream() == "[1, 2] [[1, 2]] {'x': []} True True\n"


def test_a_dead_proxy_costs_nothing(kernel):
    kernel.run("import weakref\nclass P: pass\np = P(); w = weakref.proxy(p)")
    assert forked(kernel, "del p; x = 5").status == "ok"
    assert kernel.run("x").result == "5"
