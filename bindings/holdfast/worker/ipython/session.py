"""Messages without sockets: a `ControlSession` turns one into a frame.

`ReplySlot` catches the answer of ipykernel's own request handlers; `Outlet` stands for a socket that is only
sent on.
"""

from __future__ import annotations

import contextlib
import typing as t

from traitlets import Any

from ..control import ChannelClosed, Frame, packed
from ..subshells import in_subshell
from .postponed import postponed

with postponed():
    from jupyter_client.session import Session


class ReplySlot:
    """Stands for the shell socket while a handler of ipykernel answers one request."""

    channel = "shell"

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.metadata: bytes | None = None
        self.buffers: list[t.Any] = []

    def flush(self, *args: object) -> None:
        """ipykernel flushes its sockets after a status; there is nothing to flush."""


class Outlet:
    """Stands for a socket on which messages are only sent."""

    def __init__(self, channel: str):
        self.channel = channel

    def send_multipart(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(
            f"the {self.channel} socket belongs to the frontend process: use the Session"
        )

    def flush(self, *args: object) -> None:
        """See ReplySlot.flush."""


class ControlSession(Session):
    """A Session whose messages leave as `message` frames."""

    wire = Any()  # Channel
    parents = Any()  # Parents

    def send(
        self,
        stream,
        msg_or_type,
        content=None,
        parent=None,
        ident=None,
        buffers=None,
        track=False,
        header=None,
        metadata=None,
    ):
        """Send one message: the frontend makes its header, signs and publishes it."""
        if isinstance(msg_or_type, dict):
            message = msg_or_type
            kind = message.get("msg_type") or message["header"]["msg_type"]
            content = message.get("content")
            parent = parent or message.get("parent_header")
            metadata = message.get("metadata")
            buffers = buffers or message.get("buffers")
        else:
            kind = msg_or_type if msg_or_type is not None else header["msg_type"]
            message = {
                "msg_type": kind,
                "content": content,
                "parent_header": parent or {},
            }
        content = content if content is not None else {}
        metadata_bytes = self.pack(metadata or {})
        views = [_contiguous(index, buffer) for index, buffer in enumerate(buffers or [])]
        if isinstance(stream, ReplySlot):
            stream.content, stream.metadata = self.pack(content), metadata_bytes
            stream.buffers = views
            return message
        frame: Frame = {
            "channel": getattr(stream, "channel", "iopub"),
            "type": kind,
            "content": packed(self.pack, content),
            "metadata": metadata_bytes,
            "buffers": views,
        }
        # ipykernel before 7 keeps one parent for all threads.
        raw = self.parents.raw() if in_subshell() else self.parents.encode(parent)
        if raw is not None and not self.parents.is_running(raw):
            frame["parent"] = raw
        # In a forked child of user code, or after the frontend's end, nobody listens.
        with contextlib.suppress(ChannelClosed):
            self.wire.send("message", **frame)
        return message


def _contiguous(index: int, buffer: t.Any) -> memoryview:
    view = memoryview(buffer)
    if not view.contiguous:
        raise ValueError(f"buffer {index} of a message is not contiguous")
    return view.cast("B") if view.nbytes else memoryview(b"")
