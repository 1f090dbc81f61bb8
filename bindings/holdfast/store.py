"""Named Python values in shared memory.

A `Session` is a mapping whose content other processes see from one commit to the next::

    with Session.create(label="demo") as session:
        session["table"] = numpy.zeros((1000, 1000))
        session.commit()
        print(session.name)

    with Session.open(name) as session:     # in another process
        table = session["table"]            # mapped, not copied

Arrays are mapped copy-on-write: reading them costs nothing, and writing to one touches private pages
that no other process sees before the next commit. Names that share objects or memory still share them in
the process that opens the session.

A session lives until `destroy`, or until nothing uses it and `holdfast gc` removes it; `close` detaches this
process only. Arrays of a closed session stay valid.

`Names` is the layer below: it commits and binds a namespace that the caller keeps, as the kernel does with the
globals of a notebook.
"""

from __future__ import annotations

import collections.abc
import typing as t

from . import _store
from ._store import (
    AccessError,
    ConflictError,
    CorruptError,
    Error,
    GoneError,
    Names,
    NoSpaceError,
    NotFoundError,
    Region,
    collect,
    disable_numpy_allocator,
    enable_arrow_pool,
    enable_library_allocator,
    enable_numpy_allocator,
    groups,
    sessions,
)

__all__ = [
    "AccessError",
    "ConflictError",
    "CorruptError",
    "Error",
    "GoneError",
    "Names",
    "NoSpaceError",
    "NotFoundError",
    "Region",
    "Session",
    "UnserializableError",
    "collect",
    "disable_numpy_allocator",
    "enable_arrow_pool",
    "enable_library_allocator",
    "enable_numpy_allocator",
    "groups",
    "sessions",
]


class UnserializableError(Error):
    """No codec encodes some of the values to be committed. Nothing was committed.

    Parameters
    ----------
    reasons : dict of str to str
        Why each value can't be encoded, by its name.

    Attributes
    ----------
    reasons : dict of str to str
        The same.
    """

    def __init__(self, reasons: dict[str, str]):
        named = "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
        super().__init__(f"these values can't be stored: {named}")
        self.reasons = reasons


class Session(_store.Session, collections.abc.MutableMapping):  # type: ignore[misc]
    """An attachment of this process to a session in shared memory, and a mapping of its values.

    Made by `create`, `open` or `from_fd`; as a context manager it is closed at the end of the
    block. Values are loaded when the mapping is first used. Other processes see names that are set,
    deleted or changed in place after `commit`. A session object belongs to one thread at a time.
    """

    _names: Names  # once the values are loaded
    _values: dict[str, t.Any] | None = None

    def _loaded(self) -> dict[str, t.Any]:
        if self._values is None:
            names = Names(self)
            values: dict[str, t.Any] = {}
            absent = names.bind(values)["absent"]
            if absent:
                raise UnserializableError(absent)
            self._names, self._values = names, values
        return self._values

    def __getitem__(self, name: str) -> t.Any:
        return self._loaded()[name]

    def __setitem__(self, name: str, value: t.Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name is a str, not {type(name).__name__}")
        self._loaded()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._loaded()[name]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        return f"<holdfast.store.Session {self.name or 'without a name'}>"

    def commit(self) -> int:
        """Publish what changed since the last commit.

        Returns
        -------
        int
            The current generation. It is the same as before if nothing changed.

        Raises
        ------
        UnserializableError
            No codec encodes a value. Nothing is published.
        ConflictError
            Another process committed since this one loaded the values. `refresh` takes over its commit.
        AccessError
            Only its owner publishes the session: a notebook's is its kernel's.
        NoSpaceError
            The session can't grow. Nothing is published.
        """
        before = self.generation  # a closed session says so
        values = self._loaded()
        names = self._names
        saved = names.save(values)
        if saved["unserializable"]:
            raise UnserializableError(dict(saved["unserializable"]))
        if saved["prepared"] is None:
            return before
        generation = self.publish(saved["prepared"])
        names.published(generation)
        self.privatize()
        return generation

    def refresh(self) -> list[str]:
        """Take over what other processes have committed since.

        A name that they changed or deleted replaces what this process made of it and didn't commit.

        Returns
        -------
        list of str
            The names that changed or are gone.
        """
        values = self._loaded()
        adopted = self._names.adopt(values)
        return sorted({*adopted["changed"], *adopted["removed"]})
