"""JAX: functions with derivatives of their own (`jax.custom_vjp`, `jax.custom_jvp`), by their attributes.

pickle would call their classes without the function that they need.
"""

from __future__ import annotations

import typing as t

from holdfast.carry import restoring
from holdfast.codecs import Codec


class _Functions(Codec):
    types = (
        "jax._src.custom_derivatives.custom_vjp",
        "jax._src.custom_derivatives.custom_jvp",
    )

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        state = None, dict(vars(value))
        return object.__new__, (type(value),), state, None, None, restoring.fill_and_hang


CODECS = (_Functions(),)
