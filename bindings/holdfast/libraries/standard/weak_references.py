"""The codecs of weak references, and of the containers that are made of them.

A weak reference is made again from its target. As before, the target lives on only if something else holds it
that is carried with it. The walk over the variables (graph.c) puts the reference and its target into one
entry. The same holds for finalizers of the notebook.
"""

from __future__ import annotations

import typing as t
import weakref

from holdfast import _store
from holdfast.carry import context, finalizers
from holdfast.codecs import Codec, register


class _Mortal:
    """The target of a dead reference."""


def _make_dead(make):
    return make(_Mortal())


class _References(Codec):
    types = ("weakref.ReferenceType",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value) not in (weakref.ref, weakref.WeakMethod):
            return NotImplemented
        referent = value()
        if referent is None:
            return _make_dead, (weakref.ref,)
        callback = value.__callback__ if type(value) is weakref.ref else None
        return type(value), (referent,) if callback is None else (referent, callback)


class _Proxies(Codec):
    types = ("weakref.ProxyType", "weakref.CallableProxyType")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        try:
            referent = value.__init__.__self__  # a bound method leads to the target
        except ReferenceError:
            return _make_dead, (weakref.proxy,)
        callback = _store._weak_callback(value)
        return weakref.proxy, (referent,) if callback is None else (referent, callback)


# The state of these containers. Attributes of a subclass are carried in addition.
_OWN = vars(weakref.WeakValueDictionary()).keys() | vars(weakref.WeakKeyDictionary()).keys()


class _Mappings(Codec):
    types = ("weakref.WeakValueDictionary", "weakref.WeakKeyDictionary")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        more = {name: item for name, item in vars(value).items() if name not in _OWN}
        return type(value), (), more or None, None, iter(list(value.items()))


def _fill_set(made, items):
    made.update(items)


class _Sets(Codec):
    types = ("_weakrefset.WeakSet",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return type(value), (), list(value), None, None, _fill_set


def _fill_finalizer(made, call):
    if not context.is_comparing():
        finalizers.fill(made, call)


class _Finalizers(Codec):
    types = ("weakref.finalize",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        call = finalizers.call_of(value)
        if call is None:
            return finalizers.make_blank, ()
        if not context.in_store():
            raise TypeError(finalizers.ONCE)
        return finalizers.make_blank, (), call, None, None, _fill_finalizer

    def shares(self, value: t.Any) -> t.Iterable[object]:
        obj, func, args, kwargs = value.peek() or (None, None, (), {})
        return obj, func, *args, *kwargs.values()


for _codec in (_References(), _Proxies(), _Mappings(), _Sets(), _Finalizers()):
    register(_codec)
