"""Objects with traits, encoded and decoded."""

import pytest

import holdfast

traitlets = pytest.importorskip("traitlets")


class Kind(traitlets.HasTraits):
    a = traitlets.Int(0)
    b = traitlets.Int(0)

    def __init__(self, **given):
        self.seen = []
        super().__init__(**given)

    @traitlets.observe("a")
    def _on_a(self, change):
        self.seen.append(change.new)

    @traitlets.validate("b")
    def _check_b(self, proposal):
        return abs(proposal.value)


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_what_nobody_observes_goes_as_traitlets_says():
    one = Kind(a=1)
    copy = crossed(one)
    copy.a, copy.b = 3, -2
    assert (copy.seen[-1], copy.b, one.a) == (3, 2, 1)


def test_marks_are_the_librarys():
    assert crossed([traitlets.All, traitlets.Undefined]) == [traitlets.All, traitlets.Undefined]


def test_a_class_that_says_how_it_is_pickled():
    class Own(Kind):
        def __getstate__(self):
            return {**super().__getstate__(), "own": 1}

    assert crossed(Own()).own == 1
