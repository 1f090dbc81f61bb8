"""ctypes: structures, unions, arrays and numbers, and pointers whose target is known.

Such an object is memory: its own, another's (`from_buffer`), or a part of another ctypes object.
Its own memory is pickled as memory, so NumPy arrays that look at it still do; the others are
pickled as a place in their owner. A part comes back as a view of its owner, which it was.

A pointer is an address, which means nothing in another process. It is carried where the object
that it points to is known: what `pointer()` was called with, an array's `ctypes.data_as`, the
bytes of a `c_char_p`, nothing. All other pointers are unserializable, and what holds pointers.

Nothing here calls a class: its `__init__` and `__new__`, which may be the user's, ran when the object
was made. Objects are made by ctypes' own types, and their fields set by ctypes' own descriptors.

Classes of the notebook are laid out anew by their `_fields_`. Those that ctypes makes once for
each type are had from it again, and its metaclasses, which can't be imported, from a class.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import sys

from .. import _store
from . import Codec, register


def _make_at(cls, owner, offset):
    return cls.from_buffer(owner, offset)


def _make_empty(cls):
    """An instance that is all zeros."""
    base = next(one for one in cls.__mro__ if one in _BASES)
    return base.__new__(cls)


def _make_pointer(cls, *target):
    pointer = _make_empty(cls)
    place = ctypes._Pointer.contents if issubclass(cls, ctypes._Pointer) else _VALUE
    for one in target:
        place.__set__(pointer, one)
    return pointer


def _make_data_as(array, cls):
    return array.ctypes.data_as(cls)


def _make_class(make, module, *args):
    """ctypes names a class for the module that asks first, and keeps it for all others."""
    cls = make(*args)
    if cls.__module__ == __name__:
        cls.__module__ = module
    return cls


@functools.lru_cache(maxsize=256)
def _holds_pointers(cls):
    try:
        _Base.__reduce__(_make_empty(cls))
    except ValueError:
        return True
    return False


def _address_of_buffer(owner):
    return ctypes.addressof(ctypes.c_char.from_buffer(owner))


def _fill_attributes(value, attributes):
    vars(value).update(attributes)  # its own __setstate__ would want its bytes, too


def _attributes_of(value):
    attributes = vars(value)
    return (dict(attributes), None, None, _fill_attributes) if attributes else ()


def _owner_of(value):
    """The object whose memory `from_buffer` was given, or None; the store's own is memory."""
    held = value._objects
    views = [one for one in held.values() if type(one) is memoryview] if type(held) is dict else []
    owner = views[0].obj if len(views) == 1 and not value._b_needsfree_ else None
    return None if isinstance(owner, (_store.Region, _store.Memory)) else owner


class _Data(Codec):
    types = ("_ctypes.Structure", "_ctypes.Union", "_ctypes.Array", "_ctypes._SimpleCData")

    def reduce(self, value, pickler):
        cls = type(value)
        if isinstance(value, (ctypes.c_char_p, ctypes.c_wchar_p)):
            text = value.value
            if value._b_base_ is None and (text is None or value._objects is not None):
                return _make_pointer, (cls, text), *_attributes_of(value)
        if _holds_pointers(cls):
            return NotImplemented
        address, size = ctypes.addressof(value), ctypes.sizeof(value)
        owner = value._b_base_
        if owner is not None:
            offset = address - ctypes.addressof(owner)
        elif (owner := _owner_of(value)) is not None and size:
            offset = address - _address_of_buffer(owner)
        elif size and (value._b_needsfree_ or value._objects):
            owner, offset = pickler.memory(address, size, value), 0
        else:
            return NotImplemented
        return _make_at, (cls, owner, offset), *_attributes_of(value)


class _Pointers(Codec):
    types = ("_ctypes._Pointer",)

    def reduce(self, value, pickler):
        cls = type(value)
        if not value:
            return _make_pointer, (cls,), *_attributes_of(value)
        address = ctypes.cast(value, ctypes.c_void_p).value
        target = (value._objects or {}).get("1")
        if isinstance(target, cls._type_) and ctypes.addressof(target) == address:
            return _make_pointer, (cls, target), *_attributes_of(value)
        array = getattr(value, "_arr", None)
        if array is not None and array.ctypes.data == address:
            return _make_data_as, (array, cls)
        return NotImplemented


_BASES = ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._Pointer, ctypes._SimpleCData
_Base = ctypes.Structure.__base__
_VALUE = ctypes._SimpleCData.__dict__["value"]  # type: ignore[attr-defined]
_METACLASSES = {type(base): base for base in _BASES}
_NATIVE, _SWAPPED = "__ctype_le__", "__ctype_be__"
if sys.byteorder == "big":
    _NATIVE, _SWAPPED = _SWAPPED, _NATIVE


def reduce_class(cls):
    """`c_int * 3`, `POINTER(c_int)`, a number's of the other byte order, and the metaclasses."""
    if isinstance(cls, type(ctypes.Array)) and hasattr(cls, "_length_"):
        return _make_class, (operator.mul, cls.__module__, cls._type_, cls._length_)
    if isinstance(cls, type(ctypes._Pointer)) and hasattr(cls, "_type_"):
        return _make_class, (ctypes.POINTER, cls.__module__, cls._type_)
    native = getattr(cls, _NATIVE, cls) if isinstance(cls, type(ctypes._SimpleCData)) else cls
    if native is not cls:
        return getattr, (native, _SWAPPED)
    if isinstance(cls, type) and cls in _METACLASSES:
        return type, (_METACLASSES[cls],)
    return None


for _codec in (_Data(), _Pointers()):
    register(_codec)
