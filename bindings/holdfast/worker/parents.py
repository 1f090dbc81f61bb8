"""Says which request a piece of output answers.

A frame that the running request causes needs no parent: the frontend knows it. Output of an earlier cell's
task carries that cell's header, as the bytes that the frontend sent. So nothing is parsed and written again
for each line.
"""

from __future__ import annotations

import collections
import contextvars
import json
import typing as t

_REMEMBERED = 256  # headers of past requests, for tasks that outlive their cell


class Parents:
    """The header of the running request, of this context, and of requests before."""

    def __init__(self) -> None:
        self._here: contextvars.ContextVar[bytes | None] = contextvars.ContextVar("holdfast_parent")
        self._last: bytes | None = None
        self._running: bytes | None = None
        self._known: collections.OrderedDict[str, bytes] = collections.OrderedDict()

    def begin(self, header: bytes, msg_id: str) -> None:
        """A request begins: output in this context and its children is its own."""
        self.begin_aside(header, msg_id)
        self._running = self._last = header

    def begin_aside(self, header: bytes, msg_id: str) -> None:
        """The same in a subshell: its frames always say whose they are."""
        self._known[msg_id] = header
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        self._here.set(header)

    def end(self) -> None:
        """The request has its reply; what comes now must say whose it is."""
        self._running = None

    def raw(self) -> bytes | None:
        """The header that output written now belongs to."""
        return self._here.get(self._last)

    def is_running(self, raw: bytes | None) -> bool:
        return raw is not None and raw is self._running

    def set_here(self, parent: dict[str, t.Any]) -> contextvars.Token:
        return self._here.set(self.encode(parent))

    def reset_here(self, token: contextvars.Token) -> None:
        self._here.reset(token)

    def encode(self, parent: dict[str, t.Any] | None) -> bytes | None:
        """The bytes of a message's or a header's header, None if it has none."""
        if not parent:
            return None
        header = parent.get("header", parent)
        msg_id = header.get("msg_id")
        if not msg_id:
            return None
        known = self._known.get(msg_id)
        return known if known is not None else json.dumps(header, default=str).encode()
