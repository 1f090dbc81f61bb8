"""What cells do to their process, and that the next cells run.

Each sabotage runs in a plain cell or in a recorded one; then follow a plain and two recorded cells that use
what it broke. Where a process can't be kept, its end is reported once
and the variables are those of the last commit.
"""

import effort
import pytest
from processes import kill
from waiting import until

from tests.conftest import kernel_starter

HEADS = {
    "plain": "",
    "isolated": "%%execute_with_scorep --run=isolated\n",
    "in-process": "%%execute_with_scorep --run=in-process\n",
}
PROBE = (
    "import os, sys, subprocess, asyncio\nprint('alive')\n"
    "def _f(): return len([1, 2])\nopen(os.devnull).close()\nos.write(1, b'raw')\n"
    "await asyncio.sleep(0)\nkept, _f()"
)

# What is put back, and the word that says so.
REPAIRED = {
    "closed stdout": ("import os; os.close(1)", "descriptor 1"),
    "closed outputs": ("import os; os.close(1); os.close(2)", "descriptor 2"),
    "an output that can't be written to": (  # as SQLite opens it, when it finds the number free
        "import os\nfd = os.open('/dev/null', os.O_RDONLY); os.dup2(fd, 1); os.close(fd)",
        "descriptor 1",
    ),
    "no print": ("import builtins; builtins.print = 3", "print"),
    "no import": ("import builtins; builtins.__import__ = None", "__import__"),
    "no open": ("import builtins; del builtins.open", "open"),
    "no builtins": ("import builtins; builtins.__dict__.clear()", "isinstance"),
    "a wrong len": (
        "import builtins; builtins.len = lambda x: 0; builtins.isinstance = lambda *a: False",
        "isinstance, len",
    ),
    "no modules": ("import sys; sys.modules.clear()", "sys.modules"),
    "a blocked SIGINT": (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
        "SIGINT",
    ),
}

# What needs no repair, or stays as in ipykernel, and does no harm.
HARMLESS = {
    "closed stdin": "import os; os.close(0)",
    "a redirected output": "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 2)",
    "an ignored SIGINT": "import signal; _ = signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "an alarm": (
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\n"
        "_ = signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)"
    ),
    "a fork that falls off": "import os\npid = os.fork()",
    "a fork that lives on": "import os, time\nif os.fork() == 0: time.sleep(60)",
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "closed streams": "import sys; sys.stdout.close(); sys.stderr.close()",
    "no paths": "import sys; sys.path_importer_cache.clear(); sys.path_hooks.clear()",
    "no collector": "import gc; gc.disable(); gc.freeze()",
    "a low recursion limit": "import sys; sys.setrecursionlimit(100)",
    "a removed directory": (
        "import os, tempfile\nd = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)"
    ),
    "a umask": "import os; _ = os.umask(0o777)",
    "a nice value": "import os; _ = os.nice(19)",
    "a locale": "import locale; _ = locale.setlocale(locale.LC_ALL, 'C')",
    "no hooks": "import sys; sys.excepthook = None; sys.displayhook = None",
    "no arguments": "import sys; sys.argv = None; sys.stdin = None",
    "a stopped loop": "import asyncio; asyncio.get_event_loop().stop()",
    "no loop": "import asyncio; asyncio.set_event_loop(None)",
    "no environment": "import os; os.environ.clear()",
    "a closed exit": "import atexit, time; _ = atexit.register(time.sleep, 100)",
}

# What ends the process, and how that is reported.
DEADLY = {
    "all descriptors closed": ("import os; os.closerange(3, 1024)", "exit status 1"),
    "exit": ("import os; os._exit(7)", "exit status 7"),
    "exec": ("import os; os.execv('/bin/sleep', ['sleep', '60'])", "closed its channel"),
    "processor time": (
        "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)",
        "(SIGXCPU), since its limit of processor time was reached",
    ),
    "a fatal error": ("import ctypes; ctypes.pythonapi.Py_FatalError(b'no more')", "(SIGABRT)"),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", "(SIGSEGV)"),
    "a kill": ("import os; os.kill(os.getpid(), 9)", "perhaps because memory ran out"),
    "no memory": (
        "import resource\nhard = resource.getrlimit(resource.RLIMIT_AS)[1]\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**20, hard))\n"
        "try: x = bytes(10**6)\nfinally: import os; os._exit(1)",
        "exit status 1",
    ),
}


@pytest.fixture(scope="module")
def one_kernel(tmp_path_factory):
    """For all tests here: what hurts it shows in those that follow."""
    with kernel_starter(tmp_path_factory.mktemp("health")) as start:
        kernel = start()
        yield kernel
        kernel.run("import atexit, time; atexit.unregister(time.sleep)")


@pytest.fixture
def kernel(one_kernel):
    """It, with a main worker that no test before has touched: its sleeping fork was touched, too."""
    for _ in range(2):  # a fork may have been made meanwhile
        for pid in one_kernel.workers():
            kill(pid)
        until(lambda: one_kernel.run("kept = 5").status == "ok")
    assert one_kernel.run(HEADS["isolated"] + "kept").status == "ok"  # which commits it
    return one_kernel


def all_well(kernel):
    for head in HEADS.values():
        outcome = kernel.run(head + PROBE)
        assert outcome.status == "ok", outcome.content
        assert outcome.result == "(5, 2)"
        assert "alive" in outcome.stream() and "raw" in outcome.stream()


@pytest.mark.parametrize(("kind", "head"), effort.in_turn(REPAIRED, HEADS))
def test_what_a_cell_took_is_put_back(kernel, kind, head):
    code, named = REPAIRED[kind]
    outcome = kernel.run(HEADS[head] + code)
    assert (
        outcome.stream("stderr").count("put back resources that the cell took from its process")
        == 1
    )
    assert named in outcome.stream("stderr")
    all_well(kernel)


@pytest.mark.parametrize(("kind", "head"), effort.in_turn(HARMLESS, HEADS))
def test_what_does_no_harm(kernel, kind, head):
    outcome = kernel.run(HEADS[head] + HARMLESS[kind])
    assert outcome.status == "ok", outcome.content
    assert "put back" not in outcome.stream("stderr")
    all_well(kernel)


@pytest.mark.parametrize(("kind", "head"), effort.in_turn(DEADLY, HEADS))
def test_a_death_is_one_named_error(kernel, kind, head):
    code, named = DEADLY[kind]
    outcome = kernel.run(HEADS[head] + code)
    assert outcome.status == "error" and outcome.content["ename"] == "CellDied"
    assert named in outcome.content["evalue"]
    assert outcome.types.count("error") == 1
    all_well(kernel)


@pytest.mark.parametrize("head", HEADS)
def test_the_interpreters_last_words_are_shown(kernel, head):
    """As far as they are of the cell: neither the shell's frames nor threads that serve it."""
    code = "def last(): ctypes.pythonapi.Py_FatalError(b'no more')\nlast()"
    said = kernel.run(HEADS[head] + "import ctypes\n" + code).stream("stderr")
    assert "Fatal Python error: no more" in said
    assert said.count("most recent call first") == 1
    frames = [line.split()[-1] for line in said.splitlines() if line.startswith("  Cell In[")]
    assert frames == ["last", "<module>"]


def test_what_is_replaced_for_a_purpose_stays(kernel):
    kernel.run(
        "import builtins\nsaid = []\n"
        "def say(*words, **options): said.extend(words)\n"
        "was, builtins.print = builtins.print, say"
    )
    assert kernel.run("print('heard')").stream() == ""
    assert kernel.run("builtins.print = was; said").result == "['heard']"


def test_a_process_without_descriptors_goes_on(kernel):
    """Until the cell's files are closed it can open none; nothing else is lost."""
    kernel.run(
        "import os\nfiles = []\ntry:\n    while True: files.append(os.open('/dev/null', 0))\n"
        "except OSError as error: print(error.errno)"
    )
    assert kernel.run("kept").result == "5"
    assert kernel.run(HEADS["isolated"] + "kept").result == "5"
    kernel.run("for fd in files: os.close(fd)")
    all_well(kernel)


def test_a_worker_that_cannot_reply_is_replaced(kernel):
    """No reply would ever come: its process ends instead, and the next one has all."""
    outcome = kernel.run(
        "import json; from holdfast.worker import running\n"
        "running._encode = json.loads = json.dumps = None"
    )
    assert outcome.content["ename"] == "CellDied"
    all_well(kernel)


def test_a_check_is_cheap(kernel):
    """Counted, not timed: calls of functions, Python's and C's, of which four ask the system."""
    kernel.run(
        "import sys\ndef calls_of_a_check(health):\n"
        "    calls = []\n    found = health.begin()\n"
        "    def count(frame, event, argument):\n"
        "        if event in ('call', 'c_call'): calls.append(argument or frame.f_code.co_name)\n"
        "    sys.setprofile(count)\n    health.check(found)\n    sys.setprofile(None)\n"
        "    return calls"
    )
    outcome = kernel.run("len(calls_of_a_check(get_ipython().health))")
    assert int(outcome.result) <= 15
