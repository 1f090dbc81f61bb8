"""Carries attributes that the notebook gives to IPython's shell, to its parts and to their classes.

They are slots (kept.py). `get_ipython().state = {}` keeps a value where all cells find it. An attribute is
the notebook's if the shell hadn't it when the process began, and neither IPython nor an extension has put it
there. The same holds for public attributes of the shell's parts (`get_ipython().display_pub.publish = f`). Of
the classes, attributes count that the notebook's code has made, and plain values.
"""

from __future__ import annotations

import functools
import opcode
import operator
import sys
import types
import typing as t

from holdfast._patches import MISSING, Slot, of_slots

from .attributes import DATA, is_notebooks, is_plain, own_modules

Attributes = dict[str, t.Any]

# IPython sets them later on, without a trait.
_OF_IPYTHON = frozenset(
    "_atexit_once_called _data_pub _db _last_input_line _saved_rcParams active_eventloop custom_completers"
    " default_runner pylab_gui_select rl_next_input".split()
)
_OF_A_KERNEL = frozenset(("holdfast", "IPython", "ipykernel", "traitlets", "jupyter_client"))
_PARTS = (
    "kernel events display_pub displayhook display_formatter magics_manager history_manager".split()
)
_ANYBODYS = frozenset(("builtins", "__main__")) | DATA | sys.stdlib_module_names


def of_classes(shell: t.Any) -> Slot:
    kind: t.Any = type(shell)
    _set_by(kind)  # in the fork server, so that its forks know it
    classes = kind.__mro__[:-1]
    of_slots.update(map(id, classes))
    return _OfClasses(classes).slot()


def of_shell(shell: t.Any) -> Slot:
    """The slot of this process's shell: the fork server's shell has fewer attributes."""
    return _OfObject(shell, shell).slot()


def of_parts(shell: t.Any) -> Slot:
    """The slot of the shell's parts in this process."""
    parts = {name: getattr(shell, name, None) for name in _PARTS}
    objects = {name: _OfObject(shell, part) for name, part in parts.items() if part is not None}

    def read() -> t.Any:
        found = {name: one.public() for name, one in objects.items()}
        return {name: mine for name, mine in found.items() if mine} or MISSING

    def write(new: t.Any) -> None:
        for name, one in objects.items():
            one.set_public({} if new is MISSING else new.get(name, {}))

    return Slot("IPython", read, write)


class _OfObject:
    """The attributes of the shell itself, or of one of its parts."""

    def __init__(self, shell: t.Any, owner: t.Any):
        self._shell, self._owner = shell, owner
        self._begun = frozenset(vars(owner))

    def slot(self) -> Slot:
        return Slot("IPython", lambda: self._mine() or MISSING, self._write)

    def _mine(self) -> Attributes:
        attributes = vars(self._owner)
        new = attributes.keys() - self._begun - _OF_IPYTHON
        kind: t.Any = type(self._owner)
        if new:
            new -= _set_by(kind)
        return {name: attributes[name] for name in sorted(new) if self._is_mine(name)}

    def _is_mine(self, name: str) -> bool:
        if hasattr(type(getattr(type(self._owner), name, None)), "__set__"):
            return False  # as a trait keeps it
        value = vars(self._owner)[name]
        if all(map(self._may_be_mine, {_home(value), _home(type(value))})):
            return True
        return any(value is one for one in list(self._shell.user_ns.values()))

    def _may_be_mine(self, home: str) -> bool:
        """Whether things of a module's are the notebook's own to set, which no extension is."""
        package = home.partition(".")[0]
        if home in self._shell.extension_manager.loaded or package in _OF_A_KERNEL:
            return False
        return package in _ANYBODYS or home in own_modules()

    def _write(self, new: t.Any) -> None:
        self._set(self._mine(), {} if new is MISSING else new)

    def public(self) -> Attributes:
        """The attributes whose names aren't private."""
        if len(vars(self._owner)) == len(self._begun):
            return {}
        return {name: value for name, value in self._mine().items() if name[0] != "_"}

    def set_public(self, wanted: Attributes) -> None:
        self._set(self.public(), wanted)

    def _set(self, now: Attributes, wanted: Attributes) -> None:
        attributes = vars(self._owner)
        for name in now.keys() - wanted.keys():
            del attributes[name]
        attributes.update(wanted)


class _OfClasses:
    """The attributes of its classes, by their places, and what they had when the process began."""

    def __init__(self, classes: t.Sequence[type]):
        self._classes = classes
        self._begun = [dict(vars(cls)) for cls in classes]

    def slot(self) -> Slot:
        return Slot("IPython", self._read, self._write)

    def _read(self) -> t.Any:
        found = {place: self._mine(place) for place in range(len(self._classes))}
        return {place: mine for place, mine in found.items() if mine} or MISSING

    def _mine(self, place: int) -> Attributes:
        now, begun = dict(vars(self._classes[place])), self._begun[place]
        if len(now) == len(begun) and all(map(operator.is_, now.values(), begun.values())):
            return {}
        return {
            name: value
            for name, value in now.items()
            if value is not begun.get(name, MISSING) and _is_made(value)
        }

    def _write(self, new: t.Any) -> None:
        for place, cls in enumerate(self._classes):
            wanted = {} if new is MISSING else new.get(place, {})
            for name in self._mine(place).keys() - wanted.keys():
                if name in self._begun[place]:
                    type.__setattr__(cls, name, self._begun[place][name])
                else:
                    type.__delattr__(cls, name)
            for name, value in wanted.items():
                if vars(cls).get(name, MISSING) is not value:
                    type.__setattr__(cls, name, value)


@functools.cache
def _set_by(kind: type) -> frozenset[str]:
    """The attributes that code of the shell's own classes sets, at any time."""
    found: set[str] = set()
    functions = [one for cls in kind.__mro__[:-1] for one in vars(cls).values()]
    work = [one.__code__ for one in functions if type(one) is types.FunctionType]
    store, extend = opcode.opmap["STORE_ATTR"], opcode.opmap["EXTENDED_ARG"]
    for code in work:  # which grows
        high = 0
        for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
            if operation == store:
                found.add(code.co_names[high | low])
            high = (high | low) << 8 if operation == extend else 0
        work += [one for one in code.co_consts if type(one) is types.CodeType]
    return frozenset(found)


def _is_made(value: t.Any) -> bool:
    """Whether the notebook has made what a class has, or the function in it."""
    inner = getattr(value, "fget", None) or getattr(value, "__func__", None)
    return is_notebooks(value) or is_notebooks(inner) or is_plain(value)


def _home(value: t.Any) -> str:
    """The module that it was made in; "builtins" if nothing says so."""
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else "builtins"
