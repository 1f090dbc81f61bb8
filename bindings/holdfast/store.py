"""Named Python values in shared memory.

A `Session` is a mapping whose content other processes see from one commit to the next::

    with Session.create(label="demo") as session:
        session["table"] = numpy.zeros((1000, 1000))
        session.commit()
        print(session.name)

    with Session.open(name) as session:     # in another process
        table = session["table"]            # mapped, not copied

    with Session.open(name, readonly=True) as session:
        while session.wait():               # sleeps until the next commit
            for changed in session.refresh():
                print(changed, session.get(changed))

Arrays are mapped copy-on-write: reading them costs nothing, and writing to one touches private pages
that no other process sees before the next commit. Names that share objects or memory still share them in
the process that opens the session. Without NumPy an array is a read-only memoryview with its format and shape.
Without its library a table of pandas, Polars or Arrow is a `Table`, which whatever reads Arrow takes, by
``__arrow_c_stream__``: DuckDB, Polars, pyarrow.

A session lives until `destroy`, or until nothing uses it and `holdfast gc` removes it; `close` detaches this
process only. Arrays of a closed session stay valid.

`Names` is the layer below: it commits and binds a namespace that the caller keeps, as the kernel does with the
globals of a notebook.
"""

from __future__ import annotations

import collections.abc
import contextlib
import importlib.util
import os
import threading
import typing as t

from holdfast.carry.patches import is_kept, is_patch

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
    Table,
    collect,
    disable_numpy_allocator,
    enable_arrow_pool,
    enable_library_allocator,
    enable_numpy_allocator,
    groups,
    sessions,
)

if t.TYPE_CHECKING:
    import asyncio

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
    "Table",
    "UnserializableError",
    "collect",
    "disable_numpy_allocator",
    "enable_arrow_pool",
    "enable_library_allocator",
    "enable_numpy_allocator",
    "groups",
    "sessions",
]


_INTERNAL = ("\0", "\1")  # the first characters of keys that are no names
# As the store itself says it to a commit that it is to publish.
_NOT_THE_OWNER = (
    "only process {}, which owns this session, can publish or destroy it: prepare a commit and hand its token to"
    " that process, or use a session of your own"
)
_OPENED_READONLY = "the session was opened for reading only: open it without readonly=True to change it, or copy what it has"
# Those whose values can be looked at without them.
_LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "torch", "tensorflow", "jax")
_STATE = "\1"  # that of a process's state, which only a notebook's session has


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


class Session(_store.Session, collections.abc.MutableMapping[str, t.Any]):  # type: ignore[misc]
    """An attachment of this process to a session in shared memory, and a mapping of its values.

    Made by `create`, `open` or `from_fd`; as a context manager it is closed at the end of the
    block. A value is decoded when its name is first asked for; one that can't be is an `Error` for that
    name alone. Entries of programs in other languages are bytes (codec 1) or what msgpack says
    (codec 2). Other processes see names that are set, deleted or changed in place after
    `commit`. A session object belongs to one thread at a time.

    Of a notebook's session the mapping lists the notebook's variables. Its settings have names that no
    code can use, such as ``_:warnings.filters``; `all_names` lists those as well.
    """

    _names: Names  # once the names are known
    _values: dict[str, t.Any] | None = None  # those that were decoded, or set
    _stored: dict[str, None]  # the session's names, in its order; without those deleted here
    _deleted: set[str]  # since the last commit
    _is_notebook: bool
    _watch: _Watch | None = None

    def _loaded(self) -> dict[str, t.Any]:
        _ = self.name  # a closed session says so
        if self._values is None:
            names = Names(self)
            values: dict[str, t.Any] = {}
            names.bind(values, names=(), budget=-1)
            self._names, self._values, self._deleted = names, values, set()
            self._list()
        return self._values

    def _list(self) -> None:
        keys = self._names.keys()
        names = (key for key in keys if key[:1] not in _INTERNAL and key not in self._deleted)
        self._stored = dict.fromkeys(names)
        self._is_notebook = any(key.startswith(_STATE) for key in keys)

    def __getitem__(self, name: str) -> t.Any:
        values = self._loaded()
        if name not in values and name in self._stored:
            absent = self._names.bind(values, names=(name,), budget=-1)["absent"]
            if name not in values:
                return self._without_library(name, absent.get(name, "it was not decoded"))
        return values[name]

    def _without_library(self, name: str, why: str) -> t.Any:
        """Look at an array, a tensor or a table whose library isn't installed. A commit leaves it
        as it is."""
        lacks = {library for library in _LIBRARIES if importlib.util.find_spec(library) is None}
        view: t.Any = None
        if lacks:
            with contextlib.suppress(Error):  # of a damaged entry: `why` says it with its name
                view = self._names.view(name)
        if view is not None and "numpy" not in lacks:
            import numpy

            view = numpy.asarray(view)
        if view is None and lacks:
            try:
                view = self._names.table(name)
            except (BufferError, Error) as error:
                why = f"{why}. Without its library: {error}"
        if view is None:
            raise Error(f"{name}: {why}")
        return view

    def __setitem__(self, name: str, value: t.Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name is a str, not {type(name).__name__}")
        if not is_kept(name):
            raise ValueError(f"{name!r:.40} is no name of a session: 1 to 1024 bytes of UTF-8 are")
        self._check_writable()
        self._loaded()[name] = value
        self._deleted.discard(name)

    def _check_writable(self) -> None:
        if self.readonly:
            raise AccessError(_OPENED_READONLY)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._check_writable()
        self._loaded().pop(name, None)
        self._stored.pop(name, None)
        self._deleted.add(name)
        self._names.discard(name)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded() or name in self._stored

    def all_names(self) -> list[str]:
        """List the names, those of a notebook's settings as well.

        Returns
        -------
        list of str
            In the order in which they were first set.
        """
        values = self._loaded()
        return list({**self._stored, **values})

    def __iter__(self) -> t.Iterator[str]:
        names = self.all_names()
        return iter([name for name in names if not (self._is_notebook and is_patch(name))])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        try:
            return f"<holdfast.store.Session {self.name or 'without a name'}>"
        except ValueError:
            return "<holdfast.store.Session, closed>"

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
            Only its owner publishes the session: a notebook's is its kernel's. Or it was opened with
            ``readonly=True``.
        NoSpaceError
            The session can't grow. Nothing is published.
        """
        self._check_writable()
        values = self._loaded()
        before = self.generation
        names = self._names
        try:
            saved = names.save(values)
        except ConflictError as error:  # to adopt what was published would help the owner alone
            about = self.info()
            if about["owner_publishes"] and about["owner_pid"] != os.getpid():
                raise AccessError(_NOT_THE_OWNER.format(about["owner_pid"])) from error
            raise
        if saved["unserializable"]:
            raise UnserializableError(dict(saved["unserializable"]))
        if saved["prepared"] is None:
            return before
        generation = self.publish(saved["prepared"])
        names.published(generation)
        self.privatize()
        self._deleted.clear()
        self._list()
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
        before = set(self._stored)
        adopted = self._names.adopt(values)
        for name in adopted["absent"]:
            values.pop(name, None)  # it is another value, which can't be decoded
        changed = {*adopted["changed"], *adopted["removed"], *adopted["absent"]}
        self._deleted -= changed
        self._list()
        return sorted(changed | before - set(self._stored))

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until another process has committed since this one loaded the values.

        The commit wakes it; nothing is looked at in between. `refresh` takes over what was committed. Ctrl-C ends
        the wait, and so does `close` in another thread.

        Parameters
        ----------
        timeout : float or None
            Seconds at most; None: without limit.

        Returns
        -------
        bool
            True if there is another generation; False after the time.

        Raises
        ------
        GoneError
            The session was destroyed.
        ValueError
            The timeout is negative, or the session is closed.

        See Also
        --------
        wait_async : The same for a coroutine.
        """
        self._loaded()
        return self._wait(self._names.generation, timeout)

    async def wait_async(self, timeout: float | None = None) -> bool:
        """Wait as `wait` does, while other tasks of the event loop run.

        All waits of a session share one thread. A wait that is cancelled leaves it asleep until the next commit or
        `close`.

        Parameters
        ----------
        timeout : float or None
            Seconds at most; None: without limit.

        Returns
        -------
        bool
            True if there is another generation; False after the time.

        Raises
        ------
        GoneError
            The session was destroyed.
        ValueError
            The session is closed.
        """
        import asyncio  # a program that waits has it, and no other one pays for it

        self._loaded()
        if self._watch is None:
            self._watch = _Watch()
        try:
            async with asyncio.timeout(timeout):
                while not self._wait(self._names.generation, 0):
                    await self._watch.next(self)
        except TimeoutError:
            return False
        return True


class _Watch:
    """A thread that sleeps until the session changes, while a coroutine waits for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._is_running = False

    def next(self, session: Session) -> asyncio.Future[None]:
        """Return a future that is done after the next change, or when the session can't be waited for."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            self._waits.append((loop, future))
            if not self._is_running:
                self._is_running = True
                threading.Thread(
                    target=self._run,
                    args=(session, session._names.generation),
                    name="holdfast-wait",
                    daemon=True,
                ).start()
        return future

    def _run(self, session: Session, generation: int) -> None:
        try:
            session._wait(generation)
        except (Error, ValueError, OSError):
            pass  # whoever waits looks again, and gets it
        with self._lock:
            waits, self._waits, self._is_running = self._waits, [], False
        for loop, future in waits:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_finish, future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
