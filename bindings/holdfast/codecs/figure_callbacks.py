"""The codec of Matplotlib's registries of callbacks: those of the notebook go with their figure.

Matplotlib's own pickling keeps the callbacks that it marked, and drops the others.
"""

from __future__ import annotations

import typing as t

from . import Codec, register


class _Registries(Codec):
    types = ("matplotlib.cbook.CallbackRegistry",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        marked = getattr(value, "_pickled_cids", None)
        for calls in value.callbacks.values() if marked is not None else ():
            for number, reference in calls.items():
                if getattr(reference(), "__module__", None) == "__main__":
                    marked.add(number)
        return NotImplemented


register(_Registries())
