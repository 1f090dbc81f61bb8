"""Calls of the notebook's code that register something in places that nobody can ask for it.

`codecs.register` keeps what it is given in C, and `mimetypes.add_type` puts it into tables that are made anew.
So the calls themselves are noted, and made in the other process. Those of a module of the user's own while it is
imported are left out: its import makes them there. A function is added to the table here; one that has no
counterpart which takes a call back has to be one of which a later call counts.
"""

from __future__ import annotations

import functools
import importlib
import sys
import typing as t

from holdfast._after_import import call_after_import
from holdfast._patches import MISSING, Slot

from .exits import Call, imports, is_own, is_same

# Module, function, and the function that takes its call back: with the same first argument, or with its name
# (_NAMES).
_NOTED = (
    ("codecs", "register", "unregister"),
    ("codecs", "register_error", ""),
    ("jax.tree_util", "register_dataclass", ""),
    ("jax.tree_util", "register_pytree_node", ""),
    ("jax.tree_util", "register_pytree_node_class", ""),
    ("jax.tree_util", "register_pytree_with_keys", ""),
    ("jax.tree_util", "register_pytree_with_keys_class", ""),
    ("logging", "captureWarnings", ""),
    ("mimetypes", "add_type", ""),
    ("pyarrow", "register_extension_type", "unregister_extension_type"),
    ("pyarrow.compute", "register_aggregate_function", ""),
    ("pyarrow.compute", "register_scalar_function", ""),
    ("pyarrow.compute", "register_tabular_function", ""),
    ("pyarrow.compute", "register_vector_function", ""),
    ("scipy.fft", "set_global_backend", ""),
    ("shutil", "register_archive_format", "unregister_archive_format"),
    ("shutil", "register_unpack_format", "unregister_unpack_format"),
    ("sys", "addaudithook", ""),
    ("torch.utils._pytree", "register_pytree_node", ""),
    ("urllib.request", "install_opener", ""),
    ("webbrowser", "register", ""),
    ("xml.etree.ElementTree", "register_namespace", ""),
)
# A later call doesn't count more than what has been drawn since, and nobody can ask for that: only named.
_COUNTED = (("polars", "set_random_seed"),)
# What the first argument is called where its call is taken back.
_NAMES: dict[str, t.Callable[[t.Any], t.Any]] = {
    "unregister_extension_type": lambda kind: kind.extension_name,
}


def slots(namespace: dict[str, t.Any]) -> dict[str, Slot]:
    """Those of this process. To be called once in a process."""
    found = {}
    for module, name, back in _NOTED:
        found[f"{module}.{name}()"] = _noted(module, name, back, namespace).slot()
    for module, name in _COUNTED:
        _counted[module, name] = _noted(module, name, "", namespace)
    return found


def count(module: str, name: str) -> int:
    """How often the notebook has called a function in this process."""
    calls = _counted.get((module, name))
    return 0 if calls is None else len(calls.made)


def _noted(module: str, name: str, back: str, namespace: dict[str, t.Any]) -> _Calls:
    calls = _Calls(module, name, back, namespace)
    if module in sys.modules:
        calls.install()
    else:
        call_after_import(module, calls.install)
    return calls


class _Calls:
    """The notebook's calls of one function."""

    def __init__(self, module: str, name: str, back: str, namespace: dict[str, t.Any]):
        self._module, self._name, self._back = module, name, back
        self._namespace = namespace
        self.made: list[Call] = []
        self._call: t.Any = None
        self._take_back: t.Any = None

    def install(self) -> None:
        """Stand in for the function, and for the one that takes its calls back, if this version has it."""
        module = importlib.import_module(self._module)
        self._call = getattr(module, self._name, None)
        if self._call is None:
            return
        setattr(module, self._name, self._stand_in(self._call, self._note))
        if self._back:
            self._take_back = getattr(module, self._back)
            setattr(module, self._back, self._stand_in(self._take_back, self._forget))

    def slot(self) -> Slot:
        """The calls that the namespace knows."""
        return Slot(self._module, lambda: list(self.made) or MISSING, self._write)

    def _stand_in(self, original: t.Any, then: t.Callable[[t.Any, Call], None]) -> t.Any:
        @functools.wraps(original)
        def stand_in(*args: t.Any, **kwargs: t.Any) -> t.Any:
            result = original(*args, **kwargs)
            then(sys._getframe(1), (original, args, kwargs))
            return result

        stand_in.__module__ = self._module  # where it is found
        return stand_in

    def _note(self, caller: t.Any, call: Call) -> None:
        if is_own(caller.f_globals, self._namespace) and not imports(caller, self._namespace):
            self.made.append((None, *call[1:]))

    def _forget(self, caller: t.Any, call: Call) -> None:
        self.made = [one for one in self.made if self._first(one) != list(call[1][:1])]

    def _first(self, made: Call) -> list[t.Any]:
        """What the function that takes a call back is given."""
        name = _NAMES.get(self._back)
        return [one if name is None else name(one) for one in made[1][:1]]

    def _write(self, new: t.Any) -> None:
        wanted = [] if new is MISSING else list(new)
        if self._call is None:  # the module is being imported
            self.install()
        kept = 0
        while kept < min(len(wanted), len(self.made)) and is_same(wanted[kept], self.made[kept]):
            kept += 1
        for one in self.made[kept:] if self._take_back else ():
            self._take_back(*self._first(one))
        for _, args, kwargs in wanted[kept:]:
            self._call(*args, **kwargs)
        self.made = wanted


_counted: dict[tuple[str, str], _Calls] = {}
