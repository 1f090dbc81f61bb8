"""The worker alone, driven over the control channel: plain cells and the fork server.

The frontend is tests/support/frontend.py. There is no store here; test_worker_cell.py has one.
"""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from needed import needed
from processes import state
from waiting import at_rest, until

_PATH = Path(__file__).resolve().parent.parent / "support" / "frontend.py"
_SPEC = importlib.util.spec_from_file_location("holdfast_test_frontend", _PATH)
frontend_module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(frontend_module)


@pytest.fixture(scope="module")
def frontend(tmp_path_factory):
    main = tmp_path_factory.mktemp("ipython")
    with frontend_module.Frontend(env={"IPYTHONDIR": str(main)}) as frontend:
        yield frontend


@pytest.fixture
def main(frontend):
    worker = frontend.fork("main")
    yield worker
    worker.send({"op": "exit"})
    frontend.exited(worker)


# ---- cells


def test_result_and_count(main):
    assert main.run("6 * 7").result == "42"
    answer = main.run("_ + 1")
    assert answer.result == "43"
    assert answer.content["execution_count"] == 2
    assert main.run("Out[1], In[1]").result == "(42, '6 * 7')"


@pytest.mark.parametrize("role", ["main", "assistant"])
def test_requests_that_cannot_be_read_are_answered(frontend, role):
    """The frontend lets none through that it knows; this process is another one's last line."""
    worker = frontend.fork(role)
    wrong = (b"{", b"[1]", b'{"a": "\xff"}', b'{"a": ' + b"7" * 5000 + b"}")
    wrong += (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",)
    for kind in ("complete_request", "debug_request", "execute_request"):
        for part in ("header", "parent", "metadata", "content"):
            for value in wrong:
                sent = worker.request(kind, {}, **{part: value})
                reply, _ = worker.until("reply")
                assert reply["id"] == sent
                if not reply.get("main"):
                    content = json.loads(reply["content"])
                    assert content["status"] == "error", (kind, part, value[:20])
    worker.request("is_complete_request", {"code": "1"})
    reply, _ = worker.until("reply")
    assert json.loads(reply["content"])["status"] == "complete"
    worker.send({"op": "exit"})
    frontend.exited(worker)


def test_count_stays_without_history(main):
    main.run("1")
    assert main.run("2", store_history=False).content["execution_count"] == 1
    assert main.run("3", silent=True).result is None
    assert main.run("4").content["execution_count"] == 2


def test_streams_are_in_order_with_displays(main):
    answer = main.run("display(1); print('a'); display(2)")
    kinds = [frame.get("type", frame.get("text")) for frame in answer.frames]
    assert kinds == ["display_data", "a", "\n", "display_data"] or kinds == [
        "display_data",
        "a\n",
        "display_data",
    ]


def test_stderr_and_surrogates(main):
    answer = main.run("import sys; print('bad', file=sys.stderr); print('\\ud800')")
    assert answer.text("stderr") == "bad\n"
    assert answer.text() == "\\ud800\n"


def test_lines_are_frames_of_their_own(main):
    answer = main.run("for i in range(50): print(i)")
    assert answer.text() == "".join(f"{i}\n" for i in range(50))
    assert len(answer.frames) <= 75  # and not two each; a busy machine may cut some


def test_raw_descriptor_is_a_pipe(main):
    main.run("import os; os.write(1, b'raw')")
    assert main.output() == "raw"
    assert main.run("import sys; sys.stdout.fileno(), sys.stdin.read()").result == "(1, '')"


def test_error_names_line_of_the_cell(main):
    answer = main.run("a = 1\nb = 2\n1 / 0")
    assert answer.status == "error"
    assert answer.content["ename"] == "ZeroDivisionError"
    (error,) = answer.messages("error")
    assert error["traceback"] == answer.content["traceback"]
    plain = "\n".join(answer.content["traceback"])
    assert "3" in plain and "Cell" in plain


def test_syntax_error(main):
    assert main.run("x = 1\n  y").content["ename"] == "IndentationError"
    assert main.run("(").content["ename"] in ("SyntaxError", "_IncompleteInputError")


def test_sys_exit_is_an_error_not_an_end(main):
    assert main.run("import sys; sys.exit(3)").content["ename"] == "SystemExit"
    assert main.run("1").result == "1"


def test_top_level_await_and_tasks_between_cells(main):
    assert main.run("import asyncio\nawait asyncio.sleep(0.001)\n'done'").result == "'done'"
    main.run("async def later():\n    await go.wait()\n    print('late')\n    seen.append(1)")
    first = main.run("seen, go = [], asyncio.Event()\ntask = asyncio.create_task(later())")
    answer = main.run("go.set(); await task; seen")
    assert answer.result == "[1]"
    assert answer.text() == "late\n"
    late = next(frame for frame in answer.frames if frame["op"] == "stream")
    # It belongs to the cell that started it, not to the one that runs.
    number = first.reply["id"]
    assert json.loads(late["parent"])["msg_id"] == f"m{number}"


def test_thread_writes_for_the_running_cell(main):
    main.run(
        "import threading\ngo = threading.Event()\n"
        "def work():\n    go.wait(); print('from a thread')\n"
        "thread = threading.Thread(target=work); thread.start()"
    )
    answer = main.run("go.set(); thread.join()")
    assert answer.text() == "from a thread\n"


def test_user_expressions_and_payload(main):
    answer = main.run("x = 2", user_expressions={"twice": "x * 2", "bad": "nothing"})
    expressions = answer.content["user_expressions"]
    assert expressions["twice"]["data"]["text/plain"] == "4"
    assert expressions["bad"]["ename"] == "NameError"
    (payload,) = main.run("print?").content["payload"]
    assert payload["source"] == "page"


def test_magics_and_shell(main):
    assert main.run("%%bash\necho from bash").text() == "from bash\n"
    assert main.run("!echo one").text().split() == ["one"]
    assert main.run("x = !echo two\nx").result == "['two']"
    assert "per loop" in main.run("%timeit -n1 -r1 pass").text()


def test_libraries_recognise_ipykernel(main):
    code = (
        "from ipykernel.kernelapp import IPKernelApp\n"
        "shell = get_ipython()\n"
        "(type(shell).__name__, 'IPKernelApp' in shell.config, IPKernelApp.initialized(),\n"
        " shell.kernel is IPKernelApp.instance().kernel, __name__)"
    )
    assert main.run(code).result == "('ZMQInteractiveShell', True, True, True, '__main__')"


def test_matplotlib_inline(main):
    pytest.importorskip("matplotlib")
    answer = main.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);", timeout=120)
    (display,) = answer.messages("display_data")
    assert "image/png" in display["data"]


# ---- input


def test_input(main):
    main.start_cell("import getpass\ninput('name? ') + getpass.getpass('pw ')", allow_stdin=True)
    asked, _ = main.until("input_request")
    assert (asked["prompt"], asked["password"]) == ("name? ", False)
    main.send({"op": "input_reply", "value": "ann"})
    asked, _ = main.until("input_request")
    assert (asked["prompt"], asked["password"]) == ("pw ", True)
    main.send({"op": "input_reply", "value": "secret"})
    assert main.answer().result == "'annsecret'"


def test_input_in_a_thread(main):
    main.start_cell("import asyncio\nawait asyncio.to_thread(input, 'thread? ')", allow_stdin=True)
    main.until("input_request")
    main.send({"op": "input_reply", "value": "yes"})
    assert main.answer().result == "'yes'"


def test_input_refused(main):
    assert main.run("input()").content["ename"] == "StdinNotImplementedError"


def test_requests_behind_an_input_are_kept(main):
    main.start_cell("input()", allow_stdin=True)
    main.until("input_request")
    main.request("is_complete_request", {"code": "1"})
    main.send({"op": "input_reply", "value": "x"})
    assert main.answer().result == "'x'"
    assert main.answer().content["status"] == "complete"


# ---- interrupts

BUSY = {
    "sleep": "import time; print('go'); time.sleep(60)",
    "loop": "print('go')\nwhile True: pass",
    "await": "import asyncio; print('go'); await asyncio.sleep(60)",
    "after await": "import asyncio, time\nawait asyncio.sleep(0); print('go'); time.sleep(60)",
    "child": "import subprocess; print('go'); subprocess.run(['sleep', '60'])",
    "printing": "while True: print('go')",
}


def interrupt_at_rest(main, waits=True):
    """SIGINT once the cell that printed is in what it does next: it waits, or goes on.

    CPython itself misses a signal that comes after its last look and before a system
    call that waits: time.sleep(60) then sleeps on. A person doesn't hit these microseconds.
    """
    main.until("stream")
    if waits:
        at_rest(lambda: [main.pid])
    main.interrupt()


@pytest.mark.parametrize("kind", BUSY)
def test_interrupt(main, kind):
    main.start_cell(BUSY[kind])
    interrupt_at_rest(main, waits=kind not in ("loop", "printing"))
    answer = main.answer()
    assert answer.content["ename"] == "KeyboardInterrupt"
    assert main.run("1 + 1").result == "2"


def test_interrupt_of_an_input(main):
    main.start_cell("input()", allow_stdin=True)
    main.until("input_request")
    main.interrupt()
    assert main.answer().content["ename"] == "KeyboardInterrupt"


def test_interrupt_between_cells_is_ignored(main):
    main.run("import asyncio\ntask = asyncio.create_task(asyncio.sleep(0.3, 'slept'))")
    main.interrupt()
    assert main.run("await task").result == "'slept'"


def test_interrupt_that_the_cell_catches(main):
    main.start_cell(
        "import time\ntry:\n    print('go'); time.sleep(60)\n"
        "except KeyboardInterrupt: print('caught')"
    )
    interrupt_at_rest(main)
    answer = main.answer()
    assert answer.status == "ok"
    assert "caught" in answer.text()


# One comes at the jump back from a loop, which has no line on Python 3.11, or before a module's first.
TRAP = """
import _thread, functools, operator
class Trap: __contains__ = _thread.interrupt_main
def loop(trap):
    for _ in range(3):
        if 2 in trap:
            pass
def tidy():
    try:
        1 / 0
    finally:
        done = True
"""
CHAIN = "try:\n    loop(Trap())\nexcept KeyboardInterrupt:\n    raise ValueError(5)"
IMPORT = (
    "run = functools.partial(exec, compile('one = 1', '{0}', 'exec'))\n"
    "list(map(operator.call, (_thread.interrupt_main, run)))"
)


@pytest.mark.parametrize(
    ("code", "name", "word"),
    [
        ("loop(Trap())", "KeyboardInterrupt", "in loop("),
        (CHAIN, "ValueError", "in loop("),
        (IMPORT, "KeyboardInterrupt", "module.py:1"),
        ("tidy()", "ZeroDivisionError", "line 9, in tidy("),
    ],
    ids=["loop", "chain", "import", "finally"],
)
def test_an_error_is_shown_where_it_was(main, tmp_path, code, name, word):
    module = tmp_path / "module.py"
    module.write_text("one = 1\n")
    main.run(TRAP)
    answer = main.run(code.replace("{0}", str(module)))
    (error,) = answer.messages("error")
    shown = re.sub("\x1b[^m]*m", "", "\n".join(error["traceback"]))
    assert error["ename"] == answer.content["ename"] == name
    assert word in shown and "interrupt.py" not in shown


# ---- requests that are no cells


def test_shell_requests(main):
    main.run("some_name = 1")
    assert (
        "some_name" in main.ask("complete_request", code="some_n", cursor_pos=6).content["matches"]
    )
    assert main.ask("inspect_request", code="print", cursor_pos=2, detail_level=0).content["found"]
    answer = main.ask("is_complete_request", code="for x in y:")
    assert answer.content == {"status": "incomplete", "indent": "    "}
    history = main.ask("history_request", hist_access_type="tail", n=1, output=False, raw=True)
    assert history.content["history"][-1][2] == "some_name = 1"
    assert main.ask("debug_request", type="request", seq=5, command="x").content["request_seq"] == 5


def test_unknown_request_is_an_error_reply(main):
    assert main.ask("imagined_request").status == "error"
    assert main.run("1").result == "1"


ECHO = """
def target(comm, message):
    @comm.on_msg
    def received(message):
        got.append(message['content']['data'])
        comm.send({'echo': message['content']['data']}, buffers=[b'abc'])
got = []
get_ipython().kernel.comm_manager.register_target('echo', target)
"""


def test_comms(main):
    main.run(ECHO)
    opened = main.ask("comm_open", comm_id="c", target_name="echo", data={})
    assert "content" not in opened.reply
    assert main.ask("comm_info_request").content["comms"] == {"c": {"target_name": "echo"}}
    answer = main.ask("comm_msg", comm_id="c", data=7)
    assert answer.messages("comm_msg") == [{"data": {"echo": 7}, "comm_id": "c"}]
    assert answer.frames[0]["buffers"] == [b"abc"]


def test_comm_reaches_a_cell_that_awaits(main):
    main.run(ECHO)
    main.ask("comm_open", comm_id="c", target_name="echo", data={})
    cell = main.start_cell("import asyncio\nwhile not got: await asyncio.sleep(0.01)\ngot")
    time.sleep(0.1)
    main.request("comm_msg", {"comm_id": "c", "data": 1})
    replies = [main.answer(), main.answer()]
    (of_cell,) = [answer for answer in replies if answer.reply["id"] == cell]
    assert of_cell.content["status"] == "ok"


# ---- processes


def test_forked_child_prints_to_the_pipe(main):
    code = (
        "import os\npid = os.fork()\n"
        "if pid == 0:\n    print('child'); os._exit(0)\nos.waitpid(pid, 0)[1]"
    )
    assert main.run(code).result == "0"
    assert main.output() == "child\n"
    assert main.run("1").result == "1"


def test_multiprocessing(main):
    code = (
        "import multiprocessing\ndef square(x): return x * x\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    r = pool.map(square, range(4))\nr"
    )
    assert main.run(code).result == "[0, 1, 4, 9]"


def test_random_differs_between_forks(frontend, main):
    other = frontend.fork("main")
    code = "import random; random.random()"
    assert main.run(code).result != other.run(code).result
    other.send({"op": "exit"})
    frontend.exited(other)


def test_no_foreign_descriptors(frontend, main):
    # A worker that kept another's channel open would hide that one's death.
    links = {os.readlink(f"/proc/{main.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{main.pid}/fd")}
    sockets = [link for link in links if link.startswith("socket:")]
    # Its control channel, and asyncio's pair to wake itself.
    assert len(sockets) == 3
    server = frontend.process.pid
    theirs = {os.readlink(f"/proc/{server}/fd/{fd}") for fd in os.listdir(f"/proc/{server}/fd")}
    assert not links & {link for link in theirs if link.startswith(("socket:", "pipe:"))} - {
        os.readlink(f"/proc/{main.pid}/fd/{fd}") for fd in (1, 2)
    }


def test_a_cell_says_once_that_it_begins(main):
    number = main.start_cell("1 + 1")
    main.answer()
    assert main.started.count(number) == 1
    main.ask("complete_request", code="x", cursor_pos=1)
    assert len(main.started) == main.started.index(number) + 1


def test_death_is_reported_with_its_signal(frontend):
    worker = frontend.fork("main")
    worker.start_cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert worker.frame() is None
    assert os.WTERMSIG(frontend.exited(worker)) == signal.SIGKILL


def test_segfault_leaves_a_traceback_on_stderr(frontend):
    worker = frontend.fork("main")
    worker.start_cell("import ctypes; ctypes.string_at(0)")
    assert worker.frame() is None
    assert os.WTERMSIG(frontend.exited(worker)) == signal.SIGSEGV
    assert "Segmentation fault" in worker.output("stderr")


def test_exit_runs_exit_handlers(frontend):
    worker = frontend.fork("main")
    worker.run("import atexit, os; atexit.register(os.write, 1, b'bye')")
    worker.send({"op": "exit"})
    assert frontend.exited(worker) == 0
    assert worker.output() == "bye"


def test_end_of_channel_ends_an_idle_worker(frontend):
    worker = frontend.fork("main")
    worker.socket.close()
    assert frontend.exited(worker) == 0


def test_environment(main):
    main.send({"op": "environment", "values": {"HOLDFAST_TEST": "set"}})
    assert main.run("import os; os.environ['HOLDFAST_TEST']").result == "'set'"


def test_unknown_op_is_logged(main):
    main.send({"op": "imagined"})
    assert main.run("1").result == "1"
    assert "imagined" in main.output("stderr")


# ---- the fork server


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_worker_outlives_the_fork_server(how):
    with frontend_module.Frontend() as frontend:
        worker = frontend.fork("main")
        worker.start_cell("print('go')\nimport os\nkept = input()", allow_stdin=True)
        worker.until("input_request")
        if how == "closed":
            frontend.server.socket.close()
        else:
            frontend.process.kill()
        frontend.process.wait(60)
        worker.send({"op": "input_reply", "value": "mine"})
        assert worker.answer().status == "ok"
        assert worker.run("kept, os.getppid()").result == f"('mine', {os.getpid()})"


FRONTEND = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from frontend import Frontend
frontend = Frontend()
worker = frontend.fork("main")
worker.start_cell(sys.argv[2])
worker.until("stream")
frontend.process.kill()
frontend.process.wait()
print(worker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "code",
    [
        "print('go', flush=True)\nwhile True: pass",
        "import ctypes; print('go', flush=True); ctypes.CDLL(None).sleep(600)",
        "import ctypes, signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
        "print('go', flush=True)\nctypes.PyDLL(None).sleep(600)",
    ],
    ids=["loop", "call", "masked"],
)
def test_a_blocked_worker_dies_with_the_frontend_only(code):
    """Also if the fork server was dead before."""
    support = os.path.dirname(frontend_module.__file__)
    ran = subprocess.run(
        [sys.executable, "-c", FRONTEND, support, code], stdout=subprocess.PIPE, timeout=120
    )
    pid = int(ran.stdout)
    until(lambda: state(pid) == "Z")


def test_a_worker_that_is_not_ready_at_the_end_leaves(frontend):
    """It says that it is ready to nobody; the fork server would wait for it."""
    ours, theirs = socket.socketpair()
    ours.close()
    null = os.open(os.devnull, os.O_WRONLY)
    frontend.server.send({"op": "fork", "role": "cell"}, [theirs.fileno(), null, null])
    theirs.close()
    os.close(null)
    forked, _ = frontend.server.until("forked")
    assert frontend_module.wait(forked["pid"]) == 0


def await_imported(frontend, module):
    """What the fork server has imported when it has this, but for what it imports of itself."""
    found = set()
    while module not in found:
        done, _ = frontend.server.until("imported")
        found.update(done["modules"])
    return found - {"stack_data"}


def test_fork_server_imports_for_later_forks(frontend):
    names = ["wave", "holdfast_no_such_module", "__main__", "a.b", "\udcff"]
    frontend.server.send({"op": "import", "modules": names})
    assert await_imported(frontend, "wave") == {"wave"}
    worker = frontend.fork("main")
    assert worker.run("import sys; 'wave' in sys.modules").result == "True"
    worker.send({"op": "exit"})
    frontend.exited(worker)


def test_libraries_of_a_fork_server(frontend):
    """Their finalizers are not a worker's, and they were used there once, without a thread."""
    needed("torch")
    pending = "import weakref; sum(each.atexit for each in weakref.finalize._registry)"
    worker = frontend.fork("main")
    own = int(worker.run(pending).result)  # IPython's
    worker.send({"op": "exit"})
    frontend.exited(worker)
    frontend.server.send({"op": "import", "modules": ["torch"]})
    await_imported(frontend, "torch")
    worker = frontend.fork("main")
    assert int(worker.run(f"import torch; {pending}").result) == own
    worker.run("from holdfast import codecs; known = codecs._rehearsed.copy()")
    assert "libraries.torch.tensors" in eval(worker.run("known").result)
    threads = "import os; len(os.listdir(f'/proc/{os.getpid()}/task'))"
    if sys.platform == "linux":
        before = worker.run(threads).result
        worker.run("codecs._rehearsed.clear(); codecs.rehearse()")
        assert eval(worker.run("codecs._rehearsed == known").result)
        assert worker.run(threads).result == before
    worker.run("import os\nclass A: pass\na = A(); weakref.finalize(a, os.write, 1, b'mine')")
    assert int(worker.run(pending).result) == own + 1
    worker.send({"op": "exit"})
    frontend.exited(worker)
    assert worker.output() == "mine"


def test_fork_server_never_imports_the_users_modules(tmp_path):
    (tmp_path / "wave.py").write_text("import os; os.write(2, b'shadowed')")
    (tmp_path / "mine_to_keep.py").write_text("raise RuntimeError")
    with frontend_module.Frontend(cwd=str(tmp_path), env={"PYTHONPATH": python_path()}) as frontend:
        frontend.server.send({"op": "import", "modules": ["mine_to_keep", "wave"]})
        done, _ = frontend.server.until("imported")
        assert "mine_to_keep" not in done["modules"]
        worker = frontend.fork("main")
        # The user's own import finds his file first, as under ipykernel.
        assert "RuntimeError" in worker.run("import mine_to_keep").content["ename"]


def python_path():
    return os.pathsep.join(entry for entry in sys.path if entry)


def test_fork_server_ignores_sigint(frontend):
    os.kill(frontend.process.pid, signal.SIGINT)
    worker = frontend.fork("main")
    assert worker.run("1").result == "1"
    worker.send({"op": "exit"})
    frontend.exited(worker)
