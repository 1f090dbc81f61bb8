"""How much the tests try. HOLDFAST_EFFORT is 1 unless set: what CI has time for. More multiplies
the random examples, and runs every case of the lists that CI takes a sample of."""

import os

EFFORT = int(os.environ.get("HOLDFAST_EFFORT", "1"))


def examples(count):
    return count * EFFORT


def sample(cases, step):
    """Every `step`-th of them, or all where there is time."""
    cases = list(cases)
    return cases if EFFORT > 1 else cases[::step]
