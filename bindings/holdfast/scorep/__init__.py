"""Recording a program, with the interface of the Score-P Python bindings.

``python -m holdfast.scorep script.py`` records a whole script. In a program,
:mod:`holdfast.scorep.user` names regions and parameters, and
:mod:`holdfast.scorep.instrumenter` switches the events of Python functions on and off.
Everything is a no-op while no recording is open, so programs keep their calls.

``open`` and ``close`` frame one recording; the kernel's workers use them.
"""

from __future__ import annotations

import atexit
import os
import sys

from holdfast import __version__, _recorder
from holdfast.base.after_import import call_after_import

from ..alias import install as install_alias
from . import ending, instrumenter, user
from .ending import close, close_at_end
from .messages import warn

__all__ = [
    "__version__",
    "close",
    "install_alias",
    "instrumenter",
    "open",
    "register",
    "unregister",
    "user",
    "user_disable_recording",
    "user_enable_recording",
    "user_parameter_int",
    "user_parameter_string",
    "user_parameter_uint",
    "user_region_begin",
    "user_region_end",
]

# Our own functions and those of the import system don't belong to the program. But code that a
# decorator or an import runs does. So only the functions themselves are left out.
_HERE = os.path.dirname(os.path.abspath(__file__))
_recorder.exclude(os.path.dirname(_HERE) + os.sep, callees=True)
_recorder.exclude(os.path.join(_HERE, "wrapping.py"))
_recorder.exclude(os.path.join(os.path.dirname(_HERE), "base/after_import.py"))
_recorder.exclude("<frozen importlib")

if "greenlet" not in sys.modules:
    call_after_import("greenlet", _recorder._watch_greenlets)


def open(
    directory: str | os.PathLike[str] | None = None,
    *,
    c_calls: bool = False,
    children: bool = False,
    joins: bool = False,
    rank: int | None = None,
    enabled: bool = True,
) -> str:
    """Open a recording.

    Events stay off until `register`; user regions are recorded from now on. The ``SCOREP_...``
    variables hold the other settings: their meaning is that of Score-P's manual ("Measurement
    Configuration"), and :mod:`holdfast.scorep.settings` lists those that the built-in recorder reads.

    Parameters
    ----------
    directory : str or os.PathLike, optional
        The experiment directory, instead of ``SCOREP_EXPERIMENT_DIRECTORY``.
    c_calls : bool
        Record functions of extension modules as well.
    children : bool
        Record the processes that fork and multiprocessing make as well, in the same
        experiment. The caller closes the recording in them, too; see :mod:`.ending`.
    joins : bool
        Another process has opened the experiment in this directory.
    rank : int, optional
        The number of this process among those of the experiment, for MPI.
    enabled : bool
        Whether programs that this one starts begin with events on.

    Returns
    -------
    str
        The path of the experiment directory.

    Raises
    ------
    RuntimeError
        A recording is open already, or the filter file can't be understood.
    OSError
        The directory can't be made, or the filter file can't be read.
    """
    _recorder.open(directory, c_calls=c_calls, children=children, joins=joins, rank=rank)
    if children:
        from .children import follow

        follow(c_calls=c_calls, enabled=enabled)
    return _recorder.directory()


def is_open() -> bool:
    """Return whether this process records.

    Returns
    -------
    bool
        Whether a recording is open.
    """
    return _recorder.is_open()


def register() -> None:
    """Record all functions from here on.

    If no recording is open, this opens one with `children`, which is closed at the end of the process.
    If that fails, a message on stderr says so, and nothing is recorded.
    """
    if not _recorder.is_open():
        try:
            open(children=True)
        except (OSError, RuntimeError) as error:
            warn(f"nothing is recorded: {error}")
            return
        atexit.register(close_at_end)
        ending.guard(close_at_end)
    instrumenter.register()


unregister = instrumenter.unregister


# The interface of the bindings before version 2.


def user_region_begin(name: str) -> None:
    """Enter a user region: `holdfast.scorep.user.region_begin` under its older name.

    Parameters
    ----------
    name : str
        The region, shown as ``user:name``.
    """
    user.region_begin(name)


def user_region_end(name: str) -> None:
    """Leave a user region: `holdfast.scorep.user.region_end` under its older name.

    Parameters
    ----------
    name : str
        The region.
    """
    user.region_end(name)


user_enable_recording = user.enable_recording
user_disable_recording = user.disable_recording
user_parameter_int = user.parameter_int
user_parameter_uint = user.parameter_uint
user_parameter_string = user.parameter_string
