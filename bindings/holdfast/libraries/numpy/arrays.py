"""NumPy's arrays that are more than memory: subclasses, memmaps, views of objects.

A subclass that pickles as an array does is carried as its memory, seen as that class, and its attributes.
NumPy's own pickling copies the memory into the pickle and drops the attributes. This holds for a masked
array, too: its mask is one of its attributes.

A memmap is carried as its file, which is mapped again. So is a view of one, whatever its class. A mapping of
mode "c" is unserializable: its changes are only in its private pages.

Views of arrays of objects (and of texts of variable width) stay views. Their memory holds pointers, which
can't be carried, but their place in the array that they look at can.
"""

from __future__ import annotations

import copyreg
import mmap
import os
import typing as t

import numpy as np

from holdfast.carry import in_place, restoring
from holdfast.codecs import Codec, register

_byte_bounds = getattr(np, "byte_bounds", None)  # before NumPy 2
_byte_bounds = _byte_bounds or np.lib.array_utils.byte_bounds

_PLAIN_REDUCTIONS = (np.ndarray.__reduce__, np.ma.MaskedArray.__reduce__)
_PLAIN_STATES = (np.ndarray.__setstate__, np.ma.MaskedArray.__setstate__)


class Subclass(Codec):
    """Subclasses of ndarray that don't say themselves how they are pickled."""

    types = ("numpy.ndarray",)

    def reduce(self, value, pickler):
        cls = type(value)
        if isinstance(value, np.memmap) or root_of(value) is not None:
            return reduce_memmap(value)
        if (
            cls.__reduce__ not in _PLAIN_REDUCTIONS
            or cls.__reduce_ex__ is not np.ndarray.__reduce_ex__
            or cls.__setstate__ not in _PLAIN_STATES
        ):
            return NotImplemented
        make, args = _view_as, (_as_array(value), cls)
        if _is_part(value, value.base):
            make, args = _make_part, _place_in(value.base, value)
        return make, args, _attributes(value), None, None, _set_attributes


class Row(Codec):
    """A row of a structured array, which looks at the array's memory."""

    types = ("numpy.void",)

    def reduce(self, value, pickler):
        place = _index_of(value)
        return NotImplemented if place is None else (_make_row, (value.base, place))

    def shares(self, value):
        return () if value.base is None else (value.base,)


class DataType(Codec):
    """NumPy has one object for each of its own types. What it pickles is read as another object,
    and `long long` as `long`, which has the same size."""

    types = ("numpy.dtype",)

    def reduce(self, value, pickler):
        return (np.dtype, (value.char,)) if value.isbuiltin == 1 else NotImplemented


class Generator(in_place.Taking):
    """As a generator over its bit generator, which other objects may draw from, too. NumPy 1 would
    make a new bit generator."""

    types = ("numpy.random._generator.Generator",)

    def reduce(self, value, pickler):
        return type(value), (value.bit_generator,)

    def inside(self, value):
        return (value.bit_generator,)

    def take(self, new):
        return lambda here: None


class Bits(in_place.Taking):
    """NumPy pickles it; `__setstate__` takes what `__reduce__` gives."""

    types = ("numpy.random.bit_generator.BitGenerator",)

    def take(self, new):
        state = new.__reduce__()[2]
        return lambda here: here.__setstate__(state)


class RandomState(Bits):
    """It has a bit generator, too, and a number in advance."""

    types = ("numpy.random.mtrand.RandomState",)

    def inside(self, value):
        return (value._bit_generator,)


def _make_npz(cls, bag, state, archive):
    made = cls.__new__(cls)
    made.__dict__.update(state, zip=archive)
    if archive is not None:
        made.fid = archive.fp  # it is closed with the archive, as np.load's own file is
        made.f = bag(made)
    else:
        made.fid = made.f = None  # it is closed
    return made


class Npz(Codec):
    """The object that np.load returns for an archive. It reads each array when it is asked for."""

    types = ("numpy.lib.npyio.NpzFile",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        here = {"zip", "f", "fid"}  # `f` refers to the object itself, weakly
        state = {name: item for name, item in vars(value).items() if name not in here}
        return _make_npz, (type(value), type(value.f), state, value.zip)


class Polynomial(Codec):
    """As its attributes. Its own pickling copies the coefficients, which may be an array of the
    notebook's."""

    types = ("numpy.polynomial._polybase.ABCPolyBase",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return object.__new__, (type(value),), dict(vars(value)), None, None, restoring.share_dict


class Vectorized(Codec):
    """Without the ufuncs that `np.vectorize` keeps: they can't be pickled, and are made again."""

    types = ("numpy.vectorize",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        if not vars(value).get("_ufunc") or cls.__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        return copyreg.__newobj__, (cls,), {**vars(value), "_ufunc": {}}  # type: ignore[attr-defined]


register(Vectorized())
register(Npz())
register(Polynomial())
register(Subclass())
register(Row())
register(Generator())
register(Bits())
register(RandomState())
register(DataType())


def _as_array(value: np.ndarray) -> np.ndarray:
    return np.ndarray.view(value, np.ndarray)


def _attributes(value: t.Any) -> dict[str, t.Any]:
    attributes = dict(getattr(value, "__dict__", {}))
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, name):
            attributes[name] = getattr(value, name)
    return attributes


def _index_of(row: t.Any) -> tuple[int, ...] | None:
    """The element of its array that a row is. None if it has no array, or is a part of an
    element."""
    base = row.base
    if not isinstance(base, np.ndarray) or base.dtype != row.dtype or not base.size:
        return None
    left = _address(row) - _address(base)
    index = [0] * base.ndim
    for axis in sorted(range(base.ndim), key=lambda axis: -base.strides[axis]):
        if base.strides[axis] > 0 and base.shape[axis] > 1:
            index[axis], left = divmod(left, base.strides[axis])
    inside = all(0 <= one < size for one, size in zip(index, base.shape, strict=True))
    return tuple(index) if left == 0 and inside else None


def _address(value: t.Any) -> int:
    return value.__array_interface__["data"][0]


def _make_row(array, index):
    return array[index]


def _is_part(value: np.ndarray, base: t.Any) -> bool:
    """Whether it can be made from its base, an array of the same class, by the place of its
    memory."""
    return (
        type(base) is type(value)
        and not isinstance(value, np.ma.MaskedArray)  # it looks at its mask, too
        and base.dtype.kind in "biufc"
        and (base.flags.c_contiguous or base.flags.f_contiguous)
        and value.size > 0
        and _is_inside(value, base)
    )


def _place_in(base: np.ndarray, part: np.ndarray) -> tuple[t.Any, ...]:
    place = _address(part) - _address(base)
    return base, part.dtype, part.shape, part.strides, place, part.flags.writeable


def _make_part(base, dtype, shape, strides, place, writeable):
    with restoring.opened(base, writeable):
        part = np.ndarray.__new__(type(base), shape, dtype, base, place, strides)
    part.flags.writeable = writeable
    return part


def _view_as(array, cls):
    return np.ndarray.view(array, cls)


def _set_attributes(value, attributes):
    for name, item in attributes.items():
        if hasattr(value, "__dict__"):
            value.__dict__[name] = item
        else:
            setattr(value, name, item)


# ---- memmaps ---------------------------------------------------------------------------


def root_of(array: t.Any) -> np.memmap | None:
    """The memmap that an array is, or is a view of."""
    base = array
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array if isinstance(base, mmap.mmap) and isinstance(array, np.memmap) else None


def reduce_memmap(array: np.ndarray) -> t.Any:
    """How to map the file again. For a view: the memmap, and the view's place in it."""
    root = root_of(array)
    if root is None:  # its memory is its own, as after np.memmap.copy()
        return _view_as, (_as_array(array), type(array))
    if array is not root:
        place = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        where = (array.dtype, array.shape, array.strides, place, array.flags.writeable)
        return _make_memmap_view, (root, type(array), *where)
    if root.filename is None:
        raise ValueError("a memmap of a file without a name; np.asarray(...).copy() is carried")
    try:
        file = os.stat(root.filename)
    except FileNotFoundError:
        raise ValueError(f"a memmap whose file {root.filename} is gone") from None
    order = "C" if root.flags.c_contiguous else "F"
    # "w+" would empty the file.
    mode = "r+" if root.mode == "w+" else root.mode
    if mode == "c":
        raise ValueError("a memmap with pages of its own (mode 'c'); .copy() is carried")
    args = (str(root.filename), root.dtype, mode, root.offset, root.shape, order)
    return _make_memmap, (type(root), args, (file.st_dev, file.st_ino))


def _make_memmap(cls, args, file):
    now = os.stat(args[0])
    if (now.st_dev, now.st_ino) != file:
        raise OSError(f"the file {args[0]} of a memmap was replaced by another")
    array = np.memmap(*args)
    return array if cls is np.memmap else array.view(cls)


def _make_memmap_view(root, cls, dtype, shape, strides, place, writeable):
    array = np.ndarray(shape, dtype, _octets(root), place, strides)
    if cls is not np.ndarray:
        array = array.view(cls)
        array.__dict__.update(vars(root))
    if array.flags.writeable and not writeable:
        array.flags.writeable = False
    return array


def _octets(array):
    flat = array if array.flags.c_contiguous else array.T
    return np.ndarray.view(flat, np.ndarray).reshape(-1).view("u1")


# ---- views of arrays whose elements are objects --------------------------------------------


def reduce_view_of_objects(array: np.ndarray) -> t.Any:
    """The place of a view in its base. NotImplemented for an array that is no view."""
    base = array
    # The array that as_strided puts in between has a base, too.
    while getattr(base, "base", None) is not None:
        base = base.base
    if base is array or type(base) is not np.ndarray or not base.flags.c_contiguous:
        return NotImplemented
    step = base.itemsize  # from one element to the next, for any number of axes
    for name in (None, *(base.dtype.fields or ())):
        part = base if name is None else base[name]
        if part.dtype != array.dtype or not part.size:
            continue
        offset = array.__array_interface__["data"][0] - part.__array_interface__["data"][0]
        if offset % step % array.itemsize or not _is_inside(array, base):
            continue
        if part.dtype.kind == "T" and (array.ndim != 1 or array.strides[0] % step or offset % step):
            continue  # NumPy has no as_strided for such texts
        start = offset // step, offset % step // array.itemsize
        where = (array.shape, array.strides, start, array.flags.writeable)
        return _make_view_of_objects, (base, name, *where)
    return NotImplemented


def reduce_objects(array: np.ndarray) -> t.Any:
    """As NumPy pickles it, with the flag whether it may be written, which NumPy leaves out.

    A field of several objects is read as an array that looks into this one. To pickle it in that
    form would never end.
    """
    has_arrays = any(field.subdtype or field.fields for field in _fields(array.dtype))
    if array.flags.writeable and not has_arrays:
        return NotImplemented
    reduced: t.Any = array.__reduce__()
    make, arguments, (*rest, elements) = reduced
    if has_arrays:
        elements = [_own(one, array.dtype) for one in elements]
    setter = None if array.flags.writeable else _set_read_only
    return make, arguments, (*rest, elements), None, None, setter


def _fields(dtype):
    return [kind for kind, *_ in (dtype.fields or {}).values()]


def _own(value, dtype):
    """An element, with copies of the arrays in it."""
    if dtype.subdtype:
        return value.copy()
    if dtype.fields:
        return tuple(map(_own, value, (dtype[name] for name in dtype.names)))
    return value


def _set_read_only(array, state):
    array.__setstate__(state)
    array.flags.writeable = False


def _is_inside(array, base):
    (low, high), (start, end) = _byte_bounds(array), _byte_bounds(base)
    return start <= low and high <= end


def _make_view_of_objects(base, name, shape, strides, start, writeable):
    with restoring.opened(base, writeable):
        flat = base.reshape(-1)
        flat = flat if name is None else flat[name]
        if base.dtype.kind == "T":
            step = strides[0] // flat.strides[0]
            stop = start[0] + step * shape[0]
            view = flat[start[0] : stop if stop >= 0 else None : step] if shape[0] else flat[:0]
        else:  # if a field is several objects, the view begins at one of them
            flat = flat.reshape(len(flat), -1)[start[0] :, start[1] :]
            view = np.lib.stride_tricks.as_strided(flat, shape, strides)
    if not writeable:
        view.flags.writeable = False
    return view


def samples():
    """An array of which an element was read and written, so that NumPy's code for it has run."""
    array = np.ones(4096)
    array[len(array) // 2] += 1
    return (array,)
