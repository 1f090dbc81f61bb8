"""The pickler of values that cross to another process, and its rules.

It is cloudpickle's pickler (hence CPython's C pickler) with these differences:

Arrays
    An ndarray is pickled as its place in its owner's memory, and that memory once for all
    views of it, out of band. So arrays that shared memory share it afterwards.
Arrays of objects
    are the plain codec's encoding of their atoms, out of band; the other elements are
    pickled once each (`_pack_elements`).
Functions of the notebook
    get the namespace itself as their globals where they arrive, not a copy of what they
    use: a name that is bound anew later is seen, as it would have been before. Closures
    that share a cell share it afterwards.
Classes of the notebook
    are pickled by value only into their own entry of the store; everywhere else a
    reference stands for them. So all instances, whenever they were carried, are of one
    class, and a class that a cell changed is changed for all.
Outside the store (the marshaller) there is no namespace, and cloudpickle's rules hold for
functions and classes: the stream is self-contained.

`enter` and `leave` say what is current: the thread's namespace, the classes whose turn it
is, and who resolves references to the others.
"""

import collections
import copyreg
import enum
import functools
import io
import operator
import pickle
import re
import sys
import threading
import types
import typing
import weakref

import cloudpickle
from cloudpickle import cloudpickle as _rules

from . import _store, codecs

# Memory below this size is not worth a buffer of its own: a page, and a mapping.
INLINE_MAX = 16384
_SEARCH_MAX = 1000  # children of one object that are tried when a culprit is looked for
_SEARCH_DEPTH = 12


class _Context(threading.local):
    names = None  # resolves references to classes
    namespace = None
    own = None  # set of classes that are pickled by value; None: all


_context = _Context()


def enter(names, namespace, own):
    """Make these current in this thread; gives what was."""
    before = (_context.names, _context.namespace, _context.own)
    _context.names, _context.namespace, _context.own = names, namespace, own
    return before


def in_store():
    """Whether what is pickled now goes to the store, not to a stream."""
    return _context.names is not None


def is_comparing():
    """Whether what is decoded now is a copy, to be compared and thrown away."""
    return in_store() and not _context.names._is_binding


def current_namespace():
    """The notebook's variables, where something of theirs is carried now."""
    return _context.namespace


def leave(before):
    """Make current again what `enter` gave."""
    _context.names, _context.namespace, _context.own = before


# ---- what a pickle calls when it is read -------------------------------------------------


def _make_memory(buffer):
    return buffer


def _make_array(owner, dtype, shape, strides, offset, writeable):
    import numpy

    array = numpy.ndarray(shape, dtype, owner, offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array


def _make_view(base, dtype, shape, strides, offset, writeable):
    # As bytes: not every dtype can be had through the buffer protocol. NumPy makes the
    # outermost array the base of the result, which is `base` again. That may have been
    # made read-only after its views were taken.
    read_only = writeable and not base.flags.writeable
    if read_only:
        base.flags.writeable = True
    flat = base if base.flags.c_contiguous else base.T
    view = _make_array(flat.reshape(-1).view("u1"), dtype, shape, strides, offset, writeable)
    if read_only:
        base.flags.writeable = False
    return view


def _make_objects(shape, dtype, order):
    import numpy

    return numpy.empty(shape, dtype, order)


def _fill_objects(array, state):
    meta, payload, outside, writeable = state
    _store._fill_elements(array, meta, payload, outside)
    array.flags.writeable = writeable


def _make_memoryview(owner, layout, readonly):
    view = memoryview(owner)
    if layout is not None:
        view = view.cast("B").cast(*layout)
    return view.toreadonly() if readonly and not view.readonly else view


def _find_class(identifier):
    cls = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    if cls is None:
        cls = _context.names._load_class(identifier)
    return cls


def _make_cell():
    return types.CellType()


def _same(value):
    return value


def _fill_cell(cell, state):
    (cell.cell_contents,) = state


def _make_function(code, name, closure):
    return types.FunctionType(code, _context.namespace, name, None, closure)


def _fill_function(function, state):
    attributes, slots, cells = state
    for cell, contents in cells:
        cell.cell_contents = contents
    for name, value in slots.items():
        setattr(function, name, value)
    function.__dict__.update(attributes)


def _make_class(constructor, name, bases, body, identifier, extra):
    """An empty class to fill, made without the notebook's own __init_subclass__ and metaclasses.

    What they did, they did when the class was defined; they may need names that aren't bound yet.
    """
    cls = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    if cls is not None:
        return cls
    above = {one for base in types.resolve_bases(bases) for one in base.__mro__}
    hooks = {
        one: one.__dict__["__init_subclass__"]
        for one in above
        if one.__module__ == "__main__" and "__init_subclass__" in one.__dict__
    }
    try:
        for one in hooks:
            one.__init_subclass__ = _quiet(one)
        cls = _make_quietly(constructor, name, bases, body)
    finally:
        for one, hook in hooks.items():
            one.__init_subclass__ = hook
    return _rules._lookup_class_or_track(identifier, cls)


def _make_quietly(metaclass, name, bases, body):
    """The class as the nearest imported base of its metaclass makes it."""
    imported = next(base for base in metaclass.__mro__ if base.__module__ != "__main__")
    if imported is metaclass:
        options = {"metaclass": metaclass}
        return types.new_class(name, bases, options, lambda made: made.update(body))
    resolved = types.resolve_bases(bases)
    space = imported.__prepare__(name, resolved)
    space.update(body)
    if resolved is not bases:
        space["__orig_bases__"] = bases
    cls = imported.__new__(metaclass, name, resolved, space)
    imported.__init__(cls, name, resolved, space)
    return cls


def _quiet(owner):
    return classmethod(lambda cls, **options: super(owner, cls).__init_subclass__(**options))


def _make_cached_function(function, options):
    return functools.lru_cache(**options)(function)


def _make_exception(cls, args):
    return cls.__new__(cls, *args)


def _fill_exception(error, state):
    attributes, error.args, error.__cause__, error.__context__, suppressed = state
    error.__suppress_context__ = suppressed  # not before: the cause sets it
    error.__dict__.update(attributes)


def _make_match(pattern, how, *where):
    return getattr(pattern, how)(*where)


def _reduce_match(match):
    """As the search that finds it again; what finditer() found later is declined."""
    where = match.string, match.pos, match.endpos
    for how in ("search", "match", "fullmatch"):
        again = _make_match(match.re, how, *where)
        if again is not None and again.regs == match.regs:
            return _make_match, (match.re, how, *where)
    return NotImplemented


def _reduce_raised(error):
    """With what it was raised from, which BaseException's own pickling leaves out."""
    reduced = error.__reduce_ex__(5)
    state = reduced[2] if len(reduced) > 2 else {}
    if len(reduced) > 3 or not isinstance(state, dict):
        return reduced  # it has its own way to be filled
    if type(error).__setstate__ is not BaseException.__setstate__:
        return reduced
    links = ("__cause__", "__context__", "__suppress_context__")  # the cause sets the last
    return *reduced[:2], {**state, **{name: getattr(error, name) for name in links}}


def _fill_class(cls, state):
    attributes, _ = state
    # A class that was here before may have attributes that its new version lacks. What the
    # metaclass made (slots, the members of an enumeration) is not in the state.
    if not isinstance(cls, enum.EnumMeta):
        for name, value in list(cls.__dict__.items()):
            made = name.startswith("_abc") or (name.startswith("__") and name.endswith("__"))
            if name not in attributes and not made and not isinstance(value, _SLOT_TYPES):
                delattr(cls, name)
    return _rules._class_setstate(cls, state)


_SLOT_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _share_dict(instance, attributes):
    instance.__dict__ = attributes


def _shares_dict(value):
    """Whether somebody else holds the instance's `__dict__`: `vars(options)`, or it itself."""
    cls = type(value)
    return (
        cls.__dictoffset__ != 0
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and not isinstance(value, type)
        and sys.getrefcount(value.__dict__) > 2  # the instance's and ours
    )


def _reduce_with_dict(value):
    """So that `__dict__` is the same object afterwards, not one with the same contents."""
    reduced = value.__reduce_ex__(5)
    if len(reduced) < 3 or reduced[2] is not value.__dict__ or hasattr(value, "__setstate__"):
        return reduced
    return *(*reduced, None, None)[:5], _share_dict


class _Shell:
    """Stands for an empty cell in the arguments of a function that fills it later."""

    def __reduce__(self):
        return _make_cell, ()


_CachedFunction = type(functools.lru_cache(lambda: None))


def _is_simple_exception(cls):
    """A class of the notebook whose __init__ would not take `args`, without C fields of its own.

    BaseException.__reduce__ calls the class with `args`: where an __init__ made its own out of
    other arguments, that fails or gives another value.
    """
    return (
        cls.__module__ == "__main__"
        and isinstance(cls.__init__, types.FunctionType)
        and cls.__reduce__ is BaseException.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE).__basicsize__
        == BaseException.__basicsize__
    )


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PLAIN_KINDS = frozenset("biufcmMSUV")


def _numpy_arrays():
    from .codecs import numpy_arrays

    return numpy_arrays


def _take_buffer(parts, add_buffer, buffer):
    try:
        raw = buffer.raw()
    except BufferError:
        return True  # not contiguous: in band
    if raw.nbytes < INLINE_MAX:
        return True
    parts.append(add_buffer(raw))
    return False


def _reduce_memoryview(view):
    """As a view of its object; one of a part of it as one of its own bytes.

    cloudpickle would make bytes of it.
    """
    whole = memoryview(view.obj)
    if (whole.format, whole.shape, whole.strides) == (view.format, view.shape, view.strides):
        return _make_memoryview, (view.obj, None, view.readonly)
    if not view.c_contiguous:
        raise TypeError("a memoryview of parts that lie apart")
    layout = (view.format, view.shape) if view.nbytes else None
    return _make_memoryview, (pickle.PickleBuffer(view), layout, view.readonly)


class Pickler(cloudpickle.Pickler):
    """Pickles one value; `add_buffer` takes memory out of band and tells its place."""

    def __init__(self, file, add_buffer):
        self.parts = []
        # No method: the pickler would be in a cycle with itself, and what it pickled be held
        # until the next collection.
        take = functools.partial(_take_buffer, self.parts, add_buffer)
        super().__init__(file, protocol=5, buffer_callback=take)
        self.classes = {}  # identifiers referred to, in order
        self.root = None  # what is pickled
        self.notes = {}  # what codecs found out about it
        self._memories = {}  # address and size -> what is pickled for this memory
        self._shells = {}  # id of a cell -> its shell
        self._kept = []  # objects whose ids are keys above
        self._numpy = sys.modules.get("numpy")
        self._array = getattr(self._numpy, "ndarray", None)

    def dump(self, value):
        self.root = value
        super().dump(value)

    def reducer_override(self, obj):
        cls = type(obj)  # isinstance() would ask a proxy what it leads to
        if cls is self._array:
            return self._reduce_array(obj)
        if cls is _rules.CellType:
            return self._reduce_cell(obj)
        if cls is memoryview:
            return _reduce_memoryview(obj)
        if cls.__name__ == "PyCArrayType" and cls.__module__ == "_ctypes":
            # ctypes makes `c_int * 3` once; its metaclass can't be imported.
            return operator.mul, (obj._type_, obj._length_)
        if issubclass(cls, type) and _context.own is not None:
            return self._reduce_class(obj)
        if cls is _CachedFunction and obj.__module__ == "__main__":
            return self._reduce_cached_function(obj)
        if cls is functools.cached_property:  # has a lock before Python 3.12
            return cls, (obj.func,), {"attrname": obj.attrname, "__doc__": obj.__doc__}
        if issubclass(cls, BaseException) and _is_simple_exception(cls):
            links = obj.__cause__, obj.__context__, obj.__suppress_context__
            state = (dict(obj.__dict__), obj.args, *links)
            return _make_exception, (cls, obj.args), state, None, None, _fill_exception
        codec = codecs.find(cls)
        if codec is not None:
            reduced = codec.reduce(obj, self)
            if reduced is not NotImplemented:
                return reduced
        if isinstance(obj, types.ModuleType):
            return NotImplemented
        if cls is re.Match:
            return _reduce_match(obj)
        if cls is weakref.finalize:  # pickled as one that is dead
            raise TypeError("what it cleans up is not to be cleaned up twice")
        if isinstance(obj, BaseException) and (obj.__cause__ or obj.__context__):
            return _reduce_raised(obj)
        if _shares_dict(obj):
            return _reduce_with_dict(obj)
        return super().reducer_override(obj)

    def memory(self, address, size, owner):
        """What to pickle for `size` bytes at `address`, which `owner` keeps alive.

        Asked again for the same bytes, it is the same: what shares them here shares them
        there. It arrives as an object that exports them as a buffer.
        """
        key = (address, size)
        kept = self._memories.get(key)
        if kept is None:
            kept = self._memories[key] = _Memory(_store._memory_at(address, size, owner))
            self._kept.append(owner)
        return kept

    def _reduce_class(self, cls):
        by_value = cls.__module__ == "__main__" and not _rules._should_pickle_by_reference(cls)
        if by_value and cls not in _context.own:
            identifier = _rules._get_or_create_tracker_id(cls)
            self.classes[identifier] = None
            return _find_class, (identifier,)
        reduced = super().reducer_override(cls)
        if by_value and isinstance(reduced, tuple) and len(reduced) == 6:
            attributes, slots = reduced[2]
            # copyreg caches this in a class when the first instance is pickled.
            attributes.pop("__slotnames__", None)
            # cloudpickle leaves out what a base has as the very same object.
            for name, value in cls.__dict__.items():
                if not name.startswith("__") and any(
                    base.__dict__.get(name) is value for base in cls.__mro__[1:]
                ):
                    attributes.setdefault(name, value)
            make, args = reduced[:2]
            if make is _rules._make_skeleton_class:
                make, body = _make_class, dict(args[3])
                if typing.NamedTuple in args[2]:  # it would make its fields again
                    args = (*args[:2], cls.__bases__, *args[3:])
                if "__slots__" in attributes:  # else instances would get a dict
                    body["__slots__"] = attributes.pop("__slots__")
                args = (*args[:3], body, *args[4:])
            return make, args, (attributes, slots), None, None, _fill_class
        return reduced

    # Functions -----------------------------------------------------------------------

    def _function_reduce(self, obj):
        if _context.namespace is not None and obj.__globals__ is _context.namespace:
            return self._reduce_notebook_function(obj)
        return super()._function_reduce(obj)

    def _reduce_cached_function(self, wrapper):
        """By value, as its function is; the cache begins empty, for nobody can read it."""
        attributes = {key: item for key, item in vars(wrapper).items() if key != "__wrapped__"}
        args = wrapper.__wrapped__, wrapper.cache_parameters()
        return _make_cached_function, args, attributes

    def _shell(self, cell):
        shell = self._shells.get(id(cell))
        if shell is None:
            shell = self._shells[id(cell)] = _Shell()
            self._kept.append(cell)
        return shell

    def _reduce_cell(self, cell):
        shell = self._shell(cell)
        try:
            contents = cell.cell_contents
        except ValueError:
            return _same, (shell,)
        # In a tuple: nobody is called with a state of None.
        return _same, (shell,), (contents,), None, None, _fill_cell

    def _reduce_notebook_function(self, function):
        closure = function.__closure__
        shells = None if closure is None else tuple(map(self._shell, closure))
        cells = []
        for cell in closure or ():
            try:
                cells.append((self._shell(cell), cell.cell_contents))
            except ValueError:
                pass  # an empty cell stays empty
        slots = {
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__annotations__": function.__annotations__,
        }
        if getattr(function, "__type_params__", ()):
            slots["__type_params__"] = function.__type_params__
        args = (function.__code__, function.__name__, shells)
        state = (dict(function.__dict__), slots, cells)
        return _make_function, args, state, None, None, _fill_function

    # Arrays --------------------------------------------------------------------------

    def _owner_of(self, array):
        """What is pickled for the array's whole memory, and where the array starts in it."""
        owner, memory, offset = _store._array_memory(array)
        if memory is None:
            return None, 0
        if type(owner) in (bytes, bytearray) or type(owner).__name__ == "array":
            return owner, offset  # pickle itself keeps these one object
        low = array.__array_interface__["data"][0] - offset
        whole = self._memory_behind(owner)
        if whole is not None:
            return self.memory(*whole, owner), low + offset - whole[0]
        key = low, memoryview(memory).nbytes
        kept = self._memories.get(key)
        if kept is None:
            kept = self._memories[key] = _Memory(memory)
            self._kept.append(owner)
        return kept, offset

    def _memory_behind(self, owner):
        """The memory of another library's object that an array looks into."""
        codec = None if isinstance(owner, self._array) else codecs.find(type(owner))
        return None if codec is None else codec.memory(owner)

    def _reduce_array(self, array):
        dtype = array.dtype
        if dtype.hasobject or dtype.kind not in _PLAIN_KINDS:
            reduced = _numpy_arrays().reduce_view_of_objects(array)
            return self._reduce_objects(array) if reduced is NotImplemented else reduced
        make, (owner, offset) = _make_array, self._owner_of(array)
        if owner is None:
            return NotImplemented
        if array.base is not None and _numpy_arrays().root_of(array) is not None:
            return _numpy_arrays().reduce_memmap(array)
        if self._is_view_of(array, array.base):
            make, owner = _make_view, array.base
            offset = array.ctypes.data - owner.ctypes.data
        return make, (
            owner,
            dtype,
            array.shape,
            array.strides,
            offset,
            array.flags.writeable,
        )

    def _reduce_objects(self, array):
        """An empty array, then its elements: it may be one of them."""
        packed = _store._pack_elements(array) if array.dtype.kind == "O" else None
        if packed is None:
            return _numpy_arrays().reduce_objects(array)
        meta, memory, outside = packed
        order = "C" if array.flags.c_contiguous else "F"
        state = meta, pickle.PickleBuffer(memory), outside, array.flags.writeable
        return _make_objects, (array.shape, array.dtype, order), state, None, None, _fill_objects

    def _is_view_of(self, array, base):
        """Whether the array can be had from its base, an array that is one block."""
        if type(base) is not self._array or base.ndim == 0 or base.nbytes == 0:
            return False
        if base.dtype.hasobject or base.dtype.kind not in _PLAIN_KINDS:
            return False
        if not (base.flags.c_contiguous or base.flags.f_contiguous):
            return False
        byte_bounds = getattr(self._numpy, "byte_bounds", None)  # before NumPy 2
        byte_bounds = byte_bounds or self._numpy.lib.array_utils.byte_bounds
        (low, high), (start, end) = byte_bounds(array), byte_bounds(base)
        return start <= low and high <= end


class _Memory:
    """The memory of one owner, pickled once however many arrays look at it."""

    def __init__(self, memory):
        self.memory = memory

    def __reduce_ex__(self, protocol):
        return _make_memory, (pickle.PickleBuffer(self.memory),)


# ---- what the extension calls ---------------------------------------------------------------


def encode(value, add_buffer):
    """Pickle; gives the bytes, the parts out of band, and the classes referred to."""
    file = io.BytesIO()
    pickler = Pickler(file, add_buffer)
    pickler.dump(value)
    return file.getbuffer(), pickler.parts, tuple(pickler.classes)


def decode(data, buffers):
    """The value that `encode` pickled."""
    return pickle.loads(data, buffers=buffers)


def is_quiet(identifiers):
    """Whether reading a pickle with instances of these classes runs no code of theirs."""
    known = (_rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier) for identifier in identifiers)
    return all(cls is not None and not _has_hooks(cls) for cls in known)


_HOOKS = ("__new__", "__reduce__", "__reduce_ex__", "__setstate__", "__setattr__")


def _has_hooks(cls):
    return any(
        getattr(base.__dict__.get(hook), "__module__", "") == "__main__"
        for base in cls.__mro__
        for hook in _HOOKS
    )


def class_key(cls):
    """The key of a notebook class's entry."""
    return "\0c" + _rules._get_or_create_tracker_id(cls)


def class_of(key):
    """The class that has this key, or None where it is gone."""
    return _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(key[2:])


def type_of(codec, meta, head):
    """The type in an entry's meta, for listings."""
    import msgpack

    try:
        return str(msgpack.unpackb(meta)["type"])
    except Exception:
        return ""


# ---- why a value isn't carried ----------------------------------------------------------------


def _carries(value):
    try:
        Pickler(io.BytesIO(), lambda raw: (0, 0, raw.nbytes)).dump(value)
    except Exception:
        return False
    return True


def _children(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"[{key!r:.40}]", item
    elif isinstance(value, (list, tuple, collections.deque)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield ".<member>", item
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                yield f".<closure {name}>", cell.cell_contents
            except ValueError:
                pass
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    for name, item in list(getattr(value, "__dict__", {}).items()):
        yield f".{name}", item
    for base in type(value).__mro__:
        for name in copyreg._slotnames(base) if "__slots__" in vars(base) else ():
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)


def explain(name, value, message):
    """Why `value` isn't carried: the type and path of the first part that isn't."""
    path = name
    try:
        for _ in range(_SEARCH_DEPTH):
            for step, (where, child) in enumerate(_children(value)):
                if step == _SEARCH_MAX:
                    break
                if not _carries(child):
                    path, value = path + where, child
                    break
            else:
                break
            if step == _SEARCH_MAX:
                break
    except Exception:
        pass  # the walk runs the user's code; the message alone must do
    return f"{type(value).__name__} at {path} ({message})"
