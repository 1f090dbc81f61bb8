"""Messages of the recorder to the user."""

from __future__ import annotations

import sys

said: set[str] = set()  # what was said once; it is carried between the processes of a notebook


def is_new(what: str) -> bool:
    """Say whether this is the first time that the user would hear of something.

    Parameters
    ----------
    what : str
        A message, or the name of what it is about.

    Returns
    -------
    bool
        False from the second call on.
    """
    if what in said:
        return False
    said.add(what)
    return True


def warn_once(message: str) -> None:
    """Print a line for the user, unless that was done before.

    Parameters
    ----------
    message : str
        The line, without a prefix.
    """
    if is_new(message):
        warn(message)


def warn(message: str) -> None:
    """Print one line for the user on stderr.

    Parameters
    ----------
    message : str
        The line, without a prefix.
    """
    print(f"holdfast.scorep: {message}", file=sys.stderr)
