"""What the recorder says to the user."""

from __future__ import annotations

import sys


def warn(message: str) -> None:
    """One line to the user, on stderr."""
    print(f"holdfast.scorep: {message}", file=sys.stderr)
