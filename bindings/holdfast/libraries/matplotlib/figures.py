"""Codecs of Matplotlib's figures and of the callbacks that they hold.

Matplotlib's own pickling keeps the callbacks that Matplotlib has marked, and drops the others. Here the
notebook's callbacks are carried with their figure. So are those by which parts of a figure notify each other,
as an image its colour bar.

A pickle of a figure that pyplot has open would open it anew when it is read, under another number, even if it
is read only for a comparison. Here it doesn't: which figures are open is a setting (pyplot.py).
"""

from __future__ import annotations

import typing as t

from holdfast.codecs import Codec, register
from holdfast.libraries.ipywidgets import widgets


class _Figures(Codec):
    types = ("matplotlib.figure.Figure",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if getattr(value.canvas, "comm", None) is not None and not widgets.is_leaving():
            raise ValueError(
                "a figure in a widget stays in the notebook's own process, which draws it"
            )
        make, args, state, *rest = value.__reduce_ex__(5)
        if isinstance(state, dict):
            state.pop("_restore_to_pylab", None)
        return make, args, state, *rest


# The modules of callbacks that are carried: the notebook's, builtin types' methods,
# `functools.partial`.
_CARRIED = ("__main__", "None", "builtins", "functools")
# Modules that connect their callbacks anew, or have an event loop that runs.
_STAYING = ("backend", "pyplot", "_pylab", "animation")


def _is_carried(call: t.Any) -> bool:
    module = str(getattr(call, "__module__", None))
    package, _, rest = module.partition(".")
    if package in ("matplotlib", "mpl_toolkits"):
        return not rest.startswith(_STAYING)
    return module in _CARRIED


class _Registries(Codec):
    types = ("matplotlib.cbook.CallbackRegistry",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        marked = getattr(value, "_pickled_cids", None)
        for calls in value.callbacks.values() if marked is not None else ():
            for number, reference in calls.items():
                call = reference()
                if call is not None and _is_carried(call):
                    marked.add(number)
        return NotImplemented


for _codec in (_Figures(), _Registries()):
    register(_codec)
