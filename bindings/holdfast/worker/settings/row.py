"""The type of a row in rows.py: one part of the state of a process, how it is read and set.

The table is in rows.py. What modules and libraries have is declared in holdfast/libraries.
"""

from __future__ import annotations

import sys
import typing as t


class Row(t.NamedTuple):
    """A part of the state.

    `read` gives what can be compared; with `write` it is a plain value, which that sets. Both are called only where `module` is imported, and `read` first at the end of its import: if that is
    a part of the import of a package, `read` must import nothing, or `module` is the package. Before the import it
    is `fresh`; None: nobody knows.
    What `is_drawn` each process begins with at random.
    Rows `of_process` are those that a fork may have otherwise than its parent, or others set from outside.
    """

    module: str
    read: t.Callable[[], t.Any]
    write: t.Callable[[t.Any], object] | None = None
    fresh: t.Any = None
    by_imports: bool = False  # an import changes it, and nobody knows how
    grows: bool = False  # only what is more than before counts
    of_process: bool = False
    is_drawn: bool = False
    is_costly: bool = False  # at a commit that no cell waits for the last answer counts


def module_of(name: str) -> t.Any:
    """The module of this name, which is imported."""
    return sys.modules[name]
