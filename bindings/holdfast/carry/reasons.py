"""Says why a value isn't carried: the type and the path of its first part that no codec encodes."""

import collections
import copyreg
import functools
import types

from holdfast.base import sentences
from holdfast.carry import refused
from holdfast.carry.pickling import encode

_SEARCH_MAX = 1000  # children of one object that the search for a culprit tries
_SEARCH_DEPTH = 12


def _error_of(value):
    """The type and the text of what encoding it raises; None if it is carried. The exception itself would
    hold the value, which has to end with its name."""
    try:
        encode(value, lambda raw: (0, 0, raw.nbytes))
    except Exception as error:
        return type(error), str(error)
    return None


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


def _culprit(value, path, met, depth, refusal):
    """The first part of a value that isn't carried although all its own parts are, and the path to
    it. None if all parts that aren't carried were met before: parts of a plot refer to their axes,
    which refer to their parts. `refusal`: what a codec says of a value that it refuses, or None. A part
    of which that isn't said may be a lock, but isn't the reason."""
    if refused.reason(type(value)):
        return value, path
    is_last = True
    for step, (where, child) in enumerate(_children(value)):
        if step == _SEARCH_MAX or len(met) > _SEARCH_MAX or not depth:
            break
        if id(child) not in met:
            error = _error_of(child)
            if error is None or (refusal is not None and error[1] != refusal):
                continue
            met.add(id(child))
            found = _culprit(child, path + where, met, depth - 1, refusal)
            if found is not None:
                return found
        is_last = False
    return (value, path) if is_last else None


def explain(name, value, message):
    """Why `value` isn't carried: the type and path of the first part that isn't."""
    path, error = name, _error_of(value)
    refusal = error[1] if error is not None and error[0] is ValueError else None
    try:
        value, path = _culprit(value, name, {id(value)}, _SEARCH_DEPTH, refusal) or (value, name)
    except Exception:
        pass  # the walk runs the user's code, which may fail; then the message alone is shown
    return sentences.reason(type(value).__name__, path, message)
