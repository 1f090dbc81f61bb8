"""A cell's way from the main worker through a fresh process and back, with a real store.

The test plays the frontend: it asks the main worker to commit, publishes, hands the cell to a cell
worker, publishes what that prepared, and has the main worker adopt it.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from waiting import at_rest

_store = pytest.importorskip("holdfast._store")
pytest.importorskip("holdfast._recorder")

_PATH = Path(__file__).resolve().parent.parent / "support" / "frontend.py"
_SPEC = importlib.util.spec_from_file_location("holdfast_test_frontend", _PATH)
frontend_module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(frontend_module)


class Kernel:
    """A main worker and cells around one session."""

    def __init__(self, directory):
        self.session = _store.Session.create(label="test")
        env = {
            "IPYTHONDIR": str(directory / "ipython"),
            "SCOREP_EXPERIMENT_DIRECTORY": "trace",
        }
        self.frontend = frontend_module.Frontend(
            self.session.fd, env=env, cwd=str(directory), is_prepared=True
        )
        self.main = self.frontend.fork("main")
        self.unserializable = {}

    def plain(self, code, **options):
        return self.main.run(code, **options)

    def import_in_server(self, *modules):
        """As the frontend does, for the workers that are forked from now on."""
        self.frontend.server.send({"op": "import", "modules": modules})
        self.frontend.server.until("imported")

    def commit(self):
        self.main.send({"op": "commit", "id": 0})
        reply, _ = self.main.until("reply")
        self.unserializable = reply.get("unserializable") or {}
        if "prepared" in reply:
            generation = self.session.publish(reply["prepared"])
            self.main.send({"op": "published", "generation": generation})
        return reply

    def start(self, code, arguments=(), isolated=True):
        self.commit()
        cell = self.frontend.fork("cell")
        cell.count = self.main.count
        instrument = {
            "arguments": list(arguments),
            "unserializable": self.unserializable,
            "isolated": isolated,
        }
        cell.start_cell(code, instrument=instrument)
        return cell

    def instrumented(self, code, arguments=(), isolated=True):
        cell = self.start(code, arguments, isolated)
        answer = cell.answer(60)
        cell.socket.close()
        if "prepared" in answer.reply:
            generation = self.session.publish(answer.reply["prepared"])
            adopt = {
                "op": "adopt",
                "generation": generation,
                "code": code,
                "store_history": True,
            }
            adopt |= {"execution_count": self.main.count, "report": answer.report}
            self.main.send(adopt)
        self.main.count = cell.count
        assert self.frontend.exited(cell) == 0
        return answer

    def close(self):
        with contextlib.suppress(OSError):  # a cell may have ended it
            self.main.send({"op": "exit"})
        self.frontend.close()
        self.session.destroy()
        self.session.close()


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(tmp_path)
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def one_kernel(tmp_path_factory):
    """For all tests of a module: they begin with %reset."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    yield kernel
    kernel.close()


def test_values_go_there_and_back(kernel):
    kernel.plain("a = [1, 2]; b = a; n = 5; gone = 1")
    answer = kernel.instrumented("a.append(3); n += 1; made = {'k': n}; del gone\nb is a")
    assert answer.result == "True"
    assert answer.report["seconds_in"] >= 0 and answer.report["seconds_out"] >= 0
    assert kernel.plain("a, b is a, n, made").result == "([1, 2, 3], True, 6, {'k': 6})"
    assert kernel.plain("gone").content["ename"] == "NameError"


def test_main_worker_and_cells_find_their_shell_built(kernel):
    made_once = "get_ipython().kernel.session.session"  # a random number
    first, second = (kernel.instrumented(made_once).result for _ in range(2))
    assert first == second == kernel.plain(made_once).result
    # What is of one process is its own all the same.
    kernel.plain("import os, sys")
    assert kernel.instrumented("get_ipython().kernel.session.pid == os.getpid()").result == "True"
    assert kernel.instrumented("sys.path.count('')").result == "1"
    history = "get_ipython().history_manager.hist_file"
    assert kernel.instrumented(history).result == "':memory:'" != kernel.plain(history).result
    own = (
        "get_ipython().history_manager.{0} is {1} and 'HistoryManager' not in get_ipython().config"
    )
    for has, bound in (("input_hist_parsed", "In"), ("output_hist", "Out"), ("dir_hist", "_dh")):
        assert kernel.plain(own.format(has, bound)).result == "True"


def test_nothing_is_imported_on_the_way_to_a_cell(kernel):
    # The fork server noted what it had imported when it built the shell.
    more = "import sys; sorted(set(sys.modules) - get_ipython()._sys_modules_keys)"
    assert kernel.instrumented(more, isolated=False).result == "[]"


@pytest.mark.parametrize("file", ["ipython_config.py", "startup/first.py"])
def test_files_of_the_user_run_in_workers_alone(tmp_path, file):
    path = tmp_path / "ipython" / "profile_default" / file
    path.parent.mkdir(parents=True)
    pids = tmp_path / "pids"
    setting = "c" if file.endswith("config.py") else "get_ipython().config"
    path.write_text(
        f"import os\n{setting}.Mine.setting = 5\n"
        f"with open({str(pids)!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')\n"
    )
    kernel = Kernel(tmp_path)
    try:
        for run in (kernel.plain, kernel.instrumented, kernel.instrumented):
            assert run("get_ipython().config.Mine.setting").result == "5"
        ran = [int(pid) for pid in pids.read_text().split()]
        assert len(set(ran)) == len(ran) == (3 if file.endswith("config.py") else 1)
        assert kernel.frontend.process.pid not in ran
    finally:
        kernel.close()


def test_functions_see_a_rebound_global(kernel):
    kernel.plain("def f(): return x\nx = 1")
    assert kernel.instrumented("x = 2\nf()").result == "2"
    assert kernel.plain("f()").result == "2"
    assert kernel.plain("x = 3\nf()").result == "3"


def test_unreached_names_are_left_and_kept(kernel):
    kernel.plain("used = {'a': 1}; unused = {'b': [2] * 9999}\ndef f(): return used")
    answer = kernel.instrumented("f()")
    assert answer.result == "{'a': 1}"
    assert answer.report["names_skipped"] >= 1
    assert answer.report["reason"] == ""
    assert kernel.plain("len(unused['b'])").result == "9999"


def test_everything_is_bound_where_code_is_opaque(kernel):
    kernel.plain("hidden_well = {'a': 1}")
    answer = kernel.instrumented("globals()['hidden' + '_well']")
    assert answer.result == "{'a': 1}"
    assert "globals" in answer.report["reason"]


def test_process_state(kernel, tmp_path):
    (tmp_path / "sub").mkdir()
    kernel.plain(
        "import os, sys, random, warnings\nos.environ['MINE'] = '1'; os.chdir('sub')\n"
        "sys.path.append('/nowhere'); random.seed(3); warnings.simplefilter('ignore')\n"
        "os.environ.pop('SCOREP_EXPERIMENT_DIRECTORY')"
    )
    answer = kernel.instrumented(
        "import os, sys, random\nfirst = random.random()\n"
        "seen = (os.environ['MINE'], os.path.basename(os.getcwd()), sys.path.count('/nowhere'),\n"
        "        'SCOREP_EXPERIMENT_DIRECTORY' in os.environ)\n"
        "os.environ['MINE'] = '2'; del os.environ['HOME']; os.chdir('..')\n"
        "sys.path.append('/other')\n"
        "seen"
    )
    assert answer.result == "('1', 'sub', 1, False)"
    here = kernel.plain(
        "expected = random.Random(3); r1, r2 = expected.random(), expected.random()\n"
        "(os.environ['MINE'], 'HOME' in os.environ, sys.path.count('/nowhere'),"
        " sys.path.count('/other'), first == r1, random.random() == r2,"
        f" os.path.samefile('.', {str(tmp_path)!r}))"
    )
    assert here.result == "('2', False, 1, 1, True, True, True)"


MODULE = "value = {}\ndef get(): return value\nclass Made:\n    def get(self): return value\n"


def test_what_a_cell_made_of_a_module_it_found(kernel, tmp_path):
    """In a directory that it put on sys.path, and after the directory of a relative one was left."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "found_by_cell.py").write_text(MODULE.format(3))
    kernel.instrumented(
        "import sys; sys.path.append('sub')\nimport found_by_cell\n"
        "made, get = found_by_cell.Made(), found_by_cell.get"
    )
    assert kernel.plain("made.get(), get(), type(made) is found_by_cell.Made").result == (
        "(3, 3, True)"
    )
    kernel.instrumented("import os; os.chdir('sub'); again = found_by_cell.Made()")
    assert kernel.instrumented("again.get(), made.get(), get()").result == "(3, 3, 3)"
    assert kernel.plain("again.get(), made.get(), get()").result == "(3, 3, 3)"


LOCATE = """import importlib.util as util, sys
spec = util.spec_from_file_location({0!r}, {1!r})
{0} = sys.modules[{0!r}] = util.module_from_spec(spec)
spec.loader.exec_module({0})
{0}_made, {0}_get = {0}.Made(), {0}.get
"""


@pytest.mark.parametrize("file", ["other name.py", "package/__init__.py"])
def test_modules_made_from_files(kernel, tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(MODULE.format(4))
    kernel.plain(LOCATE.format("located", file))
    check = "{0}_made.get(), {0}_get(), {0}.get(), type({0}_made) is {0}.Made"
    assert kernel.instrumented(check.format("located")).result == "(4, 4, 4, True)"
    kernel.instrumented(LOCATE.format("in_cell", file))
    assert kernel.plain(check.format("in_cell")).result == "(4, 4, 4, True)"
    assert kernel.instrumented(check.format("in_cell")).result == "(4, 4, 4, True)"


def test_numpy_random_state(kernel):
    pytest.importorskip("numpy")
    kernel.plain("import numpy as np\nnp.random.seed(5)\nexpected = np.random.RandomState(5)")
    kernel.instrumented("a = np.random.rand()")
    code = "(a == expected.rand(), np.random.rand() == expected.rand())"
    assert kernel.plain(f"tuple(bool(x) for x in {code})").result == "(True, True)"


def test_in_and_out(kernel):
    kernel.plain("40 + 2")
    answer = kernel.instrumented("(_, Out[1], In[1], _i, In[2])")
    assert answer.result == "(42, 42, '40 + 2', '40 + 2', '(_, Out[1], In[1], _i, In[2])')"
    kernel.instrumented("'from a cell'")
    assert kernel.plain("(_, Out[3], In[3], _3)").result == repr(
        ("from a cell", "from a cell", "'from a cell'", "from a cell")
    )
    history = kernel.main.ask(
        "history_request",
        hist_access_type="range",
        session=0,
        start=1,
        stop=4,
        raw=True,
        output=False,
    )
    assert [entry[2] for entry in history.content["history"]][-1] == "'from a cell'"


def test_in_has_the_python_that_ran(kernel):
    kernel.instrumented("%timeit -n1 -r1 pass")
    assert "run_line_magic" in kernel.plain("In[1]").result


def test_declined_names(kernel):
    kernel.plain("g = (i for i in range(3)); next(g); fine = 1")
    assert "g" in kernel.commit()["unserializable"]
    assert kernel.instrumented("fine + 1").result == "2"
    answer = kernel.instrumented("before = 1\nnext(g)")
    assert answer.content["ename"] == "NotCarriedError"
    for word in ("'g'", "generator", "execute_with_scorep"):
        assert word in answer.content["evalue"]
    traceback = "\n".join(answer.content["traceback"])
    assert "NotCarriedError" in traceback
    assert kernel.plain("before, next(g)").result == "(1, 1)"


def test_an_unknown_name_is_a_plain_name_error(kernel):
    kernel.plain("x = 1")
    assert kernel.instrumented("nothing_of_this_name").content["ename"] == "NameError"


def test_a_name_made_anew_is_no_declined_name(kernel):
    kernel.plain("g = (i for i in range(3))")
    assert kernel.instrumented("g = 5\ng").result == "5"
    assert kernel.plain("g").result == "5"


def test_lost_names_are_reported(kernel):
    answer = kernel.instrumented("made = (i for i in range(3)); kept = 2")
    assert "made" in answer.report["names_lost"]
    assert "made" in answer.text("stderr") and "generator" in answer.text("stderr")
    assert kernel.plain("kept").result == "2"


def test_error_keeps_what_was_done_before_it(kernel):
    answer = kernel.instrumented("done = 1\n\nraise ValueError('here')")
    assert answer.content["ename"] == "ValueError"
    assert answer.content["evalue"] == "here"
    assert "3" in "\n".join(answer.content["traceback"])
    assert kernel.plain("done").result == "1"


def test_death_changes_nothing(kernel):
    kernel.plain("a = [1]")
    cell = kernel.start("a.append(2); import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert cell.frame(60) is None
    assert os.WTERMSIG(kernel.frontend.exited(cell)) == signal.SIGKILL
    assert kernel.plain("a").result == "[1]"
    assert kernel.instrumented("a.append(3); a").result == "[1, 3]"


def test_magics_display_input_and_await_in_a_cell(kernel):
    kernel.plain("x = 3")
    assert "per loop" in kernel.instrumented("%timeit -n1 -r1 x").text()
    answer = kernel.instrumented("display(x)\n!echo {x + 1}")
    assert answer.messages("display_data")[0]["data"]["text/plain"] == "3"
    assert answer.text().split() == ["4"]
    assert kernel.instrumented("import asyncio\nawait asyncio.sleep(0, x)").result == "3"


def test_interrupt_of_a_cell(kernel):
    kernel.plain("a = 1")
    cell = kernel.start("a = 2; print('go'); import time; time.sleep(60)")
    cell.until("stream")
    at_rest(lambda: [cell.pid])  # CPython may miss a signal just before it sleeps
    cell.interrupt()
    assert cell.answer().content["ename"] == "KeyboardInterrupt"
    cell.socket.close()
    assert kernel.frontend.exited(cell) == 0


def test_exit_handlers_of_libraries_run_after_the_reply(kernel):
    register = "__import__('atexit').register(__import__('os').write, 1, b'bye')"
    cell = kernel.start(f"import json; kept = eval({register!r}, vars(json))")
    cell.answer()
    assert cell.output() == ""
    cell.socket.close()
    assert kernel.frontend.exited(cell) == 0
    assert cell.output() == "bye"


def test_what_a_cell_keeps_tidies_up_at_its_end(kernel, tmp_path):
    code = (
        "import os, threading\nclass Tidy:\n    def __del__(self): os.write(1, b'gone')\n"
        "one = Tidy(); Out[90] = Tidy(); kept = Tidy(); kept.lock = threading.Lock()\n"
        "temporary = get_ipython().mktempfile()"
    )
    cell = kernel.start(code + "; print(temporary)")
    temporary = Path(cell.answer().text().strip())
    assert temporary.parent.is_dir()
    cell.socket.close()
    assert kernel.frontend.exited(cell) == 0
    assert cell.output() == "gone"  # of what isn't carried
    assert not temporary.exists() and not temporary.parent.exists()


def test_a_thread_left_running_does_not_hold_the_end(kernel):
    code = (
        "import threading, time\n"
        "t = threading.Thread(target=time.sleep, args=(600,)); t.start()\ndel t"
    )
    assert kernel.instrumented(code).status == "ok"


def test_cell_numbers_are_the_kernels(kernel):
    kernel.plain("1")
    kernel.plain("2")
    assert kernel.instrumented("3").content["execution_count"] == 3
    assert kernel.plain("4").content["execution_count"] == 4


def test_history_is_written_by_the_main_worker_only(kernel, tmp_path):
    kernel.instrumented("get_ipython().history_manager.hist_file")
    answer = kernel.plain("_")
    assert answer.result == "':memory:'"


def test_recorded_cell(kernel, tmp_path):
    kernel.plain("def work(n): return sum(i for i in range(n))")
    answer = kernel.instrumented("x = work(10)\nx", isolated=False)
    assert answer.result == "45"
    assert answer.reply["trace"] == "trace"
    assert answer.report["events"] > 0
    assert (tmp_path / "trace" / "traces.otf2").exists()
    if shutil.which("otf2-print"):
        printed = subprocess.run(
            ["otf2-print", str(tmp_path / "trace" / "traces.otf2")],
            capture_output=True,
            text=True,
        ).stdout
        assert "work" in printed
        # Neither the shell around the cell nor what prepared it is in the trace.
        assert "run_code" not in printed and "showtraceback" not in printed


def test_error_in_a_recorded_cell(kernel, tmp_path):
    answer = kernel.instrumented("def f(): 1 / 0\nf()", isolated=False)
    assert answer.content["ename"] == "ZeroDivisionError"
    plain = kernel.plain("def f(): 1 / 0\nf()")
    # The same frames as in a plain cell: our own run_code is as invisible as IPython's.
    assert stripped(answer.content["traceback"]) == stripped(plain.content["traceback"])


def stripped(lines):
    """A traceback without the cell's number."""
    return re.sub(r"In\[\d+\]", "In[]", "\n".join(lines))


def test_noinstrumenter_records_only_regions(kernel):
    kernel.plain("def work(): return 1")
    answer = kernel.instrumented(
        "import scorep.user\nwith scorep.user.region('mine'): work()",
        arguments=["--noinstrumenter"],
        isolated=False,
    )
    assert answer.status == "ok"
    assert answer.report["events"] == 2


def test_percent_holdfast(kernel):
    kernel.plain("value = [1, 2, 3]; g = (i for i in ())")
    kernel.instrumented("value")
    shown = kernel.plain("%holdfast").text()
    assert "value" in shown and "generator" in shown
    phases = [line.split()[0] for line in kernel.plain("%holdfast last").text().splitlines()]
    assert phases == ["in", "run", "out", "It"]


FAIL_ONCE = """
def fail_once():
    import gc
    main = next(one for one in gc.get_objects() if type(one).__name__ == "MainWorker")
    class Names:
        def __init__(self, names):
            self._names = names
        def __getattr__(self, name):
            return getattr(self._names, name)
        def adopt(self, *arguments):
            main.names = self._names
            raise MemoryError
    main.names = Names(main.names)
fail_once()
del fail_once
"""


def test_an_adoption_that_failed_is_done_before_the_next_cell(kernel):
    """Else the notebook goes on with the values from before the cell, and no commit works any more."""
    kernel.plain("x = [1]")
    kernel.commit()
    kernel.plain(FAIL_ONCE)
    kernel.instrumented("x.append(2)")
    assert kernel.plain("x").result == "[1, 2]"
    kernel.plain("x.append(3)")
    assert "prepared" in kernel.commit()
