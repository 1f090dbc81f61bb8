"""The assistant: answers questions while the main worker runs a cell, and debugs (debugger.py).

It is a fork of the fork server, made when the frontend needs it, and released when the cell that kept the
main worker busy has ended. It never runs a cell.

* `is_complete` needs no state.
* The history is in the profile's database.
* To complete or to inspect, it binds the names that the question mentions, as the last commit has them. Of
  other names it knows that they exist. So a question costs what it asks about, not what the notebook holds.
  What plain cells did since that commit is unknown here.

To look up an attribute may run the user's code. The frontend ends this process if an answer takes too long.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
from pathlib import Path

from IPython.core.history import HistoryAccessor

from holdfast.carry import handles

from .control import Frame
from .debug.debugger import Debugger
from .ipython.application import CELL_CONFIG
from .requests import Worker, _message
from .settings import state

if t.TYPE_CHECKING:
    from .reports import Message

_WORD = re.compile(r"[^\W\d]\w*")
_SHOWS_NAMES = frozenset(("complete_request", "inspect_request"))


class _Unbound:
    """Stands for a variable that the question doesn't mention."""

    def __repr__(self) -> str:
        return "<a variable of the notebook>"


class Assistant(Worker):
    """Answers from the last commit."""

    config = CELL_CONFIG  # no session of its own in the history

    def prepare(self) -> None:
        self.debugger = Debugger(self.channel)
        handles.table.fetch = lambda number: None  # an open file is not for the curious
        self._names: t.Any = None

    def _sort(self, frame: Frame) -> None:
        if frame.get("op") == "request" and frame.get("type") == "debug_request":
            self.loop.create_task(self._debug(frame))  # it may wait for a process
        else:
            super()._sort(frame)

    async def _debug(self, frame: Frame) -> None:
        try:
            content = await self.debugger.process(frame["header"], _message(frame)["content"])
        except Exception as error:
            self.channel.send("reply", **self._unreadable(frame, error))
            return
        if content is None:
            self.channel.send("reply", id=frame["id"], main=True)
        else:
            self.channel.send("reply", id=frame["id"], content=self.app.session.pack(content))

    def op_debug(self, frame: Frame) -> None:
        """The frontend connects the debugger with a process."""
        self.debugger.connect(frame["target"], *self.channel.take_descriptors(frame))

    async def _answer(self, frame: Frame, message: Message) -> Frame:
        if frame["type"] in _SHOWS_NAMES:
            # A name that can't be had is only not known.
            with contextlib.suppress(Exception):
                self._know(str(message["content"].get("code", "")))
        elif frame["type"] == "history_request":
            self._know("")
            self._recall(message["content"])
        return await super()._answer(frame, message)

    def _recall(self, content: dict[str, t.Any]) -> None:
        """Read the profile's history; the session that runs is that of the main worker."""
        file = Path(self.shell.profile_dir.location) / "history.sqlite"
        history: t.Any = HistoryAccessor(hist_file=str(file))
        own = self._names.extra("history") if self._names is not None else None
        history.session_number = own or history.get_last_session_id() or 0
        self.shell.history_manager = history
        session = content.get("session") or 0
        if session <= 0:
            content["session"] = history.session_number + session

    def _know(self, code: str) -> None:
        """Bind what the code mentions of the last commit."""
        if self.session is None:
            return
        if self._names is None:
            from holdfast import _store

            self._names = _store.Names(self.session)
            carried = self._names.extra("state")
            state.apply(carried, state.capture(self.shell), self.shell, ("directory", "path"))
            listed = {entry["name"] for entry in self._names.listing()}
            self.shell.user_ns.update(dict.fromkeys(listed, _Unbound()))
        self._names.bind(self.shell.user_ns, names=set(_WORD.findall(code)))
