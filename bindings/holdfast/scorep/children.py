"""Lets processes that multiprocessing starts by spawn and forkserver join the recording.

Such a process is a new interpreter, or a fork of one. All that it knows of its parent is what the parent sends.
First comes a pickled dict of preparations. We add an entry to it, which opens the recording in the child when it is
unpickled, before the child imports the program's main module. A child that can't import holdfast isn't recorded.

If SCOREP_EXPERIMENT_DIRECTORY is changed before a child starts, the child has an experiment of its own. If the
child itself changes it, in os.environ, it has its own from there on. What it recorded until then stays in the
parent's experiment. Score-P can't go on in a forked child. There the built-in recorder takes over, once the child
has a directory and registers.

Workers of loky (joblib) are prepared in the same way. For a Python that subprocess or a function of os starts, a
variable is put into its environment, which holdfast.pth looks for. Programs in other languages aren't
recorded, and neither is a Python that has no Holdfast.
"""

from __future__ import annotations

import atexit
import collections.abc
import contextlib
import functools
import json
import os
import sys
import typing as t

from holdfast import _recorder
from holdfast.base.after_import import call_once_imported

from . import ending, instrumenter, loading
from .messages import warn

_VARIABLE = "SCOREP_EXPERIMENT_DIRECTORY"
_TOLD = b"HOLDFAST_RECORDING"
_PREPARING = (
    "multiprocessing.spawn",
    "joblib.externals.loky.backend.spawn",
    "loky.backend.spawn",
)

_CODE = """
try:
    from holdfast.scorep.children import join
except ImportError:
    pass
else:
    join({directory!r}, {wanted!r}, enabled={enabled!r}, c_calls={c_calls!r})
"""

_wanted: str | None = None
_told = ""
_c_calls = False
_putenv = os.putenv


def follow(*, c_calls: bool, wanted: str | None = None, enabled: bool = True) -> None:
    """Let the processes that are started from now on join the recording, which is open.

    Parameters
    ----------
    c_calls : bool
        Whether they record functions of extension modules.
    wanted : str, optional
        The directory that was asked for. If it is left out: that of the environment.
    enabled : bool
        Whether programs that are started begin with events on.
    """
    global _wanted, _c_calls, _told
    _wanted, _c_calls = wanted or os.environ.get(_VARIABLE), c_calls
    if loading.is_chosen():
        return
    _told = json.dumps([_recorder.directory(), _wanted, enabled, c_calls])
    _recorder._tell_children(_told)
    _watch_modules()


@functools.cache
def _watch_modules() -> None:
    for name in ("execve", "posix_spawn", "posix_spawnp"):  # subprocess calls one of these
        if hasattr(os, name):
            _wrap_start(os, name, 2)
    for name in (*_PREPARING, "subprocess"):
        wrap = _wrap_subprocess if name == "subprocess" else functools.partial(_wrap, name)
        call_once_imported(name, wrap)


def join_as_told(text: str) -> None:
    """Join in a program that a recorded one has started.

    Parameters
    ----------
    text : str
        What the environment says.
    """
    directory, wanted, enabled, c_calls = json.loads(text)
    join(directory, wanted, enabled=enabled, c_calls=c_calls, may_be_over=True)


def join(
    directory: str,
    wanted: str | None,
    *,
    enabled: bool,
    c_calls: bool,
    may_be_over: bool = False,
) -> None:
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
    may_be_over : bool
        Whether it is no surprise if nobody records there any more.
    """
    is_own = os.environ.get(_VARIABLE, wanted) != wanted  # subprocess.run(..., env={}) names none
    if _recorder.is_open():  # it has joined already, in another way
        return
    try:
        _recorder.open(
            None if is_own else directory, c_calls=c_calls, children=True, joins=not is_own
        )
    except (OSError, RuntimeError) as error:
        if not may_be_over:
            warn(f"this process isn't recorded: {error}")
        return
    follow(c_calls=c_calls, enabled=enabled)
    _watch()
    atexit.register(ending.close_at_end)
    ending.guard(ending.close_at_end)
    if enabled:
        instrumenter.register()


def _watch() -> None:
    """In a child: notice it when code sets the variable in the environment."""
    os.putenv = _put


def _watch_if_recorded() -> None:
    """In a fork that goes on with the parent's recording. What it opens itself stays where it is."""
    if _recorder.is_open():
        _watch()


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


os.register_at_fork(after_in_child=_watch_if_recorded)


class _Joining:
    """Pickles as a call of `join`."""

    def __init__(self, code: str):
        self._code = code

    def __reduce__(self):
        return exec, (self._code,)


def _wrap(module: str) -> None:
    spawn: t.Any = sys.modules[module]
    original = spawn.get_preparation_data

    @functools.wraps(original)
    def get_preparation_data(*arguments, **named):
        data = original(*arguments, **named)
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

    spawn.get_preparation_data = get_preparation_data


def _wrap_subprocess() -> None:
    _wrap_start(sys.modules["subprocess"], "_fork_exec", 5)


def _wrap_start(module: t.Any, name: str, place: int) -> None:
    """Put the variable into an environment that is passed as an argument, at this place."""
    original = getattr(module, name)

    @functools.wraps(original)
    def start(*arguments, **named):
        if _recorder.is_open():
            with contextlib.suppress(OSError, RuntimeError):  # then the child finds nothing to join
                _recorder.share()
            if "env" in named:
                named["env"] = _and_told(named["env"])
            else:
                given = arguments[place : place + 1]
                arguments = (*arguments[:place], *map(_and_told, given), *arguments[place + 1 :])
        return original(*arguments, **named)

    start.__module__ = module.__name__  # a variable that refers to it is carried by this name
    setattr(module, name, start)


def _and_told(environment):
    """The environment with the variable. It is a mapping, or the list that subprocess makes of
    one."""
    if isinstance(environment, list):
        kept = [entry for entry in environment if not entry.startswith(_TOLD + b"=")]
        return [*kept, _TOLD + b"=" + os.fsencode(_told)]
    if isinstance(environment, collections.abc.Mapping):
        told = {**environment, _TOLD: _told}
        told.pop(os.fsdecode(_TOLD), None)
        return told
    return environment
