"""Carries the state of libraries that the files of holdfast/libraries declare. It knows no library itself.

A file is loaded when its package is looked for, or when another process's state of it arrives. Its settings
are rows (plain_settings.py), or slots (slots.py) if the notebook's objects may be in them. Registries and replays are
slots, too. Counters are added to those that are found (counters.py).

A declaration is tried at the end of the import that it waits for. If this version of the library lacks what
it names, it is left out, and `holdfast.libraries.unusable` has the reason.
"""

from __future__ import annotations

import functools
import sys
import typing as t

from holdfast import libraries
from holdfast.carry.patches import Patches, Slot
from holdfast.libraries import Counter, Registry, Replay, Setting

from .registry_additions import Additions
from .counters import counters
from .memo import Memo, everything_in
from .plain_settings import Row, is_imported, plain_settings
from .registry_contents import Contents
from .replays import Replays

_ALWAYS = "standard"  # the standard library's


class _Compared:
    """A setting that is compared with how it began."""

    def __init__(self, setting: Setting, after: str):
        self._setting, self.after = setting, after
        self._begun: t.Any = None
        self._get = setting.get

    def begin(self) -> None:
        assert self._setting.begin is not None
        self._begun = self._setting.begin()
        self._get = _reader(self._setting, lambda: self._setting.get(self._begun))

    def slot(self) -> Slot:
        return Slot(self.after, self._read, self._write)

    def _read(self) -> t.Any:
        return self._get()

    def _write(self, new: t.Any) -> None:
        assert self._setting.set is not None
        self._setting.set(self._begun, new)


def _reader(setting: Setting, get: t.Callable[[], t.Any]) -> t.Callable[[], t.Any]:
    """`get`, which isn't called while what it reads from holds the same objects."""
    held = setting.held
    if held is None:
        return get
    return Memo(get, held, setting.parts or (lambda: everything_in(held())))


_Base = Contents | Additions | _Compared


class LibraryState:
    """The declarations of the packages that this process has looked for."""

    def __init__(self) -> None:
        self._packages: set[str] = set()
        self._slots: dict[str, Slot] = {}
        self._bases: dict[str, _Base] = {}  # what is compared with how it began
        self._replays: dict[str, tuple[Replay, str]] = {}  # with the module that they wait for
        self._calls: dict[str, Replays] = {}  # the notebook's
        self._awaited: set[str] = set()  # modules: each import asks
        self._namespace: dict[str, t.Any] | None = None  # the notebook's, once there is one
        self._patches: Patches | None = None

    def begin(self, shell: t.Any) -> dict[str, Slot]:
        """Nothing of the notebook's has run: the slots that only look, of the libraries that are here."""
        self.load_imported()
        for name, base in list(self._bases.items()):
            if base.after in sys.modules:
                self._try(name, base.begin)
        return dict(self._slots)

    def load_imported(self) -> None:
        """The files of all packages that are imported by now."""
        for package in (_ALWAYS, *[name for name in list(sys.modules) if libraries.has(name)]):
            self.load(package)

    def begin_notebook(self, namespace: dict[str, t.Any]) -> dict[str, Slot]:
        """Note the notebook's calls from now on. To be called once in a process: stand-ins take the functions' places.
        Their slots."""
        self._namespace = namespace
        return {name: slot for name in list(self._replays) if (slot := self._note(name))}

    def follow(self, patches: Patches) -> None:
        """Slots of files that are loaded from now on are added to these."""
        self._patches = patches
        patches.find_slot = self.find_slot

    def find_slot(self, name: str) -> bool:
        """Load the file that declares a slot, by the slot's name; whether there is one."""
        self.load(name.partition(":")[0])
        return name in self._slots

    def load(self, package: str) -> None:
        """The file of a package, if there is one, and it isn't loaded yet."""
        if package in self._packages or not libraries.has(package):
            return
        self._packages.add(package)
        slots = {}
        for one in libraries.load(package):
            if isinstance(one, Counter):
                counters.add(one)
                continue
            name = f"{package}: {one.name}"
            slot = self._add(name, package, one)
            if slot is not None:
                slots[name] = slot
        self._slots |= slots
        if self._patches is not None:
            self._patches.add(slots)

    def awaits(self, module: str) -> bool:
        """Whether something is asked of a module, which is about to be imported."""
        self.load(module.partition(".")[0])
        return module in self._awaited

    def imported(self, module: str) -> None:
        """Try the declarations of a module that was imported just now; nobody has used it yet."""
        for name, base in list(self._bases.items()):
            if base.after == module:
                self._try(name, base.begin)
        for name, calls in list(self._calls.items()):
            if calls.awaits(module):
                self._try(name, functools.partial(calls.imported, module))

    # ---- declarations

    def _add(self, name: str, package: str, one: Setting | Registry | Replay) -> Slot | None:
        if isinstance(one, Replay):
            after = one.after or (package if one.through else one.functions[0][0])
            self._replays[name] = one, after
            return None if self._namespace is None else self._note(name)
        if isinstance(one, Registry):
            return self._compare(name, Contents(one) if one.holders is None else Additions(one))
        after = one.after or package
        if one.begin is not None:
            return self._compare(name, _Compared(one, after))
        get = _reader(one, one.get)
        if one.has_values:
            put = t.cast("t.Callable[[t.Any], None]", one.set)
            return Slot(after, get, put)
        plain_settings.add(
            name, Row(after, get, one.set, one.fresh, is_drawn=one.is_drawn, late=one.late)
        )
        return None

    def _compare(self, name: str, base: _Base) -> Slot:
        self._bases[name] = base
        self._awaited.add(base.after)
        return base.slot()

    def _note(self, name: str) -> Slot | None:
        assert self._namespace is not None
        replay, after = self._replays[name]
        calls = self._calls[name] = Replays(replay, after, self._namespace)
        self._awaited.update(dict(replay.functions))
        for module in dict(replay.functions):
            if is_imported(module):
                self._try(name, functools.partial(calls.imported, module))
        if replay.is_repeated:
            return calls.slot()
        plain_settings.add(name, Row(after, lambda: len(calls.made), None, 0))
        return None

    def _try(self, name: str, begin: t.Callable[[], object]) -> None:
        try:
            begin()
        except Exception as error:
            libraries.unusable[name] = str(error)
            if name in self._calls:
                return  # of the other functions calls are noted
            self._bases.pop(name, None)
            self._slots.pop(name, None)
            if self._patches is not None:
                self._patches.remove(name)


library_state = LibraryState()
plain_settings.load = library_state.load
