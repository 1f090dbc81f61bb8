"""How what `typing` pickles by its name alone is pickled: `NewType`, `ParamSpec`, `TypeVarTuple`, `TypeVar`.

`UserId = NewType("UserId", int)` of the notebook's has no such name in another process. So it is pickled by its parts,
and with it each function that has it in its annotations. Parts that arrive twice make one object: cloudpickle's
identifiers of classes are used for it. An object of a module is pickled as that module's.

What the statement `type` makes is left out: its value may refer to itself.
"""

import sys
import typing

from cloudpickle import cloudpickle as _rules

from holdfast.carry import restoring

# By the class: the arguments that make one. These have no other state but their options.
KINDS = {
    "TypeVar": (),
    "NewType": ("__name__", "__supertype__"),
    "ParamSpec": ("__name__",),
    "TypeVarTuple": ("__name__",),
}
GIVERS = ("typing", "typing_extensions")
_OPTIONS = "bound covariant contravariant infer_variance".split()


def reduce(made, cls):
    """What `typing` pickles by its name alone, and the notebook has made: by its parts, as cloudpickle has a TypeVar."""
    if cls is typing.TypeVar:
        return _reduce_type_variable(made)
    found = _rules._lookup_module_and_qualname(made, name=made.__name__)
    if found is not None and _rules._should_pickle_by_reference(found[0]):
        return NotImplemented
    args = tuple(getattr(made, name) for name in KINDS[cls.__name__])
    options = {name: getattr(made, f"__{name}__", None) for name in _OPTIONS}
    if getattr(made, "has_default", bool)():
        options["default"] = made.__default__
    options = {name: value for name, value in options.items() if value or name == "default"}
    tracked = _rules._get_or_create_tracker_id(made)
    return restoring.make_typing, (tracked, cls, args, options, made.__module__)


def _reduce_type_variable(variable):
    """As cloudpickle does, and with what it leaves out: newer versions of Python, and typing_extensions
    in older ones, infer the variance of `class Box[T]`, and have defaults."""
    make, args = _rules._typevar_reduce(variable)
    options = {}
    if getattr(variable, "__infer_variance__", False):
        options["infer_variance"] = True
    if getattr(variable, "has_default", bool)():
        options["default"] = variable.__default__
    if make is getattr or not options:  # it is a module's, or has none of them
        return make, args
    giver = typing if sys.version_info >= (3, 13) else sys.modules.get("typing_extensions", typing)
    return restoring.make_type_variable, (giver.TypeVar, options, *args)
