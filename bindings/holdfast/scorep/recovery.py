"""The trace of a program that was killed: a guardian makes it, or somebody who asks for it.

What a process records lies in a file that outlives it, whatever ends it. The guardian, a small
program of its own, waits for that end and does what `recover` does; see recorder/guardian.c.
"""

from __future__ import annotations

import os
import typing as t

from holdfast import _recorder

from .options import UsageError
from .telling import warn

GUARDIAN = os.path.join(os.path.dirname(_recorder.__file__), "holdfast_guardian")


def watch(directory: str) -> None:
    """Let a guardian make the trace in `directory` should this process be killed.

    The program must not have begun: for a moment this process has a child. Where there is no
    guardian, on old systems, `recover` is left to the user.
    """
    try:
        child = os.posix_spawn(GUARDIAN, [GUARDIAN, directory, str(os.getpid())], os.environ)
        os.waitpid(child, 0)
    except OSError:
        return


def is_asked_for(arguments: t.Sequence[str]) -> bool:
    """Whether the command line wants a recovery, not a recording."""
    return bool(arguments) and arguments[0].partition("=")[0] == "--recover"


def recover(arguments: t.Sequence[str]) -> int:
    """Make the trace of what killed processes have left; an exit status.

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
    if found["processes"]:
        who = "a process" if found["processes"] == 1 else f"{found['processes']} processes"
        warn(
            f"{who} ended without closing the recording: {found['events']} events until then "
            f"are in {directory}"
        )
    if found["left"]:
        warn(f"of {found['left']} more the events are still in {directory}, not in the trace")
    return 0
