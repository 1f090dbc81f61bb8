"""Reads, compares and sets the attributes of modules, and of their classes and functions.

It also says which modules are the user's own, and which have come since the last look.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import os
import sys
import threading
import types
import typing as t
import weakref

from holdfast import _store, marshal
from holdfast.carry.cached_functions import Cached
from holdfast.carry.patches import MISSING

from ..bound import Budget, look
from ..origin import is_library

# Of sys: carried otherwise, the interpreter's own, or of the last error.
SYS = frozenset(
    "modules path argv path_importer_cache last_type last_value last_traceback last_exc meta_path"
    " path_hooks".split()
)
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None)))
# Of builtins: gettext's function, for one, and what statements call.
UNDERS = frozenset(("_", "__", "___", "__import__", "__build_class__"))
# Set by the import, or by all modules (`__builtins__`).
_OF_IMPORT = frozenset(
    "__name__ __doc__ __package__ __loader__ __spec__ __file__ __cached__ __builtins__".split()
)
_OF_FUNCTION = ("__code__", "__defaults__", "__kwdefaults__", "__annotations__", "__doc__")
_SHOWN_BY_EQUALITY = frozenset((bool, int, str, bytes, type(None), types.CodeType))
_METHODS = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}
_OF_CODE = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType),
    *(enum.Enum, types.GenericAlias, types.UnionType),
)
_OF_DISPATCH = frozenset(("registry", "register", "dispatch", "_clear_cache"))
_DESCRIPTIONS = ("__annotations__", "__doc__", "__code__")
_DESCRIBING = frozenset(("typing", "abc", "dataclasses", "__future__"))
_FUNCTIONS = frozenset(("__func__", "fget", "fset", "fdel"))
# What calls a function, and the attributes that have it.
_AROUND: dict[type, tuple[str, ...]] = {
    **_METHODS,
    types.MethodType: ("__func__",),
    functools.partial: ("func",),
    functools.partialmethod: ("func",),
    functools.cached_property: ("func",),
}
DATA = frozenset(("numpy", "pandas", "scipy", "torch", "polars", "pyarrow"))
_DIGEST_MAX = 16 << 20  # bytes
_STANDARD = sys.stdlib_module_names


# ---- which modules


def new_modules(count: int) -> list[str]:
    """The modules that were added since there were so many, the latest first. Others aren't touched: in a fork
    that copies their pages."""
    return list(itertools.islice(reversed(sys.modules), max(len(sys.modules) - count, 0)))


class NewModules:
    """The modules that come, a look at a time; `knows_all`: those that are here aren't new."""

    def __init__(self, knows_all: bool = False) -> None:
        self._count, self._last = 0, ("", object())
        self._installed: dict[str, weakref.ref[types.ModuleType]] = {}
        if knows_all:
            self._note()

    def look(self) -> list[str]:
        """Those that came since the last look; all of them if others were taken out."""
        names = new_modules(self._count - 1)
        if not names or _entry(names.pop()) != self._last:
            names = list(sys.modules)
        self._note()
        return names

    def _note(self) -> None:
        self._count, self._last = len(sys.modules), _entry(next(reversed(sys.modules)))

    def installed(self) -> t.Iterator[tuple[str, types.ModuleType]]:
        """Of these the modules of libraries, with their names; each object once."""
        for name in self.look():
            module = sys.modules[name]
            if type(module) is types.ModuleType and name.partition(".")[0] not in _STANDARD:
                file = vars(module).get("__file__")
                if isinstance(file, str) and os.path.isabs(file) and not _is_own_file(file):
                    known = self._installed.get(name)
                    if known is None or known() is not module:
                        self._installed[name] = weakref.ref(module)
                        yield name, module


_judged: dict[str, bool] = {}  # by file: whether it is a library's
_marks: dict[str, object] = {}  # which object each module was at the last look
_own: tuple[int, dict[str, types.ModuleType]] = (0, {})  # which modules there were, and those


def own_modules() -> dict[str, types.ModuleType]:
    """The modules of the user's own."""
    global _own
    digest = _store._modules_digest()
    if _own[0] != digest:
        other, gone = _store._modules_changed(_marks)
        found = {name: sys.modules.get(name) for name in (*_own[1], *other)}
        _own = (
            digest,
            {
                name: module
                for name, module in found.items()
                if name != "__main__" and _is_own_file(getattr(module, "__file__", None))
            },
        )
        _marks.update((name, mark_of(found[name])) for name in other)
        for name in gone:
            del _marks[name]
    return _own[1]


def _entry(name: str) -> tuple[str, object]:
    return name, mark_of(sys.modules[name])


def mark_of(module: t.Any) -> object:
    """What tells one object from another: a weak reference, so that it may end."""
    try:
        return weakref.ref(module)
    except TypeError:
        return id(module)


def _is_own_file(file: object) -> bool:
    if not isinstance(file, str) or not os.path.isabs(file):  # "_ops.py" of torch.ops
        return False
    if file not in _judged:
        _judged[file] = "site-packages" in file or is_library(file)
    return not _judged[file]


def is_own(spec: t.Any) -> bool:
    """Whether a module of this spec is the user's own."""
    return bool(spec.has_location) and _is_own_file(spec.origin)


def is_notebooks(one: t.Any) -> bool:
    """Whether the user's code has made it: the notebook's, or that of a module of the user's own. A function
    may have another one's names (`functools.wraps`)."""
    kind = type(one)
    if kind in _AROUND and any(is_notebooks(getattr(one, part)) for part in _AROUND[kind]):
        return True
    if kind is types.FunctionType and is_users(one.__globals__.get("__name__")):
        return True
    return is_users(getattr(one, "__module__", "")) or is_users(kind.__module__)


def is_users(module: object) -> bool:
    """Whether it is the name of a module that the user has written."""
    if type(module) is not str:
        return False
    return module == "__main__" or _is_own_file(_file_of(sys.modules.get(module)))


def _file_of(module: object) -> object:
    """Without loading a module that waits for its first use."""
    try:
        return object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return None


def know_modules() -> None:
    """Find out in the main worker, for its forks, which modules are libraries'."""
    own_modules()


def look_into(module: object) -> dict[str, t.Any]:
    """What the values of its attributes show, and those of its classes and functions. An object that shows
    nothing of itself is taken to be unchanged."""
    budget = Budget()
    return {path: shown(value, is_named, budget) for path, value, is_named in parts_of(module)}


def shown(value: t.Any, is_named: bool, budget: Budget | None = None) -> t.Any:
    """Return what of a value can be compared with a later look."""
    if is_named:
        return id(value)
    kind = type(value)
    if kind in _SHOWN_BY_EQUALITY:
        return kind, value
    if kind is threading.local:  # one that this thread has put nothing into shows that
        return id(value) if value.__dict__ else [id(value)]
    return look(value, budget) or _digest(value) or id(value)


def of_method(value: t.Any) -> list[tuple[str, t.Any]]:
    """The functions of a property, a class method and the like, by the attributes that have them."""
    return [(name, getattr(value, name)) for name in _METHODS.get(type(value), ())]


def parts_of(
    module: object, begun: t.Mapping[str, t.Any] | None = None
) -> t.Iterator[tuple[str, t.Any, bool]]:
    """Its attributes, and those of its classes and functions: the path, the value, and whether other processes
    have that by its name. What stands for a module may be any object (`sys.modules[__name__] = M()`).

    With the values that its import gave (`begun`), the paths below a class or function are those of that one,
    also if it was replaced: what is in its place now is a value like others.
    """
    attributes = getattr(module, "__dict__", {})
    name = attributes.get("__name__")
    work = [(one, value) for one, value in attributes.items() if one not in _OF_IMPORT]
    fixed: set[str] = set()  # parts that are others only where what has them is another one
    for path, value in work:  # which grows
        made = value if begun is None or path in fixed else begun.get(path)
        kind = type(made)
        if kind in _METHODS:
            found = [(f"{path}.{inner}", part) for inner, part in of_method(made)]
            fixed.update(part for part, _ in found)
            work += found
            yield path, value, made is value
        elif is_by_name(made, path, name):
            parts = _of_class(made) if isinstance(made, type) else of_function(made)
            work += [(f"{path}.{inner}", part) for inner, part in parts]
            if path not in fixed:
                yield path, value, made is value
        elif path in fixed:
            continue
        elif issubclass(kind, enum.Enum) and _is_member(made, path, name):
            work += [(f"{path}.{inner}", part) for inner, part in _of_member(made)]
            yield path, value, made is value
        else:  # dispatchers.py has the implementations
            yield path, value, type(value) is functools.singledispatchmethod


def is_atom(value: object) -> bool:
    """Whether it is a number, a text, bytes, a truth value or None."""
    return type(value) in _ATOMS


def is_data(path: str, value: t.Any) -> bool:
    """Whether it is an object that can change, or be shared with variables: nothing that describes code."""
    return not path.endswith(_DESCRIPTIONS) and _is_data(value)


def _is_data(value: t.Any) -> bool:
    kind = type(value)
    if kind is tuple:
        return any(map(_is_data, value))
    if kind in _ATOMS or issubclass(kind, _OF_CODE) or kind.__module__ in _DESCRIBING:
        return False
    # Of descriptors those of the user's own that show nothing of what they hold.
    return not hasattr(kind, "__get__") or (
        kind.__module__ in own_modules() and look(value) is None
    )


def is_by_name(value: t.Any, name: str, module: object) -> bool:
    """Whether it is a class or function that another process has by its name."""
    kind = type(value)  # a proxy says that it is what it leads to
    if (
        kind is not types.FunctionType and not issubclass(kind, type)
    ) or value.__module__ != module:
        return False
    within, _, last = name.rpartition(".")
    return value.__qualname__ == (within if last in _FUNCTIONS else name)


def is_made_once(value: t.Any, name: str, module: object) -> bool:
    """Whether an import makes it, and nobody changes it but by its parts: a class, a function, what has one as a
    method, or a function that keeps its results."""
    if type(value) in _METHODS:
        return True
    if type(value) is Cached:
        return (value.__module__, getattr(value, "__qualname__", "")) == (module, name)
    return is_by_name(value, name, module)


def _of_class(cls: type) -> t.Iterator[tuple[str, t.Any]]:
    left_out = "_" if isinstance(cls, enum.EnumMeta) else ("__", "_abc_")  # what makes it one
    for name, value in vars(cls).items():
        if not name.startswith(left_out):
            yield name, value


def _is_member(value: enum.Enum, path: str, module: object) -> bool:
    """Whether it is where its class has it."""
    kind = type(value)
    return kind.__module__ == module and path == f"{kind.__qualname__}.{vars(value).get('_name_')}"


def _of_member(member: enum.Enum) -> t.Iterator[tuple[str, t.Any]]:
    """What code has given it, and its value, if that can change."""
    for name, value in vars(member).items():
        if not name.startswith("_") or (name == "_value_" and not is_atom(value)):
            yield name, value


def functions_of(module: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """The functions that a module and its classes define and that remember something, by their paths: results, or
    implementations."""
    work = list(getattr(module, "__dict__", {}).items())
    name = getattr(module, "__name__", None)
    for path, value in work:  # which grows
        kind = type(value)
        if kind is functools.singledispatchmethod:
            yield path, value.dispatcher
        elif kind in (staticmethod, classmethod):
            work.append((path, value.__func__))
        elif kind not in (Cached, types.FunctionType) and not issubclass(kind, type):
            continue
        elif value.__module__ != name:
            continue
        elif kind is Cached or is_dispatching(value):
            yield path, value
        elif issubclass(kind, type) and value.__qualname__ == path:
            work += [(f"{path}.{inner}", one) for inner, one in vars(value).items()]


def is_dispatching(function: t.Any) -> bool:
    """Whether it is a function that `functools.singledispatch` made."""
    return type(function) is types.FunctionType and _OF_DISPATCH <= vars(function).keys()


def registry_of(function: t.Any) -> dict[t.Any, t.Any]:
    """The own dict of such a function, of which it shows a view."""
    register = function.register
    cells = dict(zip(register.__code__.co_freevars, register.__closure__, strict=True))
    return cells["registry"].cell_contents


def of_function(function: types.FunctionType) -> t.Iterator[tuple[str, t.Any]]:
    """All that can be changed of a function that other processes have by its name."""
    for name in _OF_FUNCTION:
        yield name, getattr(function, name)
    if is_dispatching(function):
        return  # what is registered with it, dispatchers.py carries
    yield from vars(function).items()
    for place, cell in enumerate(function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # it is empty
            yield f"__closure__.{place}.cell_contents", cell.cell_contents


def _digest(value: object) -> t.Any:
    """Of a library's data, but for large ones: what its encoding is, as a number."""
    if type(value).__module__.partition(".")[0] not in DATA:
        return None
    try:
        return None if value.nbytes > _DIGEST_MAX else hash(marshal.dumps(value))  # type: ignore[attr-defined]
    except Exception:  # it can't be encoded, or its attribute isn't a number
        return None


def is_public(module: str, attribute: str) -> bool:
    """Whether an attribute of a library's module is looked at: one with another name is the library's own."""
    if module == "sys" and attribute in SYS:
        return False
    return not attribute.startswith("_") or (module == "builtins" and attribute in UNDERS)


def steps_to(path: str) -> t.Iterator[str]:
    """The paths of what an attribute is in, the outermost first."""
    steps = path.split(".")
    return (".".join(steps[:count]) for count in range(1, len(steps)))


def is_fixed(value: object) -> bool:
    """Whether it is a number, a text and the like, or a tuple of such that can't change."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_fixed, value))  # type: ignore[call-overload]
    return kind in _ATOMS


# ---- their attributes


def value_of(module: t.Any, attribute: str) -> t.Any:
    """Of a module, or of a class or function in it; an object of our own where it is none."""
    for step in attribute.split("."):
        module = _part(module, step)
    return module


_OF_C = frozenset((types.CellType, types.FunctionType, *_METHODS))


def _part(owner: t.Any, step: str) -> t.Any:
    if type(owner) is tuple:  # the cells of a function
        return owner[int(step)] if step.isdigit() and int(step) < len(owner) else MISSING
    kind = type(owner)
    if kind in _OF_C and step in vars(kind):
        return getattr(owner, step, MISSING)
    return vars(owner).get(step, MISSING) if hasattr(owner, "__dict__") else MISSING


def set_attributes(name: str, values: dict[str, t.Any]) -> None:
    """Set numbers, texts and the like, also of an object that stands in its module's place."""
    for path, value in values.items():
        owner, _, attribute = path.rpartition(".")
        holder = sys.modules[name] if not owner else value_of(sys.modules[name], owner)
        if isinstance(holder, (types.ModuleType, type, types.FunctionType, types.CellType)):
            setattr(holder, attribute, value)
        elif holder is not MISSING:  # its class may set attributes in its own way
            vars(holder)[attribute] = value
