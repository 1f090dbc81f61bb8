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


def test_observers_are_carried():
    one, got = Kind(), []
    one.observe(got.append, "a")
    one.observe(got.append)
    got_there, copy = crossed((got, one))
    copy.a = 3
    assert [change.new for change in got_there] == [3, 3] and copy.seen == [3]
    copy.b = -2
    assert copy.b == 2
    copy.unobserve_all()
    copy.a = 4
    assert len(got_there) == 3  # with that of `b`


def test_no_code_of_the_class_runs():
    one = Kind(a=1)
    one.seen.clear()
    copy = crossed(one)
    assert copy.seen == [] and copy.a == 1 and type(copy) is Kind


def test_links_go_on():
    one, other, third = Kind(), Kind(), Kind()
    link = traitlets.link((one, "a"), (other, "b"))
    directed = traitlets.dlink((one, "a"), (third, "a"), lambda x: 10 * x)
    one, other, third, link, directed = crossed((one, other, third, link, directed))
    one.a = 2
    assert (other.b, third.a) == (2, 20)
    other.b = 5
    assert one.a == 5
    link.unlink()
    directed.unlink()
    one.a = 7
    assert (other.b, third.a) == (5, 50)


def test_marks_are_the_librarys():
    assert crossed([traitlets.All, traitlets.Undefined]) == [traitlets.All, traitlets.Undefined]


def test_a_class_that_says_how_it_is_pickled():
    class Own(Kind):
        def __getstate__(self):
            return {**super().__getstate__(), "own": 1}

    assert crossed(Own()).own == 1
