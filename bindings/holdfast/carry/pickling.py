"""Pickles values that cross to another process: the pickler and its rules.

It is cloudpickle's pickler (hence CPython's C pickler) with these differences:

Arrays
    An ndarray is pickled as its place in its owner's memory. The memory is pickled out of band,
    once for all views of it. So arrays that shared memory share it afterwards.
Arrays of objects
    The plain codec encodes their atoms out of band. The other elements are pickled once each
    (`_pack_elements`).
Functions of the notebook
    Where they arrive, their globals are the namespace itself, not a copy of what they use. So they
    see a name that is bound anew later, as before. Closures that share a cell share it afterwards.
    A function that a module's function made (a decorator's wrapper) gets the globals of the module
    that is imported there. If its globals are a dict or module of the notebook
    (`exec(code, space)`), it gets that dict or module.
Classes of the notebook
    They are pickled by value only into their own entry of the store. Everywhere else a reference
    stands for them. So all instances, whenever they were carried, are of one class, and a class
    that a cell changed is changed for all.
Code
    It keeps the name of its file, by which tracebacks find its source.
Exceptions
    They keep what they were raised from, and their tracebacks as places in the source
    (`_Traceback`). Frames stay in their process, with their local variables.

Outside the store (the marshaller) there is no namespace. There cloudpickle's rules hold for
functions and classes: the stream is self-contained.

`carry/context.py` says for which namespace the pickler works. `carry/restoring.py` has the functions that
a pickle calls when it is read.
"""

import builtins
import contextlib
import copyreg
import enum
import functools
import gc
import importlib
import io
import pickle
import re
import sys
import threading
import types
import typing

import cloudpickle
from cloudpickle import cloudpickle as _rules

from holdfast import _store, codecs
from holdfast.carry import (
    cached_functions,
    context,
    instances,
    module_objects,
    patches,
    restoring,
    trial,
    type_variables,
)

# Smaller memory isn't worth a buffer of its own, which takes a page and a mapping.
INLINE_MAX = 16384
_FILENAME = 10  # its place in the arguments of types.CodeType


def _reduce_match(match):
    """Pickle a match as the search that finds it. A later match of `finditer()` is
    unserializable."""
    where = match.string, match.pos, match.endpos
    for how in ("search", "match", "fullmatch"):
        again = restoring.make_match(match.re, how, *where)
        if again is not None and again.regs == match.regs:
            return restoring.make_match, (match.re, how, *where)
    return NotImplemented


class _Traceback:
    """Stands for the traceback of an error: where each frame was, without its variables."""

    def __init__(self, trace):
        self._places = []
        while trace is not None:
            code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__")
            names = code.co_filename, code.co_name, code.co_qualname
            lines = code.co_firstlineno, trace.tb_lineno
            self._places.append((*names, *lines, module if type(module) is str else None))
            trace = trace.tb_next

    def __reduce__(self):
        return restoring.make_traceback, (self._places,)


def _traceback_of(error):
    """What stands for an error's traceback; None outside the store, where pickle leaves it out."""
    trace = error.__traceback__
    return None if trace is None or context.current.own is None else _Traceback(trace)


def _reduce_raised(error):
    """Pickle an exception with its traceback and the exceptions that it was raised from.
    BaseException's own pickling leaves these out."""
    reduced = error.__reduce_ex__(5)
    state = reduced[2] if len(reduced) > 2 else {}
    if len(reduced) > 3 or not isinstance(state, dict):
        return reduced  # it says itself how it is filled
    if type(error).__setstate__ is not BaseException.__setstate__:
        return reduced
    links = ("__cause__", "__context__", "__suppress_context__")  # the cause sets the last
    more = {name: getattr(error, name) for name in links}
    if (trace := _traceback_of(error)) is not None:
        more["__traceback__"] = trace
    return *reduced[:2], {**state, **more}


def _shares_dict(value):
    """Whether another object holds the instance's `__dict__`, as `vars(options)` does."""
    cls = type(value)
    return (
        cls.__dictoffset__ != 0
        and cls.__flags__ & restoring.HEAP_TYPE  # not a function, which is pickled in another way
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and not isinstance(value, type)
        and sys.getrefcount(value.__dict__) > 2  # the instance's and ours
    )


def _reduce_with_dict(value):
    """Pickle an instance so that its `__dict__` stays the object that others share."""
    reduced = value.__reduce_ex__(5)
    make, args, state, *items = (*reduced, None, None, None)[:5]
    if state is None and not value.__dict__:  # an empty one is left out
        state = value.__dict__
    if state is not value.__dict__ or hasattr(value, "__setstate__"):
        return reduced
    return make, args, state, *items, restoring.share_dict


def _sort_as(attributes, in_class):
    """Put the attributes of a class, which cloudpickle sorts by their names, in the class's own
    order. Special ones come first: their order is the interpreter's affair."""
    names = {name: name for name in attributes}  # cloudpickle's own text objects
    for name in in_class:
        if name in names and not name.startswith("__"):
            attributes[names[name]] = attributes.pop(name)


def _reduce_finalized(value):
    """Pickle an object whose `__del__` has run so that it doesn't run again where it arrives."""
    reduced = value.__reduce_ex__(5)
    if not isinstance(reduced, tuple) or len(reduced) == 6:
        return reduced
    make, args, state, *items = (*reduced, None, None, None)[:5]
    return make, args, (state,), *items, restoring.fill_finalized


def _import_module_of(value):
    """Import the module that a class or function names as its own, if nobody has yet (`numpy.rec`).
    Otherwise it would be pickled by value, and arrive as a different class or function."""
    home = value.__module__
    if type(home) is str and "." in home and home not in sys.modules:
        if home.partition(".")[0] in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(home)


def _is_made_here_by_ctypes(cls):
    """Whether a class of ctypes belongs to the notebook, or is an array's, so that no module has it
    by its name."""
    module = sys.modules.get(cls.__module__)
    return cls.__module__ == "__main__" or getattr(module, cls.__qualname__, None) is not cls


def _is_users(module):
    """Whether a module's file is the user's own. Only a module that was loaded by its path, or
    imported anew since, gets here."""
    file = object.__getattribute__(module, "__dict__").get("__file__")
    return isinstance(file, str) and file.endswith(".py") and trial.is_users_file(file)


def _reduce_some_module(module, cls):
    """Pickle a module by its name, or by value; NotImplemented leaves it to its class."""
    name = vars(module).get("__name__")
    if name is None or (name == "__main__" and sys.modules.get(name) is not module):
        return _reduce_module(module)  # the module in which `%run` ran a file
    is_made, is_there = restoring.is_made_here(module), sys.modules.get(name) is module
    if is_made and is_there:
        raise TypeError(f"module '{name}' was made by the notebook, not imported")
    if not is_made and not is_there and not _is_users(module):
        raise TypeError(f"module '{name}' isn't in sys.modules")
    if is_there and _rules._should_pickle_by_reference(module):
        return restoring.find_module, (name,)
    is_by_value = cls is types.ModuleType and not is_there
    return _reduce_module(module) if is_by_value else NotImplemented


def _reduce_module(module):
    """Pickle a module that no name leads to. Its functions' globals may lead back to it."""
    attributes = dict(vars(module))
    if "__builtins__" in attributes:
        attributes["__builtins__"] = True
    make = restoring.make_module, (str(attributes.get("__name__")),)
    return *make, attributes, None, None, restoring.fill_module


_ASKING = frozenset(
    ("eval", "exec", "globals", "vars")
)  # code that calls these may ask for any name


def _find_home(space):
    """What to pickle as the globals of a function: the module, or the dict. If only functions hold
    the dict, only the names that they use: SymPy's `lambdify` gives its functions all of NumPy and
    SciPy."""
    used = {"__name__", "__builtins__"}
    # No inner function may use `space`: its cell would be one more holder.
    holders = gc.get_referrers(space)
    for one in holders:
        if isinstance(one, types.ModuleType) and vars(one) is space:
            return one
    for one in holders:
        if type(one) is not types.FunctionType or one.__globals__ is not space:
            return space
        used.update(_rules._extract_code_globals(one.__code__))
    if not used.isdisjoint(_ASKING):
        return space
    return {name: value for name, value in space.items() if name in used}


class _Shell:
    """Stands for an empty cell in the arguments of a function that fills it later."""

    def __reduce__(self):
        return restoring.make_cell, ()


_PLAIN_KINDS = frozenset("biufcmMSUV")


def _enumerations():
    from holdfast.carry import enumerations

    return enumerations


def _numpy_arrays():
    return codecs.module_of("numpy")


def _take_buffer(buffers, buffer):
    try:
        raw = buffer.raw()
    except BufferError:
        return True  # not contiguous: it goes in band
    if raw.nbytes < INLINE_MAX:
        return True
    buffers.append(raw)
    return False


def _reduce_memoryview(view):
    """Pickle it as a view of its object, or of a part of that.

    cloudpickle would make bytes of it.
    """
    whole = memoryview(view.obj)
    start = _store._address_of(view) - _store._address_of(whole)
    if (whole.format, whole.shape, whole.strides) == (view.format, view.shape, view.strides):
        return restoring.make_memoryview, (view.obj, view.readonly)
    if whole.ndim == view.ndim == 1 and whole.format == view.format:
        part = start // whole.strides[0], view.shape[0], view.strides[0] // whole.strides[0]
        return restoring.make_memoryview, (view.obj, view.readonly, part)
    if not view.c_contiguous or not whole.c_contiguous:
        raise TypeError("a memoryview that isn't contiguous")
    layout = (view.format, view.shape) if view.nbytes else None
    return restoring.make_memoryview, (view.obj, view.readonly, (start, view.nbytes, 1), layout)


def _reduce_code(code):
    """As cloudpickle does, but with the file's name. From 3.1.3 on it writes "<dynamic-code>" in
    its place."""
    make, args = _rules._code_reduce(code)
    # A string of its own, as `co_name` is: the bytes must not show whether the string is shared.
    filename = "".join(code.co_filename)
    return make, (*args[:_FILENAME], filename, *args[_FILENAME + 1 :])


class _Reducers(dict):
    """A pickler's dispatch table: cloudpickle's, and behind it what is registered now. It is asked
    for each object that no reducer takes, so all of it is C."""

    __missing__ = copyreg.dispatch_table.__getitem__


class Pickler(cloudpickle.Pickler):
    """Pickles one value. Afterwards `buffers` has the memory that goes out of band."""

    def __init__(self, file, notes):
        self.buffers = []
        self.dispatch_table = _Reducers(cloudpickle.Pickler.dispatch_table.maps[0])
        self.dispatch_table[types.CodeType] = _reduce_code
        # Not a method: that would make a cycle with the pickler, which would keep all that was
        # pickled until the next collection.
        take = functools.partial(_take_buffer, self.buffers)
        super().__init__(file, protocol=5, buffer_callback=take)
        self.classes = {}  # identifiers of the classes that it refers to, in order
        self.root = None  # what is pickled
        self.notes = notes  # what codecs note about it
        self._ways = instances.Ways()
        self._plain = {}  # class whose objects are alike but for patches -> what reduces one
        self._memories = {}  # address and size -> what is pickled for this memory
        self._shells = {}  # id of a cell -> its shell
        self._homes = {}  # id of globals -> what is pickled for them
        self._kept = []  # objects whose ids are keys above
        self._numpy = sys.modules.get("numpy")
        self._trial = trial.Turn() if context.in_store() else None
        self._array = getattr(self._numpy, "ndarray", None)

    def dump(self, value):
        self.root = value
        super().dump(value)
        self._finish()

    def _finish(self):
        if self._trial is not None:
            self._trial.finish()

    def reducer_override(self, obj):
        cls = type(obj)  # isinstance() would ask a proxy for its target's class
        if cls in self._plain:
            return self._reduce_plain(obj, cls)
        if cls is _Memory or cls is slice:  # each column of a table has them; no rule is for them
            return NotImplemented if cls is slice else obj.__reduce_ex__(5)
        if self._trial is not None and cls not in trial.quiet:
            self._trial.meet(obj, cls)
        if cls is self._array:
            return self._reduce_array(obj)
        if cls is _rules.CellType:
            return self._reduce_cell(obj)
        if cls is memoryview:
            return _reduce_memoryview(obj)
        if cls.__module__ == "_ctypes" and _is_made_here_by_ctypes(obj):
            raise TypeError(
                f"cannot pickle objects of {obj.__name__}, which ctypes lays out in memory"
            )
        if issubclass(cls, type):
            _import_module_of(obj)
            if context.current.own is not None:
                return patches.reduce(obj) or self._reduce_class(obj)
        if cls is functools.cached_property:  # which has a lock before Python 3.12
            return restoring.make_cached_property, (obj.func, obj.attrname, obj.__doc__)
        if cls.__module__ in type_variables.GIVERS and cls.__name__ in type_variables.KINDS:
            return type_variables.reduce(obj, cls)
        if issubclass(cls, BaseException):
            reduced = instances.reduce_exception(obj, cls, _traceback_of(obj))
            if reduced is not None:
                return reduced
        original = patches.reduce(obj)
        if original is not None:
            return original
        owned = module_objects.reduce(obj, cls)
        if owned is not None:
            return owned
        codec = codecs.find(cls)
        if codec is not None:
            reduced = codec.reduce(obj, self)
            if reduced is not NotImplemented:
                return reduced
        if issubclass(cls, types.ModuleType):
            return _reduce_some_module(obj, cls)
        if cls is re.Match:
            return _reduce_match(obj)
        if issubclass(cls, BaseException) and (
            obj.__cause__ or obj.__context__ or _traceback_of(obj) is not None
        ):
            return _reduce_raised(obj)
        if gc.is_finalized(obj) and hasattr(cls, "__del__"):
            return _reduce_finalized(obj)
        way = self._ways[cls]
        if way is not None and (reduced := way(obj, cls)) is not NotImplemented:
            return reduced
        if _shares_dict(obj):
            return _reduce_with_dict(obj)
        if issubclass(cls, type):
            return self._reduce_class(obj)
        if cls is types.FunctionType:
            return super().reducer_override(obj)
        if codec is None and way is None and self._is_plain(cls):
            self._plain[cls] = module_objects.reducer_for(cls)
        return NotImplemented  # cloudpickle's own rules would take a proxy for its target

    def _is_plain(self, cls):
        """Whether what else `reducer_override` asks is answered for all objects of this class."""
        return (
            (self._trial is None or self._trial.is_quiet(cls))
            and not issubclass(cls, (BaseException, types.ModuleType))
            and not any("__del__" in vars(base) for base in cls.__mro__)
        )

    def _reduce_plain(self, obj, cls):
        reduced = patches.reduce(obj) or self._plain[cls](obj, cls)
        if reduced is not None:
            return reduced
        return _reduce_with_dict(obj) if _shares_dict(obj) else NotImplemented

    @property
    def hooked(self):
        """Whether reading what was pickled runs code of the user's own."""
        return self._trial is not None and self._trial.hooked

    def memory(self, address, size, owner):
        """The object to pickle for `size` bytes at `address`, which `owner` keeps alive.

        For the same bytes it is the same object, so values that share them here share them where
        they arrive. It arrives as an object that exports them as a buffer.
        """
        key = (address, size)
        kept = self._memories.get(key)
        if kept is None:
            kept = self._memories[key] = _Memory(_store._memory_at(address, size, owner))
            self._kept.append(owner)
        return kept

    def _reduce_class(self, cls):
        by_value = cls.__module__ == "__main__" and not _rules._should_pickle_by_reference(cls)
        own = context.current.own
        if by_value and own is not None and cls not in own:
            identifier = _rules._get_or_create_tracker_id(cls)
            self.classes[identifier] = None
            return restoring.find_class, (identifier,)
        reduced = super().reducer_override(cls)
        if by_value and isinstance(reduced, tuple) and len(reduced) == 6:
            attributes, slots = reduced[2]
            # copyreg caches this in a class when the first instance is pickled.
            attributes.pop("__slotnames__", None)
            # cloudpickle leaves out an attribute if a base has the same object.
            for name, value in cls.__dict__.items():
                if not name.startswith("__") and any(
                    base.__dict__.get(name) is value for base in cls.__mro__[1:]
                ):
                    attributes.setdefault(name, value)
            _sort_as(attributes, cls.__dict__)
            if cls.__qualname__ != cls.__name__:  # a class that a function made
                attributes["__qualname__"] = cls.__qualname__
            if isinstance(cls, enum.EnumMeta):
                return _enumerations().reduce_class(cls, attributes, slots)
            make, args = reduced[:2]
            if make is _rules._make_skeleton_class:
                make, body = restoring.make_class, dict(args[3])
                if typing.NamedTuple in args[2] or restoring.is_typed_dict(cls):
                    # Else its fields would be made again.
                    args = (
                        *args[:2],
                        cls.__bases__,
                        *args[3:],
                    )
                # `__slots__` and `__class__` can't be set afterwards; without slots instances would
                # get a dict.
                for name in restoring.AT_FIRST.intersection(attributes):
                    body[name] = attributes.pop(name)
                args = (*args[:3], body, *args[4:])
            methods = _Methods(cls, attributes)
            state = (methods, attributes, slots) if methods.found else (attributes, slots)
            return make, args, state, None, None, restoring.fill_class
        if isinstance(reduced, tuple) and len(reduced) == 6:
            make, args = reduced[:2]
            return restoring.make_other_class, (make, *args), *reduced[2:]
        return reduced

    # Functions -----------------------------------------------------------------------

    def _function_reduce(self, obj):
        _import_module_of(obj)
        if context.current.namespace is None:
            return super()._function_reduce(obj)
        if obj.__globals__ is context.current.namespace:
            return self._reduce_notebook_function(obj)
        if _rules._should_pickle_by_reference(obj) and not patches.replaces(obj):
            return NotImplemented
        home = [self._home_of(obj.__globals__)]
        if obj.__builtins__ is not _BUILTINS and type(home[0]) is dict:
            home.append(obj.__builtins__)
        return self._reduce_notebook_function(obj, *home)

    def _home_of(self, space):
        """What to pickle for the globals of a function: the module that they belong to, or the dict
        itself."""
        module = module_objects.module_of(space)
        if module is not None:
            return module
        if id(space) not in self._homes:
            self._homes[id(space)] = _find_home(space)
        return self._homes[id(space)]

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
            return restoring.same, (shell,)
        # In a tuple, since a state of None isn't given to anything.
        return restoring.same, (shell,), (contents,), None, None, restoring.fill_cell

    def _reduce_notebook_function(self, function, *home):
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
        args = (function.__code__, function.__name__, shells, *home)
        state = (function.__dict__, slots, cells)
        return restoring.make_function, args, state, None, None, restoring.fill_function

    # Arrays --------------------------------------------------------------------------

    def _owner_of(self, array):
        """The object to pickle for the array's whole memory, and the array's place in it."""
        owner, memory, offset = _store._array_memory(array)
        if memory is None:
            return None, 0
        low = array.__array_interface__["data"][0] - offset
        if type(owner) in (bytes, bytearray) or type(owner).__name__ == "array":
            # pickle keeps each of these a single object. A codec finds their memory by its address.
            return self._memories.setdefault((low, memoryview(owner).nbytes), owner), offset
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
        """The memory that an array looks into, if it belongs to an object of another library."""
        codec = None if isinstance(owner, self._array) else codecs.find(type(owner))
        return None if codec is None else codec.memory(owner)

    def _reduce_array(self, array):
        dtype = array.dtype
        if dtype.hasobject or dtype.kind not in _PLAIN_KINDS:
            reduced = _numpy_arrays().reduce_view_of_objects(array)
            return self._reduce_objects(array) if reduced is NotImplemented else reduced
        make, (owner, offset) = restoring.make_array, self._owner_of(array)
        if owner is None:
            return NotImplemented
        if array.base is not None and _numpy_arrays().root_of(array) is not None:
            return _numpy_arrays().reduce_memmap(array)
        if self._is_view_of(array, array.base):
            make, owner = restoring.make_view, array.base
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
        """An empty array first, then its elements: the array itself may be one of them."""
        packed = _store._pack_elements(array) if array.dtype.kind == "O" else None
        if packed is None:
            return _numpy_arrays().reduce_objects(array)
        meta, memory, outside = packed
        order = "C" if array.flags.c_contiguous else "F"
        state = meta, pickle.PickleBuffer(memory), outside, array.flags.writeable
        return (
            restoring.make_objects,
            (array.shape, array.dtype, order),
            state,
            None,
            None,
            restoring.fill_objects,
        )

    def _is_view_of(self, array, base):
        """Whether the array can be made as a view of its base, an array that is one block."""
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


class _Methods:
    """The functions of a class that has its own hash or equality. It gets them before its other
    attributes are read: dicts and sets among these may have its instances as keys."""

    def __init__(self, cls, attributes):
        own = {"__hash__", "__eq__"}.intersection(attributes)
        self._cls = cls
        self.found = own and {
            name: value
            for name, value in attributes.items()
            if isinstance(value, _METHODS) and not isinstance(cls, enum.EnumMeta)
        }

    def __reduce__(self):
        return restoring.give_methods, (self._cls, self.found)


_METHODS = types.FunctionType, classmethod, staticmethod, property


class _Memory:
    """The memory of one owner. It is pickled once, however many arrays look at it."""

    def __init__(self, memory):
        self.memory = memory

    def __reduce_ex__(self, protocol):
        return restoring.make_memory, (pickle.PickleBuffer(self.memory),)


# ---- what the extension calls ---------------------------------------------------------------


def encode(value, add_buffer):
    """Pickle a value. Returns the bytes, the parts out of band, and the classes that it refers
    to."""
    return write(value, add_buffer)[:3]


def write(value, add_buffer):
    """As `encode`. Returns two more: whether reading it runs code of the user's own, and whether
    reading it copies memory that another process lends."""
    try:
        return _write(value, add_buffer)
    finally:
        trial.end_child()


def _write(value, add_buffer):
    pickled, notes = None, {}
    try:
        pickled = _pickle(value, notes)
    except Exception:
        if cached_functions.CARRIED not in notes:
            raise
    if pickled is None:
        notes = {cached_functions.LEFT_OUT: True}
        pickled = _pickle(value, notes)
    data, buffers, classes, hooked = pickled
    parts = [add_buffer(raw) for raw in buffers]
    return data, parts, tuple(classes), hooked, codecs.LENT in notes


def _pickle(value, notes):
    data, pickler = _dump(value, notes)
    return data, pickler.buffers, pickler.classes, pickler.hooked


# A pickle begins with two dicts that its reader puts into the memo: the notebook's variables
# (`globals()`), and the builtins, which globals given to `exec` hold. Each reference to one of them
# is a reference to the memo. Otherwise the pickler would take these dicts apart, since it calls no
# reducer for a dict.
_REMEMBERED_FIRST = (
    b"\x80\x05\x8c\x18holdfast.carry.restoring\x8c\x11current_namespace\x93)R\x940"
    b"\x8c\x08builtins\x8c\x08__dict__\x93\x940"
)
_BUILTINS = vars(builtins)


def _dump(value, notes):
    file = io.BytesIO()
    namespace = context.current_namespace()
    pickler = Pickler(file, notes)
    if namespace is not None:
        pickler.memo = {id(namespace): (0, namespace), id(_BUILTINS): (1, _BUILTINS)}
        file.write(_REMEMBERED_FIRST)
    # The many new objects aren't garbage, but the collector would look at all of them again and
    # again.
    collects = gc.isenabled()
    gc.disable()
    try:
        pickler.dump(value)
    finally:
        if collects:
            gc.enable()
    return file.getbuffer(), pickler


def decode(data, buffers, hooked=False):
    """The value that `encode` pickled. `hooked` is what `write` returned."""
    _half_objects.begin()
    try:
        if hooked:
            trial.try_to_load(functools.partial(pickle.loads, data, buffers=buffers))
        collects = gc.isenabled()
        gc.disable()  # as in `_dump`
        try:
            return pickle.loads(data, buffers=buffers)
        finally:
            if collects:
                gc.enable()
    except BaseException:
        restoring.forget_unfilled()
        raise
    finally:
        _half_objects.end()


class _HalfObjects:
    """Silences the `__del__` of half-made objects. If a value can't be made, its parts are thrown
    away. An exception in their `__del__` isn't shown; that of another thread is."""

    def __init__(self):
        self._threads = []  # those that decode; a lock might be taken when the process forks
        self._hook = None

    def begin(self):
        if sys.unraisablehook != self._pass_on:
            self._hook, sys.unraisablehook = sys.unraisablehook, self._pass_on
        self._threads.append(threading.get_ident())

    def end(self):
        self._threads.remove(threading.get_ident())
        if not self._threads and sys.unraisablehook == self._pass_on:
            sys.unraisablehook = self._hook

    def _pass_on(self, args):
        if threading.get_ident() not in self._threads:
            self._hook(args)


_half_objects = _HalfObjects()


def is_quiet(identifiers):
    """Whether reading a pickle with instances of these classes runs none of their code."""
    known = (_rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier) for identifier in identifiers)
    return all(cls is not None and not _has_hooks(cls) for cls in known)


# `__del__` is one of them: a copy that was read for a comparison would run it at its end.
_HOOKS = ("__new__", "__reduce__", "__reduce_ex__", "__setstate__", "__setattr__", "__del__")


def _has_hooks(cls):
    return any(
        getattr(base.__dict__.get(hook), "__module__", "") == "__main__"
        for base in cls.__mro__
        for hook in _HOOKS
    )


def class_key(cls):
    """The key of the store's entry for a class of the notebook."""
    return "\0c" + _rules._get_or_create_tracker_id(cls)


def class_of(key):
    """The class that has this key. None if it doesn't exist any more."""
    return _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(key[2:])


def type_of(codec, meta, head):
    """The type in the meta of an entry, for listings."""
    import msgpack

    try:
        return str(msgpack.unpackb(meta)["type"])
    except Exception:
        return ""
