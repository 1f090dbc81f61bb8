"""Comms of widgets: what a page and the kernel send to each other by.

The page knows a comm by its id. So a widget crosses with that, and the main worker answers for it (widgets.py). No page
is told that one was opened or closed meanwhile. A comm that a variable holds stays in its process.
"""

from __future__ import annotations

import typing as t


def take_over(comm_id: str, target_name: str) -> t.Any:
    """Make a comm that goes on with an id that a page knows, and answer for it."""
    import comm
    from IPython import get_ipython

    manager: t.Any = comm.get_comm_manager()
    before = manager.comms.get(comm_id)
    if before is not None:
        before._closed = True  # else its end would close what goes on here
    made: t.Any = comm.create_comm(comm_id=comm_id, target_name=target_name, primary=False)
    made.kernel = get_ipython().kernel  # ipykernel's comms get it when they open
    manager.register_comm(made)
    return made


def leave() -> None:
    """At the end of a cell's process: nothing that happens to the originals is sent to the page."""
    import comm

    for one in list(getattr(comm.get_comm_manager(), "comms", {}).values()):
        one._closed = True
