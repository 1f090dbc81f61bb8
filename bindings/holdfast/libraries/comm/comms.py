"""Comms: channels between a page and the kernel, such as those of Bokeh's plots.

The page knows a comm by its id. So a comm crosses as its id, with its callbacks. The process that gets it can send
to the page. The main worker also answers for it, as for widgets (ipywidgets/widgets.py). The page gets no message
that a comm was opened or closed meanwhile.
"""

from __future__ import annotations

import typing as t

from holdfast.carry import context
from holdfast.codecs import Codec, register


def take_over(comm_id: str, target_name: str) -> t.Any:
    """Make a comm that goes on with an id that a page knows, and answer for it from now on."""
    import comm
    from IPython import get_ipython

    manager: t.Any = comm.get_comm_manager()
    before = manager.comms.get(comm_id)
    if before is not None:
        before._closed = True  # else its end would close the comm that goes on here
    made: t.Any = comm.create_comm(comm_id=comm_id, target_name=target_name, primary=False)
    made.kernel = get_ipython().kernel  # a comm of ipykernel's gets it when it is opened
    manager.register_comm(made)
    return made


def leave() -> None:
    """At the end of a cell's process: from now on nothing that happens to its comms is sent to the
    page."""
    import comm

    for one in list(getattr(comm.get_comm_manager(), "comms", {}).values()):
        one._closed = True


def _make(comm_id: str, target_name: str, is_closed: bool) -> t.Any:
    if not is_closed and not context.is_comparing():
        return take_over(comm_id, target_name)
    import comm

    made: t.Any = comm.create_comm(comm_id=comm_id, target_name=target_name, primary=False)
    made._closed = True
    return made


def _fill(made: t.Any, callbacks: tuple[t.Any, t.Any]) -> None:
    made._msg_callback, made._close_callback = callbacks


class _Comms(Codec):
    types = ("comm.base_comm.BaseComm",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        callbacks = value._msg_callback, value._close_callback
        made = value.comm_id, value.target_name, value._closed
        return _make, made, callbacks, None, None, _fill


register(_Comms())
