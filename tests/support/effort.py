"""How much the tests try.

Unless HOLDFAST_EFFORT is set, they are the *core*: the same cases at every commit, about ten minutes on two
processors. HOLDFAST_EFFORT=2, as `.ci/run long` sets it, adds the tests and cases that are marked `long`, and
multiplies the random examples.
"""

import itertools
import os

import pytest

EFFORT = int(os.environ.get("HOLDFAST_EFFORT", "1"))
IS_LONG = EFFORT > 1


def examples(count, in_long=0):
    """The number of random examples, where the core tries `count`; at least `in_long` in a long run."""
    return max(count * EFFORT, in_long if IS_LONG else 0)


def core(cases, kept):
    """Parameters for `parametrize`: all of the cases; those for which `kept(case)` is false are `long`.

    `kept` may be a collection instead, of the cases that are in the core.
    """
    is_kept = kept if callable(kept) else kept.__contains__
    cases = list(cases)
    assert any(map(is_kept, cases)), "no case is in the core"
    return [_parameter(case, () if is_kept(case) else pytest.mark.long) for case in cases]


def in_turn(kinds, ways):
    """Parameters for all pairs of both: in the core is each kind once, and the ways take turns."""
    kinds, ways = list(kinds), list(ways)
    kept = {(kind, ways[number % len(ways)]) for number, kind in enumerate(kinds)}
    return core(itertools.product(kinds, ways), kept)


def _parameter(case, marks):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
