"""SymPy: rings and fields."""

import pytest

import holdfast


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_a_ring_and_a_field():
    sympy = pytest.importorskip("sympy")
    ring, a, b = sympy.ring("a b", sympy.QQ)
    field, x = sympy.field("x", sympy.QQ)
    one, other = crossed((ring, a * b))
    assert one == ring and other == a * b and other.ring is one
    assert crossed(1 / x) == 1 / x and crossed(field) == field
