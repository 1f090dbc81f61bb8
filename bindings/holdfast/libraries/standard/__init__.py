"""The interpreter and the standard library: settings, calls that register something, and numbers in names."""

from __future__ import annotations

import threading
import time
import typing as t

from holdfast.libraries import Counter, Imported, Registry, Replay, Setting, functions

from . import loggers

_locale = Imported("_locale")
_tracemalloc = Imported("tracemalloc")
_logging = Imported("logging")
_csv = Imported("csv")
_gettext = Imported("gettext")
_multiprocessing = Imported("multiprocessing")
_process = Imported("multiprocessing.process")
_zoneinfo = Imported("zoneinfo")
_calendar = Imported("calendar")
_socket = Imported("socket")

_FIELDS = (
    "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict"
).split()


def _set_tracing(new: list[int]) -> None:
    _tracemalloc.stop()
    if new[0]:
        _tracemalloc.start(new[0])


def _set_zone(new: list[t.Any]) -> None:
    """The environment, which names it, was taken over before."""
    time.tzset()


def _set_levels(new: dict[int, str]) -> None:
    for level in _logging._levelToName.keys() - new.keys():
        _logging._nameToLevel.pop(_logging._levelToName.pop(level), None)
    for level, name in new.items():
        if _logging._levelToName.get(level) != name:
            _logging.addLevelName(level, name)


def _dialects() -> dict[str, dict[str, t.Any]]:
    return {
        name: {field: getattr(_csv.get_dialect(name), field) for field in _FIELDS}
        for name in _csv.list_dialects()
    }


def _set_dialects(new: dict[str, dict[str, t.Any]]) -> None:
    for name in set(_csv.list_dialects()) - new.keys():
        _csv.unregister_dialect(name)
    for name, fields in new.items():
        _csv.register_dialect(name, **fields)


def _set_domains(new: list[t.Any]) -> None:
    _gettext._localedirs.clear()
    _gettext._localedirs.update(new[1])
    _gettext.textdomain(new[0])


def _stack_size() -> int:
    """To ask for it sets it to 0."""
    size = threading.stack_size()
    if size:
        threading.stack_size(size)
    return size


def _lists(name: str, module: str, *attributes: str) -> Registry:
    """Lists and dicts of a module, to which libraries add as well."""
    place = Imported(module)
    return Registry(
        name, module, holders=lambda names: {one: getattr(place, one) for one in attributes}
    )


def _call(module: str, name: str, back: str = "") -> Replay:
    return Replay(f"{module}.{name}()", ((module, name),), back)


DECLARATIONS = (
    Setting(
        "levels of loggers",
        loggers.levels,
        loggers.set_levels,
        "logging",
        held=loggers.held,
        parts=loggers.parts,
    ),
    Setting(
        "handlers and filters of loggers",
        loggers.handlers,
        loggers.set_handlers,
        "logging",
        has_values=True,
        held=loggers.held,
        parts=loggers.parts,
        begin=loggers.begin,
    ),
    Setting(
        "logging.disable()",
        lambda: _logging.root.manager.disable,
        lambda new: _logging.disable(new),
        "logging",
    ),
    functions("recursion limit", "sys", "getrecursionlimit", "setrecursionlimit"),
    functions("switch interval", "sys", "getswitchinterval", "setswitchinterval"),
    functions(
        "longest integers as text", "sys", "get_int_max_str_digits", "set_int_max_str_digits"
    ),
    functions(
        "how far the origin of coroutines is tracked",
        "sys",
        "get_coroutine_origin_tracking_depth",
        "set_coroutine_origin_tracking_depth",
    ),
    functions("flags of dlopen", "sys", "getdlopenflags", "setdlopenflags"),
    Setting("time zone", lambda: [*time.tzname, time.timezone], _set_zone, "time"),
    Setting(
        "locale",
        lambda: _locale.setlocale(_locale.LC_ALL, None),
        lambda new: _locale.setlocale(_locale.LC_ALL, new),
        "locale",
    ),
    Setting(
        "tracemalloc",
        lambda: [_tracemalloc.is_tracing() and _tracemalloc.get_traceback_limit()],
        _set_tracing,
        "tracemalloc",
    ),
    Setting("stack of new threads", _stack_size, threading.stack_size, "threading"),
    Setting(
        "multiprocessing's start method",
        lambda: _multiprocessing.get_start_method(allow_none=True),
        lambda new: _multiprocessing.set_start_method(new, force=True),
        "multiprocessing",
    ),
    Setting(
        "multiprocessing's name of the process",
        lambda: _process.current_process().name,
        lambda new: setattr(_process.current_process(), "name", new),
        "multiprocessing.process",
    ),
    functions(
        "multiprocessing's interpreter", "multiprocessing.spawn", "get_executable", "set_executable"
    ),
    Setting(
        "where time zones are looked for",
        lambda: list(_zoneinfo.TZPATH),
        lambda new: _zoneinfo.reset_tzpath(new),
        "zoneinfo",
    ),
    Setting(
        "gettext's domains",
        lambda: [_gettext.textdomain(), dict(_gettext._localedirs)],
        _set_domains,
        "gettext",
    ),
    functions("errno of ctypes", "ctypes", "get_errno", "set_errno"),
    Setting(
        "names of logging's levels",
        lambda: dict(_logging._levelToName),
        _set_levels,
        "logging",
    ),
    Setting(
        "first weekday",
        lambda: int(_calendar.firstweekday()),
        lambda new: _calendar.setfirstweekday(new),
        "calendar",
    ),
    functions("csv's longest field", "csv", "field_size_limit", "field_size_limit"),
    Setting("csv's dialects", _dialects, _set_dialects, "csv"),
    Setting(
        "sockets' timeout",
        lambda: [_socket.getdefaulttimeout()],
        lambda new: _socket.setdefaulttimeout(*new),
        "socket",
    ),
    _lists("gc.callbacks", "gc", "callbacks"),
    _lists("how types are pickled (copyreg)", "copyreg", "dispatch_table"),
    _lists("sqlite3's adapters and converters", "sqlite3", "adapters", "converters"),
    _call("codecs", "register", "unregister"),
    _call("codecs", "register_error"),
    _call("logging", "captureWarnings"),
    _call("mimetypes", "add_type"),
    _call("shutil", "register_archive_format", "unregister_archive_format"),
    _call("shutil", "register_unpack_format", "unregister_unpack_format"),
    _call("sys", "addaudithook"),
    _call("urllib.request", "install_opener"),
    _call("webbrowser", "register"),
    _call("xml.etree.ElementTree", "register_namespace"),
    # Threads and processes are named by them.
    Counter("concurrent.futures.thread", "ThreadPoolExecutor._counter"),
    Counter("multiprocessing.process", "_process_counter"),
    Counter("threading", "_counter"),
)
