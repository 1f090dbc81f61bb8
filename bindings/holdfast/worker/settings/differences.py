"""Finds attributes of modules that the notebook has set in a way that its code doesn't show.

`carry/patches.py` reads from the code which attributes it sets. It can't see `vars(module)["x"] = 1`,
`setattr(module, name, value)`, or a function of the user's own module that counts its calls. Such changes are
found here: a module is compared with its state before the notebook could use it.

Of a library's module that the notebook has imported or has a name for, these are compared:

* its public attributes, and what lists, dicts and sets among them hold. Values count if they are plain data
  or the notebook's own, since libraries set their own at any time;
* the lists, dicts and sets of its classes, also if a class gets one of its own in place of its base's
  (`yaml.add_constructor`);
* other public attributes of its classes (`ParserElement.set_default_whitespace_chars`), and whatever the user
  has made, by any name.

`sys` and `builtins` are always compared, and so are the modules that a module of the user's own has names
for.

Of a module of the user's own, all is compared that its attributes and those of its classes hold, since it was
imported. When it is loaded anew, another process that imports it has the new file: from then on all its
values count.

A difference is an attribute like others to `carry/patches.py`: it is carried in both directions, or named.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
import typing as t

from holdfast.base.after_import import call_after_import
from holdfast.carry.module_objects import is_sentinel, module_of
from holdfast.carry.patches import (
    MISSING,
    Slot,
    chain_of,
    equal,
    is_holder,
    is_plain,
    owner_of,
    same,
)
from holdfast.carry.restoring import is_imported_as
from holdfast.carry.snapshots import Snapshot

from .. import notices
from ..bound import Budget
from ..ipython import reloader
from . import dispatchers
from .attributes import (
    UNDERS,
    is_data,
    is_fixed,
    is_made_once,
    is_notebooks,
    is_public,
    is_users,
    look_into,
    of_function,
    of_method,
    own_modules,
    parts_of,
    set_attributes,
    shown,
    steps_to,
    value_of,
)
from .memo import Watched, holders_in
from .process_settings import IN_MEMORY

Found = dict[str, t.Any]  # what the attribute was, by the key of the patch
_FROM_MODULES = (types.FunctionType, types.BuiltinFunctionType, type)
_OURS = frozenset(("__main__", "holdfast"))
# Of other modules: by slots.py, process_settings.py, libraries/standard; or a cache.
CARRIED_OTHERWISE = frozenset(
    "gc:callbacks gc:garbage copyreg:dispatch_table sqlite3:adapters sqlite3:converters warnings:filters"
    " linecache:cache inspect:modulesbyfile sys:stdout sys:stderr".split()
)
BARE = ("sys", "builtins")  # modules that libraries leave alone
_CHOSEN = "the module defines it otherwise when it is loaded again"


class Differences:
    """Between the modules of one process and how they were imported.

    Parameters
    ----------
    namespace : dict
        The notebook's variables.
    """

    def __init__(self, namespace: dict[str, t.Any]):
        self._namespace = namespace
        self._names: set[str] = set()  # of variables that may be modules
        self._modules: set[str] = set()  # that are being imported
        # Names with attributes, which may be modules, by their first.
        self._chains: dict[str, set[tuple[str, ...]]] = {}
        self._libraries: dict[str, Snapshot] = {}
        self._inside: dict[str, dict[str, Snapshot]] = {}  # of their lists, dicts and sets
        self._holders: dict[int, set[tuple[str, str]]] = {}  # the places of those, by id
        self._in_classes: dict[str, list[_InClass]] = {}
        self._classes_of: dict[str, list[tuple[type, Snapshot]]] = {}
        self._classes: set[int] = set()  # ids of those that are looked at
        self._watched: dict[str, _Looked] = {}
        self._own: dict[
            str, tuple[dict[str, t.Any], dict[str, t.Any]]
        ] = {}  # as it was, how it looked
        self._plain: dict[str, dict[str, t.Any]] = {}  # what own modules have computed
        self._to_compute: dict[str, dict[str, t.Any]] = {}  # for modules that aren't imported here
        self._first = own_modules().keys()  # nobody notes what these were
        for module in (sys, builtins):
            self._note_library(module)

    def begin_in_fork(self) -> None:
        """Begin in a fork of a process that began and has imported nothing since."""
        self._note_library(sys)

    # ---- which modules

    def see(self, nodes: t.Iterable[ast.AST]) -> None:
        """A cell is about to run, of which these are all nodes."""
        for one in nodes:
            if isinstance(one, ast.Name):
                self._names.add(one.id)
            elif isinstance(one, (ast.Import, ast.ImportFrom)):
                self._names.update(part.asname or part.name.partition(".")[0] for part in one.names)
                self._modules.update(_imported_by(one))
            elif isinstance(one, ast.Attribute) and (chain := chain_of(one)):
                self._chains.setdefault(chain[0], set()).add(chain)
            elif isinstance(one, ast.Call):
                self._expect_patched(one)
        self.resolve()

    def _expect_patched(self, call: ast.Call) -> None:
        """`mock.patch("package.module.name")` imports the module, and sets its attribute; `patch.dict` and
        `patch.multiple` do so."""
        function, target = call.func, call.args[0] if call.args else None
        names = [_name_of(function), _name_of(getattr(function, "value", None))]
        if "patch" not in names or not isinstance(target, ast.Constant):
            return
        steps = list(_steps(target.value)) if isinstance(target.value, str) else []
        self._modules.update(steps)
        for module in steps[:-1]:  # the last may be no module
            if module not in sys.modules:
                call_after_import(module, self.resolve)

    def resolve(self) -> None:
        """A statement is about to run: what is a module by now is as it was imported."""
        # Many names never become variables (a function's own, for example). An intersection
        # takes the time of its smaller side, in C.
        for name in self._names & self._namespace.keys():
            self._names.discard(name)
            value = self._namespace[name]
            if type(value) in _FROM_MODULES:  # it may change what that has
                value = sys.modules.get(value.__module__)
            self._meet(module_of(value) or value)
        for name in self._chains.keys() & self._namespace.keys():
            for _, *steps in self._chains.pop(name):
                value = self._namespace[name]
                for step in steps:
                    value = vars(value).get(step) if type(value) is types.ModuleType else None
                    self._meet(value)
        for name in self._modules & sys.modules.keys():
            self._modules.discard(name)
            self._meet(sys.modules[name])

    def _meet(self, module: t.Any) -> None:
        if type(module) is not types.ModuleType:
            return
        name = module.__name__
        if name in self._libraries or name in self._own or name.partition(".")[0] in _OURS:
            return
        if sys.modules.get(name) is module:
            (self.imported if is_users(name) else self._note_library)(module)

    def _note_library(self, module: types.ModuleType) -> None:
        """Note a library's module before the notebook can have changed it."""
        name, snapshot = module.__name__, Snapshot(module)
        self._libraries[name], attributes = snapshot, snapshot.entries
        self._inside[name] = {
            attribute: Snapshot(value)
            for attribute, value in attributes.items()
            if is_holder(value)
            and is_public(name, attribute)
            and f"{name}:{attribute}" not in CARRIED_OTHERWISE
        }
        self._watched.pop(name, None)
        for attribute in self._inside[name]:
            self._holders.setdefault(id(attributes[attribute]), set()).add((name, attribute))
        if name not in BARE:
            classes = list(self._new_classes(name, attributes))
            self._in_classes[name] = [one for cls in classes for one in _holders_of(cls)]
            self._classes_of[name] = [(cls, Snapshot(cls)) for cls in classes]
            dispatchers.of_libraries.meet(name, dispatchers.in_library(module))

    def _new_classes(self, name: str, attributes: dict[str, t.Any]) -> t.Iterator[type]:
        """A package's classes that a module has public names for."""
        package = name.partition(".")[0]
        for attribute, cls in attributes.items():
            if attribute.startswith("_") or not isinstance(cls, type) or id(cls) in self._classes:
                continue
            home = sys.modules.get(cls.__module__)
            if cls.__module__.partition(".")[0] != package or not _leads_to(home, cls):
                continue
            self._classes.add(id(cls))
            yield cls

    def imported(self, module: t.Any) -> None:
        """Note a module of the user's own that was imported just now."""
        name = module.__name__
        module = sys.modules.get(name, module)
        self._meet_those_of(module)
        looked = look_into(module)
        values = {path: value for path, value, _ in parts_of(module)}
        if name in self._own:  # anew
            defined = {
                path for path, one in values.items() if getattr(one, "__module__", None) == name
            }
            looked = {path: looked[path] for path in defined}
        self._own[name] = values, looked
        self._plain[name] = _computed_in(name, values)
        if name in self._to_compute:
            self._take_over(name, self._to_compute.pop(name))

    def _meet_those_of(self, module: t.Any) -> None:
        """The libraries that it has names for: its functions may change what these have."""
        for value in list(getattr(module, "__dict__", {}).values()):
            if isinstance(value, type):
                value = sys.modules.get(value.__module__)
            is_other = type(value) is types.ModuleType and value is not module
            if is_other and not is_users(value.__name__):
                self._meet(value)

    # ---- what modules of the user's own have computed

    def slot(self) -> Slot:
        """Their plain values as they were imported, which may depend on the moment: a time, a random number. And
        in which lines their functions are: of two with one name the moment may choose."""
        return Slot("sys", self._computed, self._compute)

    def _computed(self) -> t.Any:
        found = dict(self._to_compute)
        found |= {name: one for name, one in self._plain.items() if name in sys.modules}
        return found or MISSING

    def _compute(self, new: t.Any) -> None:
        for name, values in ({} if new is MISSING else new).items():
            if name in self._own:
                self._take_over(name, values)
            else:
                self._to_compute[name] = values

    def _take_over(self, name: str, values: dict[str, t.Any]) -> None:
        """Values that this process's import gave were never the notebook's."""
        before, looked = self._own[name]
        module, plain = sys.modules.get(name), self._plain[name]
        differing = {
            path: value
            for path, value in values.items()
            if path in plain and not equal(plain[path], value)
        }
        self._plain[name] = plain | differing
        others = [path for path in differing if path.endswith("__code__")]
        _report_others(name, others)
        differing = {path: one for path, one in differing.items() if path not in others}
        still = {
            path: one
            for path, one in differing.items()
            if same(value_of(module, path), plain[path])
        }
        set_attributes(name, still)
        before.update({path: one for path, one in differing.items() if path in before})
        for path in still:
            outer = next(one for one in (path, *reversed(list(steps_to(path)))) if one in before)
            looked[outer] = shown(before[outer], type(looked.get(outer)) is int)

    def is_own(self, key: str) -> bool:
        """Whether this key of a patch is of one of the user's own modules."""
        return key[1:].partition(":")[0] in self._own

    def made(self, key: str) -> t.Any:
        """The class or function that the import of one of the user's own modules has put there, or a method as it
        is in its class."""
        name, _, path = key[1:].partition(":")
        value = self._own[name][0].get(path, MISSING) if name in self._own else MISSING
        return value if is_made_once(value, path, name) else MISSING

    def owner(self, key: str) -> tuple[t.Any, str] | None:
        """Whose attribute a key of the user's own modules is, and its name. A class or function that was replaced
        keeps its attributes."""
        name, _, path = key[1:].partition(":")
        value, rest = sys.modules.get(name), path
        for outer in reversed(list(steps_to(path))):
            made = self.made(f"_{name}:{outer}")
            if made is not MISSING:
                value, rest = made, path[len(outer) + 1 :]
                break
        return owner_of(value, rest)

    def submodules(self) -> list[str]:
        """Those of packages of the user's own, which nothing but their import makes attributes of these."""
        return [name for name in self._own if "." in name and name in sys.modules]

    def is_replaced(self, name: str) -> bool:
        """Whether another object stands in sys.modules for a module that was imported (module_entries.py)."""
        before = self._libraries[name].entries if name in self._libraries else {}
        is_imported = before.get("__spec__") is not None
        return is_imported and not is_imported_as(sys.modules.get(name), name)

    # ---- what differs

    def find(self) -> tuple[Found, set[str]]:
        """The attributes that were set, with what they were, and those that are the same objects with
        something else in them."""
        for name, module in own_modules().items():  # also one that was made by its file
            if name not in self._first:
                self._meet(module)
        found: Found = {}
        for one in set(map(id, list(self._namespace.values()))) & self._holders.keys():
            for name, attribute in self._holders[one]:
                if id(value := _attributes(name).get(attribute)) == one:
                    found[f"_{name}:{attribute}"] = value
        inside = set(found)
        for name in self._libraries:
            if not self._is_still(name):
                self._look(name)
            of_module, of_holders = self._watched[name].found
            found |= of_module
            inside |= of_holders
        for name, (before, looked) in self._own.items():
            self._find_in_own(name, before, looked, found, inside)
        return found, inside

    def _is_still(self, name: str) -> bool:
        """Whether nothing of a library's module was set since the last look."""
        last = self._watched.get(name)
        return last is not None and sys.modules.get(name) is last.module and last.parts.is_still()

    def _look(self, name: str) -> None:
        module, parts = sys.modules.get(name), Watched(self._parts(name))
        found: Found = {}
        self._find_in_holders(name, found)
        for one in self._in_classes.get(name, ()):
            if one.has_changed():
                found[one.key] = one.value
        inside = set(found)
        self._find_in_library(name, found)
        for cls, snapshot in self._classes_of.get(name, ()):
            self._find_in_class(cls, snapshot, found)
        self._watched[name] = _Looked(module, parts, (found, inside))

    def _parts(self, name: str) -> t.Iterator[t.Any]:
        """All that was looked at. Of what isn't as it was, but a library's own, the contents may become what counts."""
        module, snapshot = sys.modules.get(name), self._libraries[name]
        classes = self._classes_of.get(name, [])
        yield module
        yield from (cls for cls, _ in classes)
        yield from (snapshot.entries[attribute] for attribute in self._inside[name])
        yield from (one.value for one in self._in_classes.get(name, ()) if one.value is not MISSING)
        spaces: list[tuple[t.Any, Snapshot]] = [*classes]
        if isinstance(module, types.ModuleType):
            spaces.insert(0, (module, snapshot))
        for space, before in spaces:
            for _, value in before.changes(space).values():
                yield from holders_in(value)

    def _find_in_holders(self, name: str, found: Found) -> None:
        """Its lists, dicts and sets with something else in them."""
        now = _attributes(name)
        for attribute, held in self._inside.get(name, {}).items():
            value = now.get(attribute)
            if value is not self._libraries[name].entries[attribute]:
                continue
            if not held.is_still(value) and (name in BARE or _has_nobodys(value, held)):
                found[f"_{name}:{attribute}"] = value

    def _find_in_library(self, name: str, found: Found) -> None:
        module, before = sys.modules.get(name), self._libraries[name]
        if not isinstance(module, types.ModuleType) or self.is_replaced(name):
            return
        if before.is_still(module):
            return
        for attribute, (was, value) in before.changes(module).items():
            is_installed = attribute in UNDERS  # gettext's
            if is_public(name, attribute):
                if value is MISSING or is_installed or _is_nobodys(value):
                    found[f"_{name}:{attribute}"] = was

    def _find_in_class(self, cls: type, before: Snapshot, found: Found) -> None:
        if before.is_still(cls):
            return
        for attribute, (was, value) in before.changes(cls).items():
            if _counts_in_class(attribute, value, was):
                key = f"_{cls.__module__}:{cls.__qualname__}.{attribute}"
                found[key] = was

    def _find_in_own(
        self,
        name: str,
        before: dict[str, t.Any],
        looked: dict[str, t.Any],
        found: Found,
        inside: set[str],
    ) -> None:
        module = sys.modules.get(name)
        if not is_imported_as(module, name) and type(module).__module__ != name:
            return  # `sys.modules[name] = None` keeps it from being imported
        own: Found = {}
        gone = looked.keys() | set()
        budget = Budget()
        for path, value, is_named in parts_of(module, before):
            gone.discard(path)
            if issubclass(type(value), types.ModuleType):
                continue  # a submodule
            if not is_named and is_data(path, value):
                differs = not is_sentinel(value)
            else:
                differs = looked.get(path, MISSING) != shown(value, is_named, budget)
            if differs:
                own[f"_{name}:{path}"] = before.get(path, MISSING)
        own |= {f"_{name}:{path}": before[path] for path in gone if gone.isdisjoint(steps_to(path))}
        found.update(own)
        inside.update(own)

    def is_as_imported(self, key: str) -> bool:
        """Whether an attribute of the user's own module shows all of itself, and that it is as its import made it."""
        name, _, path = key[1:].partition(":")
        if name not in self._own:
            return False
        now = shown(value_of(sys.modules.get(name), path), False)
        return type(now) is list and self._own[name][1].get(path) == now


def _attributes(name: str) -> dict[str, t.Any]:
    """The attributes of a module by its name, if there is one."""
    module = sys.modules.get(name)
    return vars(module) if isinstance(module, types.ModuleType) else {}


class _Looked(t.NamedTuple):
    """The last look at a library's module."""

    module: t.Any
    parts: Watched
    found: tuple[Found, set[str]]  # as `Differences.find` gives it


class _InClass(t.NamedTuple):
    """A list, dict or set that a library's class has, or its base, and what was in it."""

    cls: type
    attribute: str
    value: t.Any  # the class's own
    held: Snapshot

    @property
    def key(self) -> str:
        return f"_{self.cls.__module__}:{self.cls.__qualname__}.{self.attribute}"

    def has_changed(self) -> bool:
        """Libraries fill those with private names at any time: there what the notebook has made counts."""
        now = vars(self.cls).get(self.attribute, MISSING)
        is_other = now is not self.value
        if now is MISSING or (is_other and type(now) is not self.held.kind):
            return is_other and now is MISSING
        if self.held.is_still(now):
            return False
        return (is_other and self._is_public()) or self._is_counted(now)

    def _is_public(self) -> bool:
        return not self.attribute.startswith("_")

    def _is_counted(self, now: t.Any) -> bool:
        return _has_nobodys(now, self.held) if self._is_public() else _has_own(now, self.held)


def _computed_in(name: str, values: dict[str, t.Any]) -> dict[str, t.Any]:
    """The plain values of a module, also those behind functions without a name of their own, and lines of code."""
    found = dict(values)
    functions = dict(values)
    for path, one in values.items():
        functions.update((f"{path}.{inner}", part) for inner, part in of_method(one))
    for path, one in functions.items():
        if type(one) is types.FunctionType and not is_made_once(one, path, name):
            if one.__globals__.get("__name__") == name:
                found.update((f"{path}.{inner}", part) for inner, part in of_function(one))
    lines = {
        path: code.co_firstlineno for path, code in found.items() if type(code) is types.CodeType
    }
    return lines | {path: one for path, one in found.items() if _is_computed(path, one)}


def _report_others(name: str, paths: list[str]) -> None:
    """Code isn't taken over: a condition of the module's has chosen other code here."""
    if paths and not reloader.is_on():  # that loads modules in each process by itself
        functions = sorted({path.removesuffix(".__code__") for path in paths})
        notices.not_carried_over(f"{name}: {', '.join(functions)}", _CHOSEN)


def _is_computed(path: str, value: object) -> bool:
    """Whether it is a plain value, or the defaults of a function."""
    name = path.rpartition(".")[2]
    is_looked_at = type(value) is tuple if name == "__defaults__" else not name.startswith("__")
    return is_looked_at and is_fixed(value)


def _holders_of(cls: type) -> t.Iterator[_InClass]:
    """The lists, dicts and sets that a class has, or its bases."""
    seen: set[str] = set()  # a class may have something else in the place of its base's
    for base in cls.__mro__:
        for inner, value in vars(base).items():
            if inner not in seen and is_holder(value) and not inner.startswith("__"):
                yield _InClass(cls, inner, vars(cls).get(inner, MISSING), Snapshot(value))
        seen.update(vars(base))


def _counts_in_class(name: str, now: t.Any, was: t.Any) -> bool:
    """With a private name, which libraries set at any time, only what the user has made does."""
    if name.startswith("_"):
        return is_notebooks(now) or type(now).__module__ == "unittest.mock"
    if is_holder(now) and is_holder(was):
        return False  # see _InClass
    return now is MISSING or (_is_nobodys(now) and not equal(now, was))


def _leads_to(module: t.Any, cls: type) -> bool:
    """Whether the class is found in a module by its name."""
    return isinstance(module, types.ModuleType) and value_of(module, cls.__qualname__) is cls


def _has_nobodys(value: t.Any, held: Snapshot) -> bool:
    """Whether something was put into it, or taken from it, that no library has made."""
    return any(all(map(_is_nobodys, part)) for part in _differing(value, held))


def _has_own(value: t.Any, held: Snapshot) -> bool:
    """Whether something was put into it, or taken from it, that the notebook has made."""
    return any(is_notebooks(part[-1]) for part in _differing(value, held))


def _differing(value: t.Any, held: Snapshot) -> t.Iterator[tuple[t.Any, ...]]:
    """What was put there or is gone; of a dict with the key."""
    for key, pair in held.changes(value).items():
        for one in pair:
            if one is not MISSING:
                yield (key, one) if held.kind is dict else (one,)


def _imported_by(node: ast.Import | ast.ImportFrom) -> t.Iterator[str]:
    """The modules that a statement of the notebook's imports."""
    for part in node.names:
        name = part.name if isinstance(node, ast.Import) else node.module
        if name and not getattr(node, "level", 0):
            yield from _steps(name)


def _name_of(node: ast.AST | None) -> str:
    """Of a name or an attribute that code asks for."""
    return getattr(node, "attr", getattr(node, "id", ""))


def _steps(name: str) -> t.Iterator[str]:
    """A module and the packages that it is in, the outermost first."""
    steps = name.split(".")
    return (".".join(steps[: count + 1]) for count in range(len(steps)))


def _is_nobodys(value: object) -> bool:
    """Whether no library has made it, which may set its own attributes at any time."""
    kind = type(value)
    if kind is tuple and any(map(is_notebooks, value)):  # type: ignore[call-overload]
        return True
    return (
        is_notebooks(value)
        or is_plain(value)
        or kind.__module__ == "unittest.mock"
        or kind in IN_MEMORY
    )
