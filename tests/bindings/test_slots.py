"""What the notebook registers with libraries (slots.py): read, and put into another process."""

import abc
import collections.abc

from holdfast.worker.settings import slots


def test_classes_that_are_registered_with_a_modules_abstract_class():
    registered = abc._abc_register
    abstract = slots._Abstract()
    try:
        kind = abc.ABCMeta("Kind", (), {"__module__": __name__})  # of a module of the user's
        of_notebook = abc.ABCMeta("Kind", (), {"__module__": "__main__"})
        for one in (kind, of_notebook, collections.abc.Sized):
            one.register(dict)
        pairs = abstract.read()
    finally:
        abc._abc_register = registered
    assert pairs == [(kind, dict)]
