"""The exceptions of the package."""

import pickle

from holdfast.errors import NotCarriedError


def test_it_is_a_name_error_with_a_name():
    error = NotCarriedError("g", "generator can't be pickled")
    assert isinstance(error, NameError)
    assert error.name == "g"
    assert "'g'" in str(error) and "generator" in str(error) and "--road=home" in str(error)


def test_it_survives_pickling():
    error = pickle.loads(pickle.dumps(NotCarriedError("g", "why")))
    assert (error.name, error.reason) == ("g", "why")
