"""SymPy's quantities and dimensions, encoded and decoded."""

from needed import needed

import holdfast

sympy = needed("sympy")
units = needed("sympy.physics.units")


def test_how_they_are_shown_is_kept():
    smoot = units.Quantity("smoot", abbrev="sm", latex_repr=r"\mathrm{smt}")
    copy, length = holdfast.loads(holdfast.dumps((smoot, units.length)))
    assert copy == smoot and hash(copy) == hash(smoot)
    assert sympy.latex(copy) == r"\mathrm{smt}" and str(copy.abbrev) == "sm"
    assert length == units.length and str(length) == "Dimension(length, L)"


def test_a_class_that_says_how_it_is_pickled():
    prefixed = holdfast.loads(holdfast.dumps(3 * units.kilometer / units.speed_of_light))
    assert prefixed == 3 * units.kilometer / units.speed_of_light
    assert prefixed.atoms(units.Quantity) == {units.kilometer, units.speed_of_light}
