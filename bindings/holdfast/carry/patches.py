"""Carries attributes that the notebook sets on modules, and on objects in them.

`json.indent = 2`, `pd.DataFrame.top = top` and `torch.backends.cudnn.benchmark = True` change no variable,
but they are the notebook's state, too. So each is a *patch*: a name of the namespace that no code can use
(`_json:indent`), with the attribute's value. A patch is grouped, undone and saved as a variable is, and may
be unserializable. It is in the namespace only while variables are saved or bound, when no code of the notebook
runs.

The code shows which attributes to look at. Before a cell runs, `see` reads the targets of assignments, `del`,
`setattr` and `delattr`, also inside of functions, and keeps the value that the attribute has before. The code may
set an attribute without showing it, as through `vars(module)`. Such an attribute is found by comparison
(worker/settings/differences.py), in modules that a variable of the notebook refers to.

If the notebook replaces a function or class of a module, the original may still be a value. It is pickled as
a reference to the original: a reference by its name would give the replacement.

A module that isn't imported in a process gets its attributes when it is imported. To import it just for them
could run code that the notebook never needs. Until then they are passed on as they came.

Some state is behind functions instead of in attributes (`np.set_printoptions(formatter=...)`, a logger's
handlers). It is a `Slot`: the worker gives the functions that read and set it. Otherwise it is like a patch.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
import typing as t

from holdfast.base import sentences
from holdfast.base.after_import import Waiting

Chain = tuple[str, ...]  # a name, and attributes from there

_NOT = frozenset(("__main__", "builtins", "sys", "holdfast"))
_SETS = frozenset(("setattr", "delattr"))
_HOLDERS = (list, dict, set)
_PLAINLY = (
    "__setitem__ __delitem__ __iter__ __len__ __contains__ keys values items update clear".split()
)
_ATOMS = (bool, int, float, complex, str, bytes, type(None))


class Deleted:
    """The value of a patch that took an attribute away."""


MISSING: t.Any = object()
_NAME_MAX = 1024  # bytes of a key in the store
_SLOT = "_:"  # and a name: the key of a slot


class Slot(t.NamedTuple):
    """A setting whose value may refer to objects of the notebook.

    `read` returns MISSING while the setting is as the process began with it. A list or dict that it
    returns is a new one each time. `write` sets the value; MISSING sets what the process began
    with. Both are called only if `module` is imported.
    """

    module: str
    read: t.Callable[[], t.Any]
    write: t.Callable[[t.Any], None]


class Patches:
    """The attributes that one process's notebook sets.

    Parameters
    ----------
    namespace : dict
        The notebook's variables.
    slots : mapping of str to Slot
        Settings behind functions, by name.
    differences : Differences, optional
        Finds attributes that were set without showing it.
    """

    def __init__(
        self,
        namespace: dict[str, t.Any],
        slots: t.Mapping[str, Slot] = types.MappingProxyType({}),
        differences: t.Any = None,
    ):
        global current
        self._namespace = namespace
        self._differences = differences
        self._changeable: set[str] = set()  # keys whose value may be the same object, changed
        self._slots = {_SLOT + name: slot for name, slot in slots.items()}
        self._before: dict[str, t.Any] = {}  # by key: the attribute's value before it was set
        # Targets whose module isn't imported yet, by their first name.
        self._pending: dict[str, set[Chain]] = {}
        # Keys and values of modules that aren't imported yet: other processes look at these keys.
        self._wanted = Waiting(self._watch_wanted, _module)
        self._waiting = Waiting(self._try, self._module_of)
        self._last: dict[str, t.Any] = {}  # the slots' last values
        # Whether a name is among `_slots` now.
        self.find_slot: t.Callable[[str], bool] = lambda name: False
        self.keys_of: dict[int, str] = {}  # by id: keys of originals that pickle by their name
        current = self

    def add(self, slots: t.Mapping[str, Slot]) -> None:
        """Add slots."""
        self._slots |= {_SLOT + name: slot for name, slot in slots.items()}

    def remove(self, slot: str) -> None:
        """Remove a slot."""
        self._slots.pop(_SLOT + slot, None)

    def _is_slot(self, key: str) -> bool:
        return key in self._slots or (
            key.startswith(_SLOT) and self.find_slot(key.removeprefix(_SLOT))
        )

    def keys(self) -> list[str]:
        """The keys of all attributes and slots that are looked at."""
        return sorted(
            self._before.keys()
            | self._wanted.values.keys()
            | self._waiting.values.keys()
            | self._slots.keys()
        )

    def submodules(self) -> list[str]:
        """The modules inside of packages of the user's own."""
        return [] if self._differences is None else self._differences.submodules()

    def drop_imported(self, unserializable: dict[str, str]) -> None:
        """Drop attributes that another process has in the same way, since it imports the same
        modules."""
        if self._differences is not None:
            for key in [key for key in unserializable if is_patch(key)]:
                if self._differences.is_as_imported(key):
                    del unserializable[key]

    # ---- which attributes

    def see(self, nodes: t.Iterable[ast.AST]) -> None:
        """A cell with these statements is about to run: note the attributes that they set."""
        everything = _all_nodes(nodes)
        if self._differences is not None:
            self._differences.see(everything)
        for chain in _targets(everything):
            if chain[0] not in _NOT:
                self._pending.setdefault(chain[0], set()).add(chain)
        self.resolve()

    def resolve(self) -> None:
        """A statement is about to run: look for the modules that those before may have imported."""
        if self._differences is not None:
            self._differences.resolve()
        for name in self._pending.keys() & self._namespace.keys():
            for chain in self._pending.pop(name):
                key = _key(self._namespace[name], chain[1:])
                if key is None:
                    self._pending.setdefault(name, set()).add(chain)
                elif key:
                    self._watch(key)

    def watch(self, keys: t.Iterable[str]) -> None:
        """Look at these keys, too, since another process of the notebook does."""
        for key in keys:
            if not self._is_slot(key) and not key.startswith(_SLOT):
                if key not in self._before:
                    self._wanted.set(key, None)

    def _watch_wanted(self, key: str, nothing: None = None) -> None:
        self._watch(key)
        if key not in self._before:  # there is no such attribute yet
            self._wanted.values[key] = None

    def _owner(self, key: str) -> tuple[t.Any, str] | None:
        if self._differences is not None:
            if self._differences.is_replaced(_module(key)):
                return None
            if self._differences.is_own(key):
                return self._differences.owner(key)
        return _owner(key, sys.modules.get)

    def _watch(self, key: str) -> None:
        owner = self._owner(key)
        if key in self._before or owner is None:
            return
        self._note(key, _read(*owner))

    def _note(self, key: str, before: t.Any) -> None:
        """Keep the value that the attribute had before."""
        if key in self._before:
            return
        self._wanted.values.pop(key, None)
        self._before[key] = before
        if hasattr(before, "__qualname__") or type(before) is property:
            self.keys_of[id(before)] = key

    def original(self, key: str) -> t.Any:
        """The attribute's value before the notebook set it."""
        importlib.import_module(_module(key))
        if (made := self._made(key)) is not MISSING:
            return made
        self._watch(key)
        return self._before[key]

    def key_of(self, value: t.Any) -> str | None:
        """The key of an original, if another process has the same one. Of the objects in a module
        of the user's own only its classes and functions are the same there."""
        key = self.keys_of.get(id(value))
        if key is None or self._differences is None or not self._differences.is_own(key):
            return key
        return key if self._made(key) is value else None

    def replaces(self, value: t.Any) -> bool:
        """Whether the notebook has put a function under the name by which it is found."""
        key = f"_{value.__module__}:{getattr(value, '__qualname__', '')}"
        if key not in self._before:
            return False
        made = self._made(key)
        return (self._before[key] if made is MISSING else made) is not value

    def _made(self, key: str) -> t.Any:
        return MISSING if self._differences is None else self._differences.made(key)

    # ---- between the modules and the namespace

    def collect(self) -> None:
        """Put the current values of attributes and slots into the namespace."""
        self._find_differences()
        self._namespace.update(self._waiting.values)
        for key, before in list(self._before.items()):  # to read may import, which adds some
            owner = self._owner(key)
            now = before if owner is None else _read(*owner)
            if same(now, before) and key not in self._changeable:
                self._namespace.pop(key, None)
            else:
                self._give(key, Deleted if now is MISSING else now)
        for key, slot in list(self._slots.items()):
            if key not in self._waiting.values:
                self._collect_slot(key, slot)

    def last(self, key: str) -> t.Any:
        """The value of a slot that `collect` gave last. MISSING if it gave none."""
        if key in self._slots:
            return self._last.get(key, MISSING)
        owner = self._owner(key)
        return MISSING if owner is None else _read(*owner)

    def _find_differences(self) -> None:
        if self._differences is not None:
            found, inside = self._differences.find()
            self._changeable |= inside
            for key, before in found.items():
                if key not in self._waiting.values:
                    self._note(key, before)

    def _collect_slot(self, key: str, slot: Slot) -> None:
        try:
            now = slot.read() if slot.module in sys.modules else MISSING
        except Exception as error:
            sentences.say(f"{shown(key)} can't be read: {error}")
            now = self._last.get(key, MISSING)
        if now is MISSING:
            self._namespace.pop(key, None)
            self._last.pop(key, None)
            return
        if equal(now, self._last.get(key, MISSING)):
            now = self._last[key]  # the very object that was saved
        self._last[key] = now
        self._give(key, now)

    def _give(self, key: str, value: t.Any) -> None:
        if not same(self._namespace.get(key, MISSING), value):
            self._namespace[key] = value

    def apply(self, names: t.Iterable[str]) -> None:
        """Set those of these names that stand for attributes, as the namespace has them. Slots come
        first: a property may look at what they hold when it is set."""
        for key in sorted(filter(is_patch, names), key=lambda key: not self._is_slot(key)):
            module = self._module_of(key)
            if not module and key in self._namespace:
                sentences.say(f"{shown(key)} couldn't be carried over: it isn't known here")
            elif module in sys.modules or key in self._namespace:
                self._waiting.set(key, self._namespace.get(key, MISSING))
            else:
                self._waiting.values.pop(key, None)
        self.withdraw()

    def bind_slot(self, slot: str, bind: t.Callable[[str], object]) -> None:
        """Set this slot before other names are bound, since these may need it."""
        key = _SLOT + slot
        bind(key)
        if key in self._namespace:
            self.apply([key])

    def withdraw(self) -> None:
        """Take out of the namespace what `collect` puts in."""
        for key in self.keys():
            self._namespace.pop(key, None)

    def _module_of(self, key: str) -> str:
        return self._slots[key].module if key in self._slots else _module(key)

    def _try(self, key: str, value: t.Any) -> None:
        try:
            if key in self._slots:
                self._slots[key].write(value)
            else:
                self._set(key, value)
        except Exception as error:  # an error here costs one attribute, not the cell
            sentences.say(sentences.not_carried_over(shown(key), error))

    def _set(self, key: str, value: t.Any) -> None:
        owner = self._owner(key)
        if owner is None:
            raise ImportError("this process has no such object")
        self._watch(key)
        is_own = self._differences is not None and self._differences.is_own(key)
        if value is MISSING:
            value = self._before[key]
        elif is_own:
            # The key is collected from now on, even if it equals the value before.
            self._changeable.add(key)
        now = _read(*owner)
        if value is MISSING or value is Deleted:
            if now is not MISSING:
                delattr(*owner)
        elif same(value, now):
            return
        elif (
            now is self._before[key] and type(now) is type(value) and is_holder(now) and not is_own
        ):
            self._changeable.add(key)
            self._refill(now, value)
        else:
            setattr(*owner, value)

    def _refill(self, holder: t.Any, value: t.Any) -> None:
        """Put the contents into the library's own list, dict or set: the library may refer to it by
        other names."""
        contents = copy_of(value)
        holder.clear()
        (holder.extend if isinstance(holder, list) else holder.update)(contents)
        for name in [name for name, one in self._namespace.items() if one is value]:
            self._namespace[name] = holder


current: Patches | None = None


def is_holder(value: object) -> bool:
    """Whether a value is a list, dict or set that has nothing but its contents, or a dict with more
    methods (`matplotlib.units.registry`)."""
    kind = type(value)
    if kind in _HOLDERS:
        return True
    return issubclass(kind, dict) and all(
        getattr(kind, name) is getattr(dict, name) for name in _PLAINLY
    )


def copy_of(holder: t.Any) -> t.Any:
    """Return the contents as a plain list, dict or set."""
    return dict.copy(holder) if isinstance(holder, dict) else holder.copy()


def is_plain(value: t.Any) -> bool:
    """Whether it is data alone, of which a copy is as good: a number, a text and the like, or a container of these."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(is_plain, value))
    if kind is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    return kind in _ATOMS


def is_kept(name: str) -> bool:
    """Whether the store can have it as a key."""
    try:
        return 0 < len(name.encode()) <= _NAME_MAX and name[0] > "\1"
    except UnicodeEncodeError:
        return False


def is_patch(name: object) -> bool:
    """Whether a name of the namespace stands for an attribute or slot."""
    return isinstance(name, str) and name.startswith("_") and ":" in name


def shown(key: str) -> str:
    """A name of the namespace as the user would write it."""
    return key[1:].removeprefix(":") if is_patch(key) else key


def reduce(value: object) -> t.Any:
    """How an original is pickled. None if the value isn't one."""
    key = None if current is None else current.key_of(value)
    return None if key is None else (find_original, (key,))


def replaces(value: object) -> bool:
    """Whether a function has its name because the notebook has put it in the place of another
    one."""
    return current is not None and current.replaces(value)


def find_original(key: str) -> t.Any:
    """The attribute's value before the notebook set it."""
    if current is None:
        module, path = key[1:].split(":")
        owner = _owner(key, importlib.import_module)
        if owner is None:
            raise ImportError(f"{module} has no {path}")
        return _read(*owner)
    return current.original(key)


# ---- what code sets


def _all_nodes(trees: t.Iterable[ast.AST]) -> list[ast.AST]:
    """These and all below them, as ast.walk has them: that calls three functions for each."""
    found = list(trees)
    for node in found:  # which grows
        for name in node._fields:
            part = getattr(node, name, None)
            if isinstance(part, ast.AST):
                found.append(part)
            elif isinstance(part, list):
                found.extend([one for one in part if isinstance(one, ast.AST)])
    return found


def _targets(nodes: t.Iterable[ast.AST]) -> t.Iterator[Chain]:
    """The attributes that the code sets or deletes: a name and the attributes from there."""
    for one in nodes:
        chain = None
        if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load):
            chain = chain_of(one)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _SETS:
            name = one.args[1] if len(one.args) > 1 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                before = chain_of(one.args[0])
                chain = None if before is None else (*before, name.value)
        if chain is not None:
            yield chain


def chain_of(node: ast.AST) -> Chain | None:
    """The name and the attributes of an expression such as `a.b.c`. None for any other
    expression."""
    steps: list[str] = []
    while isinstance(node, ast.Attribute):
        steps.append(node.attr)
        node = node.value
    return (node.id, *reversed(steps)) if isinstance(node, ast.Name) else None


# ---- where an attribute is


def _key(root: object, steps: Chain) -> str | None:
    """The key of an attribute that code reaches by a variable. "" if it isn't an attribute of a
    module, None if it can't be found yet."""
    value: t.Any = root
    if isinstance(root, types.ModuleType):
        module, path = root.__name__, []
    elif isinstance(root, type) and root.__module__ not in _NOT:
        module, path = root.__module__, root.__qualname__.split(".")
    else:
        return ""
    for step in steps[:-1]:
        value = _read(value, step)
        if value is MISSING:
            return None
        if isinstance(value, types.ModuleType):
            module, path = value.__name__, []
        else:
            path.append(step)
    key = "_" + module + ":" + ".".join((*path, steps[-1]))
    owner = _owner(key, sys.modules.get)
    found = owner is not None and owner[0] is value and module.partition(".")[0] not in _NOT
    return key if found else ""


def _module(key: str) -> str:
    return key[1:].partition(":")[0]


def _owner(key: str, find: t.Callable[[str], t.Any]) -> tuple[t.Any, str] | None:
    """Find the object that has the attribute of this key, and the attribute's name."""
    return owner_of(find(_module(key)), key.partition(":")[2])


def owner_of(value: t.Any, path: str) -> tuple[t.Any, str] | None:
    """The same, from the value at which the path begins."""
    *steps, name = path.split(".")
    for step in steps:
        value = _read(value, step)
    return None if value is None or value is MISSING else (value, name)


def _read(owner: t.Any, name: str) -> t.Any:
    """Read an attribute, or an item of a tuple. What a module or a class computes when it is asked
    isn't read."""
    if type(owner) is tuple:  # the cells of a function
        return owner[int(name)] if name.isdigit() and int(name) < len(owner) else MISSING
    try:
        attributes = vars(owner)
    except TypeError:
        attributes = {}
    if name in attributes:
        return attributes[name]
    if isinstance(owner, type):
        return MISSING
    kind = type(owner)
    is_of_kind = any(name in vars(base) for base in kind.__mro__)
    if is_of_kind or (kind.__module__ != "builtins" and hasattr(kind, "__getattr__")):
        try:
            return getattr(owner, name, MISSING)
        except Exception:  # a property's error, which the cell gets, too, if it asks
            return MISSING
    return MISSING


def same(one: object, other: object) -> bool:
    """Whether both are the same object, or equal numbers, texts and the like."""
    if one is other or type(one) is not type(other) or not isinstance(one, _ATOMS):
        return one is other
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)  # -0.0 differs from 0.0
    return one == other


def equal(one: t.Any, other: t.Any) -> bool:
    """Whether lists and dicts have the same objects in the same places."""
    if one is other:
        return True
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(equal, one.values(), other.values()))
    return same(one, other)
