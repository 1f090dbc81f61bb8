"""Finds the memory of the arrays in a value: where it lies, and how much of it is touched.

No code of the user's runs for that. It looks into the libraries' own types, exact containers of them, and the
dictionaries of the notebook's instances.
"""

from __future__ import annotations

import typing as t

from .expression_values import is_array, is_frame, own_attributes

_PAGE = 4096


class Span(t.NamedTuple):
    """Memory: where it begins, its bytes, how many are touched, and what keeps it."""

    address: int
    size: int
    touched: int
    owner: t.Any


def spans(value: t.Any, budget: int = 256) -> list[Span]:
    """The memory of the arrays in a value, as far as that is known without running anything."""
    found: list[Span] = []
    work = [value]
    while work and budget > 0:
        one = work.pop()
        budget -= 1
        if is_array(one):
            span = _torch_span(one) if hasattr(one, "untyped_storage") else _numpy_span(one)
            if span is not None:
                found.append(span)
        elif is_frame(one):
            work.extend(_blocks(one))
        elif type(one) in (list, tuple):
            work.extend(one[:budget])
        elif type(one) is dict:
            work.extend(list(one.values())[:budget])
        elif hasattr(type(one), "named_parameters"):  # torch.nn.Module
            for part in ("_parameters", "_modules"):
                work.extend(own_attributes(one).get(part, {}).values())
        elif isinstance(own_attributes(one).get("param_groups"), list):  # torch.optim.Optimizer
            for group in one.param_groups:
                work.extend(group.get("params", ()))
        elif type(one).__module__ == "__main__" and not isinstance(one, type):
            work.extend(list(own_attributes(one).values())[:budget])
    return found


def _blocks(frame: t.Any) -> list[t.Any]:
    blocks = []
    for array in getattr(getattr(frame, "_mgr", None), "arrays", ()):
        array = getattr(array, "_ndarray", array)
        if is_array(array):
            blocks.append(array)
    return blocks


def _numpy_span(array: t.Any) -> Span | None:
    if array.dtype.hasobject:
        return None
    owner = array
    while is_array(owner.base) and hasattr(owner.base, "base"):  # a tensor has none
        owner = owner.base
    start = owner.__array_interface__["data"][0]
    return Span(start, owner.nbytes, _touched(array), owner)


def _torch_span(tensor: t.Any) -> Span | None:
    try:
        if tensor.device.type != "cpu":
            return None
        storage = tensor.untyped_storage()
        touched = tensor.numel() * tensor.element_size()
        return Span(storage.data_ptr(), storage.nbytes(), touched, tensor)
    except (RuntimeError, NotImplementedError):  # sparse, fake, functorch's
        return None


def _touched(array: t.Any) -> int:
    """Bytes of the pages that the elements of an array lie in, about."""
    if array.flags.forc:
        return array.nbytes
    run, runs = array.itemsize, 1
    for stride, length in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if length == 0:
            return 0
        if stride <= max(run, _PAGE):
            run += stride * (length - 1)
        else:
            runs *= length
    return runs * max(run, min(_PAGE, array.nbytes))
