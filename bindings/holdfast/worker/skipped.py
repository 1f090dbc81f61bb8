"""Variables that a cell's code doesn't name, and that are too large to be bound unasked.

They stay in the store. If code asks the module `__main__` for one (`pickle`, `getattr` with a name that was
made at run time), it is bound at that moment. Otherwise a NameError says what the variable is.
"""

from __future__ import annotations

import sys
import types
import typing as t

from holdfast.errors import NotCarriedError

_REASON = "it is large, and the cell's code doesn't show that it uses it"


class Skipped:
    """Entries of the store that aren't bound in this cell's process.

    Parameters
    ----------
    names : holdfast._store.Names
        Has bound what the cell reaches.
    namespace : dict
        The notebook's variables.
    note : callable
        Called with the names that are bound now: the one that is asked for, and its group.
    """

    def __init__(
        self, names: t.Any, namespace: dict[str, t.Any], note: t.Callable[[set[str]], None]
    ):
        self._names = names
        self._namespace = namespace
        self._note = note

    def watch(self) -> None:
        """Attributes of `__main__` that are missing are looked for here from now on."""
        main = sys.modules["__main__"]
        if type(main) is types.ModuleType and vars(main) is self._namespace:
            main.__class__ = type("module", (types.ModuleType,), {"__getattr__": self._find})

    def close(self) -> None:
        """After the cell: let go of the store, whose `names` hold what the cell made. The class of
        `__main__` refers to this, so to drop this is not enough."""
        self._names = None

    def _find(self, name: str) -> t.Any:
        before = set(self._namespace)
        if name.isidentifier() and self._is_stored(name):
            self._names.bind(self._namespace, names={name})
        if name not in self._namespace:
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        self._note(self._namespace.keys() - before | {name})
        return self._namespace[name]

    def _is_stored(self, name: str) -> bool:
        if self._names is None:
            return False
        return any(entry["name"] == name for entry in self._names.listing())

    def explain(self, error: BaseException) -> BaseException:
        """A NameError of one of them, with the reason; others as they are."""
        name = getattr(error, "name", None)
        if type(error) is not NameError or name in self._namespace or not self._is_stored(name):
            return error
        return NotCarriedError(name, _REASON).with_traceback(error.__traceback__)
