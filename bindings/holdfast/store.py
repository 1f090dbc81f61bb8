"""Sessions in shared memory, and the names that a process binds from them.

Examples
--------
One process saves its globals, and publishes::

    session = Session.create(label="demo")
    names = Names(session)
    report = names.save(globals())
    names.published(session.publish(report["prepared"]))
    session.seal()

another maps them::

    session = Session.open(name)
    Names(session).bind(globals())

Arrays are mapped, not copied: reading them costs nothing, and writing to one touches
private pages that nobody else sees, until this process saves in turn.
"""

from ._store import (
    ConflictError,
    CorruptError,
    Error,
    GoneError,
    Names,
    NoSpaceError,
    NotFoundError,
    Region,
    Session,
    collect,
    disable_numpy_allocator,
    enable_arrow_pool,
    enable_library_allocator,
    enable_numpy_allocator,
    groups,
    sessions,
)

__all__ = [
    "ConflictError",
    "CorruptError",
    "Error",
    "GoneError",
    "Names",
    "NoSpaceError",
    "NotFoundError",
    "Region",
    "Session",
    "collect",
    "disable_numpy_allocator",
    "enable_arrow_pool",
    "enable_library_allocator",
    "enable_numpy_allocator",
    "groups",
    "sessions",
]
