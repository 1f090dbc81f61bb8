"""Objects of the notebook's classes, made again without running the code of their classes.

pickle makes an object by its class's `__new__`. It fills a list or a dict by `append` and `__setitem__`, and makes
a set by calling the class. It asks the object for `__setstate__`. A class may return an object that exists already,
change the items that it gets, or answer to any attribute. Then the result would be a different object, and no error
would say so. So such objects are made by the builtin type below their class, and filled by that type's methods.

pickle's own way is kept

* for objects whose classes have none of these methods in Python. It is faster, and most are such;
* for classes that say how they are pickled (`__reduce__`, `__getnewargs__`, `__getstate__`,
  `__setstate__`), and for those of libraries. If a class of the standard library, or a
  `__getstate__` that a decorator made (`attrs`), leaves out attributes of a subclass, they are
  added.
"""

import collections
import copyreg
import enum
import functools
import random
import sys
import types

from holdfast import codecs
from holdfast.carry import restoring, trial


def _no_items(value):
    return None


def _list_items(value):
    return list.__getitem__(value, slice(None))


def _set_items(value):
    return list(set.__iter__(value))


def _dict_items(value):
    return {key: dict.__getitem__(value, key) for key in dict.__iter__(value)}


def _ordered_items(value):
    order = collections.OrderedDict.__iter__(value)
    return [(key, dict.__getitem__(value, key)) for key in order]


def _default_items(value):
    return collections.defaultdict.default_factory.__get__(value), _dict_items(value)


def _queue_items(value):
    return collections.deque.maxlen.__get__(value), list(collections.deque.__iter__(value))


# By the builtin type: what reads the items of an object. restoring.fill_by_base() puts them back.
_ITEMS = {
    **dict.fromkeys((object, int, float, complex, str, bytes, tuple, frozenset), _no_items),
    list: _list_items,
    set: _set_items,
    dict: _dict_items,
    collections.OrderedDict: _ordered_items,
    collections.defaultdict: _default_items,
    collections.deque: _queue_items,
}
# Methods by which a class says how it is pickled.
_OWN_WAYS = (
    "__reduce_ex__ __reduce__ __getnewargs_ex__ __getnewargs__ __getstate__ __setstate__".split()
)
# Methods that pickle would run to make and fill an object, or to look for one of the methods above.
_RUN = "__new__ __getattr__ __getattribute__ __class__ append extend __setitem__".split()
_CALLED = (set, frozenset, collections.deque, collections.defaultdict)  # pickle calls the class
# `collections.namedtuple` gives this code to all of its classes.
_NAMEDTUPLE = vars(collections.namedtuple("_", "x"))["__getnewargs__"].__code__
_IN_C = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)
_OF_ANY_CLASS = ("__dict__", "__weakref__")  # descriptors in C that a `class` statement makes


class Ways(dict):
    """By class: the function that pickles an object of it, or None if pickle does. They hold as
    long as one value is pickled."""

    def __missing__(self, cls):
        way = self[cls] = _way_of(cls)
        return way


class _ByBase:
    """Pickles the objects of one class. What makes and fills them is looked up once."""

    def __init__(self, cls, base):
        self._base, self._slots, self._has_dict = base, _slots(cls), bool(cls.__dictoffset__)

    def __call__(self, value, cls):
        base = self._base
        attributes = object.__getattribute__(value, "__dict__") if self._has_dict else None
        state = attributes, _read_slots(value, self._slots), base, _ITEMS[base](value)
        args = base, cls, _arguments(value, base)
        return restoring.make_by_base, args, state, None, None, restoring.fill_by_base


def _with_attributes(value, cls):
    """Pickle an object as its class of the standard library does (`Decimal`, `date`, `Path`), or
    as a decorator has made it do, and add the attributes of a subclass, which that leaves out."""
    attributes = object.__getattribute__(value, "__dict__")
    reduced = value.__reduce_ex__(5)
    make, args, state, *items = (*reduced, None, None, None)[:5]
    if make is cls and args == () and isinstance(value, random.Random):
        make, args = restoring.make_by_base, (random.Random, cls, ())  # `__init__` may want more
    knows_all = not isinstance(value, random.Random) and not _has_made_state(cls)
    if not attributes or (state is not None and knows_all):
        return reduced
    return make, args, (state, attributes), *items, restoring.fill_with_attributes


def _way_of(cls):
    module = cls.__module__
    if type(module) is not str or cls in copyreg.dispatch_table:
        return None
    # A class, or a member of an enumeration, which the class holds.
    if issubclass(cls, (type, enum.Enum)):
        return None
    if cls.__dictoffset__ and _home(cls, "__reduce_ex__") in _ITEMS and _has_made_state(cls):
        return _with_attributes
    if not trial.is_own(module):
        asks = any(_home(cls, name) not in _ITEMS for name in ("__getattr__", "__getattribute__"))
        base = _builtin_base(cls) if asks and _has_no_ways(cls) else None
        return None if base is None else _ByBase(cls, base)
    base, home = _builtin_base(cls), _home(cls, "__reduce_ex__")
    home = home if home is not object else _home(cls, "__reduce__")
    root = home.__module__.partition(".")[0]
    if home not in _ITEMS and cls.__dictoffset__ and root in sys.stdlib_module_names:
        return _with_attributes
    if base is None or not _has_no_ways(cls):
        return None
    names = [*_RUN, "__init__"] if base in _CALLED else _RUN
    runs = any(_home(cls, name) not in _ITEMS for name in names) or _guards_slots(cls)
    return _ByBase(cls, base) if runs else None


def is_copied(cls):
    """Whether the objects of a class are pickled by what they hold alone, so that a copy has all
    that they have."""
    return (
        cls not in copyreg.dispatch_table
        and _builtin_base(cls) is not None
        and _has_no_ways(cls)
        and codecs.find(cls) is None
    )


def _has_made_state(cls):
    """Whether a decorator of a library has made the `__getstate__` of a class (`attrs` and
    `dataclasses` do for slots): it knows the fields, and not the attributes of a subclass. A class
    that has its own `__reduce__` or `__setstate__` leaves out what it wants."""
    home = _home(cls, "__getstate__")
    function = vars(home).get("__getstate__")
    if (
        home in _ITEMS
        or _home(cls, "__setstate__") is not home
        or _home(cls, "__reduce__") not in _ITEMS
        or type(function) is not types.FunctionType
        or "__wrapped__" in vars(function)
    ):
        return False
    module = function.__globals__.get("__name__")
    return module != home.__module__ and not trial.is_own(module)


def _builtin_base(cls):
    """The builtin type below a class, if all other bases were made by `class` statements."""
    bases = [one for one in cls.__mro__ if one in _ITEMS]
    others = [one for one in cls.__mro__ if one not in _ITEMS]
    return bases[0] if others and not any(map(_is_in_c, others)) else None


def _is_in_c(cls):
    return not cls.__flags__ & restoring.HEAP_TYPE or any(
        type(one) in _IN_C
        and name not in _OF_ANY_CLASS
        and getattr(one, "__objclass__", getattr(one, "__self__", None)) is cls
        for name, one in vars(cls).items()
    )


def _has_no_ways(cls):
    """Whether a class leaves it to the builtin types how its objects are pickled."""
    homes = {name: _home(cls, name) for name in _OWN_WAYS}
    return all(
        home in _ITEMS or getattr(vars(home)[name], "__code__", None) is _NAMEDTUPLE
        for name, home in homes.items()
    )


def _home(cls, name):
    """The class in which an attribute of a class is defined."""
    return next((one for one in cls.__mro__ if name in vars(one)), object)


def _slots(cls):
    """The slots of a class and of all its bases: the class that defines each, and its name."""
    return [
        (one, name)
        for one in cls.__mro__
        if one not in _ITEMS
        for name, value in vars(one).items()
        if type(value) is types.MemberDescriptorType
    ]


def _guards_slots(cls):
    """Whether a slot can't be set by its name: a class in front defines the same name, the name is
    private, or `__setattr__` is written in Python (a frozen dataclass's)."""
    slots = _slots(cls)
    if slots and _home(cls, "__setattr__") not in _ITEMS:
        return True
    return any(
        _home(cls, name) is not home or (name.startswith("_") and "__" in name[1:])
        for home, name in slots
    )


def _read_slots(value, slots):
    found = []
    for home, name in slots:
        try:
            found.append((home, name, vars(home)[name].__get__(value)))
        except AttributeError:
            pass  # an empty slot
    return found


def _arguments(value, base):
    if base is frozenset:
        return (list(frozenset.__iter__(value)),)
    return base.__getnewargs__(value) if hasattr(base, "__getnewargs__") else ()


# ---- exceptions ----------------------------------------------------------------------------

_WAYS_OF_ERRORS = "__reduce_ex__ __reduce__ __getstate__ __setstate__".split()
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def reduce_exception(error, cls, trace):
    """How to pickle an exception, with the exceptions that it was raised from. The fields that its
    builtin class has in C are added: its own pickling leaves them to `__init__`. None if the class
    says itself how it is pickled.

    `trace` stands for its traceback, or is None.
    """
    base = next(one for one in cls.__mro__ if not one.__flags__ & restoring.HEAP_TYPE)
    if issubclass(base, BaseExceptionGroup) or base.__module__ != "builtins":
        return None
    homes = [_home(cls, name) for name in _WAYS_OF_ERRORS]
    if _has_own_reducer(cls) or any(one.__flags__ & restoring.HEAP_TYPE for one in homes):
        return None
    links = error.__cause__, error.__context__, error.__suppress_context__
    fields = _fields(error, base)
    if cls is base and not (fields or trace or any(links)):
        return None  # pickle's own way is as good
    attributes = dict(object.__getattribute__(error, "__dict__"))
    state = attributes, error.args, *links, trace, fields
    make = restoring.make_by_base, (base, cls, ())
    return *make, state, None, None, restoring.fill_exception


def _has_own_reducer(cls):
    """Whether the user's code has registered a function for it in `copyreg`. tblib registers one
    for each exception, for the tracebacks; that doesn't count."""
    reducer = copyreg.dispatch_table.get(cls)
    module = getattr(reducer, "__module__", None)
    return isinstance(module, str) and trial.is_own(module)


@functools.cache
def _fields_of(base):
    """The fields of a builtin exception: the class that defines each, its name and its
    descriptor."""
    return [
        (one, name, field)
        for one in base.__mro__[: base.__mro__.index(BaseException)]
        for name, field in vars(one).items()
        if type(field) in _FIELDS and name != "obj"  # of AttributeError: it may be any object
    ]


def _fields(error, base):
    """The fields of an exception that aren't empty: the class that defines each, name and value."""
    found = []
    for one, name, field in _fields_of(base):
        try:
            value = field.__get__(error)
        except AttributeError:  # only some objects have this one
            continue
        if value is not None:
            found.append((one, name, value))
    return found
