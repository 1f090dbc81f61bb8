"""SymPy's rings of polynomials and fields of fractions, by what their classes are called with.

Their own pickles leave out the functions that they made for their number of generators, and stop at the
second of them. Two with the same arguments are equal, as ever.
"""

from __future__ import annotations

import typing as t

from . import Codec


class _Rings(Codec):
    types = ("sympy.polys.rings.PolyRing", "sympy.polys.fields.FracField")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return type(value), (value.symbols, value.domain, value.order)


CODECS = (_Rings(),)
