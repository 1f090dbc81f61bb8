"""How much the tests try. HOLDFAST_EFFORT is 1 unless set: what CI has time for. More multiplies
the random examples, and runs every case of the lists that CI takes a sample of."""

import os
import subprocess
from pathlib import Path

EFFORT = int(os.environ.get("HOLDFAST_EFFORT", "1"))


def _commits():
    """The number of commits up to this one; 0 where this isn't a checkout."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        counted = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:  # no git
        return 0
    return int(counted.stdout) if counted.returncode == 0 else 0


TURN = _commits()


def examples(count):
    return count * EFFORT


def sample(cases, step):
    """Every `step`-th of them, beginning with another one at each commit; or all where there is time."""
    cases = list(cases)
    return cases if EFFORT > 1 else cases[TURN % step :: step]
