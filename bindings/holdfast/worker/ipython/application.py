"""A worker's IPython application: IPython's and ipykernel's own classes, with our channel under them.

Extensions and libraries look for ipykernel: `get_ipython().kernel`, `IPKernelApp` in the configuration, the
names of the shell's class and its module, `comm.get_comm_manager()`. So our classes stand under ipykernel's
names (`_stand_for`). A worker is an IPKernelApp with an IPythonKernel, whose profile, configuration, startup
files and extensions are read as always. Three things differ:

* There are no sockets (session.py).
* `input()` and `getpass()` ask over the control channel.
* SIGINT is interrupt.py's.

A worker is built first, by `build`, and attached to its channel afterwards. Building is four fifths of its
start, and the same for every cell. So the fork server builds one application, which its forks find ready, and
of whose pages they copy few (`build_ahead`). Nothing of the user's runs there:

* If the user has configuration files of IPython's, which are Python, nothing is built ahead. Otherwise the
  extensions are IPython's own.
* The path of the user's own modules waits for `attach`.
* Startup files run in the main worker only.

ipykernel 6.29 to 7 differ in how they keep a request's parent, and in whether there are subshells. What is
overridden here exists, with one meaning, in all of them.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import importlib
import logging
import operator
import os
import queue
import sys
import threading
import types
import typing as t
from pathlib import Path

from .postponed import postponed, without_debugger

with postponed(), without_debugger():  # which ipykernel 6 looks for when it is imported
    from ipykernel import ipkernel
    from ipykernel.displayhook import ZMQDisplayHook
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelapp import IPKernelApp
from IPython.utils.syspathcontext import prepended_to_syspath
from traitlets import Any, Type, default
from traitlets.config import Config

from holdfast.base import sentences
from holdfast.base.after_import import call_once_imported

from .. import commands
from ..control import Channel
from ..interrupt import Interrupts
from ..output import Stream
from ..parents import Parents
from ..process import Forks
from ..subshells import OwnInSubshell, current
from .history import History
from .session import ControlSession, Outlet
from .shell import CellCompiler, DisplayHook, WorkerShell

# A cell's inputs are adopted by the main worker; a second writer would only lock the database.
CELL_CONFIG = {"HistoryManager": {"hist_file": ":memory:"}}
_OURS = ("IPython", "ipykernel", "holdfast")
_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def _clear_callers(trace: types.TracebackType | None) -> None:
    """From Python 3.12 on a frame keeps those that called it, and the shell's and the kernel's have
    the cell's result, and so its error: with them it would wait for the collector (shell.py)."""
    frame = None if trace is None else trace.tb_frame.f_back
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
            try:
                frame.clear()
            except RuntimeError:  # it runs
                break
        frame = frame.f_back


class _NoDebugger:
    """ipykernel's place for a debugger; ours is another process (debugger.py)."""

    def __init__(self, *args: object, **kwargs: object):
        pass


def _remembering(accepts: t.Callable[..., dict[str, bool]]) -> t.Callable[..., dict[str, bool]]:
    """The question that ipykernel asks for each cell: which parameters run_cell has."""
    known = functools.lru_cache(maxsize=4)(accepts)

    def accepts_parameters(method: t.Any, names: t.Sequence[str]) -> dict[str, bool]:
        try:
            return known(method, tuple(names))
        except TypeError:  # the user's own, which has no hash
            return accepts(method, names)

    return accepts_parameters


if hasattr(ipkernel, "_accepts_parameters"):  # ipykernel 6 has another way
    ipkernel._accepts_parameters = _remembering(ipkernel._accepts_parameters)


class WorkerKernel(IPythonKernel):
    """ipykernel's kernel object, without its sockets and threads."""

    shell: t.Any
    shell_class = Type(WorkerShell)
    debugger_class = Any(_NoDebugger)
    wire = Any()  # Channel
    interrupts = Any()  # Interrupts
    # ipykernel 7 asks this object which thread is the shell's before it installs its SIGINT
    # handling; older versions don't look.
    shell_channel_thread = Any(types.SimpleNamespace(parent_thread=threading.main_thread()))

    @default("ident")
    def _default_ident(self):
        return os.urandom(16).hex()  # the original imports two modules for it

    _supports_kernel_subshells = False  # ipykernel's own, which have sockets
    _allow_stdin = OwnInSubshell(False)

    def __init__(self, **kwargs: t.Any):
        self._input_replies: queue.SimpleQueue[str] = queue.SimpleQueue()
        with without_debugger():
            super().__init__(**kwargs)
        self.shell.compile = CellCompiler()
        self.debugger = _NoDebugger()  # also where debugpy isn't installed

    @contextlib.contextmanager
    def _cancel_on_sigint(self, future):
        """ipykernel's hook around an async cell: interrupt.py does the work, or subshells.py."""
        with (current() or self.interrupts).awaiting(future):
            yield

    def _dummy_context_manager(self, future):
        """Its hook in other threads than the main one."""
        return self._cancel_on_sigint(future)

    async def do_execute(self, *args, **kwargs):
        """As ipykernel's, with the exception's name as the user is shown it."""
        self.shell.kept = ()
        content = await super().do_execute(*args, **kwargs)
        if content["status"] == "error":
            self._name_error(content)  # not here: a traceback may hold this frame
        return content

    def _name_error(self, content: dict[str, t.Any]) -> None:
        result = self.shell.last_execution_result
        error = result and (result.error_before_exec or result.error_in_exec)
        if error is not None:
            seen = self.shell.seen_as(error)
            content["ename"], content["evalue"] = type(seen).__name__, str(seen)
            _clear_callers(error.__traceback__)

    def do_history(self, *args, **kwargs):
        """As ipykernel's, with the number of the session that runs, for which IPython says 0."""
        content = super().do_history(*args, **kwargs)
        number = self.shell.history_manager.session_number
        content["history"] = [(entry[0] or number, *entry[1:]) for entry in content["history"]]
        return content

    def _input_request(self, prompt, ident, parent, password=False):
        """Ask the frontend for a line; blocks until it answers or SIGINT arrives."""
        sys.stdout.flush()
        sys.stderr.flush()
        subshell = current()
        asked = {"prompt": str(prompt), "password": bool(password)}
        if subshell is not None:
            asked["subshell"] = subshell.subshell
        self.wire.send("input_request", **asked)
        if subshell is not None:
            value = subshell.input()
        elif threading.current_thread() is threading.main_thread():
            try:
                value = self.wire.wait_for("input_reply").get("value", "")
            except KeyboardInterrupt:
                raise KeyboardInterrupt("Interrupted by user") from None
        else:
            value = self._input_replies.get()
        if value == "\x04":
            raise EOFError
        return value

    def input_reply(self, value: str) -> None:
        """A reply that the main thread read for another thread."""
        self._input_replies.put(value)


class WorkerApp(IPKernelApp):
    """The application object: IPKernelApp with the sockets left out."""

    kernel_class = Type(WorkerKernel, klass=IPythonKernel)
    blocking_class = Any()  # of a client, which nobody makes here: not to be imported
    ahead = False  # built in the fork server, which runs no code of the user's

    def __init__(self, **kwargs: t.Any):
        super().__init__(**kwargs)
        self.streams: list[Stream] = []

    def attach(self, wire: Channel, parents: Parents, interrupts: Interrupts) -> None:
        """Connect what was built to this process."""
        self.wire = self.session.wire = self.kernel.wire = wire
        self.session.parents = parents
        self.session.pid = os.getpid()
        self.kernel.interrupts = interrupts
        for name, fd in (("stdout", 1), ("stderr", 2)):
            getattr(sys, name).flush()
            stream = Stream(wire, parents, name, fd)
            self.streams.append(stream)
            setattr(sys, name, stream)
            setattr(self, "_" + name, stream)
            setattr(self.kernel, "_" + name, stream)
        sentences.say_on(stream)
        sys.displayhook = self.displayhook
        os.register_at_fork(after_in_child=self._after_fork)
        interrupts.listen()
        super().init_path()
        if not self.ahead:
            super().init_extensions()
        # What a worker begins with is no variable of the notebook's.
        self.shell.user_ns_hidden.update(self.shell.user_ns)

    def run_files(self) -> None:
        """Run the user's startup files and lines. They are the notebook's, as its cells are: other processes get
        what they have made and set."""
        before = dict(self.shell.user_ns)
        if self.ahead:
            # All that init_code does without a configuration, but for a list of all modules' names,
            # which would copy a page of the fork server's for each.
            self._run_startup_files()
            self.shell.user_ns_hidden.update(self.shell.user_ns)
        else:
            super().init_code()
        now = self.shell.user_ns
        self.shell.from_files = {name for name in now if now[name] is not before.get(name, self)}

    def load_config_file(self, *args, **kwargs):
        """As the original, but not ahead."""
        if self.ahead and any(
            (Path(directory) / (name + suffix)).exists()
            for directory in self.config_file_paths
            for name in ("ipython_config", "ipython_kernel_config")
            for suffix in (".py", ".json")
        ):
            raise OwnConfiguration
        super().load_config_file(*args, **kwargs)

    def _exec_file(self, *args, **kwargs):
        """As the original, but one statement after the other, so that what it sets of modules is seen."""
        self.shell.safe_execfile = self._execute
        try:
            super()._exec_file(*args, **kwargs)
        finally:
            del self.shell.safe_execfile

    def _execute(self, name, space, *ignored, **options):
        flags = 0
        try:
            with prepended_to_syspath(str(Path(name).parent)), self.shell.builtin_trap:
                for node in ast.parse(Path(name).read_bytes(), name).body:
                    self.shell.patches.see([node])
                    code = compile(ast.Module([node], []), name, "exec", flags, dont_inherit=True)
                    flags |= code.co_flags & _FUTURE
                    exec(code, space)  # noqa: S102
        except SystemExit as error:
            if error.code:
                raise

    def parse_command_line(self, argv=None):
        """There is none: the notebook's process is the frontend. Looking through all classes for
        options that nobody gave would be a third of a worker's start."""
        self.argv, self.extra_args, self.cli_config = [], [], Config()

    # ---- what the frontend does for us

    def init_connection_file(self):
        """The connection file is the frontend's."""

    def init_pdb(self):
        """As the original, once there is a debugger of Python's: few notebooks import one."""
        call_once_imported("pdb", super().init_pdb)

    def write_connection_file(self, **kwargs):
        """See init_connection_file."""

    def log_connection_info(self):
        """See init_connection_file."""

    def init_poller(self):
        """The end of the control channel shows that the frontend died."""

    def init_sockets(self):
        """A session without sockets."""
        self.session = ControlSession(parent=self)
        self.iopub_socket = Outlet("iopub")

    def init_heartbeat(self):
        """The frontend answers heartbeats."""

    def init_signal(self):
        """SIGINT is handled by interrupt.py: see attach."""

    def init_path(self):
        """See attach."""

    def init_extensions(self):
        """See attach; those that nobody configured are IPython's own."""
        if self.ahead:
            super().init_extensions()

    def init_code(self):
        """See attach."""

    def close(self):
        """There are no sockets to close."""

    # ---- output

    def init_io(self):
        """The display hook; the streams come when there is a channel."""
        self.displayhook = ZMQDisplayHook(self.session, self.iopub_socket)
        for handler in self.log.handlers:
            # The application's own log goes to the real stderr, as under ipykernel.
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(sys.__stderr__)
        self.patch_io()

    def flush_all(self) -> None:
        """Send what was written to our streams, and to those in their place."""
        out, err = self.streams
        for stream in self.streams:
            stream.flush()
        for file in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if file is out or file is err:
                continue
            try:
                file.flush()  # type: ignore[union-attr]
            except Exception:  # the user's own stream
                pass

    def begin_fork(self) -> None:
        """In a fork that goes on as the worker that it is a fork of."""
        for stream in self.streams:
            stream.after_fork()
        self.session.pid = os.getpid()

    def _after_fork(self) -> None:
        if self.session.pid == os.getpid():
            return  # it has begun before the hooks ran
        if Forks.goes_on:
            self.begin_fork()
            return
        for stream in self.streams:
            stream.after_fork()
        self.wire.abandon()
        self.shell.health = None  # nothing of it is a worker's any more

    # ---- the kernel object

    def init_kernel(self):
        """Create the kernel, and with it the shell."""
        self.kernel = self.kernel_class.instance(
            parent=self,
            session=self.session,
            iopub_socket=self.iopub_socket,
            stdin_socket=Outlet("stdin"),
            log=self.log,
            profile_dir=self.profile_dir,
            user_ns=self.user_ns,
        )
        self.displayhook.get_execution_count = lambda: self.kernel.execution_count


def _stand_for(theirs: str, ours: type) -> None:
    """Put a class of ours in the place of one of ipykernel's: under its name and in its module.

    Libraries compare the names (Plotly embeds its whole JavaScript where the shell's module isn't
    ipykernel's, click drops colours where the stream's isn't), or ask isinstance().
    """
    module, _, name = theirs.rpartition(".")
    ours.__module__, ours.__name__, ours.__qualname__ = module, name, name
    original = vars(importlib.import_module(module))[name]
    for home, one in list(sys.modules.items()):
        # Wherever it was imported: who pickles what those modules use (dill) finds each by its name.
        if (
            home.partition(".")[0] in _OURS[:2]
            and getattr(one, "__dict__", {}).get(name) is original
        ):
            setattr(one, name, ours)


_stand_for("ipykernel.iostream.OutStream", Stream)
_stand_for("ipykernel.displayhook.ZMQShellDisplayHook", DisplayHook)
_stand_for("ipykernel.zmqshell.ZMQInteractiveShell", WorkerShell)
_stand_for("ipykernel.ipkernel.IPythonKernel", WorkerKernel)
_stand_for("ipykernel.kernelapp.IPKernelApp", WorkerApp)
_stand_for("IPython.core.history.HistoryManager", History)


class OwnConfiguration(Exception):
    """The user has configuration files, which only a worker may run."""


_built: tuple[dict[str, t.Any], WorkerApp] | None = None  # ahead, and for which configuration


def build(config: dict[str, t.Any], ahead: bool = False) -> WorkerApp:
    """Create and initialize the application of a process; `attach` it then."""
    app = WorkerApp.instance()
    app.ahead = ahead
    # 'IPKernelApp' in get_ipython().config is how libraries recognise a notebook.
    app.update_config(Config({"IPKernelApp": {"parent_handle": 0}, **config}))
    app.initialize([])
    commands.register(app.shell)
    _ = app.shell.display_formatter.formatters  # made when first asked for: not in the cell
    app.log.setLevel(app.log_level)  # else each request is made a record that no handler takes
    return app


def build_ahead(config: dict[str, t.Any]) -> None:
    """In the fork server: build what `start` in its forks will find, unless that is the user's."""
    global _built
    try:
        _built = config, build(config, ahead=True)
        note_modules()
    except (OwnConfiguration, SystemExit):  # a worker meets it, too, and reports it
        _clear_instances()


def built_shell() -> WorkerShell | None:
    """The shell that the forks of this fork server will find."""
    return None if _built is None else _built[1].shell


def note_modules() -> None:
    """In the fork server: an aggressive %reset keeps the modules that are there now."""
    if _built is not None:
        _built[1].shell._sys_modules_keys = set(sys.modules)


def start(wire: Channel, parents: Parents, interrupts: Interrupts, config: dict) -> WorkerApp:
    """The application of this process, attached to its channel."""
    if _built is None:
        app = build(config)
    else:
        app = _built[1]
        if _built[0] != config:
            _keep_history(app)
    app.attach(wire, parents, interrupts)
    return app


def _keep_history(app: WorkerApp) -> None:
    """Give what was built for a cell, whose history ends with it, the profile's: all else is the
    same for the main worker, and to build it again would cost as much memory as all other pages."""
    history = app.shell.history_manager
    for each in (app, app.kernel, app.shell, history):
        each.config.pop("HistoryManager", None)
    history.keep()


def _clear_instances() -> None:
    """Forget what was built ahead, or in part."""
    for singleton in (WorkerShell, WorkerKernel, WorkerApp):
        singleton.clear_instance()
