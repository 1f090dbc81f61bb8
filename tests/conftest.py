"""Fixtures of all rooms: real kernels, started as clients start them."""

import atexit
import contextlib
import gc
import json
import os
import queue
import shutil
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path

import effort
import hung
import hypothesis
import pytest
import renewal
import waiting
from jupyter_client.connect import LocalPortCache
from processes import fields_of, forks_for_another

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import ports  # noqa: E402

del sys.path[0]
# Of each kernel that these tests start.
LocalPortCache.find_available_port = lambda self, ip: ports.free_port(ip)

# The core tries the same random examples each time; a long run (effort.py) gets others.
hypothesis.settings.register_profile("holdfast", derandomize=not effort.IS_LONG)
hypothesis.settings.load_profile("holdfast")

# A history, and a configuration, of each process of the tests: a history that others write to is locked now and
# then, and a fork waits until its own line is written, five seconds at most.
os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="holdfast-ipython-")
atexit.register(shutil.rmtree, os.environ["IPYTHONDIR"], ignore_errors=True)

# How long a kernel waits for a process that may hang: longer than anything takes on a busy machine. The tests of a
# limit set it themselves.
for name in ("ANSWER", "INTERRUPT", "READY", "VALUE"):
    os.environ.setdefault(f"HOLDFAST_{name}_SECONDS", "60")

# A Score-P on PATH would record what the tests of the built-in recorder look at. Those of
# Score-P's ask for it.
os.environ.setdefault("HOLDFAST_RECORDER", "builtin")

gc.disable()  # until all are collected: what that makes stays

SUPPORT = Path(__file__).parent / "support"
_SHARED_THREADS = set()  # of clients that live on after the test that was the first to need them


class FailuresAtOnce:
    """Says which test failed when it does: a run that is ended before its summary has said so."""

    def __init__(self, plugins):
        self._plugins = plugins

    def pytest_runtest_logreport(self, report):
        terminal = self._plugins.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nfailed: {report.nodeid} ({report.when})")


def pytest_configure(config):
    if not hasattr(
        config, "workerinput"
    ):  # the one process of pytest-xdist that hears of all tests
        config.pluginmanager.register(FailuresAtOnce(config.pluginmanager))


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked `long`, unless this is a long run (effort.py)."""
    gc.enable()
    if effort.IS_LONG:
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def new_threads(before):
    return set(sys._current_frames()) - before - _SHARED_THREADS


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """A test that leaves a Python thread behind fails, and not one that comes after it."""
    before = set(sys._current_frames())
    yield

    def left():
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return [names.get(one, "a thread below threading") for one in new_threads(before)]

    waiting.until(lambda: not new_threads(before), left, seconds=20)


@pytest.fixture
def but_for_the_runner(monkeypatch):
    """Threads that are there before the test are no threads of the program's, as none is in a worker: the runner's, by
    one of which a process of pytest-xdist hears from the one that directs it, and those of a shared client."""
    frames, threads = sys._current_frames, threading.enumerate
    others = set(frames()) - {threading.get_ident()}
    monkeypatch.setattr(
        sys,
        "_current_frames",
        lambda: {one: frame for one, frame in frames().items() if one not in others},
    )
    monkeypatch.setattr(
        threading,
        "enumerate",
        lambda: [one for one in threads() if one.ident not in others],
    )


def program(name):
    """Path of an installed program: beside the interpreter, from the environment, or in PATH."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    return os.environ.get(name.upper().replace("-", "_")) or shutil.which(name)


def write_kernelspec(kernels, python=None, arguments=(), **other):
    """A kernelspec `holdfast` in a directory of kernelspecs: this package's kernel, or `other`."""
    argv = [program("holdfast-kernel"), "-f", "{connection_file}"]
    assert argv[0] is not None, "holdfast-kernel is not installed"
    argv += ["--python", python or sys.executable, *arguments]
    spec = {"argv": argv, "display_name": "Holdfast", "language": "python"}
    spec["metadata"] = {"supported_encryption": ["curve"]}
    spec |= other
    directory = kernels / "holdfast"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(spec))


class Notebook:
    """A kernel and a client, with the few calls that a test needs."""

    def __init__(self, manager):
        self.manager = manager
        self.client = manager.client()
        self.codes = []  # of the cells that ran
        self.before = 0  # the number of the last cell before these
        self.leaves = False  # it was asked to: nobody else gets it, even if it still lives
        self.client.start_channels()
        try:
            self._wait_for_ready(deadline=time.monotonic() + 60)
        except BaseException:
            self.client.stop_channels()
            raise

    def _wait_for_ready(self, deadline):
        """Wait until it answers, and what it publishes is heard: with the client's own function, that takes
        0.2 s longer, in which nothing comes."""
        sent, last = [], None
        while last is None or last != sent[-1]:
            if not self.manager.is_alive():  # also after it answered: it may give up then
                raise RuntimeError("the kernel died before it was ready")
            assert time.monotonic() < deadline, "the kernel isn't ready"
            if last is None:
                sent.append(self.client.kernel_info())
            with contextlib.suppress(queue.Empty):
                last = self._idle_of(sent, timeout=0.1)
        while sent:
            sent.remove(self.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"])

    def _idle_of(self, sent, timeout):
        """The next of these requests whose end is published."""
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            request = message["parent_header"].get("msg_id")
            if request in sent and message["content"].get("execution_state") == "idle":
                return request

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    def run(self, code, timeout=60, answers=(), **options):
        """Run a cell; its reply, with `outputs`, `texts`, `states` and `messages` added."""
        options.setdefault("allow_stdin", bool(answers))
        self.codes.append(code)
        sent = self.client.execute(code, **options)
        return self.finish(sent, timeout, answers)

    def finish(self, sent, timeout=60, answers=()):
        try:
            return self._finish(sent, timeout, answers)
        except queue.Empty:
            hung.describe(self.pid)
            raise

    def _finish(self, sent, timeout, answers):
        answers = list(answers)
        messages, idle = [], False
        while not idle:
            message = self._iopub(timeout, answers)
            if message is None or message["parent_header"].get("msg_id") != sent:
                continue
            messages.append(message)
            if message["msg_type"] == "stream":
                text = message["content"]["text"]
                assert "VERIFY FAILED" not in text, text
            idle = (
                message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            )
        reply = self.client.get_shell_msg(timeout=timeout)
        while reply["parent_header"].get("msg_id") != sent:
            reply = self.client.get_shell_msg(timeout=timeout)
        return Outcome(reply, messages)

    def _iopub(self, timeout, answers):
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self.client.get_iopub_msg(timeout=0.05 if answers else timeout)
            except queue.Empty:
                if not answers or time.monotonic() > deadline:
                    raise
            try:
                request = self.client.get_stdin_msg(timeout=0)
            except queue.Empty:
                continue
            assert request["msg_type"] == "input_request"
            self.client.input(answers.pop(0))

    def control(self, kind, content=None, timeout=60):
        """Ask on the control channel; the reply."""
        message = self.client.session.msg(kind, content or {})
        self.client.control_channel.send(message)
        self.leaves |= kind == "shutdown_request"
        while True:
            reply = self.client.get_control_msg(timeout=timeout)
            if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                return reply

    def settle(self):
        """Have the main worker commit now what it would in an idle moment; on a busy machine that is late.

        The question that this asks is no cell of the notebook's.
        """
        outcome = self.run("%holdfast diff", store_history=False)
        assert outcome.status == "ok", outcome.content

    def _below(self):
        """The processes that live, by the pid of their parent: pid, and process group."""
        below = {}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            state, parent, group = fields_of(pid)[:3] or ("Z", 0, 0)
            if state != "Z":
                below.setdefault(int(parent), []).append((pid, int(group)))
        return below

    def workers(self):
        """The processes that the fork server or the main worker has forked and that live: children of
        the frontend, and of a fork server that is their parent itself. Without helpers, which
        are there only to fork: if one is killed, the process that it forks for ends as well."""
        below = self._below()
        children = below.get(self.pid, [])
        servers = {pid for pid, group in children if pid == group}
        for server in servers:
            children = children + below.get(server, [])
        found = {pid for pid, _ in children if pid not in servers}
        return {pid for pid in found if not forks_for_another(pid)}

    def fork_server(self):
        """The pid of the fork server that lives; 0: none does. It leads its process group."""
        for pid, group in self._below().get(self.pid, []):
            with contextlib.suppress(OSError):
                if pid == group and b"--control-fd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return 0

    def segment(self):
        """The path of its session's shared memory, as its frontend has it mapped."""
        lines = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        (name,) = {line.split()[5] for line in lines if "/dev/shm/holdfast-" in line}
        return Path(name)

    def close(self):
        self.client.stop_channels()
        if self.manager.is_alive():  # as shutdown_kernel(), which looks ten times a second
            self.manager.interrupt_kernel()
            self.manager.request_shutdown()
            self.manager.finish_shutdown(pollinterval=0.01)
        self.manager.cleanup_resources()


def is_summary(message):
    metadata = message["content"].get("metadata")
    types = ("display_data", "update_display_data")
    return message["msg_type"] in types and metadata == {"holdfast": "summary"}


class Outcome:
    """What one cell gave."""

    def __init__(self, reply, everything):
        # The line below a recorded cell is none of the cell's own outputs.
        messages = [message for message in everything if not is_summary(message)]
        self.summaries = [m["content"]["data"] for m in everything if is_summary(m)]
        self.reply, self.messages, self.everything = reply, messages, everything
        self.content = reply["content"]
        self.status = self.content["status"]
        self.cost = reply["metadata"].get("holdfast", {})
        self.types = [m["msg_type"] for m in messages]
        self.states = [
            m["content"]["execution_state"] for m in messages if m["msg_type"] == "status"
        ]

    def stream(self, name="stdout"):
        return "".join(
            m["content"]["text"]
            for m in self.messages
            if m["msg_type"] == "stream" and m["content"]["name"] == name
        )

    @property
    def result(self):
        for message in self.messages:
            if message["msg_type"] == "execute_result":
                return message["content"]["data"]["text/plain"]
        return None


@contextlib.contextmanager
def kernel_starter(place):
    """A function that starts kernels in a directory; they end with the context."""
    from jupyter_client.manager import KernelManager

    notebooks, stack = [], contextlib.ExitStack()

    def start(python=None, env=None, arguments=(), cwd=place, before=None, spec=None, **options):
        write_kernelspec(place / "kernels", python, arguments, **(spec or {}))
        manager = KernelManager(kernel_name="holdfast", **options)
        manager.kernel_spec_manager.kernel_dirs = [str(place / "kernels")]
        manager.connection_file = str(place / f"connection-{len(notebooks)}.json")
        said = stack.enter_context(open(place / "stderr", "a"))
        environment = {**os.environ, **(env or {})}
        # `before` is called in the kernel's process, before its program.
        manager.start_kernel(cwd=str(cwd), env=environment, stderr=said, preexec_fn=before)
        notebooks.append(Notebook(manager))
        return notebooks[-1]

    with stack:
        try:
            yield start
        finally:
            for notebook in notebooks:
                notebook.close()
            if (place / "stderr").exists():
                sys.stderr.write((place / "stderr").read_text(errors="replace"))


@pytest.fixture
def start_kernel(tmp_path):
    """A function that starts a kernel: start_kernel(python=None, **manager_options)."""
    with kernel_starter(tmp_path) as start:
        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.has_failed = report.failed or getattr(item, "has_failed", False)
    return report


class Shared:
    """Kernels that the tests of a file use one after the other, each as if it had been started for it.

    A kernel ends with a test that failed, so that each failure is its own; with one that ran a command whose
    effect lasts; and if something stays in its main worker that can't be put back (renewal.py).
    """

    def __init__(self, start):
        self.start, self.kernels = start, {}

    @contextlib.contextmanager
    def lend(self, request, place, **env):
        """A kernel with these variables, as a new notebook in the directory."""
        key = tuple(sorted(env.items()))
        notebook, begun = self.kernels.pop(key, None) or self._begin(env)
        if stays := self._stays(notebook, place, begun):
            print("another kernel, since of the former one stays:", stays)
            notebook.close()
            notebook, begun = self._begin(env)
            renewal.renew(notebook, place, begun)
        notebook.codes.clear()
        yield notebook
        lasting = notebook.leaves or any(map(renewal.LASTING.search, notebook.codes))
        if request.node.has_failed or lasting or not notebook.manager.is_alive():
            notebook.close()
        else:
            self.kernels[key] = notebook, begun

    def _begin(self, env):
        before = set(sys._current_frames())
        notebook = self.start(env=env)
        _SHARED_THREADS.update(new_threads(before))
        return notebook, renewal.begin(notebook)

    def _stays(self, notebook, place, begun):
        try:
            return renewal.renew(notebook, place, begun)
        except Exception as error:
            return {"an error": repr(error)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with kernel_starter(tmp_path_factory.mktemp("shared")) as start:
        yield Shared(start)
    _SHARED_THREADS.clear()


@pytest.fixture
def lend(request, tmp_path):
    """A function that gives a kernel with variables of the environment, in the test's directory.

    It has been used by earlier tests of the file, unless the test is marked `fresh`: modules of packages stay
    imported, cells are counted on (`kernel.before` is the number of the last one), traces and runs are listed.
    """
    if request.node.get_closest_marker("fresh"):
        start = request.getfixturevalue("start_kernel")
        yield lambda **env: start(env=env)
        return
    shared = request.getfixturevalue("shared")
    with contextlib.ExitStack() as stack:
        yield lambda **env: stack.enter_context(shared.lend(request, tmp_path, **env))


@pytest.fixture
def kernel(lend):
    """The real kernel with the real worker."""
    return lend()


@pytest.fixture
def isolated_kernel(lend):
    """The same; every instrumented cell has a process of its own."""
    return lend(HOLDFAST_RUN="isolated")


@pytest.fixture
def in_process_kernel(lend):
    """The same; recorded cells run in the main worker."""
    return lend(HOLDFAST_RUN="in-process")


@pytest.fixture
def forked_kernel(lend):
    """The same; recorded cells run in a fork of the main worker."""
    return lend(HOLDFAST_RUN="forked")


@pytest.fixture
def shared_kernel(kernel):
    return kernel


@pytest.fixture
def shared_isolated_kernel(isolated_kernel):
    return isolated_kernel


@pytest.fixture
def shared_in_process_kernel(in_process_kernel):
    return in_process_kernel


RUNS = ["isolated", "in-process", "forked"]


@pytest.fixture(params=RUNS)
def either_kernel(request):
    """Each of the three in turn: for what depends on where a cell runs."""
    return request.getfixturevalue(request.param.replace("-", "_") + "_kernel")


@pytest.fixture(params=effort.core(RUNS, ["in-process"]))
def any_kernel(request):
    """The same for all else: in the core it is one whose cells run in the main worker."""
    return request.getfixturevalue(request.param.replace("-", "_") + "_kernel")


@pytest.fixture
def peer(tmp_path):
    """Jupyter's own Python kernel, to compare with."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager

    pytest.importorskip("ipykernel")
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="peer",
        language="python",
    )
    (tmp_path / "peer").mkdir()  # what one writes the other doesn't find
    # Under pytest, which it knows by this variable, ipykernel doesn't capture descriptors.
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    manager.start_kernel(cwd=str(tmp_path / "peer"), env=environment)
    notebook = Notebook(manager)
    yield notebook
    notebook.close()


@pytest.fixture
def start_plain(start_kernel, tmp_path):
    """As start_kernel, with a worker that is nothing but a loop: for tests of the kernel alone."""
    script = tmp_path / "plain-python"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -m ]; then shift 2; exec "{sys.executable}" "{SUPPORT}/plain_worker.py" "$@"; fi\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return lambda **options: start_kernel(python=str(script), **options)


@pytest.fixture
def plain_kernel(start_plain):
    """The real kernel with that worker."""
    return start_plain()
