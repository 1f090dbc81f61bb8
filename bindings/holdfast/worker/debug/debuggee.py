"""The debugged side of the debugger: in the main worker, and in the process of a cell.

debugpy's tracer (pydevd) runs in the process that it debugs. It speaks the debug adapter protocol on a
socket, usually a TCP port, to which every user of the machine may connect. Here the frontend passes in one
end of a socket pair, and the assistant has the other (debugger.py). So nothing listens, and no program is
started.

Two of JupyterLab's questions are about live objects while nothing is stopped: which variables there are, and
how one of them is shown. The main worker answers those by `answer`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import typing as t

_CONFIGURED_SECONDS = 10.0  # for the client's breakpoints to arrive before a cell starts
_SERVICES = {"HistorySavingThread", "IPythonHistorySavingThread", "SubshellListener"}
_begun = False


def begin(fd: int, wait: bool) -> None:
    """Let the debugger at the other end of this socket in.

    Parameters
    ----------
    fd : int
        One end of a socket pair; taken.
    wait : bool
        Return when the other end has set its breakpoints: what runs next must stop at them.
    """
    global _begun
    link = socket.socket(fileno=fd)
    with _libraries_first():
        # First: it brings pydevd into the path, and says how pydevd speaks.
        import debugpy.server.api  # noqa: F401
        import pydevd
    from _pydevd_bundle.pydevd_constants import get_global_debugger

    _leave_out_services()
    tracer = get_global_debugger()
    if tracer is None:
        with _connected_by(pydevd.PyDB, link):
            pydevd.settrace(
                suspend=False,
                notify_stdin=False,
                wait_for_ready_to_run=False,
                dont_trace_start_patterns=(os.path.dirname(sys.modules["debugpy"].__file__),),
                dont_trace_end_patterns=("debugpy_launcher.py",),
                protocol="dap",
            )
        tracer = get_global_debugger()
    else:
        tracer.initialize_network(link, terminate_on_socket_close=False)
    _begun = True
    if wait:
        cancel = threading.Event()
        timer = threading.Timer(_CONFIGURED_SECONDS, cancel.set)
        timer.daemon = True
        timer.start()
        tracer.block_until_configuration_done(cancel=cancel)
        timer.cancel()


@contextlib.contextmanager
def _libraries_first() -> t.Iterator[None]:
    """While debugpy is imported, which takes a tenth of a second that a start need not have: not
    by modules of the user's (`code.py`), nor with its remarks about frozen ones on his stderr."""
    path, quiet = sys.path, "PYDEVD_DISABLE_FILE_VALIDATION"
    before = os.environ.get(quiet)
    sys.path = [entry for entry in path if entry]
    os.environ[quiet] = "1"
    try:
        yield
    finally:
        path[:0] = [entry for entry in sys.path if entry not in path]  # debugpy's own
        sys.path = path
        if before is None:
            del os.environ[quiet]
        else:
            os.environ[quiet] = before


def _leave_out_services() -> None:
    """Our threads, and IPython's, go on while the user's are stopped; pydevd reads these marks."""
    for thread in threading.enumerate():
        if {type(thread).__name__, thread.name} & _SERVICES:
            thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
            thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]


@contextlib.contextmanager
def _connected_by(tracer_type: t.Any, link: socket.socket) -> t.Iterator[None]:
    """A new tracer takes this socket for the one that it would open."""
    connect = tracer_type.connect

    def take(self, host, port):
        self.initialize_network(link, terminate_on_socket_close=False)

    tracer_type.connect = take
    try:
        yield
    finally:
        tracer_type.connect = connect


def attached() -> bool:
    """Whether somebody debugs this process now."""
    return _begun and sys.modules["pydevd"]._is_attached()


@contextlib.contextmanager
def lines_kept(shell: t.Any) -> t.Iterator[None]:
    """While somebody debugs, IPython keeps a cell's empty first lines: breakpoints are counted
    from the first line that the client shows."""
    from IPython.core.inputtransformer2 import leading_empty_lines

    transforms = shell.input_transformer_manager.cleanup_transforms
    kept = list(transforms)
    transforms[:] = [each for each in kept if each is not leading_empty_lines]
    try:
        yield
    finally:
        transforms[:] = kept


# ---- questions while nothing is stopped


def answer(shell: t.Any, message: dict[str, t.Any]) -> dict[str, t.Any]:
    """The response to a request that is about live objects."""
    command = message.get("command", "")
    arguments = message.get("arguments") or {}
    response = {
        "type": "response",
        "request_seq": message.get("seq", 0),
        "command": command,
        "success": True,
    }
    if command == "inspectVariables":
        response["body"] = {"variables": _explorer.variables(shell)}
    elif command == "variables":
        number = arguments.get("variablesReference", 0)
        response["body"] = {"variables": _explorer.children(number)}
    elif command == "richInspectVariables":
        response["body"] = _rich(shell, str(arguments.get("variableName", "")))
    elif command == "modules":
        response["body"] = _modules(arguments)
    else:
        response["success"] = False
        response["message"] = f"{command} needs a debugger that runs"
    return response


class _Explorer:
    """The variables of the notebook as pydevd shows those of a stopped frame."""

    def __init__(self) -> None:
        self._tracked: t.Any = None

    def variables(self, shell: t.Any) -> list[dict[str, t.Any]]:
        """The user's own, with a number for each that has parts."""
        with _libraries_first():
            from ipykernel.debugger import VariableExplorer

        # The one before it goes, and with it what it holds.
        self._tracked = VariableExplorer()
        self._tracked.track()
        hidden = shell.user_ns_hidden
        found = self._tracked.get_children_variables()
        return [each for each in found if each["name"] not in hidden and is_users(each["name"])]

    def children(self, number: int) -> list[dict[str, t.Any]]:
        """The parts of one of them."""
        if self._tracked is None:
            return []
        return self._tracked.get_children_variables(number)


_explorer = _Explorer()
_IPYTHONS = frozenset("In Out _ __ ___ _i _ii _iii _ih _oh _dh exit quit get_ipython open".split())


def is_users(name: str) -> bool:
    """Whether a variable is the user's, and not IPython's."""
    if name in _IPYTHONS or (name.startswith("__") and name.endswith("__")):
        return False
    return not (name.startswith(("_i", "_")) and name.lstrip("_i").isdecimal())


def _rich(shell: t.Any, name: str) -> dict[str, t.Any]:
    if not name.isidentifier():
        return {"data": {}, "metadata": {}}
    found = shell.user_expressions({name: name})[name]
    data = found.get("data", {}) if found.get("status") == "ok" else {}
    metadata = found.get("metadata", {})
    return {"data": data, "metadata": {k: v for k, v in metadata.items() if k in data}}


def _modules(arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    modules = list(sys.modules.copy().items())
    first = arguments.get("startModule", 0)
    count = arguments.get("moduleCount") or len(modules)
    found = []
    for number, (name, module) in list(enumerate(modules))[first : first + count]:
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if isinstance(origin, str) and origin.endswith(".py"):
            found.append({"id": number, "name": name, "path": origin})
    return {"modules": found, "totalModules": len(modules)}
