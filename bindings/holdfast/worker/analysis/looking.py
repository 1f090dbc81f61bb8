"""Finds out whether a cell only looks at variables: `a`, `print(a, b)`, `df.shape`.

Such a cell changes nothing if no code of the notebook runs for it. So it may call only functions that show
something. The caller checks that no value has code of the notebook's own, such as a `__repr__` (touched.py
knows which have).
"""

from __future__ import annotations

import ast
import builtins
import typing as t

_SHOWING = frozenset(("print", "repr", "str", "len", "type", "id", "display", "bool", "isinstance"))
_PARTS = (
    ast.Expr,
    ast.Pass,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Attribute,
    ast.Name,
    ast.Call,
    ast.keyword,
    ast.expr_context,
)


def names_looked_at(text: str, namespace: t.Mapping[str, object]) -> set[str] | None:
    """The variables that the cell shows.

    Parameters
    ----------
    text : str
        The cell.
    namespace : mapping of str to object
        The notebook's variables: one may hide a function that shows.

    Returns
    -------
    set of str or None
        Their names; None if the cell does anything else.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names, calls = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and _is_showing(node.func.id, namespace)):
                return None
            calls.add(id(node.func))
        elif isinstance(node, ast.Name) and id(node) not in calls:
            names.add(node.id)
        elif not isinstance(node, (ast.Module, *_PARTS)):
            return None
    return names


def _is_showing(name: str, namespace: t.Mapping[str, object]) -> bool:
    known = getattr(builtins, name, None)
    return name in _SHOWING and namespace.get(name, known) is known
