"""The exceptions of the package."""

import pickle

from holdfast.errors import NotCarriedError, QuarantinedError


def test_it_is_a_name_error_with_a_name():
    error = NotCarriedError("g", "generator can't be pickled")
    assert isinstance(error, NameError)
    assert error.name == "g"
    assert "'g'" in str(error) and "generator" in str(error) and "--run=in-process" in str(error)


def test_it_survives_pickling():
    error = pickle.loads(pickle.dumps(NotCarriedError("g", "why")))
    assert (error.name, error.reason) == ("g", "why")


def test_a_quarantined_name_says_what_to_do():
    error = pickle.loads(pickle.dumps(QuarantinedError("x", "loading it took too long")))
    assert isinstance(error, NotCarriedError) and (error.name, error.reason[-4:]) == ("x", "long")
    assert "`del x`" in str(error) and "`%holdfast retry x`" in str(error)
