"""What a clean process doesn't have and nobody but the notebook's own process has is named (docs/not-carried.md)."""

import pytest

CELL = "%%execute_with_scorep --run=isolated\n"
WAKEUP = "import signal, socket; a, b = socket.socketpair(); a.setblocking(False); signal.set_wakeup_fd(a.fileno());"
REMOVED = "import os; os.makedirs('gone/away'); os.chdir('gone/away'); os.removedirs('../away')"
SETTINGS = {
    "functions of IPython's shell": "get_ipython().showtraceback = lambda *args, **named: None",
    "overloads (typing.overload)": "import typing\n@typing.overload\ndef f(x: int): ...\ndef f(x): return x",
    "functions that follow new threads": "import threading; threading.settrace(lambda *args: None)",
    "logging's factory and class of loggers": "import logging\nclass L(logging.Logger): pass\nlogging.setLoggerClass(L)",
    "attributes and classes of loggers": "import logging; logging.getLogger('mine').info = lambda *args: None",
    "signal.set_wakeup_fd()": WAKEUP,
    "a working directory that was removed": REMOVED,
    "the session and process group": "import os; os.setpgid(0, 0)",
    "where the descriptors 0, 1 and 2 lead": "import os; os.dup2(os.open('/dev/zero', os.O_RDONLY), 0)",
    "an open profiler (cProfile, coverage)": "import cProfile; profiler = cProfile.Profile(); profiler.enable()",
}


@pytest.mark.fresh
def test_settings_are_named_once(kernel):
    for source in SETTINGS.values():
        assert kernel.run(source).status == "ok"
    said = kernel.run(CELL + "1 + 1").stream("stderr")
    assert [name for name in SETTINGS if name not in said] == []
    assert "own process alone has that" not in kernel.run(CELL + "1 + 1").stream("stderr")


@pytest.mark.fresh
def test_a_removed_directory_is_named_where_a_recording_needs_one(kernel):
    """And no longer when the notebook has left it."""
    kernel.run("import os; here = os.getcwd();" + REMOVED)
    outcome = kernel.run("%%execute_with_scorep\n1")
    assert "did not run: the working directory was removed. Choose" in outcome.content["evalue"]
    kernel.run("os.chdir(here)")
    assert kernel.run(CELL + "1").stream("stderr") == ""


def test_python_in_development_mode_is_no_setting_of_the_notebooks(lend):
    kernel = lend(PYTHONASYNCIODEBUG="1")
    assert (
        kernel.run(CELL + "import asyncio; asyncio.get_running_loop().get_debug()").result == "True"
    )
    assert "event loop" not in kernel.run(CELL + "1").stream("stderr")


# By what a cell makes: the part that is named, and why.
MADE = {
    "import multiprocessing as mp; made = [mp.Pool(1)]": "Pool inside: its workers belong",
    "from multiprocessing import Manager; m = Manager(); made = m.list()": "ListProxy: its manager serves",
    "import threading; made = threading.Timer(9, print)": "Timer: a thread ends with its process",
    "import multiprocessing as mp; made = mp.Value('i')": "Synchronized: a process shares it with its children",
    "import subprocess; made = subprocess.Popen('true')": "Popen: a process is its parent's alone",
    "import asyncio; made = asyncio.Future()": "Future: it belongs to one process's event loop",
}


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_what_belongs_to_a_process_is_named_as_a_whole(kernel, run):
    for code, words in MADE.items():
        head = f"%%execute_with_scorep --run={run}\n"
        assert kernel.run(head + code).status == "ok"
        evalue = kernel.run("made").content["evalue"]
        assert words in evalue, (code, evalue)


ALONE = {
    "the handler of SIGTERM": "import signal; signal.signal(signal.SIGTERM, lambda *args: None);",
    "settings of asyncio's event loop": "import asyncio; asyncio.get_running_loop().set_debug(True)",
    "what stands for sys.stdout and sys.stderr": "import sys; sys.stderr = open('stderr.txt', 'w')",
    "signal.set_wakeup_fd()": WAKEUP,
    "a working directory that was removed": REMOVED,
    "the session and process group": "import os; os.setsid()",
    "an open profiler (cProfile, coverage)": "import cProfile; cProfile.Profile().enable()",
    "functions of os.register_at_fork": "import os; os.register_at_fork(before=lambda: None)",
    "handlers of signals in C": "import faulthandler, signal; faulthandler.register(signal.SIGUSR1)",
    "where the descriptors 0, 1 and 2 lead": "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
}


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_changes_of_one_process_are_named_in_the_notebook_once(kernel, tmp_path, run):
    kernel.run(f"import os; os.chdir({str(tmp_path)!r})")
    for name, code in ALONE.items():
        outcome = kernel.run(f"%%execute_with_scorep --run={run}\n" + code)
        assert outcome.stream("stderr").count(name) == 1, outcome.stream("stderr")
    assert (tmp_path / "stderr.txt").read_text() == ""


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_results_of_a_cached_function_that_one_process_keeps(kernel, run):
    """Named with the function below the cell that called it; in a clean cell also what the notebook keeps, once."""
    kernel.run("import functools, threading\n@functools.cache\ndef f(x): return threading.Lock()")
    head = f"%%execute_with_scorep --run={run}\n"
    assert "f (the results that it keeps" in kernel.run(head + "f(1); 1").stream("stderr")
    kernel.run("f(2); f.cache_info().currsize")
    said = kernel.run(head + "1").stream("stderr")
    assert said.count("the results that f keeps") == (run == "isolated"), said
    assert kernel.run(head + "1").stream("stderr") == ""


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_handlers_that_python_does_not_know_of(kernel, run):
    """A library's own, too; not if the cell takes it away again, nor if an import brings it."""
    kernel.run("import ctypes, faulthandler, signal; c = ctypes.CDLL(None)")
    head, name = f"%%execute_with_scorep --run={run}\nimport ctypes, faulthandler, signal\n", "in C"
    sets = "ctypes.CDLL(None).signal(signal.SIGUSR2, ctypes.CDLL(None).abs)"
    both = "faulthandler.register(signal.SIGUSR1); faulthandler.unregister(signal.SIGUSR1)"
    for code, is_named in ((sets + "; 1", True), (both, False), ("import readline", False)):
        assert (name in kernel.run(head + code).stream("stderr")) == is_named, code


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_settings_of_the_process_that_the_system_has_cross(kernel, run):
    sets = (
        "import os; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "open('/proc/self/comm', 'w').write('mine'); open('/proc/self/oom_score_adj', 'w').write('500')"
    )
    kernel.run(f"%%execute_with_scorep --run={run}\n" + sets)
    found = kernel.run(
        "import os; [os.sched_getscheduler(0), *(open(f'/proc/self/{name}').read() for name in ('comm', 'oom_score_adj'))]"
    )
    assert found.result == "[3, 'mine\\n', '500\\n']"


@pytest.mark.fresh
def test_a_wakeup_descriptor_that_was_closed_costs_no_rollback(kernel):
    """Who takes it for good can make no fork, and the notebook goes on unprotected."""
    kernel.run(WAKEUP + " b.close(); a.close()")
    kernel.run("%%execute_with_scorep\nimport os; x = 2; os.kill(os.getpid(), 9)")
    assert kernel.run("a.fileno()").result == "-1"


@pytest.mark.fresh
def test_where_a_sleeping_fork_leads_its_descriptors_is_no_change(kernel):
    """It has pipes of its own when it wakes; stdin is the notebook's, and so is what a plain cell put there."""
    name = "where the descriptors 0, 1 and 2 lead"
    for source, is_named in (("1", False), (SETTINGS[name], True)):
        kernel.run(source)
        kernel.run("%%execute_with_scorep\nimport os; os.kill(os.getpid(), 9)")
        assert (name in kernel.run(CELL + "1").stream("stderr")) == is_named


def test_a_commit_needs_no_function_that_the_user_has_replaced(kernel):
    kernel.run(
        "from unittest import mock; p = mock.patch('builtins.open', mock.mock_open()); p.start();"
    )
    assert kernel.run("kept = [1]").status == "ok"
    kernel.settle()
    outcome = kernel.run("%%execute_with_scorep --run=forked\nkept.append(2)")
    assert (outcome.status, outcome.stream("stderr")) == ("ok", "")
    assert kernel.run("p.stop(); print(kept)").stream() == "[1, 2]\n"
