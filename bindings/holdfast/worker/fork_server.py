"""The fork server: a Python that has imported much and run nothing, and forks workers.

A fork of it takes milliseconds; a start of Python with IPython takes most of a second. Forking is safe here:

* It has no threads, no event loop, no ZeroMQ context and no shell.
* It never runs user code, and imports only modules of the standard library and site-packages.
* Native thread pools that a library starts at its import (OpenBLAS) handle forks by themselves. `_THREADED`
  names those that don't.
* PyTorch, TensorFlow and JAX start their pools with their first operation. Of these it runs only PyTorch's on
  two elements, which starts no thread (codecs.rehearse).

A client waits for the main worker, so that is forked first. What only other workers need is imported after
that. The garbage collector doesn't look at objects from before a fork: it would write to each of them, and so
copy the pages that the two processes share.

Its loop, the forks and their ends are C's (worker/fork_server.c).
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import gc
import importlib
import importlib.util
import os
import signal
import sys
import threading
import typing as t
import weakref

from .. import _store, codecs
from . import health
from .control import VERSION, Channel, ChannelClosed
from .origin import is_library
from .prefault import prefault
from .process import become_worker, leave
from .settings.counters import counters
from .settings.module_files import module_files
from .settings.thread_locals import thread_locals

# They start threads that a fork doesn't survive. Those of Polars start with its first query; what
# its import starts is jemalloc's, which begins anew in a fork, and one that removes temporary files.
_THREADED = {"grpc", "ray", "pyspark"}
# They look for the shell at import, and behave otherwise if there is none.
_LOOKING = set("matplotlib_inline tqdm plotly bokeh altair panel holoviews ipywidgets".split())
_BACKEND = "module://matplotlib_inline.backend_inline"


class ForkServer:
    """What Python does in the fork server of worker/fork_server.h, which calls these methods.

    Parameters
    ----------
    control_fd, session_fd : int
        Descriptors of the control channel, and of the session, or -1.
    """

    def __init__(self, control_fd: int, session_fd: int):
        self._channel = Channel(control_fd)
        self._session_fd = session_fd
        self._wanted: collections.deque[str] = collections.deque()
        self._imported: list[str] = []
        self._complete = False  # has what others than the main worker need

    def serve(self) -> t.NoReturn:
        """Import what every worker needs, then serve until the frontend's end."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is for cells
        gc.disable()
        import_own()
        with contextlib.suppress(ChannelClosed):
            modules = sorted(_top_level())
            self._channel.send(
                "ready", version=VERSION, pid=os.getpid(), modules=modules, history=True
            )
            _store._serve_forks(self, self._channel, self._session_fd)
        os._exit(0)

    def want_module(self, name: str) -> None:
        """Have it imported when there is time."""
        self._wanted.append(name)

    def idle(self) -> bool:
        """Import one module that is wanted; whether others are."""
        if self._wanted:
            name = self._wanted.popleft()
            if name not in sys.modules and _may_import(name) and _try_import(name):
                self._imported.append(name)
        return bool(self._wanted)

    def finish_imports(self) -> None:
        """Make what was imported since the last call ready for forks. The frontend forks anew after it."""
        done, self._imported = self._imported, []
        if done:
            codecs.preload()
            _rehearse_libraries()
            gc.collect()  # what came since the last time
            _settle()
        self._channel.send("imported", modules=done)

    def before_fork(self, role: str) -> bool:
        """Import what this worker needs; whether `idle` has something to import now."""
        completes = role != "main" and not self._complete
        if completes:
            import_rest()
            self._complete = True
            self._wanted.append("stack_data")  # for errors, when there is time
        _look_ahead(anew=False)  # cells in a row leave no quiet moment after an import
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return completes

    def in_fork(self, role: str, bare: bool, control: int, session_fd: int) -> t.NoReturn:
        """Live as this worker."""
        status = 1
        try:
            _run(role, bare, control, session_fd)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc(file=sys.__stderr__)
        finally:
            leave(status)


def _run(role: str, bare: bool, control: int, session_fd: int) -> None:
    """The life of a worker, in the child."""
    gc.enable()
    become_worker()
    channel = Channel(control)
    if role == "main":
        from .main_worker import MainWorker as Role
    elif role == "assistant":
        from .assistant import Assistant as Role  # type: ignore[assignment]
    else:
        from .cell import Cell as Role  # type: ignore[assignment]
    session = None
    if session_fd >= 0:
        session = _store.Session.from_fd(session_fd)
        os.close(session_fd)  # the session has its own
    worker = Role(channel, session)
    if bare:
        worker.begin_bare()
    worker.run()


def import_own() -> None:
    """Everything the main worker would import on its way to its first cell."""
    # Matplotlib reads it when imported, which may be here; ipykernel sets it too late for that.
    os.environ.setdefault("MPLBACKEND", _BACKEND)
    from . import main_worker  # noqa: F401
    from .ipython import application  # noqa: F401

    for name in (
        "IPython.core.completer",
        "IPython.core.logger",
        "IPython.core.oinspect",
        "IPython.extensions.storemagic",
        "bdb",
        "sqlite3",
        "tornado.platform.asyncio",
        "holdfast.commands.magics",
    ):
        _try_import(name)
    _rehearse()
    codecs.preload_built_in()  # before the shell notes which modules are there
    application.build_ahead(application.CELL_CONFIG)
    _settle()


def import_rest() -> None:
    """Import the modules that the others would import besides."""
    from .ipython import application, frames

    for name in (
        "holdfast.worker.assistant",
        "holdfast.worker.cell",
        "IPython.core.completerlib",
        "IPython.core.debugger",
        "cloudpickle",
        "holdfast.libraries.standard.text_files",
        "holdfast._recorder",
        "holdfast.scorep.settings",
    ):
        _try_import(name)
    is_library(__file__)  # which imports what it needs
    if "holdfast._recorder" in sys.modules:
        frames.leave_out(sys.modules["holdfast._recorder"])
    codecs.preload()
    application.note_modules()
    _settle()


def _rehearse() -> None:
    """Fill the caches of compiled patterns that each worker would fill: the tokenizer's alone took
    two milliseconds of each cell, the one by which startup files are found half of one."""
    from IPython.core.inputtransformer2 import TransformerManager

    TransformerManager().transform_cell("%time pass\n")
    for pattern in ("*.py", "*.ipy"):
        fnmatch.filter(("name",), pattern)


def _rehearse_libraries() -> None:
    """Do here what each worker would do with them first."""
    codecs.rehearse()
    if "stack_data" in sys.modules:
        from .ipython import tracebacks

        with contextlib.suppress(Exception):  # so does an error, then
            tracebacks.rehearse()


def _settle() -> None:
    """Make what was imported ready for forks. Garbage of the start (a few hundred objects) stays:
    to look for it takes 20 ms."""
    # Finalizers that libraries run at the end of a process are the fork server's, which ends
    # without them: a worker would take PyTorch's operators from their tables one by one, in 25 ms.
    for finalizer in tuple(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    health.note_modules()
    counters.look()  # so does each fork for what it imports itself
    thread_locals.look()
    _look_ahead()
    module_files.capture()  # a fork looks at what it imports itself
    gc.freeze()  # so that a child's collections don't copy the fork server's pages
    prefault.settle()


def _look_ahead(anew: bool = True) -> None:
    """The state of forks before the notebook's code runs in them, if all have the shell that is
    here. If not `anew`, only if something was imported since the last look."""
    from .ipython import application
    from .settings import baseline

    shell = application.built_shell()
    if shell is not None and (anew or not baseline.is_known()):
        baseline.look_ahead(shell)


def _may_import(name: str) -> bool:
    """Whether it is safe to import before a fork, and the same module for everyone."""
    from .ipython import application

    top = name.partition(".")[0]
    if not name.replace(".", "").isidentifier() or top in _THREADED:
        return False
    if top in _LOOKING and application.built_shell() is None:
        return False
    try:
        spec = sys.modules[top].__spec__ if top in sys.modules else importlib.util.find_spec(top)
    except (AttributeError, ImportError, ValueError):
        return False
    if spec is None or spec.origin in ("built-in", "frozen"):
        return spec is not None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return bool(places) and all(map(is_library, places))


def _try_import(name: str) -> bool:
    """Import a module; False if it isn't there, breaks, or starts a thread."""
    try:
        importlib.import_module(name)
    except BaseException:  # a library may even raise SystemExit
        return False
    if threading.active_count() > 1:
        print(
            f"holdfast fork server: importing {name} started a thread",
            file=sys.stderr,
            flush=True,
        )
    return True


def _top_level() -> set[str]:
    return {name for name in sys.modules if "." not in name and not name.startswith("_")}
