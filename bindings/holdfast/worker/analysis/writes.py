"""Finds the memory that a cell visibly writes in place, and what it reads as a whole.

The first write to each page of a committed buffer is a fault and a copy, in the middle of what the cell
measures. To copy in bulk beforehand costs a fraction of that. So the cell's syntax tree is walked before it
runs, with the values that its names have now. Names, attributes, indexes, aliases and views are followed on
the objects themselves. So it is known which array `d["x"][k:].T` is, and how much of it `v[3]` touches. What
is unknown counts as neither written nor read: it takes its faults.

Followed are:

* assignments, in their order;
* both branches of an `if`;
* the body of a loop, once; an index from a `range` stands for all of its values;
* calls of the notebook's own functions and methods, with the arguments as parameters.

These count as writes:

* `a += ...`, `a[...] = ...`, `a[...] += ...`, `out=a`, an output among a ufunc's positional arguments,
  `ufunc.at(a, ...)`, NumPy's functions that fill their first argument;
* methods that work in place: `sort`, `fill`, `partition`, `put`, `byteswap`, `shuffle(a)`,
  `overwrite_a=True`, PyTorch's that end in `_`, and an optimizer's `step()`;
* pandas: `loc` and `iloc` with more than one row, `inplace=True` of the methods that then write.

A read is an operand, an argument of a call, a method that isn't known to be cheap, or the subject of a loop.
An element is neither: each use has the number of bytes that it touches.

A wrong guess costs time and never changes a value. But the walk must not run the user's code:
expression_values.py knows what can be followed.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
import types
import typing as t

from .spans import Span, spans
from .expression_values import (
    INDEX_TYPES,
    MANY,
    UNKNOWN,
    Indexer,
    Local,
    Unknown,
    attribute_of,
    basic_index,
    element_of,
    is_array,
    is_frame,
    is_ufunc,
    item_of,
    may_count,
    own_attributes,
    range_of,
    reshaped,
    share_of_columns,
    source_of,
)

_DEPTH_MAX = 4  # calls into each other
_STEPS_MAX = 5000  # nodes looked at: a longer program isn't worth it

_FILL = frozenset(("sort", "fill", "partition", "put", "setfield", "random_raw"))
_FILL_FIRST = frozenset(("copyto", "put", "place", "putmask", "put_along_axis", "shuffle"))
_FILL_LAST = frozenset(("readinto", "recv_into", "readinto1"))
_INPLACE = frozenset("fillna clip where mask replace ffill bfill interpolate update".split())
_VIEWS = frozenset(
    """reshape ravel view transpose swapaxes squeeze diagonal numpy detach to_numpy narrow
    permute contiguous unsqueeze select flatten cpu""".split()
)
_SAME = frozenset("asarray asanyarray ascontiguousarray ravel reshape transpose squeeze".split())
_CHEAP = _VIEWS | frozenset(
    """item head tail keys items copy_ size dim numel data_ptr element_size is_contiguous
    get_device requires_grad_ setflags""".split()
)
_LOOKS = frozenset(
    "len type id isinstance issubclass hasattr getattr repr print range iter display".split()
)
_OPERATORS: dict[type, t.Callable[[t.Any, t.Any], t.Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.RShift: operator.rshift,
    ast.LShift: lambda a, b: a << min(b, 64),
}


class Uses:
    """The memory that some code visibly writes and reads.

    Attributes
    ----------
    written, read : dict of int to Span
        By the address where the memory of the owner begins; `touched` is a sum.
    """

    def __init__(self, namespace: dict[str, t.Any]):
        self.namespace = namespace
        self.written: dict[int, Span] = {}
        self.read: dict[int, Span] = {}
        self._scopes: list[dict[str, t.Any]] = [{}]
        self._running: list[object] = []
        self._steps = 0

    def look_at(self, tree: ast.Module) -> None:
        """Follow the statements of a cell."""
        self._block(tree.body)

    def write_all(self, value: t.Any) -> None:
        """Note that every array in a value is written all over."""
        for span in spans(value):
            self.written[span.address] = span._replace(touched=span.size)

    # ---- statements

    def _block(self, statements: t.Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                return
            handle = getattr(self, "_on_" + type(statement).__name__, None)
            if handle is not None:
                handle(statement)
            else:
                self._anything(statement)

    def _anything(self, node: ast.AST) -> None:
        """A statement that does nothing by itself: its expressions, then its blocks."""
        for field in ast.iter_child_nodes(node):
            if isinstance(field, ast.expr):
                self._value(field)
            elif isinstance(field, ast.stmt):
                self._block([field])
            else:
                self._anything(field)

    def _on_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._value(node.value))

    def _assign(self, target: ast.expr, value: t.Any) -> None:
        if isinstance(target, ast.Name):
            self._scopes[-1][target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = type(value) in (tuple, list) and len(value) == len(target.elts)
            for index, part in enumerate(target.elts):
                self._assign(part, value[index] if known else UNKNOWN)
        elif isinstance(target, ast.Subscript):
            self._write_item(target)

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        self._use(self._value(node.value))
        value = self._value(node.target)
        if is_array(value):  # a view of what is indexed, too
            self._write(value)
        elif isinstance(node.target, ast.Subscript):
            self._write_item(node.target)
        elif isinstance(node.target, ast.Name):
            self._scopes[-1][node.target.id] = UNKNOWN  # a number, a new object

    def _write_item(self, target: ast.Subscript) -> None:
        base, index = self._value(target.value), self._value(target.slice)
        if isinstance(base, Indexer):
            rows = index[0] if type(index) is tuple and index else index
            if not isinstance(rows, (int, str)) and rows is not UNKNOWN:
                self._write(base.frame, share=share_of_columns(base.frame, index))
        elif is_array(base):
            part = item_of(base, index)
            if part is MANY:
                self._write(base)
            else:
                self._write(part)

    def _on_For(self, node: ast.For) -> None:
        subject = self._value(node.iter)
        self._use(subject)
        self._assign(node.target, element_of(subject))
        self._block(node.body)
        self._block(node.orelse)

    def _on_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._scopes[-1][node.name] = Local(node)

    def _on_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._scopes[-1][node.name] = UNKNOWN

    def _on_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes[-1][node.name] = UNKNOWN

    def _on_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            module = None
            if isinstance(node, ast.Import) and (alias.asname is None or "." not in alias.name):
                module = sys.modules.get(name if alias.asname is None else alias.name)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                module = vars(sys.modules.get(node.module or "", builtins)).get(alias.name)
            self._scopes[-1][name] = UNKNOWN if module is None else module

    _on_ImportFrom = _on_Import

    def _on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._scopes[-1][target.id] = UNKNOWN

    # ---- expressions: what they are, as far as that is known; uses are noted on the way

    def _value(self, node: ast.expr) -> t.Any:
        self._steps += 1
        if self._steps > _STEPS_MAX:
            return UNKNOWN
        handle = getattr(self, "_of_" + type(node).__name__, None)
        if handle is not None:
            return handle(node)
        self._anything(node)
        return UNKNOWN

    def _of_Constant(self, node: ast.Constant) -> t.Any:
        return node.value

    def _of_Name(self, node: ast.Name) -> t.Any:
        if node.id in self._scopes[-1]:
            return self._scopes[-1][node.id]
        if node.id in self._scopes[0]:
            return self._scopes[0][node.id]
        if node.id in self.namespace:
            return self.namespace[node.id]
        return getattr(builtins, node.id, UNKNOWN)

    def _of_Tuple(self, node: ast.Tuple) -> t.Any:
        return tuple(self._value(part) for part in node.elts)

    def _of_List(self, node: ast.List) -> t.Any:
        return [self._value(part) for part in node.elts]

    def _of_Slice(self, node: ast.Slice) -> t.Any:
        parts = [
            None if part is None else basic_index(self._value(part))
            for part in (node.lower, node.upper, node.step)
        ]
        known = all(part is None or type(part) is int for part in parts)
        return slice(*parts) if known else UNKNOWN

    def _of_UnaryOp(self, node: ast.UnaryOp) -> t.Any:
        value = self._value(node.operand)
        if isinstance(node.op, ast.USub) and type(value) is int:
            return -value
        self._use(value)
        return MANY if value is MANY or is_array(value) else UNKNOWN

    def _of_BinOp(self, node: ast.BinOp) -> t.Any:
        left, right = self._value(node.left), self._value(node.right)
        compute = _OPERATORS.get(type(node.op))
        if compute is not None and type(left) is int and type(right) is int:
            try:
                return compute(left, right)
            except (ArithmeticError, ValueError):
                return UNKNOWN
        self._use(left)
        self._use(right)
        picks = left is MANY or right is MANY
        return MANY if picks and isinstance(node.op, (ast.BitAnd, ast.BitOr)) else UNKNOWN

    def _of_Compare(self, node: ast.Compare) -> t.Any:
        values = [self._value(part) for part in (node.left, *node.comparators)]
        for value in values:
            self._use(value)
        return MANY if any(is_array(value) or value is MANY for value in values) else UNKNOWN

    def _of_IfExp(self, node: ast.IfExp) -> t.Any:
        self._value(node.test)
        first, second = self._value(node.body), self._value(node.orelse)
        return second if isinstance(first, Unknown) else first

    def _of_NamedExpr(self, node: ast.NamedExpr) -> t.Any:
        value = self._value(node.value)
        self._assign(node.target, value)
        return value

    def _of_Lambda(self, node: ast.Lambda) -> t.Any:
        return Local(node)

    def _of_Attribute(self, node: ast.Attribute) -> t.Any:
        return attribute_of(self._value(node.value), node.attr)

    def _of_Subscript(self, node: ast.Subscript) -> t.Any:
        base, index = self._value(node.value), self._value(node.slice)
        part = item_of(base, index)
        if part is MANY and is_array(base):
            self._use(base)
        return part

    def _comprehension(self, node: t.Any) -> t.Any:
        scope = dict(self._scopes[-1])
        self._scopes.append(scope)
        for clause in node.generators:
            subject = self._value(clause.iter)
            self._use(subject)
            self._assign(clause.target, element_of(subject))
            for condition in clause.ifs:
                self._value(condition)
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                self._value(getattr(node, part))
        self._scopes.pop()
        return UNKNOWN

    _of_ListComp = _of_SetComp = _of_DictComp = _of_GeneratorExp = _comprehension

    # ---- calls

    def _of_Call(self, node: ast.Call) -> t.Any:
        arguments = [self._value(argument) for argument in node.args]
        keywords = {word.arg: self._value(word.value) for word in node.keywords}
        base: t.Any = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            base, name = self._value(node.func.value), node.func.attr
            function = attribute_of(base, name)
        else:
            function, name = self._value(node.func), getattr(node.func, "id", "")
        self._outputs(keywords, arguments)
        if isinstance(base, types.ModuleType) or function is not UNKNOWN:
            found = self._call(function, name, arguments, keywords)
        else:
            found = self._method(base, name, arguments, keywords)
        return found

    def _outputs(self, keywords: dict[str | None, t.Any], arguments: list[t.Any]) -> None:
        """Keywords that say the same in every library."""
        out = keywords.get("out", UNKNOWN)
        for value in out if type(out) is tuple else (out,):
            self._write(value)
        if arguments and any(
            value is True and word is not None and word.startswith("overwrite_")
            for word, value in keywords.items()
        ):
            self._write(arguments[0])

    def _call(self, function: t.Any, name: str, arguments: list, keywords: dict) -> t.Any:
        if isinstance(function, Local):
            self._enter(function.node, arguments, keywords)
            return UNKNOWN
        if isinstance(function, types.MethodType):
            arguments, function = [function.__self__, *arguments], function.__func__
        if isinstance(function, types.FunctionType) and function.__globals__ is self.namespace:
            node = source_of(function)
            if node is not None:
                self._enter(node, arguments, keywords)
            return UNKNOWN
        if function is range and arguments and all(type(a) is int for a in arguments):
            return range_of(arguments)
        if function is len:
            return len(arguments[0]) if arguments and may_count(arguments[0]) else UNKNOWN
        if function is enumerate or function is zip:
            return (function, arguments)
        if name in _LOOKS:
            return UNKNOWN
        inputs = getattr(function, "nin", None) if is_ufunc(function) else None
        if inputs is not None:
            for value in arguments[inputs:]:
                self._write(value)
        if name in _FILL_FIRST and arguments and is_array(arguments[0]):
            self._write(arguments[0])
        for value in (*arguments, *keywords.values(), function):
            self._use(value)
        same = name in _SAME and arguments and is_array(arguments[0])
        return arguments[0] if same else UNKNOWN

    def _method(self, base: t.Any, name: str, arguments: list, keywords: dict) -> t.Any:
        for value in (*arguments, *keywords.values()):
            self._use(value)
        if is_array(base):
            return self._array_method(base, name, arguments, keywords)
        if name in _FILL_FIRST and arguments and is_array(arguments[0]):  # rng.shuffle(a)
            self._write(arguments[0])
        elif name in _FILL_LAST and arguments:
            self._write(arguments[-1])
        elif is_frame(base):
            if name in _INPLACE and (keywords.get("inplace") is True or name == "update"):
                self._write(base)
            self._use(base)
        elif name == "step" and isinstance(own_attributes(base).get("param_groups"), list):
            self._write(base)
        elif name == "at" and is_ufunc(base) and arguments:
            part = item_of(arguments[0], arguments[1]) if len(arguments) > 1 else MANY
            self._write(arguments[0] if part is MANY else part)
        elif name not in _CHEAP:
            self._use(base)
        return UNKNOWN

    def _array_method(self, base: t.Any, name: str, arguments: list, keywords: dict) -> t.Any:
        flags = (*arguments, keywords.get("inplace"))
        swapped = name == "byteswap" and any(flag is True for flag in flags)
        torch_like = name.endswith("_") and not name.endswith("__") and name not in _CHEAP
        if swapped or name in _FILL or torch_like:
            self._write(base)
            return base
        if name not in _CHEAP:
            self._use(base)
        if name in ("reshape", "view"):
            return reshaped(base, arguments)
        return base if name in _VIEWS else UNKNOWN

    def _enter(self, node: t.Any, arguments: list, keywords: dict) -> None:
        """The body of a function, with its parameters bound."""
        if node in self._running or len(self._running) >= _DEPTH_MAX:
            return
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        scope: dict[str, t.Any] = dict.fromkeys(names, UNKNOWN)
        scope.update(zip(names, arguments, strict=False))
        scope.update((word, value) for word, value in keywords.items() if word is not None)
        self._running.append(node)
        self._scopes.append(scope)
        if isinstance(node, ast.Lambda):
            self._value(node.body)
        else:
            self._block(node.body)
        self._scopes.pop()
        self._running.pop()

    # ---- what is noted

    def _write(self, value: t.Any, share: float = 1.0) -> None:
        self._note(self.written, value, share)

    def _use(self, value: t.Any) -> None:
        self._note(self.read, value)

    def _note(self, into: dict[int, Span], value: t.Any, share: float = 1.0) -> None:
        if isinstance(value, (Unknown, *INDEX_TYPES, float, str)):
            return
        for span in spans(value):
            before = into.get(span.address)
            touched = int(span.touched * share) + (before.touched if before else 0)
            into[span.address] = span._replace(touched=min(touched, span.size))
