"""What a namespace is, as text: values, exact types, and what is one object or one memory.

Two namespaces with the same text look alike to code that doesn't look at addresses.
Used in the kernel's processes and in the test's own.
"""

import enum
import gc
import hashlib
import io
import itertools
import re
import types
import weakref

OBJECTS_MAX = 20_000  # that are looked at for one name; what is beyond is one word

# What has no state of its own that code could see, and its name for all that.
NAMED = (
    types.BuiltinFunctionType,
    types.MethodType,
    types.MappingProxyType,
    weakref.ref,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
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

    place = ()
    if value.size:
        start = value.__array_interface__["data"][0]
        # Arrays share memory as they did where the differences of their addresses are the same.
        first = seen.setdefault(("memory", _memory_start(value)), (start, len(seen), value))
        place = (first[1], start - first[0])
    data = np.ascontiguousarray(value)
    padded = value.dtype.char in "gG"  # with bytes that are no part of the number
    content = hashlib.sha1(repr(data.tolist()).encode() if padded else data.tobytes()).hexdigest()
    return (
        "array",
        str(value.dtype),
        value.dtype.char,
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


def _cached(value, seen):
    """A function in a lru_cache with a bound: what it remembers, the least recently used first."""
    results = [one for one in gc.get_referents(value) if type(one) is list]
    attributes = {name: item for name, item in vars(value).items() if name == "mark"}
    parts = shape(value.__wrapped__, seen), shape(results, seen), shape(attributes, seen)
    return ("cached", tuple(value.cache_info()), *parts)


def _links(value, seen):
    """A list of linked instances, however long."""
    values = []
    while type(value).__name__ == "Link" and ("link", id(value)) not in seen:
        seen["link", id(value)] = (len(seen), value)
        values.append(shape(value.value, seen))
        value = value.after
    first = seen.get(("link", id(value)))
    runs = [(one, len(list(same))) for one, same in itertools.groupby(values)]
    return ("links", runs, first and first[0], *([] if first else [shape(value, seen)]))


def _file(value):
    if value.closed:
        return ("closed", value.name, value.mode)
    try:
        return (value.name, value.mode, value.tell())
    except OSError:  # it was iterated over
        return (value.name, value.mode, "iterated")


def _frame(value, seen):
    return (
        "frame",
        shape(list(value.index), {}),
        *((str(name), str(value[name].dtype), shape(value[name].tolist(), {})) for name in value),
    )


def _attributes(value):
    """Names and values of the attributes that are the instance's own."""
    own = dict(getattr(value, "__dict__", None) or {})
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                own[name] = getattr(value, name)
    own.pop("_cache", None)  # pandas' indexes remember there what they computed
    return own


def _instance(value, seen):
    """An object of another library's: what it holds and its attributes, else its text."""
    parts = [type(value).__qualname__]
    if isinstance(value, dict):
        parts += [(shape(key, seen), shape(value[key], seen)) for key in dict.keys(value)]
    elif isinstance(value, list | tuple):
        parts += [shape(item, seen) for item in value]
    elif isinstance(value, set | frozenset):
        parts += sorted((shape(item, seen) for item in value), key=repr)
    attributes = _attributes(value)
    if len(parts) == 1 and not attributes:
        return (parts[0], re.sub(r"0x[0-9a-fA-F]+", "0x", repr(value)))
    if isinstance(value, dict):  # scikit-learn's has a private one that it doesn't pickle
        attributes = {name: item for name, item in attributes.items() if name[:1] != "_"}
    return (*parts, *((str(name), shape(item, seen)) for name, item in sorted(attributes.items())))


def _artist(value):
    """A figure or a part of one: its parts, without Matplotlib's numbers of callbacks."""
    parts = value.findobj() if hasattr(value, "findobj") else []
    texts = (re.sub(r"0x[0-9a-f]+", "0x", repr(part)) for part in parts)
    return (type(value).__qualname__, *texts)


def shape(value, seen):
    """The value as nested tuples, in which an object that was met before is its number."""
    kind = type(value)
    if len(seen) > OBJECTS_MAX:
        return "more"
    if isinstance(value, enum.Enum):
        return repr(value)
    if isinstance(value, NAMED):
        return kind.__name__
    if isinstance(value, type | types.FunctionType) and value.__module__ != "__main__":
        return f"{value.__module__}.{value.__qualname__}"
    if kind in ATOMS or any(base.__name__ == "generic" for base in kind.__mro__):
        return f"{kind.__name__} {value!r}"
    if kind in (tuple, frozenset):  # nobody sees whether two names share one
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
    if kind.__name__ == "_lru_cache_wrapper":
        return (number, *_cached(value, seen))
    if kind.__name__ == "Link":
        return _links(value, seen)
    if isinstance(value, io.IOBase):
        return (number, kind.__name__, *_file(value))
    if type(kind).__module__ == "_ctypes":
        return (number, kind.__name__, bytes(value).hex())
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
    if kind.__module__.startswith(("matplotlib.", "mpl_toolkits.")):
        return (number, *_artist(value))
    return (number, *_instance(value, seen))


def digest(namespace, names):
    """The text of those of `names` that are bound, in the order of `names`."""
    seen = {}
    return repr([(name, shape(namespace[name], seen)) for name in names if name in namespace])


def parts(namespace, names):
    """The digest of those of `names` that are bound: each name with its text, a long one shortened."""
    seen = {}
    for name in names:
        if name in namespace:
            text = repr(shape(namespace[name], seen))
            yield name, text if len(text) < 200 else f"{text[:150]} {_checksum(text)}"


def _checksum(text):
    return hashlib.sha1(text.encode()).hexdigest()[:12]


def each_name(namespace):
    """The digest of every name that the user has bound, alone."""
    own = {"In", "Out", "exit", "quit", "open", "get_ipython"}
    names = sorted(name for name in namespace if name not in own and not name.startswith("_"))
    texts = {name: repr(shape(namespace[name], {})) for name in names}
    return {name: _checksum(text) for name, text in texts.items()}
