"""Gives the value of an expression of a cell, as far as it is known without running code.

Names, attributes, indexes and views are followed on the objects themselves. So only exact types are indexed,
with integers, slices and tuples of them, and attributes are looked up in instances' own dictionaries. An
expression that can't be followed is UNKNOWN.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
import typing as t

_ATTRIBUTES = frozenset("T mT real imag grad".split())
_ARRAYS = frozenset(("ndarray", "memmap", "Tensor", "Parameter"))
_ARRAY_MODULES = frozenset(("numpy", "torch", "torch.nn.parameter"))
INDEX_TYPES = (int, slice, type(None), type(Ellipsis))


class Unknown:
    """A value that can't be followed; `many`: but it picks many elements, as a mask does."""

    def __init__(self, many: bool = False):
        self.many = many


UNKNOWN = Unknown()
MANY = Unknown(many=True)


class Each:
    """An index that takes each value of a range in turn."""

    def __init__(self, values: range):
        self.values = values


class Local:
    """A function that the cell defines."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda):
        self.node = node


class Indexer:
    """`df.loc` and `df.iloc`."""

    def __init__(self, frame: t.Any):
        self.frame = frame


def is_array(value: t.Any) -> bool:
    """Whether it is an array that is written by `+=`, and whose items are views.

    Only the libraries' own types are: a subclass of the user's may run anything.
    """
    kind = type(value)
    return kind.__name__ in _ARRAYS and kind.__module__ in _ARRAY_MODULES


def is_ufunc(value: t.Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, "ufunc", ()))


def is_frame(value: t.Any) -> bool:
    """Whether it is pandas' own DataFrame or Series."""
    return type(value).__name__ in ("DataFrame", "Series") and (
        type(value).__module__.partition(".")[0] == "pandas"
    )


def own_attributes(value: t.Any) -> dict[str, t.Any]:
    """An instance's own dictionary; {} where it has none, or hides it."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if type(found) is dict else {}


def may_count(value: t.Any) -> bool:
    return type(value) in (list, tuple, dict, str, range) or is_array(value) or is_frame(value)


def range_of(arguments: list[int]) -> t.Any:
    try:
        return range(*arguments)
    except (TypeError, ValueError):
        return UNKNOWN


def element_of(subject: t.Any) -> t.Any:
    """The stand-in for each element of a subject of a loop, or for all of them."""
    if type(subject) is range:
        return Each(subject)
    if is_array(subject):
        return subject
    if type(subject) is tuple and subject and (subject[0] is enumerate or subject[0] is zip):
        parts = [element_of(part) for part in subject[1]]
        return (UNKNOWN, *parts) if subject[0] is enumerate else tuple(parts)
    return UNKNOWN


def attribute_of(value: t.Any, name: str) -> t.Any:
    """An attribute, where looking it up runs nothing of the user's."""
    if isinstance(value, (Unknown, Each, Local, Indexer)):
        return UNKNOWN
    if isinstance(value, types.ModuleType):
        return vars(value).get(name, UNKNOWN)
    if is_array(value):
        if name in ("shape", "size", "ndim", "nbytes") and type(value).__module__ == "numpy":
            return getattr(value, name)
        if name == "flat":
            return value.reshape(-1) if value.flags.c_contiguous else value
        return getattr(value, name) if name in _ATTRIBUTES else UNKNOWN
    if is_frame(value):
        return Indexer(value) if name in ("loc", "iloc") else UNKNOWN
    own = own_attributes(value)
    if name in own:
        return own[name]
    if type(value).__module__ == "__main__":
        found = inspect.getattr_static(type(value), name, None)
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, value)
    for part in ("_parameters", "_modules"):  # torch.nn.Module
        if isinstance(own.get(part), dict) and own[part].get(name) is not None:
            return own[part][name]
    return UNKNOWN


def item_of(base: t.Any, index: t.Any) -> t.Any:
    """base[index]: a view, an element, MANY where it picks many, or UNKNOWN."""
    if isinstance(base, Unknown):
        return base
    if type(base) in (dict, list, tuple):
        if not isinstance(index, (int, str)):
            return UNKNOWN
        try:
            return base[index]
        except (LookupError, TypeError):
            return UNKNOWN
    if not is_array(base):
        return MANY if is_frame(base) else UNKNOWN
    parts = [basic_index(part) for part in (index if type(index) is tuple else (index,))]
    if MANY in parts:
        return MANY
    if UNKNOWN in parts:
        return UNKNOWN
    try:
        # An element too becomes a view of itself, not a scalar: it has a place.
        return base[(*parts, Ellipsis)] if Ellipsis not in parts else base[tuple(parts)]
    except Exception:  # out of bounds: the cell will say so
        return UNKNOWN


def reshaped(array: t.Any, shape: list[t.Any]) -> t.Any:
    """A view of another shape; the array itself if that is unknown, or would copy."""
    if len(shape) == 1 and type(shape[0]) is tuple:
        shape = list(shape[0])
    contiguous = (
        array.is_contiguous() if hasattr(array, "is_contiguous") else (array.flags.c_contiguous)
    )
    if not shape or not contiguous or not all(type(length) is int for length in shape):
        return array
    try:
        return array.reshape(shape)
    except (ValueError, RuntimeError):
        return array


def basic_index(index: t.Any) -> t.Any:
    """An index that gives a view; else MANY or UNKNOWN."""
    if isinstance(index, Each):
        values = index.values
        if not values:
            return slice(0, 0)
        low, high = min(values[0], values[-1]), max(values[0], values[-1])
        return slice(low, high + 1, abs(values.step)) if low >= 0 else UNKNOWN
    if isinstance(index, INDEX_TYPES) and not isinstance(index, bool):
        return index
    if index is MANY:
        return MANY
    if is_array(index):
        return MANY if len(index.shape) and index.shape[0] > 1024 else UNKNOWN
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(index, numpy.integer):
        return int(index)
    return UNKNOWN


def share_of_columns(frame: t.Any, index: t.Any) -> float:
    """The share of a DataFrame's columns that an index names."""
    if type(index) is not tuple or len(index) < 2 or not hasattr(frame, "columns"):
        return 1.0
    columns, count = index[1], max(1, len(frame.columns))
    if isinstance(columns, (str, int)):
        return 1 / count
    return min(1.0, len(columns) / count) if type(columns) is list else 1.0


def source_of(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = tree.body[0] if tree.body else None
    return node if isinstance(node, ast.FunctionDef) else None
