"""What the recorder says to the user."""

from __future__ import annotations

import sys


def warn(message: str) -> None:
    """Print one line for the user on stderr.

    Parameters
    ----------
    message : str
        The line, without a prefix.
    """
    print(f"holdfast.scorep: {message}", file=sys.stderr)
