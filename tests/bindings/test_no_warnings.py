"""Warnings are quiet while values are decoded, and the notebook's filters are as they were."""

import warnings

import pytest

from holdfast.base.no_warnings import no_warnings


def told(registry):
    warnings.warn_explicit("one", UserWarning, "file", 1, registry=registry)


def test_none_is_shown_and_none_is_forgotten():
    registry = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        told(registry)
        filters, before = warnings.filters, list(warnings.filters)
        with no_warnings():
            told({})
        assert warnings.filters is filters and filters == before
        told(registry)  # as before: shown once
        told({})
    assert len(said) == 2


def test_what_is_set_meanwhile_stays():
    with warnings.catch_warnings():
        with pytest.raises(KeyError), no_warnings():
            warnings.simplefilter("ignore")  # equal to the filter that is there
            raise KeyError
        assert warnings.filters[0] == ("ignore", None, Warning, None, 0)
        assert warnings.filters.count(warnings.filters[0]) == 1
