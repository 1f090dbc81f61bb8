"""Which values are tried in a child before they are saved or loaded, and which aren't."""

import collections
import dataclasses
import enum
import typing

import pytest

from holdfast.base import fork_hooks
from holdfast.carry import trial
from holdfast.worker.origin import is_library

NOTEBOOK = """
import collections, dataclasses, datetime, enum, fractions, pathlib, typing
class Ordinary:
    def __init__(self, value): self.value, self.link = value, None
    def __eq__(self, other): return self.value == other.value
    def __hash__(self): return 1
@dataclasses.dataclass(frozen=True)
class Frozen:
    value: int
class Point(typing.NamedTuple):
    x: int
class Colour(enum.Enum):
    RED = 1
class Hooked:
    def __getstate__(self): return {"value": 7}
ordinary, frozen, point, colour = Ordinary(1), Frozen(2), Point(3), Colour.RED
def function(): return ordinary
method, when, path = ordinary.__hash__, datetime.date.today(), pathlib.Path(".")
part, many = fractions.Fraction(1, 3), collections.OrderedDict(a=Ordinary(5))
"""


@pytest.fixture
def tried(main, monkeypatch):
    """A main worker that tries; the children that it has forked."""
    forks = []
    fork = fork_hooks.fork_child

    def counted():
        pid = fork()
        if pid:
            forks.append(pid)
        return pid

    monkeypatch.setattr(fork_hooks, "fork_child", counted)
    # PyTorch and its like may be loaded by other tests of this process.
    monkeypatch.setattr(trial, "_NOT_IN_CHILDREN", ())
    trial.configure(main.session, encodes=True, decodes=True, is_library=is_library)
    main.execute(NOTEBOOK)
    main.forks = forks
    yield main
    trial.configure(None, encodes=False, decodes=False, is_library=lambda path: True)
    trial.forget()


def test_ordinary_values_fork_nothing(tried):
    tried.commit()
    tried.execute("ordinary.value, many['a'].value, whole = 8, 9, [Ordinary(2)] * 5")
    tried.commit()
    assert tried.forks == []


def test_a_hooked_value_forks_once_where_it_is_saved(tried):
    tried.execute("first, others = Hooked(), [Hooked(), Hooked(), Ordinary(2)]")
    tried.commit()
    assert len(tried.forks) == 2
    tried.execute("ordinary.value = 4")
    tried.names.save(tried.ns, hidden={"__name__"}, touched={"ordinary"})
    assert len(tried.forks) == 2
    tried.other("names.bind(ns)\nassert ns['first'].value == ns['others'][1].value == 7")


def test_whoever_ends_is_found_among_others(tried):
    tried.execute("""
import os
class Ends(Hooked):
    def __reduce_ex__(self, protocol): os._exit(5)
good, bad = [Hooked(), Hooked()], [Hooked(), {"deep": [Hooked(), Ends(), Hooked()]}]
""")
    report = tried.commit()
    assert set(report["unserializable"]) == {"bad"}
    assert "Ends at bad[1]['deep'][1]" in report["unserializable"]["bad"]
    assert "exit status 5" in report["unserializable"]["bad"]
    forks = len(tried.forks)
    assert set(tried.commit()["unserializable"]) == {"bad"}
    assert len(tried.forks) == forks + 2  # one for each list, which ends well: it is known
    tried.execute("bad = Hooked()")
    assert tried.commit()["unserializable"] == {}


def test_what_shares_with_it_goes_on(tried):
    tried.execute("""
import os
shared = [1, 2]
class Ends:
    def __init__(self): self.data = shared
    def __reduce_ex__(self, protocol): os._exit(5)
bad, view = Ends(), {"same": shared}
""")
    assert set(tried.commit()["unserializable"]) == {"bad"}
    tried.other("names.bind(ns)\nassert ns['view']['same'] is ns['shared'] == [1, 2]")


def test_arrays_of_the_same_commit_are_whole(tried):
    """The fork comes in the middle of a commit, whose earlier values refer to the arena."""
    from holdfast.store import disable_numpy_allocator, enable_numpy_allocator

    enable_numpy_allocator(tried.session)
    tried.execute("""
import numpy
before = numpy.arange(200_000.)
hooked = Hooked()
after = numpy.arange(300_000.)
""")
    tried.commit()
    assert len(tried.forks) == 1
    tried.execute("before[7] = after[7] = -1; again = Hooked()")
    tried.other("names.bind(ns)\nassert ns['before'][7] == ns['after'][7] == 7")
    tried.commit()
    tried.other("names.bind(ns)\nassert ns['before'][7] == ns['after'][7] == -1")
    tried.ns.clear()
    disable_numpy_allocator()


def test_process_state_that_ends_who_loads_it_is_none(tried):
    tried.execute("""
import os
class Ends:
    def __setstate__(self, state): os._exit(5)
bad = Ends()
bad.value = 1
""")
    bad = tried.ns.pop("bad")
    report = tried.names.save(tried.ns, hidden={"__name__"}, extra={"bad": bad, "good": 3})
    tried.names.published(tried.session.publish(report["prepared"]))
    assert tried.names.extra("bad") is None and tried.names.extra("good") == 3
    tried.other("assert names.extra('bad') is None and names.extra('good') == 3")


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (dict, False),
        (collections.OrderedDict, False),
        (enum.Enum, False),
        (dataclasses.make_dataclass("D", ["a"], frozen=True), False),
        (typing.NamedTuple("N", [("a", int)]), False),
        (type("H", (), {"__module__": "__main__", "__reduce__": lambda self: ""}), False),
    ],
)
def test_hooks_of_libraries_are_not_the_users(cls, expected):
    trial.configure(None, encodes=False, decodes=False, is_library=lambda path: True)
    trial._own_modules.clear()
    trial._own_modules["__main__"] = True
    assert trial.has_own_hooks(cls) is expected
