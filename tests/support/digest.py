"""What a namespace is, as text: values, exact types, and what is one object or one memory.

Two namespaces with the same text can't be told apart by code that doesn't look at addresses.
Used in the kernel's processes and in the test's own.
"""

import hashlib
import re
import types

ATOMS = (int, float, complex, str, bytes, type(None), bool, range, types.ModuleType)


def _memory_start(array):
    """The address at which the memory begins that the array looks at."""
    import numpy as np

    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.base is not None:
        try:
            array = np.frombuffer(array.base, "u1")
        except (TypeError, ValueError, BufferError):
            pass  # another library's, which exports no bytes
    return array.__array_interface__["data"][0]


def _array(value, seen):
    import numpy as np

    start = value.__array_interface__["data"][0]
    # Arrays share memory as they did where the differences of their addresses are the same.
    first = seen.setdefault(("memory", _memory_start(value)), (start, len(seen), value))
    content = hashlib.sha1(np.ascontiguousarray(value).tobytes()).hexdigest()
    place = (first[1], start - first[0]) if value.size else ()
    return (
        "array",
        str(value.dtype),
        value.shape,
        value.strides,
        value.flags.writeable,
        *place,
        content,
    )


def _tensor(value, seen):
    storage = value.untyped_storage()
    start = value.data_ptr()
    first = seen.setdefault(("memory", storage.data_ptr()), (start, len(seen), storage))
    grad = None if not value.is_leaf or value.grad is None else shape(value.grad, seen)
    flags = (value.requires_grad, value.is_leaf, type(value).__name__, str(value.dtype))
    place = (first[1], start - first[0]) if value.numel() else ()
    return ("tensor", *flags, tuple(value.shape), value.stride(), place, value.tolist(), grad)


def _masked(value, seen):
    mask = shape(value.mask, seen) if value.mask.shape else "no mask"
    return ("masked", _array(value.data, seen), mask, value.hardmask)


def _sparse(value, seen):
    parts = [shape(getattr(value, name), seen) for name in ("data", "indices", "indptr")]
    return ("sparse", type(value).__name__, value.shape, *parts)


def _function(value, seen):
    cells = []
    for cell in value.__closure__ or ():
        try:
            cells.append(shape(cell.cell_contents, seen))
        except ValueError:
            cells.append("empty")
    defaults = shape(value.__defaults__, seen)
    return ("function", value.__qualname__, value.__code__.co_code.hex(), defaults, *cells)


def _frame(value, seen):
    return (
        "frame",
        shape(list(value.index), {}),
        *((str(name), str(value[name].dtype), shape(value[name].tolist(), {})) for name in value),
    )


def shape(value, seen):
    """The value as nested tuples, in which an object that was met before is its number."""
    kind = type(value)
    if kind in ATOMS or any(base.__name__ == "generic" for base in kind.__mro__):
        return f"{kind.__name__} {value!r}"
    if kind in (tuple, frozenset):  # nobody can tell whether two names share one
        items = [shape(item, seen) for item in value]
        return (kind.__name__, *(items if kind is tuple else sorted(items, key=repr)))
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray" and not value.dtype.hasobject:
        return _array(value, seen)
    if id(value) in seen:
        return ("again", seen[id(value)][0])
    seen[id(value)] = (len(seen), value)
    number = seen[id(value)][0]
    if kind is dict:
        items = ((shape(key, seen), shape(item, seen)) for key, item in value.items())
        return ("dict", number, *items)
    if kind is list:
        return ("list", number, *(shape(item, seen) for item in value))
    if kind is set:
        return ("set", number, *sorted((shape(item, seen) for item in value), key=repr))
    if kind is bytearray:
        return ("bytearray", number, hashlib.sha1(value).hexdigest())
    if kind is types.FunctionType:
        return (number, *_function(value, seen))
    if hasattr(value, "untyped_storage"):
        return (number, *_tensor(value, seen))
    if kind.__name__ == "MaskedArray":
        return (number, *_masked(value, seen))
    if hasattr(value, "indptr"):
        return (number, *_sparse(value, seen))
    if kind.__module__.startswith("pyarrow") or kind.__name__ == "Series":
        return (kind.__name__, number, repr(list(value)))
    if kind.__name__ == "DataFrame":
        return (number, *_frame(value, seen))
    if isinstance(value, type):
        own = sorted(name for name in vars(value) if not name.startswith("__"))
        return ("class", number, value.__qualname__, *own)
    if kind.__module__ == "__main__":
        return ("instance", number, shape(kind, seen), shape(vars(value), seen))
    return (kind.__name__, number, re.sub(r"0x[0-9a-f]+", "0x", repr(value)))


def digest(namespace, names):
    """The text of those of `names` that are bound, in the order of `names`."""
    seen = {}
    return repr([(name, shape(namespace[name], seen)) for name in names if name in namespace])
