"""toolz.curry: a curried function of the notebook.

toolz pickles it as the name that its function has in `__main__`, which may not be bound yet where it arrives.
"""

from __future__ import annotations

import sys
import typing as t

from . import Codec, register

_MADE_ANEW = ("_partial", "_sigspec")


class _Curried(Codec):
    types = ("toolz.functoolz.curry",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if getattr(value.func, "__module__", None) != "__main__":
            return NotImplemented
        own = tuple((name, one) for name, one in vars(value).items() if name not in _MADE_ANEW)
        make = sys.modules["toolz.functoolz"]._restore_curry  # as its own pickling does
        return make, (type(value), value.func, value.args, value.keywords, own, None)


register(_Curried())
