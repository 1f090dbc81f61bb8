"""The trace of a program that was killed: a guardian makes it, or the user by ``--recover``.

The events of a process are in a file that outlives it, in whatever way it ends. The guardian is a small program. It
waits for that end and does the same as `recover`; see recorder/guardian.c.
"""

from __future__ import annotations

import os
import typing as t

from holdfast import _recorder

from .options import UsageError
from .messages import warn

GUARDIAN = os.path.join(os.path.dirname(_recorder.__file__), "holdfast_guardian")
_posix_spawn = (
    os.posix_spawn
)  # before holdfast.scorep.children replaces it: the guardian doesn't join


def watch(directory: str) -> None:
    """Let a guardian make the trace if this process is killed.

    The program must not have begun: for a moment this process has a child. If there is no
    guardian, on old systems, the user has to call `recover`.

    Parameters
    ----------
    directory : str
        The experiment directory.
    """
    try:
        child = _posix_spawn(GUARDIAN, [GUARDIAN, directory, str(os.getpid())], os.environ)
        os.waitpid(child, 0)
    except OSError:
        return


def is_asked_for(arguments: t.Sequence[str]) -> bool:
    """Return whether the command line asks for a recovery, not a recording.

    Parameters
    ----------
    arguments : sequence of str
        The arguments of ``python -m holdfast.scorep``.

    Returns
    -------
    bool
        Whether the first is ``--recover``.
    """
    return bool(arguments) and arguments[0].partition("=")[0] == "--recover"


def recover(arguments: t.Sequence[str]) -> int:
    """Make the trace of what killed processes have left.

    Parameters
    ----------
    arguments : sequence of str
        ``--recover`` and the experiment directory.

    Returns
    -------
    int
        The exit status: 0, or 1 if there is nothing or it can't be recovered, which a message says.

    Raises
    ------
    UsageError
        The arguments don't name one directory.
    """
    directories = [a for a in "=".join(arguments).split("=", 1)[1:] if a]
    if len(directories) != 1 or len(arguments) > 2:
        raise UsageError("--recover takes one directory")
    directory = directories[0]
    try:
        found = _recorder.recover(directory)
    except (OSError, RuntimeError, MemoryError) as error:
        warn(f"{directory} can't be recovered: {error}")
        return 1
    if found is None:
        warn(f"{directory} has nothing to recover")
        return 1
    killed = (found["processes"], "ended without closing the recording")
    left = (found["ended"], "had left the recording to be written")
    done = [
        f"{'a process' if count == 1 else f'{count} processes'} {said}"
        for count, said in (killed, left)
        if count
    ]
    if done:
        warn(f"{' and '.join(done)}: {found['events']} events are in {directory}")
    if found["left"]:
        warn(f"the events of {found['left']} more are still in {directory}, but not in the trace")
    return 0
