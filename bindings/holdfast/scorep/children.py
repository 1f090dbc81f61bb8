"""Processes that multiprocessing starts by spawn and forkserver join the recording.

Such a process is a new interpreter, or a fork of one, that knows nothing of its parent but
what the parent sends: first a dict of preparations, pickled. Ours puts one more entry there,
which opens the recording in the child when it is unpickled: before the child imports the
program's main module. If a child can't import holdfast, it isn't recorded.

A child for which SCOREP_EXPERIMENT_DIRECTORY has been changed before it starts has an experiment
of its own. One that changes it itself, in os.environ, has its own from there on: what it recorded
until then stays its part of the parent's. Score-P can't go on in a forked child, so there the
built-in recorder takes it over, once the child has a directory and registers.

Programs that are started in another way, by subprocess, are not recorded.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import sys
import typing as t

from holdfast import _recorder

from . import ending, instrumenter, loading
from .messages import warn

_VARIABLE = "SCOREP_EXPERIMENT_DIRECTORY"

_CODE = """
try:
    from holdfast.scorep.children import join
except ImportError:
    pass
else:
    join({directory!r}, {wanted!r}, enabled={enabled!r}, c_calls={c_calls!r})
"""

_wanted: str | None = None
_c_calls = False
_putenv = os.putenv


def follow(*, c_calls: bool, wanted: str | None = None) -> None:
    """Let the processes that are started from now on join the recording, which is open.

    Parameters
    ----------
    c_calls : bool
        Whether they record functions of extension modules.
    wanted : str, optional
        The directory that was asked for. If it is left out: that of the environment.
    """
    global _wanted, _c_calls
    _wanted, _c_calls = wanted or os.environ.get(_VARIABLE), c_calls
    if loading.is_chosen():
        return
    spawn = sys.modules.get("multiprocessing.spawn")
    if spawn is not None:
        _wrap(spawn)
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def join(directory: str, wanted: str | None, *, enabled: bool, c_calls: bool) -> None:
    """Go on recording here what a parent records.

    If the environment names another directory by now, this process has an experiment of its own.

    Parameters
    ----------
    directory : str
        The parent's experiment directory.
    wanted : str or None
        What the environment named when the parent began.
    enabled : bool
        Whether events are on.
    c_calls : bool
        Whether functions of extension modules are recorded.
    """
    is_own = os.environ.get(_VARIABLE) != wanted
    try:
        _recorder.open(
            None if is_own else directory, c_calls=c_calls, children=True, joins=not is_own
        )
    except (OSError, RuntimeError) as error:
        warn(f"this process isn't recorded: {error}")
        return
    follow(c_calls=c_calls)
    _watch()
    atexit.register(ending.close_at_end)
    ending.guard(ending.close_at_end)
    if enabled:
        instrumenter.register()


def _watch() -> None:
    """In a child: see what it puts into its environment."""
    os.putenv = _put


def _put(name, value) -> None:
    _putenv(name, value)
    if os.fsdecode(name) == _VARIABLE and value and _recorder.is_open():
        directory = os.path.abspath(os.fsdecode(value))
        if directory != _recorder.directory():
            _move(directory)


def _move(directory: str) -> None:
    """Go on recording in an experiment of this child's own."""
    enabled = _recorder.is_enabled()
    try:
        _recorder.close()
        _recorder.open(directory, c_calls=_c_calls, children=True)
    except (OSError, RuntimeError) as error:
        warn(f"this process isn't recorded in {directory}: {error}")
        return
    follow(c_calls=_c_calls, wanted=directory)
    if enabled:
        instrumenter.register()


os.register_at_fork(after_in_child=_watch)


class _Joining:
    """Pickles as a call of `join`."""

    def __init__(self, code: str):
        self._code = code

    def __reduce__(self):
        return exec, (self._code,)


def _wrap(spawn: t.Any) -> None:
    original = spawn.get_preparation_data
    if hasattr(original, "holdfast"):
        return

    @functools.wraps(original)
    def get_preparation_data(name):
        data = original(name)
        if _recorder.is_open():
            _recorder.share()
            code = _CODE.format(
                directory=_recorder.directory(),
                wanted=_wanted,
                enabled=_recorder.is_enabled(),
                c_calls=_c_calls,
            )
            data["holdfast"] = _Joining(code)
        return data

    get_preparation_data.holdfast = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = get_preparation_data


class _Finder:
    """Wraps multiprocessing.spawn's function when the module is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "multiprocessing.spawn":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            _wrap(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_finder = _Finder()
