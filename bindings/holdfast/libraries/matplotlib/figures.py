"""Codecs of Matplotlib's figures and of the callbacks that they hold.

Matplotlib's own pickling keeps the callbacks that it marked, and drops the others. Here the notebook's
go with their figure, and those by which its parts hear of each other, as a colour bar of its image. And a
figure that pyplot has open is opened anew, under another number, by whoever reads its pickle, be it only
to compare. Here it isn't: which figures are open is a setting (worker/settings/pyplot.py).
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


# Of callbacks: the notebook's, methods of builtin types, what `functools.partial` made.
_CARRIED = ("__main__", "None", "builtins", "functools")
# They connect theirs anew, or hold a loop that is going on.
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
