"""traitlets: objects with traits that somebody observes, and its marks.

traitlets pickles an object without its observers, links and validators. So an object that has any stays in its
process. For objects of IPython and Jupyter, their classes say how they are pickled.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast.carry import module_objects
from holdfast.codecs import Codec, register

_NOT = ("IPython", "ipykernel", "jupyter", "nbconvert", "nbformat", "comm", "ipywidgets")


class _Objects(Codec):
    types = ("traitlets.traitlets.HasTraits",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if any(one.__module__.partition(".")[0].startswith(_NOT) for one in type(value).__mro__):
            return NotImplemented
        followers = [one for one in value._trait_validators.values()]
        for kinds in value._trait_notifiers.values():
            followers += [one for several in kinds.values() for one in several]
        if any(not _is_of_class(one) for one in followers):
            raise TypeError("an object with traits that is observed or linked")
        return NotImplemented


def _is_of_class(follower: t.Any) -> bool:
    """Whether it is a method with `observe` or `validate`. Each instance of the class has it."""
    from traitlets import EventHandler

    return isinstance(follower, EventHandler)


class _Marks(Codec):
    """`All` and `Undefined`, which are compared by identity."""

    types = ("traitlets.utils.sentinel.Sentinel",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        found = getattr(sys.modules.get(value.module), "__dict__", {}).get(value.name)
        return (
            (module_objects.find, (value.module, value.name)) if found is value else NotImplemented
        )


for _codec in (_Objects(), _Marks()):
    register(_codec)
