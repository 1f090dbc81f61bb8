"""The table of the process's and the interpreter's own settings, each with the functions that read and set it
(plain_settings.py).

Each row is a part of the state that is no variable and in no other list (state.py, slots.py). To add one: the
function that reads it, and, if a plain value is enough, the one that sets it. Settings of libraries are
declared in holdfast/libraries.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import stat
import sys
import threading
import types
import typing as t

from holdfast import _store
from holdfast.base import fork_hooks
from holdfast.base.user_threads import is_service

from ..ipython import autoreload
from ..ipython.reloader import EXTENSION
from ..ipython.shell import cell_numbers
from ..origin import is_library
from ..output import Stream
from ..process import has_children, wakeup_descriptor
from .plain_settings import Row, plain_settings
from .attributes import is_notebooks
from .module_files import working_directory
from .thread_locals import thread_locals

_LIMITS = "AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC STACK".split()


# ---- the interpreter's and the system's


def _collector() -> list[t.Any]:
    return [gc.isenabled(), *gc.get_threshold(), gc.get_debug()]


def _set_collector(new: list[t.Any]) -> None:
    enabled, *threshold, debug = new
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)


def _mask() -> list[int]:
    import signal

    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))


def _sigterm() -> list[t.Any]:
    """What the notebook has set; a recording has a handler of its own."""
    import signal

    handler = signal.getsignal(signal.SIGTERM)
    return [handler is signal.SIG_IGN, *_of_notebook([handler])]


def _caught_by_c() -> list[int]:
    """Signals with a handler that Python doesn't know of, as of `faulthandler.register`; a recording has one
    of SIGTERM."""
    import signal

    with io.open("/proc/self/status", "rb", buffering=0) as file:
        caught = int(file.read().partition(b"SigCgt:")[2].split()[0], 16)
    handlers = (signal.SIG_DFL, signal.SIG_IGN, None)
    numbers = [n for n in map(int, signal.valid_signals()) if caught >> (n - 1) & 1]
    return [n for n in numbers if n != signal.SIGTERM and signal.getsignal(n) in handlers]


def _set_mask(new: list[int]) -> None:
    import signal

    signal.pthread_sigmask(signal.SIG_SETMASK, new)


def _scheduler() -> list[int]:
    return [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority]


def _of_proc(name: str) -> Row:
    """What the system shows in a file of /proc/self, and takes from there."""

    def read() -> bytes:
        with io.open(f"/proc/self/{name}", "rb", buffering=0) as file:
            return file.read().strip()

    def write(new: bytes) -> None:
        with io.open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(new)

    return Row("os", read, write, of_process=True, is_costly=True)


def _standard_descriptors() -> list[t.Any]:
    """The files that C code and children read and write as input, output and errors. A sleeping fork that wakes
    has pipes of its own: of these it is only asked whether the descriptors lead there."""
    health = getattr(_shell(), "health", None)
    spares = health.spares if health else {1: 1, 2: 2}  # no cell has run
    file = os.fstat(0)
    return [file.st_dev, file.st_ino, *(os.path.sameopenfile(*pair) for pair in spares.items())]


_NOT_OF_A_LIBRARY = ("__main__", "builtins", "holdfast", "pydevd", "_pydevd", "debugpy")


def _profilers() -> list[str]:
    """Those of a library that follow the notebook's code now."""
    found = [one for one in (sys.getprofile(), sys.gettrace()) if one is not None]
    names = [getattr(one, "__module__", None) or type(one).__module__ for one in found]
    if sys.version_info >= (3, 12):
        names += filter(None, map(sys.monitoring.get_tool, range(6)))
    return [name for name in names if not name.startswith(_NOT_OF_A_LIBRARY)]


def _timer() -> list[tuple[float, bool]]:
    import signal

    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    found = map(signal.getitimer, kinds)
    return [(interval, left > 0 and not interval) for left, interval in found]


def _limits() -> list[list[int]]:
    import resource

    return [list(resource.getrlimit(getattr(resource, "RLIMIT_" + name))) for name in _LIMITS]


def _set_limits(new: list[list[int]]) -> None:
    import resource

    for name, limit in zip(_LIMITS, new, strict=True):
        number = getattr(resource, "RLIMIT_" + name)
        if resource.getrlimit(number) != tuple(limit):
            resource.setrlimit(number, (limit[0], limit[1]))


def _hidden_environment() -> dict[str, str | None]:
    """Variables that C code and children find in the environment and `os.environ` doesn't show
    (`os.putenv`); None for those that they lack."""
    entries = _store._environment()
    shown = os.environb._data  # type: ignore[attr-defined] # bytes: to decode them all takes long
    if len(entries) == len(shown) and set(entries) == set(map(b"%b=%b".__mod__, shown.items())):
        return {}
    parts = (os.fsdecode(entry).partition("=") for entry in entries)
    found: dict[str, str | None] = {name: value for name, _, value in parts}
    names = [*found, *(name for name in os.environ if name not in found)]
    return {name: found.get(name) for name in names if found.get(name) != os.environ.get(name)}


def _set_hidden_environment(new: dict[str, str | None]) -> None:
    old = _hidden_environment()
    for name in {**old, **new}:
        value = new[name] if name in new else os.environ.get(name)
        if value is None:
            os.unsetenv(name)
        elif name not in old or old[name] != value:
            os.putenv(name, value)


def _locks() -> int:
    """How many POSIX locks of files the notebook holds: IPython's history isn't its own."""
    found = 0
    for fd in os.listdir("/proc/self/fdinfo"):  # /proc/locks stops the machine's locks for 10 ms
        try:
            if stat.S_ISREG(os.fstat(int(fd)).st_mode):
                found += _locks_by(fd)
        except OSError:  # the listing's own is closed
            continue
    return found


def _locks_by(fd: str) -> int:
    with io.open(f"/proc/self/fdinfo/{fd}", "rb", buffering=0) as file:
        count = file.read().count(b": POSIX ")
    return count if count and "history.sqlite" not in os.readlink(f"/proc/self/fd/{fd}") else 0


_blocked: tuple[int, list[str]] = (0, [])  # which modules there were, and those


def _no_modules() -> list[str]:
    """The modules that can't be imported, by `sys.modules`."""
    global _blocked
    digest = _store._modules_digest()
    if _blocked[0] != digest:
        _blocked = digest, [name for name, one in list(sys.modules.items()) if one is None]
    return _blocked[1]


def _set_no_modules(new: list[str]) -> None:
    for name in _no_modules():
        if name not in new:
            del sys.modules[name]
    sys.modules.update(dict.fromkeys(new))  # type: ignore[arg-type]


# ---- what modules remember


def _sources() -> dict[str, t.Any]:
    """Sources that no file has, and that are no cells' (../ipython/results.py)."""
    cells = cell_numbers(_shell())
    entries = list(_module("linecache").cache.items())
    return {
        name: entry
        for name, entry in entries
        if len(entry) == 4 and entry[1] is None and name not in cells
    }


def _set_sources(new: dict[str, t.Any]) -> None:
    cache = _module("linecache").cache
    for name in _sources().keys() - new.keys():
        del cache[name]
    cache.update(new)


def _shown() -> dict[str, dict[t.Any, t.Any]]:
    """Which warnings have been shown, for each module. Entries older than the filters don't
    count."""
    version = _version_of_filters()
    return {
        name: {key: value for key, value in said.items() if _is_known(key)}
        for name, said in _registries()
        if said.get("version") == version
    }


def _registries() -> t.Iterator[tuple[str, dict[t.Any, t.Any]]]:
    for name, said in _store._modules_with("__warningregistry__"):
        if name != "__main__" and type(said) is dict:
            yield name, said


def _is_known(key: t.Any) -> bool:
    """Whether any process knows the category of what was shown."""
    category = key[1] if type(key) is tuple and len(key) > 1 else None
    module = sys.modules.get(getattr(category, "__module__", ""))
    return getattr(module, getattr(category, "__name__", ""), None) is category is not None


def _version_of_filters() -> int | None:
    """Of the filters of warnings; registries of another are forgotten. Only a registry shows it."""
    warnings = _module("warnings")
    probe: dict[str, t.Any] = {}
    show, warnings._showwarnmsg = warnings._showwarnmsg, lambda message: None
    try:
        warnings.warn_explicit("", ImportWarning, "", 0, registry=probe)
    except Warning:
        pass
    finally:
        warnings._showwarnmsg = show
    return probe.get("version")


def _set_shown(new: dict[str, dict[t.Any, t.Any]]) -> None:
    version = _version_of_filters()
    for name, said in _registries():
        if name not in new:
            said.clear()
    for name in new.keys() & sys.modules.keys():
        said = vars(sys.modules[name]).setdefault("__warningregistry__", {})
        said.clear()
        said.update(new[name], version=version)


_keeps_shown = False


@contextlib.contextmanager
def as_shown_before() -> t.Iterator[None]:
    """While filters are set that aren't the notebook's doing: what was shown isn't forgotten. Inside of
    another one this is its doing: each looks at all modules, twice."""
    global _keeps_shown
    if _keeps_shown:
        yield
        return
    said, _keeps_shown = _shown(), True
    try:
        yield
    finally:
        _keeps_shown = False
        _set_shown(said)


def _has_no_hooks() -> bool:
    """Whether code has taken away the functions that are called for asynchronous generators, which a loop
    sets when it begins."""
    return asyncio._get_running_loop() is not None and not any(sys.get_asyncgen_hooks())


def _set_no_hooks(new: bool) -> None:
    loop: t.Any = asyncio._get_running_loop()
    if new:
        sys.set_asyncgen_hooks(None, None)
    elif loop is not None:
        sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)


# As asyncio begins.
_LOOP = [sys.flags.dev_mode or bool(os.environ.get("PYTHONASYNCIODEBUG")), 0.1]


def _loop() -> list[t.Any]:
    """What the notebook has set in the loop that runs its cells."""
    loop: t.Any = asyncio._get_running_loop()
    if loop is None:
        return _LOOP
    found = [loop.get_exception_handler(), loop.get_task_factory()]
    return [loop.get_debug(), loop.slow_callback_duration, *_of_notebook(found)]


def _policy() -> str:
    """The class of the policy, if that isn't asyncio's own."""
    kind = type(_module("asyncio.events")._event_loop_policy)
    named = f"{kind.__module__}.{kind.__qualname__}"
    return "" if named.startswith(("asyncio.", "builtins.")) else named


# ---- IPython's


def _module(name: str) -> t.Any:
    """The module of this name, which is imported."""
    return sys.modules[name]


def _shell() -> t.Any:
    from IPython import get_ipython

    return get_ipython()


# ---- what goes on beside a cell


def _threads() -> int:
    return sum(not is_service(one) and not _serves_library(one) for one in threading.enumerate())


def _serves_library(thread: threading.Thread) -> bool:
    """Whether it is asyncio's, which waits for a child and ends by itself, or of a library's class
    (tqdm's monitor), and begins again where it is needed."""
    kind = type(thread)
    if kind.__module__ == "threading":
        target = getattr(thread, "_target", None)
        return str(getattr(target, "__module__", "")).startswith("asyncio")
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and is_library(path)


def _follows(getter: str) -> Row:
    """Whether a function of the notebook's follows the calls of the thread that runs the cells."""
    return Row("sys", lambda: is_notebooks(getattr(sys, getter)()), fresh=False, of_process=True)


IN_MEMORY = (io.StringIO, io.BytesIO)  # carried where they stand for a stream


def _streams() -> list[str]:
    """Which of a worker's streams another object stands for that differences.py doesn't carry."""
    streams = {name: getattr(sys, name, None) for name in ("stdout", "stderr")}
    return [
        name
        for name, stream in streams.items()
        if not isinstance(stream, (Stream, *IN_MEMORY)) and not is_notebooks(stream)
    ]


# ---- what is only named: the code of the notebook that is registered somewhere


_FUNCTIONS = (types.FunctionType, types.MethodType)
_SHELLS_PARTS = "kernel events display_pub display_formatter magics_manager".split()


def _of_notebook(values: t.Iterable[t.Any]) -> list[str]:
    return [getattr(one, "__qualname__", "") for one in values if is_notebooks(one)]


def _of_shell() -> list[str]:
    """Functions in the place of those of IPython's shell and of its parts."""
    shell = _shell()
    owners = [shell, *(getattr(shell, name, None) for name in _SHELLS_PARTS)]
    values = [one for owner in owners for one in list(getattr(owner, "__dict__", {}).values())]
    return _of_notebook(one for one in values if isinstance(one, _FUNCTIONS))


def _loggers() -> list[str]:
    """Those of a class or with a function of the notebook's."""
    root = _module("logging").root
    named = {"root": root, **root.manager.loggerDict}
    return [
        name
        for name, one in named.items()
        if is_notebooks(type(one)) or _of_notebook(list(vars(one).values()))
    ]


plain_settings.rows |= {
    "functions of IPython's shell": Row("IPython", _of_shell),
    "overloads (typing.overload)": Row(
        "typing",
        lambda: sorted(t._overload_registry.get("__main__", ())),  # type: ignore[attr-defined]
    ),
    "functions that follow new threads": Row(
        "threading", lambda: _of_notebook([threading.getprofile(), threading.gettrace()])
    ),
    "logging's factory and class of loggers": Row(
        "logging",
        lambda: _of_notebook(
            [_module("logging").getLogRecordFactory(), _module("logging").getLoggerClass()]
        ),
    ),
    "attributes and classes of loggers": Row("logging", _loggers),
    "the garbage collector": Row("gc", _collector, _set_collector, of_process=True),
    "hooks of asynchronous generators": Row("sys", _has_no_hooks, _set_no_hooks),
    "the policy of asyncio": Row("asyncio.events", _policy),
    "settings of asyncio's event loop": Row("asyncio", _loop, fresh=_LOOP),
    "the handler of SIGTERM": Row("signal", _sigterm),
    "the signal mask": Row("signal", _mask, _set_mask, of_process=True),
    "handlers of signals in C": Row(
        "signal", _caught_by_c, by_imports=True, of_process=True, is_costly=True
    ),
    "timers": Row("signal", _timer, of_process=True),
    "resource limits": Row("resource", _limits, _set_limits, of_process=True),
    "the niceness": Row(
        "os",
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        lambda new: os.setpriority(os.PRIO_PROCESS, 0, new),
        of_process=True,
    ),
    "the scheduler": Row(
        "os",
        _scheduler,
        lambda new: os.sched_setscheduler(0, new[0], os.sched_param(new[1])),
        of_process=True,
    ),
    "the name of the process": _of_proc("comm"),
    "the name of the main thread": Row(
        "threading",
        lambda: threading.main_thread().name,
        lambda new: setattr(threading.main_thread(), "name", new),
    ),
    "oom_score_adj": _of_proc("oom_score_adj"),
    "the session and process group": Row(
        "os", lambda: [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], of_process=True
    ),
    "a working directory that was removed": Row(
        "os", lambda: not working_directory(), fresh=False, of_process=True
    ),
    "signal.set_wakeup_fd()": Row("signal", lambda: wakeup_descriptor(), of_process=True),
    "an open profiler (cProfile, coverage)": Row("sys", _profilers, of_process=True),
    "where the descriptors 0, 1 and 2 lead": Row("os", _standard_descriptors, of_process=True),
    "the processors it may run on": Row(
        "os",
        lambda: sorted(os.sched_getaffinity(0)),
        lambda new: os.sched_setaffinity(0, new),
        of_process=True,
    ),
    "what stands for sys.stdout and sys.stderr": Row("sys", _streams, of_process=True),
    "sys.setprofile()": _follows("getprofile"),
    "sys.settrace()": _follows("gettrace"),
    "the environment of C code": Row("os", _hidden_environment, _set_hidden_environment),
    "POSIX locks of files": Row("fcntl", _locks, grows=True, of_process=True, is_costly=True),
    "modules that can't be imported": Row("sys", _no_modules, _set_no_modules),
    "thread-local settings of libraries": Row(
        "threading", lambda: thread_locals.read(), thread_locals.write
    ),
    "sources in linecache": Row("linecache", _sources, _set_sources),
    # After a crash one may be shown again.
    "warnings that were shown": Row("warnings", _shown, _set_shown, is_costly=True),
    "IPython's reloading of modules": Row(EXTENSION, lambda: autoreload.read(), autoreload.write),
    "running threads": Row("threading", _threads, grows=True, of_process=True),
    "tasks of the event loop": Row(
        "asyncio", lambda: len(asyncio.all_tasks()), grows=True, of_process=True
    ),
    "child processes": Row("os", lambda: has_children(), grows=True, of_process=True),
    "functions of os.register_at_fork": Row(
        "os", lambda: fork_hooks.count(), grows=True, by_imports=True, of_process=True
    ),
}
