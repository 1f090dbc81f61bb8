"""Carries the state of a process that is no variable, between the main worker and its cells.

A cell sees more than its variables: the environment, the working directory, where imports are looked up, the
random generators, the umask, what IPython has loaded, how numbers, tracebacks and figures are shown. This
state is captured with each commit, applied in a cell worker before its cell, and adopted by the main worker
if the cell changed it. All of this comes before names are bound, since decoding imports modules. State that
refers to values of the notebook (a warning's class, a log handler) is in the namespace instead, as names are
(slots.py).

Each setting is encoded, decoded and set by itself, in the order of `_SETTINGS`. `sys.path`, and the modules
that it doesn't lead to, come before what is pickled by reference. A setting that fails costs no other one: it
stays as it is in the other process, and is reported once, by the process that finds out; `losses` goes with
the rest.

Only what differs is applied, key by key. So if a thread of the main worker sets an environment variable while
a cell runs elsewhere, it stays set. `sys.path` is set as a whole. State of one process (its pid in a
variable, open descriptors) stays there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import os
import pathlib
import pickle
import random
import sys
import typing as t

from holdfast.base.after_import import call_once_imported
from holdfast.scorep import messages

from .. import imports, notices
from .plain_settings import plain_settings
from .counters import counters
from .module_files import module_files, working_directory
from .own_code import own_code

State = dict[str, t.Any]
Packed = dict[str, bytes]


class Setting(t.NamedTuple):
    """How one is read (None if nobody can have set it) and set: to the first value, where another
    capture had the second, or None. Setting it gives a true value if that may have changed others."""

    capture: t.Callable[[t.Any], t.Any]
    apply: t.Callable[[t.Any, t.Any, t.Any], object]


class Losses:
    """State that couldn't be carried: why, by name, and of which the user knows."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}  # found where nobody would read it
        self.known: set[str] = set()

    def note(self, name: str, reason: object) -> None:
        """The next cell is to report it."""
        if name not in self.known:
            self.waiting[name] = str(reason)

    def report(self, name: str, reason: object) -> None:
        """Report it now, unless the user knows."""
        if name not in self.known:
            self.known.add(name)
            notices.not_carried_over(name, reason)

    def capture(self, shell: t.Any) -> t.Any:
        return dict(self.waiting), sorted(self.known)

    def apply(self, new: t.Any, old: t.Any, shell: t.Any) -> None:
        waiting, known = new
        self.known.update(known)
        for name, reason in waiting.items():
            self.report(name, reason)
        for name in self.known & self.waiting.keys():
            del self.waiting[name]


losses = Losses()


def capture(shell: t.Any) -> State:
    """This process's state, without what can't be read."""
    state: State = {}
    for key, setting in _SETTINGS.items():
        try:
            value = setting.capture(shell)
        except Exception as error:
            losses.note(_shown(key), error)
        else:
            if value is not None:
                state[key] = value
    return state


def pack(state: State) -> Packed:
    """The result of `capture`, to be stored: each setting encoded by itself."""
    packed: Packed = {}
    for key, value in state.items():
        try:
            packed[key] = pickle.dumps(value, protocol=5)
        except Exception as error:
            losses.note(_shown(key), error)
    if losses.waiting:
        packed["losses"] = pickle.dumps(losses.capture(None), protocol=5)
    return packed


def apply(
    new: t.Mapping[str, bytes] | None,
    old: State,
    shell: t.Any,
    keys: t.Container[str] | None = None,
) -> list[str]:
    """Set in this process what differs between a packed state and another; the keys that did.

    A setting that can't be set (a directory that was removed) is reported on stderr and left.
    """
    changed = []
    for key, setting in _SETTINGS.items():
        if not new or key not in new or (keys is not None and key not in keys):
            continue
        try:
            value = pickle.loads(new[key])  # noqa: S301 - what `pack` wrote
            if key in old and value == old[key]:
                continue
            changed.append(key)
            if setting.apply(value, old.get(key), shell):
                return changed + apply(new, capture(shell), shell, keys)
        except Exception as error:
            losses.report(_shown(key), error)
    return changed


def _shown(key: str) -> str:
    return key.replace("_", " ")


# ---- the settings

_PATH_TYPES = str, bytes, int, float, type(None), pathlib.PurePath


def _environment(shell: t.Any) -> dict[bytes, bytes]:
    """The environment as the system has it: to decode every variable takes long."""
    return dict(os.environb._data)  # type: ignore[attr-defined]


def _set_environment(new: dict[bytes, bytes], old: dict[bytes, bytes] | None, shell: t.Any) -> None:
    for name, value in new.items():
        if old is None or old.get(name) != value:
            os.environb[name] = value
    for name in old or ():
        if name not in new:
            os.environb.pop(name, None)


def _set_directory(new: str, old: str | None, shell: t.Any) -> None:
    if new:
        os.chdir(new)


def _path(shell: t.Any) -> list[t.Any]:
    """Imports pass over entries that aren't text."""
    return [entry for entry in sys.path if isinstance(entry, _PATH_TYPES)]


def _set_path(new: list, old: list | None, shell: t.Any) -> None:
    sys.path[:] = new


def _set_random(new: tuple, old: tuple | None, shell: t.Any) -> None:
    random.setstate(new)


def _umask(shell: t.Any) -> int:
    """The umask. Asked for by os.umask() it would be another one for a moment, and so would
    the mode of a file that another thread makes then.
    """
    if sys.platform == "linux":
        with io.open("/proc/self/status", "rb", buffering=0) as file:
            _, found, rest = file.read(4096).partition(b"\nUmask:")
        if found:
            return int(rest.split(None, 1)[0], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _set_umask(new: int, old: int | None, shell: t.Any) -> None:
    os.umask(new)


_OF_IPYTHON = "IPython.extensions."


def _extensions(shell: t.Any) -> list[str]:
    """By the names that the notebook gave: `%load_ext autoreload` loads a module of IPython's."""
    from IPython.core.extensions import BUILTINS_EXTS

    found = sorted(shell.extension_manager.loaded)
    short = [name.removeprefix(_OF_IPYTHON) for name in found]
    return [
        less if BUILTINS_EXTS.get(less) else name for less, name in zip(short, found, strict=True)
    ]


def _set_extensions(new: list, old: list | None, shell: t.Any) -> None:
    """Load and unload them, without their output and the variables that they set: the notebook has seen both when
    it did so first, and may have changed the variables since."""
    from IPython.utils.capture import capture_output

    here = _extensions(shell)
    gone = [name for name in old or () if name in here and name not in new]
    missing = [name for name in new if name not in here]
    if gone or missing:
        namespace, before = shell.user_ns, dict(shell.user_ns)
        for change, names in (("unload_extension", gone), ("load_extension", missing)):
            for name in names:
                with capture_output():
                    getattr(shell.extension_manager, change)(name)
        for name in namespace.keys() - before.keys():
            del namespace[name]
        for name, value in before.items():
            if name not in namespace or namespace[name] is not value:
                namespace[name] = value


def _submodules(shell: t.Any) -> list[str]:
    """Those that an import of their packages needn't bring: the user's own, and what was asked for.
    Settings of modules that aren't imported here are carried on."""
    return sorted(
        _arrived.union(shell.patches.submodules(), imports.submodules & sys.modules.keys())
    )


_arrived: set[str] = set()  # submodules, from other processes


def _set_submodules(new: list[str], old: list[str] | None, shell: t.Any) -> None:
    """Once their packages are imported: to do it now would run code that the cell may not want."""
    _arrived.update(new)
    for package, names in itertools.groupby(sorted(new), lambda name: name.partition(".")[0]):
        call_once_imported(package, functools.partial(_import_all, list(names)))


def _import_all(names: list[str]) -> None:
    """Packages come before what is in them."""
    for name in names:
        with contextlib.suppress(Exception):  # code that needs it will see
            importlib.import_module(name)


def _set_watched(new: list, old: list | None, shell: t.Any) -> None:
    shell.patches.watch(new)


# In this order they are applied.
_SETTINGS: dict[str, Setting] = {
    "environment": Setting(_environment, _set_environment),
    "directory": Setting(lambda shell: working_directory(), _set_directory),
    "path": Setting(_path, _set_path),
    "module_files": Setting(
        lambda shell: module_files.capture(), lambda new, old, shell: module_files.apply(new)
    ),
    "losses": Setting(losses.capture, losses.apply),
    "said": Setting(
        lambda shell: sorted(messages.said), lambda new, old, shell: messages.said.update(new)
    ),
    "own_modules": Setting(
        lambda shell: own_code.capture(), lambda new, old, shell: own_code.apply(new)
    ),
    "umask": Setting(_umask, _set_umask),
    "random": Setting(lambda shell: random.getstate(), _set_random),
    "extensions": Setting(_extensions, _set_extensions),
    "submodules": Setting(_submodules, _set_submodules),
    "plain": Setting(plain_settings.capture, plain_settings.apply),
    "counters": Setting(counters.capture, counters.apply),
    "watched": Setting(lambda shell: shell.patches.keys(), _set_watched),
}
