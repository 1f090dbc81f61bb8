"""A worker's sys.stdout and sys.stderr: they send text to the frontend.

Each complete line is one `stream` frame, at once. There is no flushing thread: it would compete for the
cell's GIL, forbid privatizing, and show up in traces. The frontend joins lines into messages. Text without a
newline is held back until a newline, a flush, the end of the cell or `_BUFFER_SIZE`, unless the stream has
been quiet for `_QUIET` seconds. So dots that a slow loop prints are seen one by one, and a fast `print(a, b,
c)` is one frame.

A text belongs to the cell that wrote it. The parent is a context variable, so a task that a cell left running
writes under that cell's header. A thread has no context of its own (before Python 3.14), and takes the cell
that runs now. ipykernel's streams do the same.

Output of C code and child processes to descriptors 1 and 2 goes through pipes. Each frame says how much that
was until then, so that all is shown in the order in which it was written. A forked child has no channel: it
writes to the descriptor, a pipe of the frontend.
"""

from __future__ import annotations

import contextvars
import io
import json
import os
import threading
import typing as t
from time import monotonic

from .control import Channel, ChannelClosed
from .parents import Parents

_BUFFER_SIZE = 8192  # characters
_QUIET = 0.01  # seconds


class Stream(io.TextIOBase):
    """A text stream whose lines become `stream` frames."""

    encoding = "UTF-8"

    def __init__(self, channel: Channel, parents: Parents, name: str, fd: int):
        self.name = name
        self._channel = channel
        self._parents = parents
        self._parent = parents.raw
        self._fd = fd
        self._lock = threading.RLock()
        self._text = ""  # held back
        self._text_parent: bytes | None = None
        self._sent = 0.0
        self._closed = False

    # ---- what a text file has

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self.flush()
        self._closed = True

    def write(self, text: str) -> int:
        """Write `text`; complete lines are sent."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        if not text:
            return 0
        with self._lock:
            parent = self._parent()
            if parent is not self._text_parent:
                if self._text:
                    self._send()
                self._text_parent = parent
            self._text = held = self._text + text
            if "\n" in text or len(held) >= _BUFFER_SIZE or monotonic() - self._sent > _QUIET:
                self._send()
        return len(text)

    def flush(self) -> None:
        """Send what is held back."""
        with self._lock:
            if self._text:
                self._send()

    def _send(self) -> None:
        text, self._text = self._text, ""
        self._sent = monotonic()
        if not text.isascii():  # lone surrogates: shown as escapes, as a terminal would
            text = text.encode("utf-8", "backslashreplace").decode()
        parent = self._text_parent
        running = parent is None or self._parents.is_running(parent)
        whose = {} if running else {"parent": parent}
        try:
            self._channel.send("stream", name=self.name, text=text, **whose)
        except ChannelClosed:
            _write_all(self._fd, text.encode())

    # ---- whose output it is: called by ipykernel's shell

    @property
    def parent_header(self) -> dict[str, t.Any]:
        """The header of the request that output written now belongs to."""
        raw = self._parent()
        return {} if raw is None else json.loads(raw)

    def set_parent(self, parent: dict[str, t.Any]) -> None:
        """Belongs to all streams at once: `Parents.set` was called with it."""

    def set_thread_parent(self, parent: dict[str, t.Any]) -> contextvars.Token:
        return self._parents.set_here(parent)

    def reset_thread_parent(self, token: contextvars.Token) -> None:
        self._parents.reset_here(token)

    def after_fork(self) -> None:
        """Drop the parent's text in a forked child."""
        self._lock = threading.RLock()
        self._text = ""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:
            return  # nobody reads any more
