"""Beautiful Soup's trees: a tag or text that a variable holds stays the one that is in its soup.

Beautiful Soup pickles a soup as its markup, and parses that anew, so its elements would be new objects. Each
element refers to the next one. pickle would follow this chain, which is as long as the document, by recursion. So
all elements of a tree are made at once, empty, and are filled afterwards. An element is pickled as its place
among them.
"""

from __future__ import annotations

import typing as t

from holdfast.carry import instances
from holdfast.codecs import Codec, register

_WAYS = ("__reduce_ex__", "__reduce__", "__getnewargs_ex__", "__getnewargs__", "__setstate__")
_PARSERS = ("parser", "underlying_builder", "soup")  # attributes of a builder


def _children(element: t.Any) -> list[t.Any]:
    return vars(element).get("contents") or []


class _Tree:
    """Stands for all elements below a root."""

    def __init__(self, root: t.Any):
        self.elements: list[t.Any] = []
        self.places: dict[int, int] = {}
        work = [root]
        while work:
            element = work.pop()
            if id(element) not in self.places:
                self.places[id(element)] = len(self.elements)
                self.elements.append(element)
                work += reversed(_children(element))

    def __reduce__(self) -> tuple[t.Any, ...]:
        made = [
            (type(one), str.__str__(one) if isinstance(one, str) else None) for one in self.elements
        ]
        return _make, (made,), [vars(one) for one in self.elements], None, None, _fill


def _make(elements: list[tuple[t.Any, str | None]]) -> list[t.Any]:
    return [
        object.__new__(cls) if text is None else str.__new__(cls, text) for cls, text in elements
    ]


def _fill(elements: list[t.Any], attributes: list[dict[str, t.Any]]) -> None:
    for element, own in zip(elements, attributes, strict=True):
        vars(element).update(own)


def _element(elements: list[t.Any], place: int) -> t.Any:
    return elements[place]


class _Elements(Codec):
    types = ("bs4.element.PageElement",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        tree = _tree_of(value, pickler.notes)
        _check(type(value))
        return _element, (tree, tree.places[id(value)])


def _tree_of(value: t.Any, notes: dict[t.Any, t.Any]) -> _Tree:
    trees = notes.setdefault(_Tree, {})  # by the elements' ids
    found = trees.get(id(value))
    if found is None:
        root, seen = value, {id(value)}
        while (parent := vars(root).get("parent")) is not None and id(parent) not in seen:
            seen.add(id(parent))
            root = parent
        found = _Tree(root)
        if id(value) not in found.places:  # its parent doesn't list it
            found = _Tree(value)
        for place in found.places:
            trees.setdefault(place, found)
    return found


def _check(cls: type) -> None:
    """Refuse elements of a class that says itself how they are pickled."""
    for name in (*_WAYS, "__getstate__"):
        home = instances._home(cls, name)
        if home not in (object, str) and not home.__module__.startswith("bs4"):
            raise TypeError(f"an element of a class with {name}")
    if instances._slots(cls):
        raise TypeError("an element of a class with __slots__")


class _Builders(Codec):
    """Tree builders with a parser in C. Their class makes them, with a new parser."""

    types = ("bs4.builder.TreeBuilder",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if value.picklable:
            return NotImplemented
        return type(value), (), {k: one for k, one in vars(value).items() if k not in _PARSERS}


for _codec in (_Elements(), _Builders()):
    register(_codec)
