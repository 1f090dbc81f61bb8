"""SymPy's quantities and dimensions, whose pickles have what they are equal by, and not how they are shown.

So a quantity keeps its text for LaTeX, and a dimension its symbol.
"""

from __future__ import annotations

import typing as t

from . import Codec, register, sympy_rings


class _Units(Codec):
    types = (
        "sympy.physics.units.dimensions.Dimension",
        "sympy.physics.units.quantities.Quantity",
    )

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        reduced = value.__reduce_ex__(2)
        if not isinstance(reduced, tuple) or any(reduced[2:]):
            return NotImplemented
        return *reduced[:2], dict(vars(value))


for _codec in (_Units(), *sympy_rings.CODECS):
    register(_codec)
