"""The state of a process that is no variable.

A cell sees more than its globals: the environment, the working directory, where imports
are looked up, the random generators, the warnings filters, the umask, what IPython has
loaded, how numbers, tracebacks and figures are shown. It is captured with each commit, applied in a
cell worker before its cell, and taken over by the home where the cell changed it: always before
names are bound, since decoding imports modules.

Only what differs is applied, key by key. So a thread of the home that sets an environment
variable while a cell runs elsewhere doesn't lose it, and `sys.path` is set as a whole, never
added to. What belongs to one process (its pid in a variable, open descriptors, the
modules' own globals) stays there.
"""

from __future__ import annotations

import os
import random
import sys
import typing as t
import warnings

from . import decimals, figures, loggers, tables, tensors
from .located import located, working_directory

State = dict[str, t.Any]


def capture(shell: t.Any) -> State:
    """Return this process's state as plain values."""
    state: State = {
        "environment": dict(os.environ),
        "directory": working_directory(),
        "path": [entry for entry in sys.path if isinstance(entry, str)],
        "arguments": list(sys.argv) if isinstance(sys.argv, list) else [],
        "random": random.getstate(),
        "umask": _umask(),
        "warnings": [entry for entry in warnings.filters if _travels(entry)],
        "extensions": sorted(shell.extension_manager.loaded),
        "precision": shell.display_formatter.formatters["text/plain"].float_precision,
        "tracebacks": shell.InteractiveTB.mode,
        "loggers": loggers.capture(),
        "watched": shell.patches.keys(),
        "located": located.capture(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "get_printoptions"):
        options = numpy.get_printoptions()
        # Formatters are functions, which may be the notebook's own.
        state["numpy_print"] = {key: value for key, value in options.items() if key != "formatter"}
    for key, capture_one in _CAPTURED.items():
        settings = capture_one()
        if settings is not None:
            state[key] = settings
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        kind, keys, position, has_gauss, gauss = numpy_random.get_state()
        state["numpy_random"] = (kind, keys.tobytes(), position, has_gauss, gauss)
    return state


_CAPTURED: dict[str, t.Callable[[], State | None]] = {
    "decimals": decimals.capture,
    "figures": figures.capture,
    "tables": tables.capture,
    "tensors": tensors.capture,
}


def apply(new: State, old: State, shell: t.Any) -> list[str]:
    """Set what differs between two states in this process; the keys that did.

    What can't be set (a directory that was removed) is told on stderr and left.
    """
    changed = []
    for key, setter in _SETTERS.items():
        if key not in new or new[key] == old.get(key):
            continue
        changed.append(key)
        try:
            setter(new[key], old.get(key), shell)
        except Exception as error:  # a broken piece of state must not cost the cell
            print(f"holdfast: {key} couldn't be carried over: {error}", file=sys.stderr)
    return changed


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _travels(entry: tuple) -> bool:
    """Whether the category of a warnings filter can be imported elsewhere."""
    category = entry[2]
    return getattr(category, "__module__", "__main__") != "__main__"


def _set_environment(new: dict, old: dict | None, shell: t.Any) -> None:
    for name, value in new.items():
        if old is None or old.get(name) != value:
            os.environ[name] = value
    for name in old or ():
        if name not in new:
            os.environ.pop(name, None)


def _set_directory(new: str, old: str | None, shell: t.Any) -> None:
    if new:
        os.chdir(new)


def _set_path(new: list, old: list | None, shell: t.Any) -> None:
    sys.path[:] = new


def _set_arguments(new: list, old: list | None, shell: t.Any) -> None:
    sys.argv[:] = new


def _set_random(new: tuple, old: tuple | None, shell: t.Any) -> None:
    random.setstate(new)


def _set_numpy_random(new: tuple, old: tuple | None, shell: t.Any) -> None:
    import numpy

    kind, keys, position, has_gauss, gauss = new
    numpy.random.set_state(
        (kind, numpy.frombuffer(keys, dtype=numpy.uint32), position, has_gauss, gauss)
    )


def _set_umask(new: int, old: int | None, shell: t.Any) -> None:
    os.umask(new)


def _set_warnings(new: list, old: list | None, shell: t.Any) -> None:
    warnings.filters[:] = new  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _set_extensions(new: list, old: list | None, shell: t.Any) -> None:
    for name in new:
        if name not in shell.extension_manager.loaded:
            shell.extension_manager.load_extension(name)


def _set_precision(new: str, old: str | None, shell: t.Any) -> None:
    shell.display_formatter.formatters["text/plain"].float_precision = new


def _set_tracebacks(new: str, old: str | None, shell: t.Any) -> None:
    shell.InteractiveTB.set_mode(new)


def _set_numpy_print(new: dict, old: dict | None, shell: t.Any) -> None:
    import numpy

    numpy.set_printoptions(**new)


def _set_loggers(new: dict, old: dict | None, shell: t.Any) -> None:
    loggers.apply(new, old)


def _set_decimals(new: dict, old: dict | None, shell: t.Any) -> None:
    decimals.apply(new)


def _set_figures(new: dict, old: dict | None, shell: t.Any) -> None:
    figures.apply(new, shell)


def _set_tables(new: dict, old: dict | None, shell: t.Any) -> None:
    tables.apply(new)


def _set_tensors(new: dict, old: dict | None, shell: t.Any) -> None:
    tensors.apply(new)


def _set_watched(new: list, old: list | None, shell: t.Any) -> None:
    shell.patches.watch(new)


def _set_located(new: dict, old: dict | None, shell: t.Any) -> None:
    located.apply(new)


_SETTERS: dict[str, t.Callable[[t.Any, t.Any, t.Any], None]] = {
    "environment": _set_environment,
    "directory": _set_directory,
    "path": _set_path,
    "located": _set_located,  # before extensions are loaded
    "arguments": _set_arguments,
    "umask": _set_umask,
    "random": _set_random,
    "numpy_random": _set_numpy_random,
    "warnings": _set_warnings,
    "extensions": _set_extensions,
    "precision": _set_precision,
    "tracebacks": _set_tracebacks,
    "numpy_print": _set_numpy_print,  # after the precision, which sets a part of it
    "loggers": _set_loggers,
    "decimals": _set_decimals,
    "figures": _set_figures,
    "tables": _set_tables,
    "tensors": _set_tensors,
    "watched": _set_watched,
}
