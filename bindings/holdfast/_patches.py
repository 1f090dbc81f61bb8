"""Attributes that the notebook sets on modules, and on what is in them.

`json.indent = 2`, `pd.DataFrame.top = top`, `torch.backends.cudnn.benchmark = True` change no
variable, and are as much the notebook's state as one. Here each is one: a name of the namespace that
no code can say (`_json:indent`), whose value is what the attribute was set to. So it travels,
is grouped with what it shares, is declined, undone and saved as variables are, and a function of the
notebook is carried as one. It is in the namespace while variables are saved or bound, and not when
the notebook's code may look.

Which attributes to look at, the code tells: `see` reads the targets of assignments, `del`,
`setattr` and `delattr` off a cell before it runs, also inside of functions, and what the attribute
is then, before the notebook sets it, is remembered. To compare all attributes of all modules
was rejected: libraries set their own all the time, and those are nobody's to carry. What is set
without showing it, such as through `vars(module)`, stays where it was set (ARCHITECTURE.md).

An original that was replaced is pickled as a reference to it: by its name it would be what replaced
it.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
import typing as t

Chain = tuple[str, ...]  # a name, and attributes from there

_NOT = frozenset(("__main__", "builtins", "sys", "IPython", "ipykernel", "holdfast", "traitlets"))
_SETS = frozenset(("setattr", "delattr"))
_ATOMS = (bool, int, float, complex, str, bytes, type(None))


class Deleted:
    """The value of a patch that took an attribute away."""


_MISSING: t.Any = object()


class Patches:
    """The attributes that one process's notebook sets.

    Parameters
    ----------
    namespace : dict
        The notebook's variables.
    """

    def __init__(self, namespace: dict[str, t.Any]):
        global current
        self._namespace = namespace
        self._before: dict[str, t.Any] = {}  # what the attribute was, by its key
        self._pending: set[Chain] = set()  # whose module isn't imported yet
        self.keys_of: dict[int, str] = {}  # of originals that could be pickled by name, by id
        current = self

    def keys(self) -> list[str]:
        """The attributes that are looked at."""
        return sorted(self._before)

    # ---- which attributes

    def see(self, nodes: t.Iterable[ast.AST]) -> None:
        """A cell of these statements is about to run."""
        found = {chain for node in nodes for chain in _targets(node)}
        self._pending.update(chain for chain in found if chain[0] not in _NOT)
        self.resolve()

    def resolve(self) -> None:
        """A statement is about to run: modules may have been imported by those before."""
        if not self._pending:
            return
        for chain in list(self._pending):
            root = self._namespace.get(chain[0], _MISSING)
            if root is _MISSING:
                continue  # until something has that name
            key = _key(root, chain[1:])
            if key is not None:
                self._pending.discard(chain)
                if key:
                    self._watch(key)

    def watch(self, keys: t.Iterable[str]) -> None:
        """Look at these, which another process of the notebook's does."""
        for key in keys:
            if key not in self._before and _owner(key, sys.modules.get) is not None:
                self._watch(key)

    def _watch(self, key: str) -> None:
        owner = _owner(key, sys.modules.get)
        if key in self._before or owner is None:
            return
        before = self._before[key] = _read(*owner)
        if hasattr(before, "__qualname__"):
            self.keys_of[id(before)] = key

    def original(self, key: str) -> t.Any:
        """What the attribute was before the notebook set it."""
        self._watch(key)
        return self._before[key]

    # ---- between the modules and the namespace

    def collect(self) -> None:
        """Give the namespace what the attributes are now."""
        for key, before in self._before.items():
            owner = _owner(key, sys.modules.get)
            now = before if owner is None else _read(*owner)
            if _same(now, before):
                self._namespace.pop(key, None)
            else:
                now = Deleted if now is _MISSING else now
                if not _same(self._namespace.get(key, _MISSING), now):
                    self._namespace[key] = now

    def apply(self, names: t.Iterable[str]) -> None:
        """Make the attributes what the namespace says, for those of these names that are any."""
        for key in filter(is_patch, names):
            try:
                self._apply(key)
            except Exception as error:  # what refuses it here costs one attribute, not the cell
                print(f"holdfast: {key[1:]} couldn't be carried over: {error}", file=sys.stderr)
        self.withdraw()

    def withdraw(self) -> None:
        """Take out of the namespace what `collect` would give it again."""
        for key in self._before:
            self._namespace.pop(key, None)

    def _apply(self, key: str) -> None:
        owner = _owner(key, importlib.import_module)
        if owner is None:
            raise ImportError("there is no such thing here")
        self._watch(key)
        value = self._namespace.get(key, self._before[key])
        now = _read(*owner)
        if value is _MISSING or value is Deleted:
            if now is not _MISSING:
                delattr(*owner)
        elif not _same(value, now):
            setattr(*owner, value)


current: Patches | None = None


def is_patch(name: str) -> bool:
    """Whether a name of the namespace stands for an attribute."""
    return name.startswith("_") and ":" in name


def reduce(value: object) -> t.Any:
    """How an original is pickled, or None where the value is none."""
    key = None if current is None else current.keys_of.get(id(value))
    return None if key is None else (find_original, (key,))


def find_original(key: str) -> t.Any:
    """What the attribute was before the notebook set it."""
    if current is None:
        module, path = key[1:].split(":")
        owner = _owner(key, importlib.import_module)
        if owner is None:
            raise ImportError(f"{module} has no {path}")
        return _read(*owner)
    return current.original(key)


# ---- what code sets


def _targets(node: ast.AST) -> t.Iterator[Chain]:
    """The chains that end in an attribute that the code sets or deletes."""
    for one in ast.walk(node):
        chain = None
        if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load):
            chain = _chain(one)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _SETS:
            name = one.args[1] if len(one.args) > 1 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                before = _chain(one.args[0])
                chain = None if before is None else (*before, name.value)
        if chain is not None:
            yield chain


def _chain(node: ast.AST) -> Chain | None:
    steps: list[str] = []
    while isinstance(node, ast.Attribute):
        steps.append(node.attr)
        node = node.value
    return (node.id, *reversed(steps)) if isinstance(node, ast.Name) else None


# ---- where an attribute is


def _key(root: object, steps: Chain) -> str | None:
    """The key of an attribute behind a variable; "" where it is none of a module's, None where it
    can't be found yet."""
    value: t.Any = root
    if isinstance(root, types.ModuleType):
        module, path = root.__name__, []
    elif isinstance(root, type) and root.__module__ not in _NOT:
        module, path = root.__module__, root.__qualname__.split(".")
    else:
        return ""
    for step in steps[:-1]:
        value = _read(value, step)
        if value is _MISSING:
            return None
        if isinstance(value, types.ModuleType):
            module, path = value.__name__, []
        else:
            path.append(step)
    key = "_" + module + ":" + ".".join((*path, steps[-1]))
    owner = _owner(key, sys.modules.get)
    found = owner is not None and owner[0] is value and module.partition(".")[0] not in _NOT
    return key if found else ""


def _owner(key: str, find: t.Callable[[str], t.Any]) -> tuple[t.Any, str] | None:
    """Whose attribute a key is, and its name."""
    module, _, path = key[1:].partition(":")
    *steps, name = path.split(".")
    value = find(module)
    for step in steps:
        value = _read(value, step)
    return None if value is None or value is _MISSING else (value, name)


def _read(owner: t.Any, name: str) -> t.Any:
    """An attribute, without what a module or a class computes when it is asked for one."""
    try:
        attributes = vars(owner)
    except TypeError:
        attributes = {}
    if name in attributes:
        return attributes[name]
    if isinstance(owner, type):
        return _MISSING
    kind = type(owner)
    if hasattr(kind, name) or (kind.__module__ != "builtins" and hasattr(kind, "__getattr__")):
        try:
            return getattr(owner, name, _MISSING)
        except Exception:  # a property's own, which the cell will meet if it asks
            return _MISSING
    return _MISSING


def _same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, _ATOMS) and one == other)
