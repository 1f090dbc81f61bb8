"""What the notebook registers with libraries (registries.py): read, and put into another process."""

import abc
import collections.abc

import pytest

from holdfast._patches import MISSING
from holdfast.worker.settings import registries


def own_class(module="__main__"):
    """As the notebook makes one."""
    return type("My", (), {"__module__": module, "__init__": lambda self, owner: None})


ACCESSORS = {"pandas": registries._OF_PANDAS, "polars": registries._OF_POLARS}


@pytest.mark.parametrize("name", ACCESSORS)
def test_accessors(name):
    library, slot = pytest.importorskip(name), ACCESSORS[name].slot()
    assert slot.read() is MISSING
    theirs, mine = own_class("elsewhere"), own_class()
    slot.write([("Series", "theirs", theirs)])
    assert slot.read() is MISSING and library.Series.theirs is theirs
    found = [("DataFrame", "mine", mine), ("Series", "mine", mine)]
    slot.write(found)
    assert sorted(slot.read()) == found
    assert type(library.DataFrame().mine) is mine and library.Series.theirs is theirs
    slot.write(found[:1])
    assert not hasattr(library.Series, "mine") and library.DataFrame.mine is mine
    slot.write(MISSING)
    assert slot.read() is MISSING and not hasattr(library.DataFrame, "mine")
    assert "mine" not in library.DataFrame._accessors
    del library.Series.theirs
    library.Series._accessors.discard("theirs")


def test_classes_that_are_registered_with_a_modules_abstract_class():
    registered = abc._abc_register
    abstract = registries._Abstract()
    try:
        kind = abc.ABCMeta("Kind", (), {"__module__": __name__})  # of a module of the user's
        of_notebook = abc.ABCMeta("Kind", (), {"__module__": "__main__"})
        for one in (kind, of_notebook, collections.abc.Sized):
            one.register(dict)
        pairs = abstract.read()
    finally:
        abc._abc_register = registered
    assert pairs == [(kind, dict)]
