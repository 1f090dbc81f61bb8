"""The functions that a pickle calls when it is read: each makes or fills one kind of object.

The pickler (`carry/pickling.py`) names them in what it writes. They run while a name is bound, and the objects that
they get may still be empty. So an object that can be part of a cycle is made first and filled afterwards.
"""

import builtins
import collections
import contextlib
import enum
import functools
import importlib
import itertools
import sys
import types

from cloudpickle import cloudpickle as _rules

from holdfast import _store
from holdfast.carry import context

# Py_TPFLAGS_HEAPTYPE: in `__flags__` of a class that was made while the program runs
HEAP_TYPE = 1 << 9


def current_namespace():
    """`globals()` of the notebook, if a value of it is carried now."""
    return context.current_namespace()


def make_memory(buffer):
    return buffer


def make_array(owner, dtype, shape, strides, offset, writeable):
    import numpy

    array = numpy.ndarray(shape, dtype, owner, offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array


def make_view(base, dtype, shape, strides, offset, writeable):
    # As bytes, since the buffer protocol doesn't know every dtype. NumPy makes the outermost array
    # the base of the result, so that is `base` again.
    with opened(base, writeable):
        flat = base if base.flags.c_contiguous else base.T
        return make_array(flat.reshape(-1).view("u1"), dtype, shape, strides, offset, writeable)


@contextlib.contextmanager
def opened(base, writeable):
    """Let a base be written for a moment. It may have been made read-only after writable views were
    taken."""
    read_only = writeable and not base.flags.writeable
    if read_only:
        base.flags.writeable = True
    try:
        yield
    finally:
        if read_only:
            base.flags.writeable = False


def make_objects(shape, dtype, order):
    import numpy

    return numpy.empty(shape, dtype, order)


def fill_objects(array, state):
    meta, payload, outside, writeable = state
    _store._fill_elements(array, meta, payload, outside)
    array.flags.writeable = writeable


def make_memoryview(owner, readonly, part=None, layout=None):
    """`part` says where it begins, how many items it has, and their step. With a layout, in
    bytes."""
    view = memoryview(owner)
    if layout is not None:
        view = view.cast("B")
    if part is not None:
        start, count, step = part
        stop = start + count * step
        view = view[start : stop if stop >= 0 else None : step]
    if layout is not None:
        view = view.cast(*layout)
    return view.toreadonly() if readonly and not view.readonly else view


def find_class(identifier):
    cls = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    if cls is None:
        cls = context.current.names._load_class(identifier)
    return cls


def make_cell():
    return types.CellType()


def same(value):
    return value


def fill_cell(cell, state):
    (cell.cell_contents,) = state


def make_function(code, name, closure, home=None, own_builtins=None):
    """An empty function. Its globals are the notebook's, or those of a module, or a dict. The dict
    may still be empty, so `own_builtins` says what its builtins are."""
    if home is None:
        home = context.current_namespace()
    space = vars(home) if isinstance(home, types.ModuleType) else home
    if own_builtins is None or "__builtins__" in space:
        return types.FunctionType(code, space, name, None, closure)
    space["__builtins__"] = own_builtins  # a function reads it when it is made
    try:
        return types.FunctionType(code, space, name, None, closure)
    finally:
        del space["__builtins__"]


def fill_function(function, state):
    attributes, slots, cells = state
    for cell, contents in cells:
        cell.cell_contents = contents
    for name, value in slots.items():
        setattr(function, name, value)
    function.__dict__ = attributes  # which may be a variable, too


def is_made_here(module):
    """Whether the notebook has made a module that nothing says where to find (module.c)."""
    ways = ("__spec__", "__loader__", "__file__", "__path__")
    found = object.__getattribute__(module, "__dict__")
    homes = "__main__", type(module).__module__  # it may stand in its module's place (module.c)
    return all(found.get(way) is None for way in ways) and found.get("__name__") not in homes


def is_imported_as(found, name):
    """Whether this is a module that was imported by this name (module.c)."""
    if not issubclass(type(found), types.ModuleType) or is_made_here(found):
        return False
    return object.__getattribute__(found, "__dict__").get("__name__") == name


def find_module(name):
    """The module that has this name here, if it was imported by it."""
    found = importlib.import_module(name)
    if is_imported_as(found, name):
        return found
    raise ImportError(f"sys.modules has another object as '{name}' here, which wasn't imported")


def make_module(name):
    return types.ModuleType(name)


def fill_module(module, attributes):
    space = vars(module)
    has_builtins = attributes.pop("__builtins__", None)
    space.clear()
    space.update(attributes)
    if has_builtins:
        space["__builtins__"] = vars(builtins)


def make_other_class(make, *args):
    """Make a class of a module that has no such name, by cloudpickle's function. For a comparison
    it is made anew: the class that this process has must not be filled."""
    if context.is_comparing():
        *first, _, last = args  # without the identifier
        args = (*first, None, last)
    bases = next(one for one in args if type(one) is tuple)
    with quiet_bases(types.resolve_bases(bases)):
        return make(*args)


def make_class(constructor, name, bases, body, identifier, extra):
    """Make an empty class, without running the notebook's own `__init_subclass__` and metaclasses.

    They ran when the class was defined, and may need names that aren't bound yet.
    """
    cls = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    resolved = types.resolve_bases(bases)
    if cls is not None:
        cls.__name__ = name
        if cls.__bases__ != resolved:
            cls.__bases__ = resolved
        return cls
    with quiet_bases(resolved):
        cls = _make_quietly(constructor, name, bases, body)
    _unfilled[cls] = identifier
    return _rules._lookup_class_or_track(identifier, cls)


# Classes that are made and not filled yet, with their identifiers. A pickle that is read later
# finds a class by its identifier. So an empty class must not stay there if its own pickle could not
# be read to the end.
_unfilled: dict[type, str] = {}


def forget_unfilled():
    """Forget the classes that a pickle has made and not filled, since it could not be read."""
    while _unfilled:
        cls, identifier = _unfilled.popitem()
        if _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier) is cls:
            del _rules._DYNAMIC_CLASS_TRACKER_BY_ID[identifier]
        _rules._DYNAMIC_CLASS_TRACKER_BY_CLASS.pop(cls, None)


@contextlib.contextmanager
def quiet_bases(bases):
    """Don't run `__init_subclass__` meanwhile, if it is the notebook's own, or of a class that was
    pickled by value."""
    above = {one for base in bases for one in base.__mro__}
    by_value = _rules._DYNAMIC_CLASS_TRACKER_BY_CLASS
    hooks = {
        one: one.__dict__["__init_subclass__"]
        for one in above
        if "__init_subclass__" in one.__dict__ and (one.__module__ == "__main__" or one in by_value)
    }
    try:
        for one in hooks:
            one.__init_subclass__ = _quiet(one)
        yield
    finally:
        for one, hook in hooks.items():
            one.__init_subclass__ = hook


def imported_base(metaclass):
    """The nearest base of a metaclass that isn't the notebook's own."""
    return next(base for base in metaclass.__mro__ if base.__module__ != "__main__")


def is_typed_dict(cls):
    metaclass = type(cls)
    return metaclass.__name__ == "_TypedDictMeta" and metaclass.__module__.startswith("typing")


def _make_quietly(metaclass, name, bases, body):
    """Make the class as the nearest imported base of its metaclass does."""
    imported = imported_base(metaclass)
    # TypedDict's allows no base that is a dict, although its classes have one.
    if metaclass.__name__ == "_TypedDictMeta":
        return type.__new__(metaclass, name, types.resolve_bases(bases), dict(body))
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


def fill_exception(error, state):
    attributes, args, cause, before, suppressed, trace, fields = state
    BaseException.args.__set__(error, args)
    BaseException.__cause__.__set__(error, cause)
    BaseException.__context__.__set__(error, before)
    # After the cause, which sets it, too.
    BaseException.__suppress_context__.__set__(error, suppressed)
    BaseException.__traceback__.__set__(error, trace)
    object.__getattribute__(error, "__dict__").update(attributes)
    _set_slots(error, fields)


def _set_slots(made, slots):
    """Set slots by the descriptors of the classes that define them: the object's class may hide the
    names."""
    for home, name, value in slots:
        vars(home)[name].__set__(made, value)


def make_by_base(base, cls, args):
    return base.__new__(cls, *args)


def make_cached_property(function, name, text):
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = name, text
    return made


def make_typing(tracked, cls, args, options, module):
    """A NewType, ParamSpec or TypeVarTuple; the same one for the same `tracked`."""
    made = cls(*args, **options)
    made.__module__ = module
    return _rules._lookup_class_or_track(tracked, made)


def make_type_variable(kind, options, name, bound, constraints, *variances_and_identifier):
    covariant, contravariant, identifier = variances_and_identifier
    options = options | {"covariant": covariant, "contravariant": contravariant, "bound": bound}
    return _rules._lookup_class_or_track(identifier, kind(name, *constraints, **options))


def fill_by_base(made, state):
    """Fill an object by the methods of the builtin type below its class, not by those of the
    class."""
    attributes, slots, base, items = state
    _fill_attributes(made, attributes, slots)
    _FILL.get(base, _fill_nothing)(made, items)


def _fill_attributes(made, attributes, slots):
    if attributes is not None:
        share_dict(made, attributes)
    _set_slots(made, slots)


def _fill_nothing(made, items):
    pass


def _fill_ordered(made, items):
    for key, value in items:
        collections.OrderedDict.__setitem__(made, key, value)


def _fill_default(made, items):
    factory, content = items
    collections.defaultdict.__init__(made, factory)
    dict.update(made, content)


def _fill_queue(made, items):
    length, content = items
    collections.deque.__init__(made, content, length)


_FILL = {
    list: list.extend,
    set: set.update,
    dict: dict.update,
    collections.OrderedDict: _fill_ordered,
    collections.defaultdict: _fill_default,
    collections.deque: _fill_queue,
}


_RAISES = compile("raise error", "<traceback>", "exec")
# An entry of a location table with a line and no columns (CPython's InternalDocs/locations.md).
_LINE_ONLY = 0x80 | 13 << 3


def _location_table(code, lines):
    """A location table by which all of a code lies this many lines below its first line, without
    columns."""
    number = abs(lines) << 1 | (lines < 0)
    delta = bytearray()
    while number >= 64:
        delta.append(number & 63 | 64)
        number >>= 6
    delta.append(number)
    table, left = bytearray(), len(code.co_code) // 2
    while left > 0:
        table.append(_LINE_ONLY | min(left, 8) - 1)
        table += delta if left == len(code.co_code) // 2 else b"\0"
        left -= 8
    return bytes(table)


def make_traceback(places):
    """A traceback that shows these places. Its frames have no variables."""
    trace = None
    for filename, name, qualname, first, line, module in reversed(places):
        code = _RAISES.replace(
            co_filename=filename,
            co_name=name,
            co_qualname=qualname,
            co_firstlineno=first,
            co_linetable=_location_table(_RAISES, (line or first) - first),
        )
        space = {"__name__": module, "error": StopIteration()}
        try:
            exec(code, space, {})  # noqa: S102
        except StopIteration as error:
            raised = error.__traceback__.tb_next
        space.clear()
        space["__name__"] = module
        trace = types.TracebackType(trace, raised.tb_frame, raised.tb_lasti, line)
    return trace


def has_own_frames(trace):
    """Whether code ran in one of a traceback's frames. False if `make_traceback` made all of
    them."""
    while trace is not None:
        if trace.tb_frame.f_code.co_code != _RAISES.co_code:
            return True
        trace = trace.tb_next
    return False


def make_match(pattern, how, *where):
    return getattr(pattern, how)(*where)


# Attributes that a class has from its beginning.
AT_FIRST = frozenset(("__slots__", "__class__"))


def give_methods(cls, methods):
    """Give a class these functions. Returns the names that it didn't have."""
    new = [name for name in methods if name not in vars(cls)]
    for name, value in methods.items():
        type.__setattr__(cls, name, value)
    return new


def fill_class(cls, state):
    *given, attributes, slots = state
    for name in itertools.chain.from_iterable(given):
        type.__delattr__(cls, name)  # it is set again in its place among the others
    state = attributes, slots
    # A class that was here before may have attributes that its new version lacks. The state has no
    # attributes that the metaclass made (slots, members of an enumeration).
    if not isinstance(cls, enum.EnumMeta):
        for name, value in list(cls.__dict__.items()):
            is_special = name.startswith("__") and name.endswith("__")
            made = name.startswith("_abc") or (is_special and not isinstance(value, _METHOD_TYPES))
            kept = isinstance(value, _SLOT_TYPES) or name in AT_FIRST
            if name not in attributes and not made and not kept:
                delattr(cls, name)
    filled = _rules._class_setstate(cls, state)
    _unfilled.pop(cls, None)
    return filled


_METHOD_TYPES = (types.FunctionType, classmethod, staticmethod, property)
_SLOT_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)


def share_dict(instance, attributes):
    object.__setattr__(instance, "__dict__", attributes)  # its class may have a `__setattr__`


def fill_instance(instance, names, values, slots, slot_values):
    if names:
        instance.__dict__.update(zip(map(sys.intern, names), values))
    for name, value in zip(slots, slot_values):
        object.__setattr__(instance, name, value)


def fill_finalized(made, state):
    """Fill an object whose `__del__` has run, and that something has kept: it doesn't run again."""
    _store._disarm(made)
    fill_state(made, state[0])


def fill_with_attributes(made, state):
    own, attributes = state
    if own is not None:
        fill_state(made, own)
    share_dict(made, attributes)


def fill_and_hang(made, state):
    own, hung = state
    if own is not None:
        fill_state(made, own)
    object.__getattribute__(made, "__dict__").update(hung)


def fill_state(made, state):
    """Give an object its state as pickle does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        both = isinstance(state, tuple) and len(state) == 2
        attributes, slots = state if both else (state, None)
        attributes, slots = attributes or {}, slots or {}
        fill_instance(made, attributes, attributes.values(), slots, slots.values())
